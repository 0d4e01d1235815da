package dispatcher

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// EndpointPrefix begins the id of every endpoint, which is also its lane.
const EndpointPrefix = "ep_"

// NewEndpointID returns EndpointPrefix and 9 characters of base32: 45 random bits. The store
// checks whether the id is taken.
func NewEndpointID() string { return EndpointPrefix + strings.ToLower(rand.Text()[:9]) }

// Endpoint is a registered destination, with its own secrets and limits. All readers share it, so
// it never changes after it is stored. A change is made to a Clone.
type Endpoint struct {
	ID      string // ep_ and 9 characters; also its lane
	Version int64  // 1 at its creation, plus one with each change

	UID         string   // the caller's own name; empty: none
	Tenant      string   // empty: none
	Pull        bool     // consumers take its deliveries, and it is never called; this never changes
	URL         string   // empty if it is of kind pull
	Linked      bool     // a link set its URL, not an operator
	Topics      []string // patterns; none: only messages that name the endpoint
	Description string
	Metadata    map[string]string

	Signature signer.Scheme
	Form      signer.Form      // of the signature HMAC; for HMACHex only its header
	Secrets   []EndpointSecret // the current one first; at least one

	Ladder      *ladder.Ladder // nil: the dispatcher's
	Timeout     time.Duration  // of one attempt; 0: the dispatcher's
	MaxInFlight int            // 0: the dispatcher's
	Rate        Rate           // zero: none
	Headers     []Header
	HeadersFor  map[string]string // of the held Headers, by name in lower case: the URL that an operator gave the value for; empty: for no URL yet
	Success     *success.Rule     // nil: the dispatcher's
	Ordered     bool              // one delivery at a time; a failing one delays the rest
	Trace       bool              // its receiver gets the header traceparent

	DisableAfter *time.Duration // it is disabled after it fails for this time; 0: never; nil: the dispatcher's

	Paused    bool      // deliveries are made, and wait
	Disabled  bool      // deliveries are recorded as dead, unattempted
	Cause     LaneWhy   // why it is disabled, if no person did it: WhyGone or WhyFailing
	StoppedBy string    // the caller that paused or disabled it: key:<name>, link:<id> or Local; empty: none, or Hookladder itself
	StoppedAt time.Time // the time of the pause or disabling; zero: neither

	Unverified bool // a link set its URL, and no test has succeeded yet: deliveries are made, and wait

	TopicsAllowed []string // the patterns that links may use, see AllowedTopics; nil: an operator set no such list
	TopicsGiven   []string // the Topics that an operator set last, if a link has set others since; nil: Topics itself

	Since int64 // version of its last change of URL, or resume: a response to an earlier version does not count

	CreatedAt, UpdatedAt time.Time // by the queue's clock, whole ms
}

// Lane returns the lane of the endpoint's deliveries.
func (e *Endpoint) Lane() Lane { return Lane(e.ID) }

// EndpointSecret is a key of an endpoint, and the end of its use.
type EndpointSecret struct {
	Secret signer.Secret
	Since  time.Time // zero: it is not known
	Until  time.Time // exclusive; zero: the current one, without an end
}

// PublicKey verifies an endpoint's calls until its secret expires.
type PublicKey struct {
	Endpoint string // id
	Key      string
	Until    time.Time // exclusive; zero: without an end
}

// PublicKeys returns the public keys of the endpoint's secrets.
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

// PublicKeyPage is a page of public keys.
type PublicKeyPage struct {
	Keys  []PublicKey
	Next  string        // cursor; empty: this is the last page
	Fresh time.Duration // the time that a cache may keep them
}

// NewSigner returns a signer of the endpoint's signature.
func (e *Endpoint) NewSigner(secrets ...signer.Secret) (*signer.Signer, error) {
	return e.Signature.NewSignerIn(e.Form, secrets...)
}

// Rotates reports whether a callback has a signature by each secret.
func (e *Endpoint) Rotates() bool { return e.Signature.RotatesIn(e.Form) }

// sameForm ignores the case of the header's name.
func sameForm(a, b signer.Form) bool {
	same := strings.EqualFold(a.Header, b.Header)
	a.Header, b.Header = "", ""
	return same && a == b
}

// IsEndpoint reports whether the lane belongs to an endpoint.
func (l Lane) IsEndpoint() bool { return strings.HasPrefix(string(l), EndpointPrefix) }

// Limits returns the part of the endpoint that its lane copies.
func (e *Endpoint) Limits() LaneLimits {
	l := LaneLimits{Version: e.Version, MaxInFlight: e.MaxInFlight, Interval: e.Rate.Interval(), Ordered: e.Ordered, Pull: e.Pull, By: e.StoppedBy, Since: e.StoppedAt}
	switch {
	case e.Disabled:
		l.Mode = LaneDisabled
	case e.Paused, e.Unverified:
		l.Mode = LanePaused
	}
	return l
}

