package engine

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// route has everything that one attempt needs besides its message: the URL, the signer, and
// the rules for judging the response.
type route struct {
	endpoint     *dispatcher.Endpoint // endpoint in the state used for this call; nil: a bare URL
	url          *url.URL
	signer       *signer.Signer
	signed       string              // name of the signature header, in canonical form
	headers      []dispatcher.Header // headers of the endpoint, names in canonical form
	ladder       ladder.Ladder
	success      *success.Rule
	timeout      time.Duration
	disableAfter time.Duration // 0: never
	secrets      []string      // masked in an excerpt of the response: signatures, and the headers of endpoint and message
}

// linked reports whether a link set the URL.
func (r *route) linked() bool { return r.endpoint != nil && r.endpoint.Linked }

// routeOf returns the route of an attempt at the given time. errStopped says that the attempt may
// not be made now. errStalled says that its endpoint can't be used now, and errMisplaced that its
// message can't. After any other error the attempt can't be made.
func (d *deliverer) routeOf(c *dispatcher.Claimed, at time.Time) (route, error) {
	if c.ID.Lane.IsEndpoint() {
		r, err := d.endpointRoute(c, at)
		switch {
		case err != nil:
			return r, err
		case r.url == nil: // its kind is pull, and the copy in its lane does not show that
			return route{}, errStalled
		case misplaced(c.Message, r.endpoint):
			return route{}, errMisplaced
		}
		return r, nil
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
	r.signer, r.signed, err = signers.of(c.Message.Tenant)
	return r, err
}

// takenRoute returns the route of a delivery for takers. A queue has no URL, and no signer if
// there is no secret.
func (d *deliverer) takenRoute(c *dispatcher.Claimed, at time.Time) (r route, err error) {
	if c.ID.Lane.IsEndpoint() {
		return d.endpointRoute(c, at)
	}
	r = d.defaults(c.Message, nil)
	if signers := d.signers.Load(); signers != nil {
		r.signer, r.signed, err = signers.of(c.Message.Tenant)
	}
	return r, err
}

// endpointRoute returns the route of a delivery to an endpoint in its current state. An
// endpoint that was paused, disabled or deleted after the claim is not called. An endpoint of
// kind pull has no URL.
func (d *deliverer) endpointRoute(c *dispatcher.Claimed, at time.Time) (route, error) {
	dest, err := d.engine.endpoints.Cache.Get(d.cut, string(c.ID.Lane))
	switch {
	case err != nil:
		return route{}, errStopped
	case dest.Fault != nil: // its limits may be wrong too
		return route{}, errStalled
	case dest.Endpoint.Limits().Mode != dispatcher.LaneNormal:
		return route{}, errStopped
	}
	return d.routeTo(dest, c.Message, at), nil
}

// misplaced reports whether a message with headers has another tenant than its endpoint. Only
// a person with write access to Redis can cause this, and must not read the headers.
func misplaced(m *dispatcher.Message, e *dispatcher.Endpoint) bool {
	return e != nil && len(m.Headers) > 0 && e.Tenant != m.Tenant
}

func (d *deliverer) routeTo(dest *endpoints.Destination, m *dispatcher.Message, at time.Time) route {
	r := d.defaults(m, dest.Endpoint)
	r.endpoint, r.url, r.headers = dest.Endpoint, dest.URL, dest.Headers
	r.signer, r.signed = dest.Signer(at)
	for _, h := range dest.Headers {
		r.secrets = append(r.secrets, h.Value)
	}
	return r
}

// defaults returns the ladder, success and timeout of a route. The message's values come
// first, then the endpoint's, then the defaults.
func (d *deliverer) defaults(m *dispatcher.Message, e *dispatcher.Endpoint) route {
	r := route{ladder: d.ladder, success: d.success, timeout: d.timeout, disableAfter: d.disableAfter}
	if e != nil {
		if e.DisableAfter != nil {
			r.disableAfter = *e.DisableAfter
		}
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

// Timeout returns the timeout of an attempt at a delivery.
func (e *Engine) Timeout(c dispatcher.Claimed) time.Duration {
	return e.deliverer.defaults(c.Message, e.endpoints.Cache.Cached(c.ID.Lane)).timeout
}

// MostAttempts returns the number of the last attempt at a delivery of a queue, as far as its ladder says.
// An attempt that a person asked for while the delivery waited is beside the ladder, so another one
// follows.
func (e *Engine) MostAttempts(c dispatcher.Claimed) int {
	beside := 0
	if !c.WaitsOn.IsZero() {
		beside = 1
	}
	steps := e.deliverer.defaults(c.Message, nil).ladder.Cut(c.Message.MaxAttempts)
	return max(c.Attempt-c.Rung+1+steps.Len()+beside, c.Attempt)
}

// Headers returns the headers of a taken delivery at the given time. They are the headers that
// a request would have, signed if there is a secret.
func (e *Engine) Headers(c dispatcher.Claimed, at time.Time) (http.Header, error) {
	r, err := e.deliverer.takenRoute(&c, at)
	if err != nil {
		return nil, fmt.Errorf("headers of %s: %w", c.ID, err)
	}
	h := e.deliverer.headers(&c, at, &r)
	if h == nil {
		return nil, fmt.Errorf("headers of %s: %w", c.ID, errUnsignable)
	}
	return h, nil
}

// Header names in canonical form.
var (
	headerID        = textproto.CanonicalMIMEHeaderKey(signer.HeaderID)
	headerTimestamp = textproto.CanonicalMIMEHeaderKey(signer.HeaderTimestamp)
)

// headers returns the headers of the contract, then the headers of the message and the
// endpoint. The latter can't replace any of the former. It returns nil if the request can't be
// signed. Deliveries of a queue are signed only if there is a secret.
func (d *deliverer) headers(c *dispatcher.Claimed, at time.Time, r *route) http.Header {
	m := c.Message
	const last = 5
	values := make([]string, last+1) // one allocation for all headers with one value
	if r.signer != nil {
		signature := r.signer.Sign(m.ID, at, m.Body)
		if signature == "" {
			return nil
		}
		values[last] = signature
		if len(r.secrets) == 0 {
			r.secrets = values[last:] // saves an allocation
		} else {
			r.secrets = append(r.secrets, signature)
		}
	} else if !c.ID.Lane.IsQueue() {
		return nil
	}
	h := make(http.Header, 8+len(m.Headers)+len(r.headers))
	set := func(i int, name, value string) {
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	set(0, "Content-Type", m.ContentType)
	set(1, headerID, m.ID)
	set(2, headerTimestamp, d.seconds.text(at))
	set(3, d.names.Topic, m.Topic)
	set(4, d.names.Attempt, strconv.Itoa(c.Attempt))
	h["User-Agent"] = d.agent
	if m.Tenant != "" {
		h[d.names.Tenant] = []string{m.Tenant}
	}
	if c.Asked {
		h[d.names.Resend] = []string{"true"}
	}
	if m.Trace != nil && r.endpoint != nil && r.endpoint.Trace {
		h[trace.Header] = []string{m.Trace.String()}
	}
	if signature := values[last]; signature != "" {
		set(last, r.signed, signature) // set last, so that the signature replaces a header with the same name
	}
	for _, own := range m.Headers {
		r.secrets = append(r.secrets, own.Value)
		d.addHeader(h, textproto.CanonicalMIMEHeaderKey(own.Name), own)
	}
	for _, own := range r.headers {
		d.addHeader(h, own.Name, own) // after the message's own, because they can't replace those
	}
	return h
}

// secondText is the last second that was written as text. The attempts of one second share it.
type secondText struct {
	last atomic.Pointer[second] // nil: none yet
}

type second struct {
	unix int64
	text string
}

// text returns the Unix seconds of a time.
func (s *secondText) text(at time.Time) string {
	unix, last := at.Unix(), s.last.Load()
	if last == nil || last.unix != unix {
		last = &second{unix, strconv.FormatInt(unix, 10)}
		s.last.Store(last)
	}
	return last.text
}

// addHeader adds a header that is not set yet. Reserved names are refused when a message is
// published or an endpoint registered. They are skipped here too, because another version, or
// other settings, may have stored them. In a message without a tenant, a header with the name
// of the tenant header would pass for ours.
func (d *deliverer) addHeader(h http.Header, name string, own dispatcher.Header) {
	if _, taken := h[name]; !taken && d.prefix.CheckName(own.Name) == nil {
		h[name] = []string{own.Value}
	}
}

// mostSigners limits the memory for the signers of tenants. The least recently used signer is
// evicted.
const mostSigners = 20_000

// signers sign for bare URLs. There is one signer for all tenants, or one for each.
type signers struct {
	plain   *signer.Signer
	secrets []signer.Secret // nil: tenants have no secrets of their own

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
		return nil, err // impossible: it fails for a bound below 1 only
	}
	s := &signers{plain: plain, known: known}
	if derive {
		s.secrets = secrets
	}
	return s, nil
}

// of returns the signer of a tenant, and the name of its signature header. Messages without a
// tenant count as one more tenant.
func (s *signers) of(tenant string) (sign *signer.Signer, header string, err error) {
	if s.secrets == nil {
		return s.plain, s.plain.Header(), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sign, ok := s.known.Get(tenant); ok {
		return sign, sign.Header(), nil
	}
	own := make([]signer.Secret, len(s.secrets))
	for i, secret := range s.secrets {
		own[i] = secret.Derive(tenant)
	}
	if sign, err = signer.NewSigner(own...); err != nil {
		return nil, "", err
	}
	s.known.Add(tenant, sign)
	return sign, sign.Header(), nil
}

// target is the parsed bare URL of a tenant with its lane. It never changes.
type target struct {
	url   *url.URL
	lanes []dispatcher.Lane // exactly one
}

// targetKey identifies a target. The same URL has another lane for each tenant.
type targetKey struct{ url, tenant string }

// targets is a cache of parsed URLs, because most messages go to a known URL.
type targets struct {
	mu    sync.RWMutex // guards known
	known map[targetKey]*target
}

// mostTargets limits the memory. Above it the whole cache is cleared. Each URL is then parsed
// once more.
const mostTargets = 10_000

func (t *targets) of(m *dispatcher.Message) (*target, error) {
	at := targetKey{url: m.URL, tenant: m.Tenant}
	t.mu.RLock()
	found := t.known[at]
	t.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	u, err := dispatcher.ParseURL(m.URL)
	if err != nil {
		return nil, err
	}
	found = &target{url: u, lanes: []dispatcher.Lane{dispatcher.URLLane(u, m.Tenant)}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= mostTargets {
		t.known = map[targetKey]*target{}
	}
	t.known[at] = found
	return found, nil
}
