// Package egress sends the requests of attempts to receivers.
//
// The engine calls Client.Send for each attempt. Client checks the URL, takes an idle
// connection from its pool or dials a new one, writes the request, and reads the
// response. It returns an Answer with the status, or with the class of the error.
//
// Neither the addresses nor the responses of receivers are trusted. A Guard decides which
// addresses may be dialled, and each call is limited in time and in bytes. If a call
// fails because our own network is down, its class is ClassEgress, so no receiver is
// blamed.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// maxHeader bounds the header of a response, all lines together. It is far above what
	// receivers send.
	maxHeader = 16 << 10
	// maxLines bounds the lines of a header. A header of tiny lines takes twenty times
	// its size in memory, so a limit in bytes is not enough.
	maxLines = 100
	// idleTimeout is below the 75 s after which nginx and many load balancers close an
	// idle connection. We close first, because the side that closes first never writes
	// into a closed connection. Receivers with a shorter timeout cost a quick retry at
	// worst.
	idleTimeout = 60 * time.Second
	// maxIdle is the default of Options.MaxIdle. It bounds the file descriptors of idle
	// connections over all hosts. A process derives another bound from its descriptors.
	maxIdle = 8192
	// maxIdlePerHost is the default of Options.MaxIdlePerHost, and also of
	// ENDPOINT_MAX_IN_FLIGHT.
	maxIdlePerHost = 128
	// maxSessions bounds the TLS sessions cached for resumption, a few KiB each.
	maxSessions = 1024
	// quickWait is the wait before a retry within a call. It is enough for a listener to
	// restart or a load balancer to switch, and short compared to an attempt.
	quickWait = 50 * time.Millisecond
)

// Options configure a Client. The zero value is safe.
type Options struct {
	Guard          *Guard            // nil: only public addresses are called
	LinkGuard      *Guard            // for URLs that were set through a link; nil: only public addresses
	HTTPSOnly      bool              // refuses http URLs
	QuickRetries   int               // retries within a call after connection faults, before any response; see mayRepeat
	MaxIdle        int               // idle connections in total; 0: 8192
	MaxIdlePerHost int               // idle connections of one target: the most that a lane may have in flight; 0: 128
	Resolver       Resolver          // nil: the system's resolver
	RootCAs        *x509.CertPool    // nil: the system's roots
	Certificates   []tls.Certificate // client certificates, for receivers that ask for one
	Proxy          *url.URL          // from ParseProxy; nil: no proxy, because the environment's proxy variables are ignored

	hosts Resolver // of the hosts file, beside the system's resolver
}

// Client sends requests over HTTP/1.1. It is safe for concurrent use.
type Client struct {
	httpsOnly bool
	transport *transport
	retry     *retryablehttp.Client
}

var (
	_ dispatcher.Sender  = (*Client)(nil)
	_ dispatcher.Network = (*Client)(nil)
)

// New returns a Client.
func New(o Options) *Client {
	o = o.filled()
	return newClient(o, newDialer(o))
}

// filled returns the options with their defaults.
func (o Options) filled() Options {
	if o.Guard == nil {
		o.Guard = NewGuard(nil)
	}
	if o.LinkGuard == nil {
		o.LinkGuard = NewLinkGuard(nil)
	}
	if o.Resolver == nil {
		o.Resolver, o.hosts = system{}, hostsFile
	}
	if o.MaxIdle <= 0 {
		o.MaxIdle = maxIdle
	}
	if o.MaxIdlePerHost <= 0 {
		o.MaxIdlePerHost = maxIdlePerHost
	}
	return o
}