// NoteHold records the caller that paused or disabled the endpoint, and the time, if this
// changed.
func (e *Endpoint) NoteHold(before *Endpoint, by string, at time.Time) {
	switch {
	case !e.Paused && !e.Disabled && !e.Unverified:
		e.Cause, e.StoppedBy, e.StoppedAt = "", "", time.Time{}
	case e.Paused != before.Paused, e.Disabled != before.Disabled, !before.Paused && !before.Disabled && !before.Unverified:
		if !e.Disabled {
			e.Cause = ""
		}
		e.StoppedBy, e.StoppedAt = by, at
	}
}

// Same reports whether o has the settings of e. It compares secrets only if e has some, and
// ignores a later pause or disabling of o.
func (e *Endpoint) Same(o *Endpoint) bool {
	sameLadder := e.Ladder == o.Ladder || e.Ladder != nil && o.Ladder != nil && e.Ladder.String() == o.Ladder.String()
	sameSecret := len(e.Secrets) == 0 || len(o.Secrets) > 0 && e.Secrets[0].Secret.Equal(o.Secrets[0].Secret)
	return e.Tenant == o.Tenant && e.Pull == o.Pull && e.URL == o.URL && slices.Equal(e.Topics, o.Topics) && sameList(e.TopicsAllowed, o.TopicsAllowed) &&
		e.Description == o.Description && maps.Equal(e.Metadata, o.Metadata) && e.Signature == o.Signature &&
		sameForm(e.Form, o.Form) && sameLadder && sameSecret && e.Timeout == o.Timeout && e.MaxInFlight == o.MaxInFlight &&
		e.Rate.Interval() == o.Rate.Interval() && slices.Equal(e.Headers, o.Headers) && e.Success.Equal(o.Success) &&
		(e.Success == nil) == (o.Success == nil) && e.Ordered == o.Ordered && e.Trace == o.Trace && sameWait(e.DisableAfter, o.DisableAfter)
}

// sameWait reports whether two waits that may be left out are equal.
func sameWait(a, b *time.Duration) bool { return a == b || a != nil && b != nil && *a == *b }

// Clone returns a copy that may be changed.
func (e *Endpoint) Clone() *Endpoint {
	c := *e
	c.Topics, c.TopicsAllowed, c.TopicsGiven = slices.Clone(e.Topics), slices.Clone(e.TopicsAllowed), slices.Clone(e.TopicsGiven)
	c.Secrets = slices.Clone(e.Secrets)
	c.Headers = slices.Clone(e.Headers)
	c.HeadersFor, c.Metadata = maps.Clone(e.HeadersFor), maps.Clone(e.Metadata)
	return &c
}

// Matches reports whether messages of a topic go to the endpoint. Notices need a pattern that
// names them: * does not.
func (e *Endpoint) Matches(topic string) bool {
	own := strings.HasPrefix(topic, ownTopics)
	for _, pattern := range e.Topics {
		if MatchTopic(pattern, topic) && (!own || takesTopic(pattern, topic)) {
			return true
		}
	}
	return false
}

// MatchTopic reports whether a pattern matches a topic, word by word. If the last word of the
// pattern is *, the topic has the same words before it and at least one more.
func MatchTopic(pattern, topic string) bool {
	if pattern == "*" {
		return true
	}
	if head, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(topic) > len(head) && strings.HasPrefix(topic, head)
	}
	return pattern == topic
}

// EndpointView is an endpoint with the state of its lane.
type EndpointView struct {
	*Endpoint
	State   EndpointState
	Failing time.Time // the time at which its attempts began to fail; zero: they do not fail
	LaneCount

	LastFailure *LaneFailure // nil: no attempt failed, or it is not kept any more
}

// TestResult is the result of a test message to an endpoint.
type TestResult struct {
	MessageID string
	Attempt   Attempt
}

// Limits of an endpoint. The contract names the first four numbers. The others keep an endpoint
// small, because the cache has thousands of them.
const (
	maxUID      = 128
	maxTopics   = 64
	maxMetadata = 16

	maxMetadataBytes = 4 << 10 // names and texts together
	maxDescription   = 1 << 10 // characters
	maxLaneInFlight  = 65536   // as ENDPOINT_MAX_IN_FLIGHT
)

// MaxDisableAfter is the longest limited time that an endpoint may fail until it is disabled: a
// year.
const MaxDisableAfter = 365 * 24 * time.Hour

// MaxOverlap is the longest time that a rotated secret continues to sign.
const MaxOverlap = 30 * 24 * time.Hour

