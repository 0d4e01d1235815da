package dispatcher

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Lane is the short key of a destination: at most 16 characters without a colon. All deliveries
// to one destination wait in its lane, and share its limits.
type Lane string

// MaxLane is the longest lane the queue stores, in bytes.
const MaxLane = 16

// Prefixes of lanes without an endpoint.
const (
	urlPrefix   = "u_"
	queuePrefix = "q_"
)

// NamesLane reports whether the name of a destination is the name of a lane, and not a uid.
func NamesLane(name string) bool { return lanePrefix(name) != "" }

// lanePrefix returns the lane prefix of a name; empty: it has none.
func lanePrefix(name string) string {
	for _, prefix := range []string{EndpointPrefix, urlPrefix, queuePrefix} {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return ""
}

// URLLane returns the lane of a bare URL: u_ and a hash of 10 characters over its scheme, host
// and port, and the message's tenant. URLs of one tenant with one origin share a lane, with or
// without the dot of a complete name. A failure or pause for another tenant at the same host does
// not affect it.
func URLLane(u *url.URL, tenant string) Lane {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port == "" {
		port = "80"
		if scheme == "https" {
			port = "443"
		}
	}
	text := scheme + "://" + host + ":" + port
	if tenant != "" {
		text += "\x00" + tenant
	}
	sum := sha256.Sum256([]byte(text))
	return Lane(urlPrefix + base64.RawURLEncoding.EncodeToString(sum[:])[:10])
}

// QueueLane returns the lane of a queue: q_ and its name, or ~ and a hash of 13 characters if the
// name is too long. No two queues share a lane, because no name has a ~.
func QueueLane(name string) Lane {
	if len(queuePrefix)+len(name) <= MaxLane {
		return Lane(queuePrefix + name)
	}
	sum := sha256.Sum256([]byte(name))
	return Lane(queuePrefix + "~" + base64.RawURLEncoding.EncodeToString(sum[:])[:MaxLane-len(queuePrefix)-1])
}

// QueueNamed returns the name of the queue that a destination q_<name> means, whose lane is
// QueueLane(name). ok is false for any other destination.
func QueueNamed(destination string) (name string, ok bool) {
	name, ok = strings.CutPrefix(destination, queuePrefix)
	return name, ok && ValidQueue(name)
}

// QueueDestination returns the destination of a queue, which QueueNamed reads.
func QueueDestination(name string) string { return queuePrefix + name }

// QueueOf returns the name of a lane's queue; empty: not known. The second argument is the stored
// name, because the lane of a long name has only its hash.
func QueueOf(lane Lane, stored string) string {
	for _, name := range []string{stored, strings.TrimPrefix(string(lane), queuePrefix)} {
		if ValidQueue(name) && QueueLane(name) == lane {
			return name
		}
	}
	return ""
}

// IsQueue reports whether the lane belongs to a queue.
func (l Lane) IsQueue() bool { return strings.HasPrefix(string(l), queuePrefix) }

// URLLaneName returns the stored name of a bare URL's lane: its origin, a space, and the tenant,
// which may be empty.
func URLLaneName(u *url.URL, tenant string) string {
	host := strings.TrimSuffix(strings.Replace(u.Host, ".:", ":", 1), ".") // as in URLLane
	return strings.ToLower(u.Scheme+"://"+host) + " " + tenant
}

// AllLanes means every lane in a pause or a resume.
const AllLanes Lane = "*"

// LaneMode says whether deliveries of a lane may be claimed, and if not, what happens to them.
type LaneMode uint8

// The modes.
const (
	LaneNormal   LaneMode = iota // deliveries may be claimed
	LanePaused                   // new deliveries wait
	LaneDisabled                 // waiting and new deliveries are dead without an attempt
	LaneDeleted                  // waiting and new deliveries are cancelled
	LaneCut                      // of a bare URL's lane: earlier deliveries are dead, new ones are attempted; the version is the time in ms
)

// LaneLimits is the lane's copy of its endpoint's limits, so scripts need no other record. The
// zero value is a lane without an endpoint.
type LaneLimits struct {
	Version     int64         // of the endpoint; 0: the lane has none
	MaxInFlight int           // over all instances; 0: the store's default
	Interval    time.Duration // between two attempts, whole µs; 0: no rate
	Ordered     bool
	Pull        bool // consumers take its deliveries, and it is never called; always true for a queue
	Mode        LaneMode

	// Name is no limit, and is mostly empty. It is the URLLaneName of a bare URL's lane, or the
	// name of a queue, because both may be paused before their first message.
	Name string
	// By is no limit. It is the caller that paused or disabled the lane, as the audit has it;
	// empty: System.
	By string
	// Since is the start of the pause, which a lane that lost its limits gets again; zero: now.
	Since time.Time
}

// System is the caller if no key paused or disabled the lane. Either its receiver responded
// with 410, or a repair changed the lane.
const System = "system"

// Local is the name of every caller while there are no API keys.
const Local = "local"

// LaneCount counts the deliveries of a lane.
type LaneCount struct {
	InFlight int
	Waiting  int // due, ready, or waiting for others of their key

	Failed time.Time // of Limit: the lane had failed since then, before the limit cleared that; zero: it did not fail
}

// LaneState is a lane as the queue returns it.
type LaneState struct {
	Lane   Lane
	URL    string // origin; empty: not known
	Tenant string // the tenant of its messages; empty: no tenant
	UID    string // of its endpoint; empty: it has none
	Queue  string // name of its queue; empty: it has none, or it is not known
	Limits LaneLimits
	LaneCount
	Ready     int          // of the waiting deliveries: those that are due, and wait for the lane alone
	Known     bool         // a message was published to it, or somebody paused it
	Since     time.Time    // start of the pause; zero: it is not paused, or that is not known
	By        string       // the caller that paused it, as the audit has it; empty: it is not paused
	Cause     LaneWhy      // why its endpoint is paused or disabled, if no person did that: WhyGone, WhyFailing or WhyUnverified
	All       *StoppedLane // the pause of all lanes; nil: there is none
	Limit     LaneWhy      // the limit that delays attempts: WhyRetryAfter, WhyRate, WhySealed, WhyMissing or WhyEgress; empty: nothing
	Window    int          // deliveries that it may have in flight now
	Fails     int          // blamed failures in a row
	Opened    int          // the number of openings of its breaker in a row; 0: it is closed
	Failing   time.Time    // start of its failures without a success; zero: it does not fail
	FailsLong bool         // it fails for FAILING_AFTER or longer
	Until     time.Time    // no attempt before: breaker, or Retry-After; zero: no such time
	Token     time.Time    // the rate allows the next attempt then; zero: it does not matter

	LastFailure *LaneFailure // nil: no attempt failed, or it is not kept any more
}

// LaneFailure is the last failed attempt of a lane. Attempts that succeeded since are not considered. It is
// kept as long as its message. Its excerpt has 200 bytes at most.
type LaneFailure struct {
	Message string
	Attempt
}

// State returns the lane's state in one word.
func (s *LaneState) State() EndpointState {
	switch {
	case s.Limits.Mode == LaneDisabled || s.Limits.Mode == LaneDeleted:
		return StateDisabled
	case s.Limits.Mode == LanePaused:
		return StatePaused
	case s.Opened > 0:
		return StateOpen
	}
	return StateActive
}

// EndpointState is the state of an endpoint or of a lane.
type EndpointState string

// The states. The first that applies counts.
const (
	StateDisabled EndpointState = "disabled" // by the operator, by a 410, or because it failed too long
	StatePaused   EndpointState = "paused"   // by the operator
	StateOpen     EndpointState = "open"     // its breaker is open: it waits, or a probe is under way
	StateActive   EndpointState = "active"

	// StateUnverified is a state of endpoints only, after paused: its lane is paused.
	StateUnverified EndpointState = "unverified" // a link set its URL, of which no test has succeeded yet
)

// StateLimited, StateFailing and StateDeleted are states of lanes only. A lane has the first of
// these that applies: deleted, disabled, paused, failing, open, limited, active.
const (
	StateLimited EndpointState = "limited" // a rate, its receiver or our own network delays it
	StateFailing EndpointState = "failing" // none of its attempts succeeded for FAILING_AFTER
	StateDeleted EndpointState = "deleted" // its endpoint was deleted: its deliveries are being cancelled
)

// LaneStates lists the states of lanes.
func LaneStates() []EndpointState {
	return []EndpointState{StateActive, StateLimited, StateOpen, StateFailing, StatePaused, StateDisabled, StateDeleted}
}

// EndpointStates lists the states of endpoints.
func EndpointStates() []EndpointState {
	return []EndpointState{StateActive, StatePaused, StateUnverified, StateOpen, StateDisabled}
}

// LaneWhy is the reason of a lane's state. An active lane has none.
type LaneWhy string

// The reasons.
const (
	WhyPaused     LaneWhy = "paused"      // somebody paused it
	WhyUnverified LaneWhy = "unverified"  // a link set its URL, of which no test has succeeded yet
	WhyAll        LaneWhy = "all"         // somebody paused all lanes
	WhyOperator   LaneWhy = "operator"    // somebody disabled its endpoint
	WhyGone       LaneWhy = "gone"        // its receiver responded with 410
	WhyFailing    LaneWhy = "failing"     // its receiver returned no success for too long
	WhyDeleted    LaneWhy = "deleted"     // somebody deleted its endpoint
	WhyBreaker    LaneWhy = "breaker"     // its receiver failed again and again
	WhyRetryAfter LaneWhy = "retry_after" // its receiver requested it
	WhyRate       LaneWhy = "rate"        // its endpoint's rate is used up
	WhySealed     LaneWhy = "sealed"      // an instance can't open or read its endpoint; of a delivery also the headers of its message
	WhyMissing    LaneWhy = "missing"     // its endpoint is missing, but was not deleted
	WhyEgress     LaneWhy = "egress"      // our own network failed: the resolver, the route or the proxy
	WhyOrder      LaneWhy = "order"       // of deliveries only: others of their key go first
	WhyChanged    LaneWhy = "changed"     // of notices only: its endpoint was changed, so that it fails anew or not at all
	WhyResumed    LaneWhy = "resumed"     // of notices only: likewise, because somebody resumed it
	WhyConsumer   LaneWhy = "consumer"    // of deliveries only: they wait for a consumer
)

// LaneWhys lists the reasons of lanes.
func LaneWhys() []LaneWhy {
	return []LaneWhy{
		WhyPaused, WhyUnverified, WhyAll, WhyOperator, WhyGone, WhyFailing, WhyDeleted, WhyBreaker, WhyRetryAfter, WhyRate, WhySealed, WhyMissing, WhyEgress,
	}
}

// DisabledWhys lists the reasons of disabled endpoints.
func DisabledWhys() []LaneWhy {
	return []LaneWhy{WhyOperator, WhyGone, WhyFailing}
}

// Standing returns the state of a lane and its reason.
func (s *LaneState) Standing() (EndpointState, LaneWhy) {
	switch {
	case s.Limits.Mode == LaneDeleted:
		return StateDeleted, WhyDeleted
	case s.Limits.Mode == LaneDisabled && s.Cause != "" && s.Cause != WhyUnverified:
		return StateDisabled, s.Cause
	case s.Limits.Mode == LaneDisabled:
		return StateDisabled, WhyOperator
	case s.Limits.Mode == LanePaused && s.Cause == WhyUnverified:
		return StatePaused, WhyUnverified
	case s.Limits.Mode == LanePaused:
		return StatePaused, WhyPaused
	case s.All != nil:
		return StatePaused, WhyAll
	case s.Limit == WhyMissing:
		return StateLimited, WhyMissing
	case s.FailsLong:
		return StateFailing, WhyFailing
	case s.Opened > 0:
		return StateOpen, WhyBreaker
	case s.Limit != "":
		return StateLimited, s.Limit
	}
	return StateActive, ""
}

// LaneVersion is a lane with the version of its limits.
type LaneVersion struct {
	Lane    Lane
	Version int64 // 0: none of an endpoint
}

// StoppedLane is a paused, disabled, deleted or cut lane.
type StoppedLane struct {
	LaneVersion
	Mode  LaneMode
	Since time.Time
	By    string // the caller that asked for it, as the audit has it
}

// LaneName is the lane of a bare URL with its origin and tenant.
type LaneName struct {
	Lane Lane
	Name string // by URLLaneName
}

// OtherTenants reports on the lanes of other tenants at the origin of a URL.
type OtherTenants struct {
	Lanes   int    // found by the call
	Changed int    // paused or resumed by it
	Failed  int    // lanes that could not be changed, and partitions that could not be read to their end
	Next    string // the cursor of the next call; empty: all partitions were read
}

// Rate is the number of attempts that may begin in a period. The zero Rate sets no limit.
type Rate struct {
	Count int
	Per   time.Duration // a second, a minute or an hour
}

// maxRate is the highest rate per second. One core sends only half of that, and the interval is
// still in whole microseconds.
const maxRate = 100_000

var errRate = errors.New("is not a rate: write 100/s, 600/m or 50/h")

// rateUnits are the units of a rate, by their letter.
var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate parses <count>/<unit>, as in 100/s, 600/m or 50/h.
func ParseRate(text string) (Rate, error) {
	count, unit, ok := strings.Cut(text, "/")
	per := rateUnits[unit]
	n, err := strconv.Atoi(count)
	if !ok || per == 0 || err != nil || strings.HasPrefix(count, "+") {
		return Rate{}, errRate
	}
	if n < 1 || n > maxRate {
		return Rate{}, fmt.Errorf("must be 1 to %d a second, a minute or an hour, such as 100/s", maxRate)
	}
	return Rate{Count: n, Per: per}, nil
}

// IsZero reports whether there is no limit.
func (r Rate) IsZero() bool { return r.Count == 0 }

// Interval returns the time between two attempts, in whole microseconds; 0: no limit.
func (r Rate) Interval() time.Duration {
	if r.IsZero() {
		return 0
	}
	return (r.Per / time.Duration(r.Count)).Truncate(time.Microsecond)
}

// String returns the rate as ParseRate reads it; empty: no limit.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return strconv.Itoa(r.Count) + "/" + unit
		}
	}
	return ""
}
