package dispatcher

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// EndpointPrefix begins the id of every endpoint, which is also its lane.
const EndpointPrefix = "ep_"

// Endpoint is a registered destination, with its own secrets and limits. It is
// shared by all who read it, and not changed once it was stored: a change is
// made to a Clone.
type Endpoint struct {
	ID      string // ep_ and 9 characters; also its lane
	Version int64  // 1 when it is made, one more with each change

	UID         string // the caller's own name; empty: none
	Tenant      string // empty: none
	URL         string
	Topics      []string // patterns; none: only what names the endpoint goes there
	Description string
	Metadata    map[string]string

	Signature signer.Scheme
	Secrets   []EndpointSecret // the current one first; at least one

	Ladder      *ladder.Ladder // nil: the dispatcher's
	Timeout     time.Duration  // of one attempt; 0: the dispatcher's
	MaxInFlight int            // 0: the dispatcher's
	Rate        Rate           // zero: none
	Headers     []Header
	Success     *Success // nil: the dispatcher's
	Ordered     bool     // one at a time, a failing one holds the rest

	Paused   bool      // deliveries are made and held
	Disabled bool      // deliveries are recorded as dead, unattempted
	Gone     bool      // it is disabled since its receiver answered 410
	HeldBy   string    // name of the key that paused or disabled it; empty: it is neither, or no key did
	HeldAt   time.Time // since when; zero: it is neither

	Since int64 // version of its last change of URL, or resume: an answer to an earlier version says nothing of it

	CreatedAt, UpdatedAt time.Time // by the queue's clock, whole ms
}

// EndpointSecret is a key of an endpoint, and how long it signs.
type EndpointSecret struct {
	Secret signer.Secret
	Until  time.Time // exclusive; zero: the current one, without an end
}

// Lane is where deliveries to the endpoint wait.
func (e *Endpoint) Lane() Lane { return Lane(e.ID) }

// PublicKey is what receivers verify an endpoint's calls with, as long as its
// secret signs.
type PublicKey struct {
	Endpoint string // id
	Key      string
	Until    time.Time // exclusive; zero: without an end
}

// PublicKeys are those of the endpoint's secrets that have one.
func (e *Endpoint) PublicKeys() (keys []PublicKey) {
	for _, one := range e.Secrets {
		if public, ok := one.Secret.PublicKey(); ok {
			keys = append(keys, PublicKey{Endpoint: e.ID, Key: public, Until: one.Until})
		}
	}
	return keys
}

// PublicKeyFilter selects public keys.
type PublicKeyFilter struct {
	Name   string // id or uid of one endpoint; empty: all
	Limit  int    // endpoints
	Cursor string // of the page before; empty for the first
}

// PublicKeyPage is a part of them.
type PublicKeyPage struct {
	Keys  []PublicKey
	Next  string        // cursor; empty: this is the last page
	Fresh time.Duration // how long they may be kept
}

// IsEndpoint reports whether a lane is an endpoint's.
func (l Lane) IsEndpoint() bool { return strings.HasPrefix(string(l), EndpointPrefix) }

// Limits are the part of the endpoint that its lane keeps a copy of.
func (e *Endpoint) Limits() LaneLimits {
	l := LaneLimits{Version: e.Version, MaxInFlight: e.MaxInFlight, Interval: e.Rate.Interval(), Ordered: e.Ordered, By: e.HeldBy}
	switch {
	case e.Disabled:
		l.Held = HeldDisabled
	case e.Paused:
		l.Held = HeldPaused
	}
	return l
}

// NoteHold records the key that holds the endpoint, and since when, where that changed.
func (e *Endpoint) NoteHold(before *Endpoint, by string, at time.Time) {
	switch {
	case !e.Paused && !e.Disabled:
		e.Gone, e.HeldBy, e.HeldAt = false, "", time.Time{}
	case e.Paused != before.Paused || e.Disabled != before.Disabled:
		e.Gone = e.Gone && e.Disabled
		e.HeldBy, e.HeldAt = by, at
	}
}

// Same reports whether o is what e asks for. A secret counts where one was asked
// for. Whether o was paused or disabled since does not count.
func (e *Endpoint) Same(o *Endpoint) bool {
	sameLadder := e.Ladder == o.Ladder || e.Ladder != nil && o.Ladder != nil && e.Ladder.String() == o.Ladder.String()
	sameSecret := len(e.Secrets) == 0 || len(o.Secrets) > 0 && e.Secrets[0].Secret.Equal(o.Secrets[0].Secret)
	return e.Tenant == o.Tenant && e.URL == o.URL && slices.Equal(e.Topics, o.Topics) &&
		e.Description == o.Description && maps.Equal(e.Metadata, o.Metadata) && e.Signature == o.Signature &&
		sameLadder && sameSecret && e.Timeout == o.Timeout && e.MaxInFlight == o.MaxInFlight &&
		e.Rate.Interval() == o.Rate.Interval() && slices.Equal(e.Headers, o.Headers) && e.Success.Equal(o.Success) &&
		(e.Success == nil) == (o.Success == nil) && e.Ordered == o.Ordered
}

// Clone is a copy that may be changed.
func (e *Endpoint) Clone() *Endpoint {
	c := *e
	c.Topics = slices.Clone(e.Topics)
	c.Secrets = slices.Clone(e.Secrets)
	c.Headers = slices.Clone(e.Headers)
	c.Metadata = maps.Clone(e.Metadata)
	return &c
}

// Matches reports whether messages of a topic go to the endpoint.
func (e *Endpoint) Matches(topic string) bool {
	for _, pattern := range e.Topics {
		if MatchTopic(pattern, topic) {
			return true
		}
	}
	return false
}

// MatchTopic reports whether a pattern matches a topic: they have the same words.
// Where the last word of the pattern is *, the topic has the same words before it
// and at least one more.
func MatchTopic(pattern, topic string) bool {
	if pattern == "*" {
		return true
	}
	if head, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(topic) > len(head) && strings.HasPrefix(topic, head)
	}
	return pattern == topic
}

// EndpointState says in one word how an endpoint, or any lane, stands.
type EndpointState string

// The states, the first that holds counts.
const (
	StateDisabled EndpointState = "disabled" // by the operator, or by a 410
	StatePaused   EndpointState = "paused"   // by the operator
	StateOpen     EndpointState = "open"     // its breaker is: it waits, or a probe is under way
	StateActive   EndpointState = "active"
)

// EndpointView is an endpoint with how its lane stands.
type EndpointView struct {
	*Endpoint
	State EndpointState
	LaneCount
}

// TestResult is the result of a test message to an endpoint.
type TestResult struct {
	MessageID string
	Attempt   Attempt
}
