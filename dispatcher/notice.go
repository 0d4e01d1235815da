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
	// Our own network: as controls find it.
	NoticeEgressDown Notice = ownTopics + "egress.unhealthy"
	NoticeEgressUp   Notice = ownTopics + "egress.healthy"
	NoticeJob        Notice = ownTopics + "job.ended"
	NoticeDead       Notice = ownTopics + "delivery.dead"
)

// Notices are all of them.
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

// ID is the id of a notice. The parts make it unique within its topic.
func (n Notice) ID(parts ...string) string { return n.idPrefix() + strings.Join(parts, "_") }

// idPrefix is hl_ and the last word of the topic.
func (n Notice) idPrefix() string {
	return noticeIDs + string(n[strings.LastIndexByte(string(n), '.')+1:]) + "_"
}

// OfNotice reports whether a delivery is one of a notice, by the id of its message.
func (d DeliveryID) OfNotice() bool {
	return strings.HasPrefix(d.Message, noticeIDs) &&
		slices.ContainsFunc(noticePrefixes, func(prefix string) bool { return strings.HasPrefix(d.Message, prefix) })
}

// News is an event that a notice reports.
type News struct {
	Notice Notice
	At     time.Time // by the queue's clock

	// Key makes it unique within its notice and lane. It has the characters of an id, and every
	// instance computes the same key, because it is made of facts.
	Key string

	Lane   Lane      // its lane; empty: none
	State  string    // if the notice itself does not imply it
	Since  time.Time // when the state began; zero: not known
	Reason string    // in one word
	Status int       // of the last answer of the receiver; 0: there was none, or it is not known
	Count  int       // of deliveries; 0: it counts none
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

// Summary is the key of a state that began at since. It changes once an hour, so that the
// state is reported hourly.
func Summary(since time.Time, lasts time.Duration) string {
	key := strconv.FormatInt(since.UnixMilli(), 10)
	if hours := int64(lasts / summaryEvery); hours > 0 {
		key += "_" + strconv.FormatInt(hours, 10)
	}
	return key
}

// takesTopic reports whether a pattern takes a topic of our own, besides matching it. It has
// to begin as that does, and the deaths of deliveries have to be named themselves, since
// there may be many.
func takesTopic(pattern, topic string) bool {
	return strings.HasPrefix(pattern, ownTopics) && (pattern == topic || topic != string(NoticeDead))
}

// OfStore reports whether a message is a notice of how the store is. It is taken also where
// the store lost data, since it reports that.
func (m *Message) OfStore() bool {
	return m.Topic == string(NoticeUnhealthy) || m.Topic == string(NoticeHealthy)
}
