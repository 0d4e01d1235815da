// Package egress makes the calls to receivers. Neither their addresses nor
// their answers are to be trusted: a Guard decides what may be dialled, and
// each call is bounded in time and bytes by the Client.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// maxHeader is far above what receivers send, and 1,024 of it at once are
	// 64 MiB; net/http would take 10 MiB of each.
	maxHeader = 64 << 10
	// idleTimeout is below the 75 s after which nginx and many load balancers
	// close an idle connection: who closes first never writes into a closed one.
	// Those that close sooner cost a quick retry at worst.
	idleTimeout = 60 * time.Second
	// maxIdle bounds the file descriptors that rest in idle connections, however
	// many hosts there are; processes may mostly have at least twice as many.
	maxIdle = 8192
	// maxIdlePerHost is what a host may keep where Options do not say: the
	// default of ENDPOINT_MAX_IN_FLIGHT.
	maxIdlePerHost = 128
	// maxSessions bounds the TLS sessions kept to be resumed, a few KiB each.
	maxSessions = 1024
	// quickWait is time enough for a restarting listener or a load balancer to
	// change its mind, and short beside any attempt.
	quickWait = 50 * time.Millisecond
)

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options say how a Client works. The zero value is safe.
type Options struct {
	Guard          *Guard            // nil: only what the whole internet reaches
	HTTPSOnly      bool              // refuses http URLs
	QuickRetries   int               // repeats within a call, of connection faults before any answer; see mayRepeat
	MaxIdlePerHost int               // as many as a lane may have in flight; 0: 128
	Resolver       Resolver          // nil: the system's
	RootCAs        *x509.CertPool    // nil: the system's
	Certificates   []tls.Certificate // shown to receivers that ask for one
	Proxy          *url.URL          // as ParseProxy gives it; nil: none, whatever the environment says
}

// Client makes calls over HTTP/1.1. It is safe for use by many goroutines.
type Client struct {
	httpsOnly bool
	transport *http.Transport
	retry     *retryablehttp.Client
}

var _ dispatcher.Sender = (*Client)(nil)

// New makes a Client.
func New(o Options) *Client {
	o = o.filled()
	return newClient(o, newDialer(o))
}

// filled puts what is meant in the place of what is not set.
func (o Options) filled() Options {
	if o.Guard == nil {
		o.Guard = NewGuard(nil)
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.MaxIdlePerHost <= 0 {
		o.MaxIdlePerHost = maxIdlePerHost
	}
	return o
}

func newClient(o Options, d *dialer) *Client {
	c := &Client{httpsOnly: o.HTTPSOnly, transport: newTransport(d, o.MaxIdlePerHost)}
	fresh := newTransport(d, o.MaxIdlePerHost)
	fresh.DisableKeepAlives = true
	c.retry = &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: guarded{c.transport, fresh},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		RetryMax:     o.QuickRetries,
		RetryWaitMin: quickWait,
		RetryWaitMax: quickWait,
		CheckRetry:   checkRetry,
		Backoff:      func(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait },
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // the cause alone, without "giving up after"
	}
	return c
}

// newTransport makes a client's transport. It has no proxy (the dialer goes
// through ours), no limit on connections (the lane's window is that) and no
// timeouts of its own: the call's context bounds all, and costs less.
func newTransport(d *dialer, idlePerHost int) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		Protocols:              &protocols,
		DisableCompression:     true, // a small answer could unpack to gigabytes
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
	}
}

// guarded is a transport of which http.Client sees only RoundTrip. Were
// CloseIdleConnections seen, retryablehttp would close everybody's connections
// after each failed call; were Location seen, http.Client would parse it and
// make an error of a redirect that it does not even follow.
type guarded struct {
	transport *http.Transport
	fresh     *http.Transport // the same, but no connection is used twice
}

// RoundTrip sends a request. One that is repeated since its connection had died
// of old age takes a new one: where one is dead, others of its age may be.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	transport := g.transport
	if t := tryOf(r.Context()); t != nil && t.repeated {
		transport = g.fresh
	}
	resp, err := transport.RoundTrip(r)
	if err == nil && resp.StatusCode/100 == 3 {
		delete(resp.Header, "Location")
	}
	return resp, err
}

// Send makes a call and reads its answer. It ends when ctx does, whatever the
// receiver does.
func (c *Client) Send(ctx context.Context, call dispatcher.Call) dispatcher.Answer {
	began := time.Now()
	answer := c.send(ctx, call)
	answer.Took = time.Since(began)
	return answer
}

// Close closes the connections that are idle. Those in use close with their calls.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func (c *Client) send(ctx context.Context, call dispatcher.Call) dispatcher.Answer {
	if class, err := c.unfit(call.URL); err != nil {
		return dispatcher.Answer{Class: class, Err: err}
	}
	t := newTry(ctx)
	req, err := newRequest(t, call)
	if err != nil {
		return t.failed(err)
	}
	resp, err := c.retry.Do(req)
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		return t.failed(err)
	}
	return read(resp)
}

// unfit is why a URL is not called at all.
func (c *Client) unfit(u *url.URL) (dispatcher.Class, error) {
	switch {
	case u == nil || u.Hostname() == "":
		return dispatcher.ClassInternal, errors.New("the URL has no host")
	case u.Scheme != "http" && u.Scheme != "https":
		return dispatcher.ClassInternal, fmt.Errorf("the URL's scheme is neither http nor https: %.20q", u.Scheme)
	case c.httpsOnly && u.Scheme != "https":
		return dispatcher.ClassRefused, errors.New("http is refused, since HTTPS_ONLY is set; use https")
	default:
		return dispatcher.ClassNone, nil
	}
}

// newRequest makes the request of a call, as a literal and around the call's
// own bytes: nothing is parsed or copied.
func newRequest(t *try, call dispatcher.Call) (*retryablehttp.Request, error) {
	plain := &http.Request{
		Method: http.MethodPost,
		URL:    call.URL,
		Header: onceOnly(call.Header),
	}
	req, err := retryablehttp.FromRequest(plain.WithContext(t.traced()))
	if err != nil || len(call.Body) == 0 { // an empty body that is set would go out chunked
		return req, err
	}
	return req, req.SetBody(call.Body)
}

// onceOnly keeps net/http from sending a request twice on its own. It repeats
// one whose connection died under it if an idempotency key is among its
// headers, and how often a receiver is called is for us to decide. It looks
// for the canonical spelling only, receivers take any.
func onceOnly(h http.Header) http.Header {
	keyed := false
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if _, ok := h[name]; !ok {
			continue
		}
		if !keyed { // calls may share their headers
			h, keyed = h.Clone(), true
		}
		h[lowered[name]] = h[name]
		delete(h, name)
	}
	return h
}

var lowered = map[string]string{
	"Idempotency-Key":   "idempotency-key",
	"X-Idempotency-Key": "x-idempotency-key",
}