func newClient(o Options, d *dialer) *Client {
	c := &Client{httpsOnly: o.HTTPSOnly, transport: &transport{dialer: d, idle: newPool(o.MaxIdle, o.MaxIdlePerHost)}}
	c.retry = &retryablehttp.Client{
		HTTPClient: &http.Client{
			// It has no timeout of its own, because the call's context bounds everything
			// and costs less.
			Transport: c.transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		RetryMax:     o.QuickRetries,
		RetryWaitMin: quickWait,
		RetryWaitMax: quickWait,
		CheckRetry:   checkRetry,
		Backoff:      func(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait },
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // returns the cause alone, without "giving up after"
	}
	return c
}

// Send makes a call and reads its response. It returns when ctx ends, even if the
// receiver does not respond. The error of a failed call is in Answer.Err.
func (c *Client) Send(ctx context.Context, call dispatcher.Call) dispatcher.Answer {
	began := time.Now()
	t := newCallState(ctx, call)
	c.send(t)
	t.answer.Took = time.Since(began)
	return t.answer
}

// Close closes the idle connections. The others close when their calls return.
func (c *Client) Close() { c.transport.idle.close() }

// NetworkState returns the result of the last network checks.
func (c *Client) NetworkState() dispatcher.NetworkState {
	u := c.transport.dialer.uplink
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state()
}

// WatchNetwork calls changed whenever the result of the network checks changes, until ctx
// ends. While it runs, a failed check is retried every second.
func (c *Client) WatchNetwork(ctx context.Context, changed func(dispatcher.EgressFault, error)) {
	c.transport.dialer.uplink.watch(ctx, changed)
}

// CheckNetwork starts a network check, unless one began within the last second.
func (c *Client) CheckNetwork() {
	u := c.transport.dialer.uplink
	u.check(dispatcher.FaultResolver, "")
	if u.proxy != nil {
		u.check(dispatcher.FaultProxy, "")
	}
}

// send sets the answer of a call. It and the functions that it calls return no Answer, because
// the stack of a call that waits has to be small.
func (c *Client) send(t *callState) {
	if class, err := c.blocked(t.call.URL); err != nil {
		t.answer = dispatcher.Answer{Class: class, Err: err}
		return
	}
	err := c.transport.call(t)
	if err != nil && t.mayRepeat(err) {
		err = c.again(t, err)
	}
	if err != nil {
		t.failed(err)
		c.withEgressFault(t)
		return
	}
	t.answer.Location, t.answer.Address, t.answer.ShortHello = t.location, t.address, t.short
	if t.unread != "" {
		t.answer.Unread = t.unread
	}
}

// again passes a failed first try to retryablehttp, which decides on retries and makes
// them.
func (c *Client) again(t *callState, first error) error {
	t.first, t.retries = first, true
	req, err := retryablehttp.FromRequest(t.request())
	if err != nil {
		return err
	}
	resp, err := c.retry.Do(req)
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		return err
	}
	t.answer = read(resp)
	return nil
}

// withEgressFault changes the class of a failed call to ClassEgress if our own network
// caused it.
func (c *Client) withEgressFault(t *callState) {
	if t.connected {
		return
	}
	a := &t.answer
	if why := c.transport.dialer.uplink.fault(t.Context, t.call.URL.Hostname(), a.Err); why != "" {
		a.Class, a.Err = dispatcher.ClassEgress, &dispatcher.EgressError{Why: why, Err: a.Err}
	}
}

// blocked returns why a URL is never called, or ClassNone.
func (c *Client) blocked(u *url.URL) (dispatcher.Class, error) {
	switch {
	case u == nil || u.Hostname() == "":
		return dispatcher.ClassInternal, errors.New("the URL has no host")
	case u.Scheme != "http" && u.Scheme != "https":
		return dispatcher.ClassInternal, fmt.Errorf("the URL's scheme is neither http nor https: %.20q", u.Scheme)
	case c.httpsOnly && u.Scheme != "https":
		return dispatcher.ClassRefused, errors.New("http is refused because HTTPS_ONLY is set; use https")
	case !ascii(u.Hostname()):
		return dispatcher.ClassRefused, foreign(u.Hostname())
	default:
		return dispatcher.ClassNone, nil
	}
}

// noHeader is shared by all requests. http.Client makes its own if it needs one.
var noHeader = http.Header{}

// request returns the http.Request that carries the call to the transport. The transport
// takes the headers and the body from the callState.
func (t *callState) request() *http.Request {
	r := http.Request{Method: http.MethodPost, URL: t.call.URL, Header: noHeader}
	return r.WithContext(t)
}
