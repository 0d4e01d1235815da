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

// noticeIDs begins the ids of notices, and noticePrefixes begin those of each topic.
const noticeIDs = "hl_"

var noticePrefixes = prefixesOf(Notices)

func prefixesOf(all []Notice) (list []string) {
	for _, n := range all {
		list = append(list, n.idPrefix())
	}
	return list
}

// ID is the id of a notice: parts tell it from others of its topic.
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

// News is what happened, for a notice to tell of.
type News struct {
	Notice Notice
	At     time.Time // by the queue's clock

	// Key tells it from other news of its notice and lane. It is of the characters of an
	// id, and made of facts, so that each instance that knows of it has the same.
	Key string

	Lane   Lane      // that it is about; empty: it is about none
	State  string    // where the notice does not say how things stand
	Since  time.Time // when that began, or what ended now had begun; zero: not known
	Reason string    // in one word
	Status int       // of the last answer of the receiver; 0: there was none, or it is not known
	Count  int       // of deliveries; 0: they are no matter
	Job    *JobEnd   // of NoticeJob
	Detail string    // for the operator only: it may name keys, instances and errors
}

// JobEnd is what a notice tells of a job.
type JobEnd struct {
	ID   string
	Kind JobKind
	JobCounts
}

// summaryEvery is how often a state is told again while it lasts.
const summaryEvery = time.Hour

// Summary is the key of a state that began then, and is told once an hour while it lasts.
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
