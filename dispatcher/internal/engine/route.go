package engine

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Names of the headers that a callback has besides the signature's, in the
// form that http.Header keeps them.
const (
	headerTopic   = "Hookladder-Topic"
	headerAttempt = "Hookladder-Attempt"
	headerTenant  = "Hookladder-Tenant"
	headerResend  = "Hookladder-Resend"
)

var (
	headerID        = textproto.CanonicalMIMEHeaderKey(signer.HeaderID)
	headerTimestamp = textproto.CanonicalMIMEHeaderKey(signer.HeaderTimestamp)
)

// route is how one attempt goes: where to, signed by whom, and judged how.
type route struct {
	endpoint *dispatcher.Endpoint // as it is called; nil: a bare URL
	url      *url.URL
	signer   *signer.Signer
	headers  []dispatcher.Header // of the endpoint, names in canonical form
	ladder   ladder.Ladder
	success  *success.Rule
	timeout  time.Duration
	body     []byte   // of the answer, once it is there
	secrets  []string // what an answer must not give back: signatures, and the endpoint's headers
}

func (r *route) host() string {
	if r.url == nil {
		return ""
	}
	return r.url.Host
}

// defaults is the part of a route that the message decides, or its endpoint where
// it says nothing, or else the dispatcher.
func (d *deliverer) defaults(m *dispatcher.Message, e *dispatcher.Endpoint) route {
	r := route{ladder: d.ladder, success: d.success, timeout: d.timeout}
	if e != nil {
		if e.Ladder != nil {
			r.ladder = *e.Ladder
		}
		if e.Success != nil {
			r.success = e.Success
		}
		if e.Timeout > 0 {
			r.timeout = e.Timeout
		}
	}
	if m.Ladder != nil {
		r.ladder = *m.Ladder
	}
	if m.Success != nil {
		r.success = m.Success
	}
	if m.Timeout > 0 {
		r.timeout = m.Timeout
	}
	return r
}

// route finds how an attempt at a time goes. errHeld says that it may not be
// made now, and any other error that it can't be.
func (d *deliverer) route(c dispatcher.Claimed, at time.Time) (route, error) {
	if c.ID.Lane.IsEndpoint() {
		return d.toEndpoint(c, at)
	}
	r := d.defaults(c.Message, nil)
	target, err := d.targets.of(c.Message)
	if err != nil {
		return r, errTarget
	}
	r.url = target.url
	signers := d.signers.Load()
	if signers == nil {
		return r, errNoSecret
	}
	r.signer, err = signers.of(c.Message.Tenant)
	return r, err
}

// toEndpoint is the route to an endpoint as it is now. One that was held or
// deleted since the claim is not called.
func (d *deliverer) toEndpoint(c dispatcher.Claimed, at time.Time) (route, error) {
	dest, err := d.engine.endpoints.Cache.Get(d.cut, string(c.ID.Lane))
	switch {
	case err != nil:
		return route{}, errHeld
	case dest.Fault != nil: // what it says else may not be believed either
		return route{}, errStalled
	case dest.Endpoint.Limits().Held != dispatcher.HeldNone:
		return route{}, errHeld
	}
	r := d.defaults(c.Message, dest.Endpoint)
	r.endpoint, r.url, r.headers = dest.Endpoint, dest.URL, dest.Headers
	r.signer = dest.Signer(at)
	for _, h := range dest.Headers {
		r.secrets = append(r.secrets, h.Value)
	}
	return r, nil
}

