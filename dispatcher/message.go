package dispatcher

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
)

// DigestSize is the length of a message's digest in bytes: half of a SHA-256. That is enough to
// make two equal digests of different messages impossible in practice.
const DigestSize = 16

// Digest is the same for two publishes of one id with the same content.
type Digest [DigestSize]byte

// Message is a message as a caller publishes it. It does not change after it is accepted.
type Message struct {
	ID          string // 1-128 of A-Za-z0-9_-
	Topic       string
	Tenant      string // may be empty
	Subject     string // the caller's own reference, such as an order, for search; may be empty
	URL         string // its destination, as the caller wrote it; empty: an endpoint, or all that match
	Endpoint    string // id of its endpoint; empty: a URL, a queue, or all endpoints that match
	Queue       string // name of its queue, see ValidQueue; empty: another destination
	OrderingKey string // deliveries of one key and destination go one at a time and in order; empty: no order
	Body        []byte // sent byte for byte
	ContentType string

	Trace *trace.Context // the span that published it, or that its caller named; no part of its content; nil: none

	RequireMatch bool // a fan-out that matches no endpoint is refused; checked by the publish, and not stored

	Delay     time.Duration // before the first attempt; ignored if DeliverAt is set
	DeliverAt time.Time     // of the first attempt; zero: Delay counts
	ExpiresAt time.Time     // no attempt begins from then on; zero: never expires
	CreatedAt time.Time     // when it was accepted, by the queue's clock; zero before

	Headers     []Header       // extra headers for the receiver, in the order given
	Sealed      string         // their sealed values, if they were not opened or no key opens them; then Headers has only the names
	Ladder      *ladder.Ladder // nil: the dispatcher's
	MaxAttempts int            // cuts the ladder; 0: does not cut it
	Timeout     time.Duration  // of one attempt; 0: the dispatcher's
	Success     *success.Rule  // nil: the dispatcher's

	Apart *Apart // of a large body, as read from the queue: Body is read separately; nil: Body is complete
}

// ApartAbove is the size above which a queue stores a message's body separately. Scripts then
// read and copy only the rest.
const ApartAbove = 16 << 10

// Apart describes a body that is stored separately from its message.
type Apart struct {
	Size   int    // of the body
	Digest Digest // of the message
}

// Header is one header line that a caller adds to its callbacks.
type Header struct {
	Name, Value string
}

// Marks in the lengths of a digest's parts. A mark means that the digest has one more part,
// because no text has such a length.
const (
	withSubject = 1 << 31 // of the first part
	withQueue   = 1 << 31 // of the second
)

// Digest returns the digest of the fields that identify a message: topic, tenant, subject,
// requested destination, body and content type. The times and the number of attempts do not
// count.
func (m *Message) Digest() Digest {
	if m.Apart != nil {
		return m.Apart.Digest
	}
	h := sha256.New()
	var n [4]byte
	part := func(text string, mark uint32) {
		binary.BigEndian.PutUint32(n[:], mark|uint32(len(text)))
		h.Write(n[:])
		h.Write([]byte(text))
	}
	mark := uint32(0)
	if m.Subject != "" { // a message without a subject keeps the digest of versions that had no subjects
		mark = withSubject
	}
	part(m.Topic, mark)
	mark = 0
	if m.Queue != "" { // likewise
		mark = withQueue
	}
	part(m.Tenant, mark)
	part(m.URL, 0)
	part(m.Endpoint, 0)
	part(m.ContentType, 0)
	if m.Subject != "" {
		part(m.Subject, 0)
	}
	if m.Queue != "" {
		part(m.Queue, 0)
	}
	h.Write(m.Body)
	var d Digest
	var sum [sha256.Size]byte // on the stack, where Sum(nil) would allocate
	copy(d[:], h.Sum(sum[:0]))
	return d
}

// Published is the result for one message of a Publish.
type Published struct {
	Result     Result
	CreatedAt  time.Time  // zero: of a Duplicate only the digest is known
	Deliveries []Delivery // without history; none: no endpoint matches and nothing is kept, or it is such a Duplicate
	Differs    []string   // Conflict: the fields that differ from the first message: topic, tenant, subject, destination, content_type, body; none: not known
	Err        error      // ErrUnavailable, ErrFull, ErrNoEndpoint, ErrTenant, ErrFanOut, ErrUnmatched; nil if Result is set
}

// Unmatched reports whether no endpoint matched a new message, so that nothing is kept.
func (p *Published) Unmatched() bool {
	return p.Err == nil && p.Result == Accepted && len(p.Deliveries) == 0
}

// Differs returns the names of the fields that differ between two messages. It compares bodies
// only by the digest, because a large body was not read.
func (m *Message) Differs(kept *Message) (names []string) {
	same := *m
	for _, part := range []struct {
		name string
		to   *string
		is   string
	}{
		{"topic", &same.Topic, kept.Topic}, {"tenant", &same.Tenant, kept.Tenant}, {"subject", &same.Subject, kept.Subject},
		{"destination", &same.URL, kept.URL}, {"destination", &same.Endpoint, kept.Endpoint},
		{"destination", &same.Queue, kept.Queue},
		{"content_type", &same.ContentType, kept.ContentType},
	} {
		if *part.to != part.is && (len(names) == 0 || names[len(names)-1] != part.name) {
			names = append(names, part.name)
		}
		*part.to = part.is
	}
	if same.Digest() != kept.Digest() {
		names = append(names, "body")
	}
	return names
}