// Validate returns all errors of an endpoint. Its secrets may be missing, because they are made
// when it is created.
func (e *Endpoint) Validate(l Policy) []FieldError {
	var f faults
	f.check("$.uid", checkUID(e.UID))
	if e.Tenant != "" && !ValidTenant(e.Tenant) {
		f.add("$.tenant", "must be at most 128 printable ASCII characters without spaces")
	}
	e.validateKind(&f, l)
	validateTopics(&f, "$.topics", e.Topics)
	validateTopics(&f, "$.topics_allowed", e.TopicsAllowed)
	e.validateWords(&f)
	e.validateSecrets(&f, l.HeaderPrefix)
	f.headers(e.Headers, l.HeaderPrefix)
	if e.DisableAfter != nil && (*e.DisableAfter < 0 || *e.DisableAfter > MaxDisableAfter) {
		f.add("$.disable_after", "must be 0s, which is never, to 365d")
	}
	if e.Timeout != 0 && (e.Timeout < minTimeout || e.Timeout > maxTimeout) {
		f.add("$.timeout", "must be 1s to 60s")
	}
	if e.MaxInFlight < 0 || e.MaxInFlight > maxLaneInFlight {
		f.add("$.max_in_flight", fmt.Sprintf("must be 1 to %d", maxLaneInFlight))
	}
	if !e.Rate.IsZero() && e.Rate.Interval() <= 0 {
		f.add("$.rate", errRate.Error())
	}
	return f
}

// notOfPull is the error of a field about calls, because a pull endpoint is never called.
const notOfPull = "must be left out of one of kind pull: consumers take its deliveries, and no URL is called"

// validateKind checks the fields of only one kind.
func (e *Endpoint) validateKind(f *faults, l Policy) {
	switch {
	case e.Pull && e.URL != "":
		f.add("$.url", notOfPull)
	case e.Pull:
	case e.URL == "":
		f.add("$.url", "is needed, but for the kind pull")
	default:
		l.Unsigned = false // it has a secret of its own
		f.check("$.url", l.checkURL(e.URL))
	}
	if e.Pull && e.Success != nil {
		f.add("$.success", notOfPull)
	}
	if e.Pull && e.Timeout != 0 {
		f.add("$.timeout", notOfPull)
	}
}

func validateTopics(f *faults, path string, topics []string) {
	if len(topics) > maxTopics {
		f.add(path, fmt.Sprintf("has %d patterns, at most %d are taken", len(topics), maxTopics))
		return
	}
	for i, pattern := range topics {
		if !ValidPattern(pattern) {
			f.add(fmt.Sprintf("%s[%d]", path, i), "must be a topic, a topic whose last word is *, or *")
		}
	}
}

// validateWords checks the texts for people.
func (e *Endpoint) validateWords(f *faults) {
	f.check("$.description", checkText(e.Description, maxDescription))
	if len(e.Metadata) > maxMetadata {
		f.add("$.metadata", fmt.Sprintf("has %d texts, at most %d are taken", len(e.Metadata), maxMetadata))
		return
	}
	size := 0
	for name, text := range e.Metadata {
		size += len(name) + len(text)
		if name == "" || checkText(name, maxMetadataBytes) != nil || checkText(text, maxMetadataBytes) != nil {
			f.add("$.metadata", "must be texts without control characters, with names")
		}
	}
	if size > maxMetadataBytes {
		f.add("$.metadata", fmt.Sprintf("has %d bytes, at most %d are taken", size, maxMetadataBytes))
	}
}

// ValidPattern reports whether s is valid in an endpoint's topics: a topic, a topic whose last
// word is *, or * alone.
func ValidPattern(s string) bool {
	if s == "*" {
		return true
	}
	if head, ok := strings.CutSuffix(s, ".*"); ok {
		return ValidTopic(head) && len(s) <= maxTopic
	}
	return ValidTopic(s)
}

// checkUID accepts a uid that differs from every lane and fits into a path.
func checkUID(s string) error {
	if s == "" {
		return nil
	}
	if len(s) > maxUID {
		return fmt.Errorf("must be at most %d characters", maxUID)
	}
	for i := range len(s) {
		if !input.IsWordByte(s[i]) && !strings.ContainsRune(".:@", rune(s[i])) {
			return fmt.Errorf("must be of A-Z a-z 0-9 _ - . : @")
		}
	}
	if s == "." || s == ".." {
		return fmt.Errorf("must not be a step in a path")
	}
	if prefix := lanePrefix(s); prefix != "" {
		return fmt.Errorf("must not begin with %s, as the names of lanes do", prefix)
	}
	return nil
}

// ValidName reports whether s may be an endpoint's id or uid.
func ValidName(s string) bool {
	if Lane(s).IsEndpoint() {
		return ValidLane(s)
	}
	return ValidUID(s)
}

// ValidUID reports whether s may be an endpoint's uid.
func ValidUID(s string) bool { return s != "" && checkUID(s) == nil }

func checkText(s string, most int) error {
	if n := utf8.RuneCountInString(s); n > most {
		return fmt.Errorf("has %d characters, at most %d are taken", n, most)
	}
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\uFFFD' {
			return fmt.Errorf("must be text without control characters")
		}
	}
	return nil
}