// headers are those of the contract, and then the endpoint's and the message's
// own, which can't replace them. It is nil where the request can't be signed.
func (d *deliverer) headers(c dispatcher.Claimed, at time.Time, r *route) http.Header {
	m := c.Message
	signature := r.signer.Sign(m.ID, at, m.Body)
	if signature == "" {
		return nil
	}
	r.secrets = append(r.secrets, signature)
	values := make([]string, 6) // one allocation for all headers with one value
	h := make(http.Header, 8+len(m.Headers)+len(r.headers))
	set := func(i int, name, value string) {
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	set(0, "Content-Type", m.ContentType)
	set(1, headerID, m.ID)
	set(2, headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	set(3, r.signer.Header(), signature)
	set(4, headerTopic, m.Topic)
	set(5, headerAttempt, strconv.Itoa(c.Attempt))
	h["User-Agent"] = d.agent
	if m.Tenant != "" {
		h[headerTenant] = []string{m.Tenant}
	}
	if c.Asked {
		h[headerResend] = []string{"true"}
	}
	for _, own := range m.Headers {
		addHeader(h, textproto.CanonicalMIMEHeaderKey(own.Name), own)
	}
	for _, own := range r.headers {
		addHeader(h, own.Name, own) // the message's own come first: they are about this one
	}
	return h
}

// addHeader adds a header that is not there yet. A reserved name is refused when it
// is published or registered. It is skipped here too, for records that other versions
// stored: without a tenant, a header of the tenant's name would pass for ours.
func addHeader(h http.Header, name string, own dispatcher.Header) {
	if _, taken := h[name]; !taken && dispatcher.CheckHeaderName(own.Name) == nil {
		h[name] = []string{own.Value}
	}
}

// mostSigners bounds the memory of tenants' own signers. The least recently used
// one beyond it is forgotten.
const mostSigners = 20_000

// signers are those of bare URLs: one for all, or one for each tenant.
type signers struct {
	plain   *signer.Signer
	secrets []signer.Secret // nil: tenants have none of their own

	mu    sync.Mutex // guards known
	known *simplelru.LRU[string, *signer.Signer]
}

func newSigners(secrets []signer.Secret, derive bool) (*signers, error) {
	plain, err := signer.NewSigner(secrets...)
	if err != nil {
		return nil, err
	}
	known, err := simplelru.NewLRU[string, *signer.Signer](mostSigners, nil)
	if err != nil {
		return nil, err // only of a bound that is none
	}
	s := &signers{plain: plain, known: known}
	if derive {
		s.secrets = secrets
	}
	return s, nil
}

// of is the signer of a tenant; what has none counts as one more.
func (s *signers) of(tenant string) (*signer.Signer, error) {
	if s.secrets == nil {
		return s.plain, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sign, ok := s.known.Get(tenant); ok {
		return sign, nil
	}
	own := make([]signer.Secret, len(s.secrets))
	for i, secret := range s.secrets {
		own[i] = secret.Derive(tenant)
	}
	sign, err := signer.NewSigner(own...)
	if err != nil {
		return nil, err
	}
	s.known.Add(tenant, sign)
	return sign, nil
}

// target is where the messages of a tenant with a bare URL go. It is
// never changed.
type target struct {
	url   *url.URL
	lanes []dispatcher.Lane // its only one
}

// place is what a target is found by: the URL of one tenant leads to another
// lane than that of the next.
type place struct{ url, tenant string }

// targets remembers URLs that were read: most messages go where others went.
type targets struct {
	mu    sync.RWMutex // guards known
	known map[place]*target
}

// mostTargets bounds the memory; beyond it everything is forgotten at once,
// which costs one more parsing for each.
const mostTargets = 10_000

func (t *targets) of(m *dispatcher.Message) (*target, error) {
	at := place{url: m.URL, tenant: m.Tenant}
	t.mu.RLock()
	there := t.known[at]
	t.mu.RUnlock()
	if there != nil {
		return there, nil
	}
	u, err := dispatcher.ParseURL(m.URL)
	if err != nil {
		return nil, err
	}
	there = &target{url: u, lanes: []dispatcher.Lane{dispatcher.URLLane(u, m.Tenant)}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= mostTargets {
		t.known = map[place]*target{}
	}
	t.known[at] = there
	return there, nil
}