// Validate returns all errors of a message. A valid message can be stored and sent. A message
// with an impossible header or URL would fail at each attempt.
func (m *Message) Validate(l Policy) []FieldError {
	var f faults
	if !ValidID(m.ID) {
		f.add("$.id", "must be 1 to 128 of A-Z a-z 0-9 _ -")
	}
	if m.Topic == "" {
		f.add("$.topic", "is needed")
	} else if !ValidTopic(m.Topic) {
		f.add("$.topic", "must be words of A-Z a-z 0-9 _ - with dots between, together at most 128")
	} else if strings.HasPrefix(m.Topic, ownTopics) {
		f.add("$.topic", "begins with "+ownTopics+", as only messages of Hookladder itself do")
	}
	if m.Tenant != "" && !ValidTenant(m.Tenant) {
		f.add("$.tenant", "must be at most 128 printable ASCII characters without spaces")
	}
	f.check("$.subject", checkSubject(m.Subject))
	if l.MaxBody > 0 && len(m.Body) > l.MaxBody {
		f.add("$.body", fmt.Sprintf("has %d bytes, at most %d are taken (MAX_BODY)", len(m.Body), l.MaxBody))
	}
	f.check("$.content_type", checkContentType(m.ContentType))
	m.validateDestination(&f, l)
	m.validateTimes(&f, l)
	f.headers(m.Headers, l.HeaderPrefix)
	if m.MaxAttempts < 0 || m.MaxAttempts > maxAttempts {
		f.add("$.max_attempts", "must be 1 to 101")
	}
	switch {
	case m.Timeout == 0:
	case m.Queue != "" && (m.Timeout < minTimeout || m.Timeout > maxHandling):
		f.add("$.timeout", "must be 1s to 1h")
	case m.Queue == "" && (m.Timeout < minTimeout || m.Timeout > maxTimeout):
		f.add("$.timeout", "must be 1s to 60s, or to 1h for a queue")
	}
	return f
}

// validateDestination checks the destination: a URL, an endpoint or a queue. Without one of
// these, the message goes to all endpoints that match.
func (m *Message) validateDestination(f *faults, l Policy) {
	f.check("$.queue", m.checkQueue())
	switch {
	case m.URL != "" && m.Endpoint != "":
		f.add("$.endpoint", "give url or endpoint, not both")
	case m.URL != "":
		f.check("$.url", l.checkURL(m.URL))
	case m.Endpoint != "" && !ValidName(m.Endpoint):
		f.add("$.endpoint", "must be the id or the uid of an endpoint")
	}
	if m.OrderingKey != "" && !ValidTenant(m.OrderingKey) {
		f.add("$.ordering_key", "must be at most 128 printable ASCII characters without spaces")
	}
}

// checkQueue returns an error if the message may not go to its queue.
func (m *Message) checkQueue() error {
	switch {
	case m.Queue == "":
		return nil
	case m.URL != "" || m.Endpoint != "":
		return errors.New("give one of url, endpoint and queue")
	case Lane(m.Queue).IsEndpoint():
		return errors.New("begins with ep_, as the ids of endpoints do: give endpoint")
	case !ValidQueue(m.Queue):
		return errors.New("must be 1 to 64 of A-Z a-z 0-9 _ . -, not beginning with u_ or q_, as lanes do")
	}
	return nil
}

// validateTimes checks the times of a message's attempts.
func (m *Message) validateTimes(f *faults, l Policy) {
	if m.Delay == 0 && m.DeliverAt.IsZero() && m.ExpiresAt.IsZero() {
		return
	}
	now := l.now()
	first := now
	switch {
	case m.Delay != 0 && !m.DeliverAt.IsZero():
		f.add("$.delay", "give delay or deliver_at, not both")
	case m.Delay < 0:
		f.add("$.delay", "must not be negative")
	case m.Delay > maxDelay:
		f.add("$.delay", "must be at most a year, 365 days")
	case m.DeliverAt.After(now.Add(maxAhead)):
		f.add("$.deliver_at", "must be at most a year ahead")
	case m.DeliverAt.After(now):
		first = m.DeliverAt
	default:
		first = now.Add(m.Delay)
	}
	if !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(first) {
		f.add("$.expires_at", "must be after the first attempt")
	}
}

// DeliveryID names one message to one destination.
type DeliveryID struct {
	Lane    Lane
	Message string
}

// String returns the name for callers: <lane>:<message id>.
func (d DeliveryID) String() string { return string(d.Lane) + ":" + d.Message }

// ParseDeliveryID parses the text of String; ok is false for any other text.
func ParseDeliveryID(s string) (d DeliveryID, ok bool) {
	lane, id, ok := strings.Cut(s, ":")
	if !ok || lane == "" || id == "" {
		return DeliveryID{}, false
	}
	return DeliveryID{Lane: Lane(lane), Message: id}, true
}

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
func Notices() []Notice {
	return []Notice{
		NoticeFailing, NoticeRecovered, NoticeDisabled, NoticeOpened, NoticeClosed, NoticeLost, NoticeUnhealthy, NoticeHealthy, NoticeEgressDown, NoticeEgressUp, NoticeJob, NoticeDead,
	}
}

// noticeIDs is the prefix of all ids of notices, and noticePrefixes has the prefix of each
// topic.
const noticeIDs = "hl_"

var noticePrefixes = prefixesOf(Notices())

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
