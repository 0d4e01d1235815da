package dispatcher

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Notice is the topic of a notice: a message that Hookladder itself publishes.
type Notice string

// The notices.
const (
	NoticeFailing   Notice = ownTopics + "endpoint.failing"
	NoticeRecovered Notice = ownTopics + "endpoint.recovered"
	NoticeDisabled  Notice = ownTopics + "endpoint.disabled"
	NoticeOpened    Notice = ownTopics + "lane.opened"
	NoticeClosed    Notice = ownTopics + "lane.closed"
	NoticeLost      Notice = ownTopics + "instance.lost"
	NoticeUnhealthy Notice = ownTopics + "store.unhealthy"
	NoticeHealthy   Notice = ownTopics + "store.healthy"
	// The state of our own network, by its controls.
	NoticeEgressDown Notice = ownTopics + "egress.unhealthy"
	NoticeEgressUp   Notice = ownTopics + "egress.healthy"
	NoticeJob        Notice = ownTopics + "job.ended"
	NoticeDead       Notice = ownTopics + "delivery.dead"
)

// Notices lists all notices.
var Notices = []Notice{
	NoticeFailing, NoticeRecovered, NoticeDisabled, NoticeOpened, NoticeClosed, NoticeLost, NoticeUnhealthy, NoticeHealthy, NoticeEgressDown, NoticeEgressUp, NoticeJob, NoticeDead,
}

// noticeIDs is the prefix of all ids of notices, and noticePrefixes has the prefix of each
// topic.
const noticeIDs = "hl_"

var noticePrefixes = prefixesOf(Notices)

func prefixesOf(all []Notice) (list []string) {
	for _, n := range all {
		list = append(list, n.idPrefix())
	}
	return list
}

// ID returns the id of a notice. The parts make it unique within its topic.
func (n Notice) ID(parts ...string) string { return n.idPrefix() + strings.Join(parts, "_") }

// idPrefix returns hl_ and the last word of the topic.
func (n Notice) idPrefix() string {
	return noticeIDs + string(n[strings.LastIndexByte(string(n), '.')+1:]) + "_"
}

// OfNotice reports whether the delivery is of a notice, by the id of its message.
func (d DeliveryID) OfNotice() bool {
	return strings.HasPrefix(d.Message, noticeIDs) &&
		slices.ContainsFunc(noticePrefixes, func(prefix string) bool { return strings.HasPrefix(d.Message, prefix) })
}

// News is an event that a notice reports.
type News struct {
	Notice Notice
	At     time.Time // by the queue's clock

	// Key is unique within its notice and lane. It has only characters of an id. Every instance
	// computes the same key, because it is made of facts.
	Key string

	Lane   Lane      // its lane; empty: none
	State  string    // empty if the notice itself implies it
	Since  time.Time // when the state began; zero: not known
	Reason string    // in one word
	Status int       // HTTP status of the receiver's last response; 0: none, or not known
	Count  int       // of deliveries; 0: it has no count
	Job    *JobEnd   // of NoticeJob
	Detail string    // for the operator only: it may name keys, instances and errors
}

// JobEnd describes a finished job.
type JobEnd struct {
	ID   string
	Kind JobKind
	JobCounts
}

// summaryEvery is the interval at which a lasting state is reported again.
const summaryEvery = time.Hour

// Summary returns the key of a state that began at since. It changes once an hour, so the state
// is reported hourly.
func Summary(since time.Time, lasts time.Duration) string {
	key := strconv.FormatInt(since.UnixMilli(), 10)
	if hours := int64(lasts / summaryEvery); hours > 0 {
		key += "_" + strconv.FormatInt(hours, 10)
	}
	return key
}

// takesTopic reports whether a pattern may take one of our own topics, besides matching it. It
// has to begin with the same prefix. It has to name deaths explicitly, because there may be many.
func takesTopic(pattern, topic string) bool {
	return strings.HasPrefix(pattern, ownTopics) && (pattern == topic || topic != string(NoticeDead))
}

// OfStore reports whether a message is a notice about the store. A store that lost data still
// accepts it, because it reports that loss.
func (m *Message) OfStore() bool {
	return m.Topic == string(NoticeUnhealthy) || m.Topic == string(NoticeHealthy)
}
