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
	// maxHeader is far above what receivers send, all lines of an answer together.
	maxHeader = 16 << 10
	// maxLines is how many lines a header may have. A header of tiny lines takes
	// twenty times its size in memory, so bytes alone are no bound.
	maxLines = 100
	// idleTimeout is below the 75 s after which nginx and many load balancers
	// close an idle connection: the side that closes first never writes into a closed one.
	// Those that close sooner cost a quick retry at worst.
	idleTimeout = 60 * time.Second
	// maxIdle is the default of Options.MaxIdle. It bounds the file descriptors of
	// idle connections, however many hosts there are.
	maxIdle = 8192
	// maxIdlePerHost is the default of Options.MaxIdlePerHost, and that of
	// ENDPOINT_MAX_IN_FLIGHT.
	maxIdlePerHost = 128
	// maxSessions bounds the TLS sessions kept to be resumed, a few KiB each.
	maxSessions = 1024
	// quickWait is enough for a listener to restart or a load balancer to switch,
	// and short beside any attempt.
	quickWait = 50 * time.Millisecond
)

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options say how a Client works. The zero value is safe.
type Options struct {
	Guard          *Guard            // nil: only what the whole internet reaches
	LinkGuard      *Guard            // of calls to URLs that a link set; nil: the same
	HTTPSOnly      bool              // refuses http URLs
	QuickRetries   int               // repeats within a call, of connection faults before any answer; see mayRepeat
	MaxIdle        int               // idle connections in all; 0: 8192
	MaxIdlePerHost int               // as many as a lane may have in flight; 0: 128
	Resolver       Resolver          // nil: the system's
	RootCAs        *x509.CertPool    // nil: the system's
	Certificates   []tls.Certificate // shown to receivers that ask for one
	Proxy          *url.URL          // as ParseProxy gives it; nil: none, whatever the environment says
}

// Client makes calls over HTTP/1.1. It is safe for use by many goroutines.
type Client struct {
	httpsOnly bool
	transport *transport
	retry     *retryablehttp.Client
}

var (
	_ dispatcher.Sender  = (*Client)(nil)
	_ dispatcher.Network = (*Client)(nil)
)

// New makes a Client.
func New(o Options) *Client {
	o = o.filled()
	return newClient(o, newDialer(o))
}

// filled puts defaults in the place of what is not set.
func (o Options) filled() Options {
	if o.Guard == nil {
		o.Guard = NewGuard(nil)
	}
	if o.LinkGuard == nil {
		o.LinkGuard = NewLinkGuard(nil)
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
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
	c := &Client{httpsOnly: o.HTTPSOnly, transport: &transport{d, newPool(o.MaxIdle, o.MaxIdlePerHost)}}
	c.retry = &retryablehttp.Client{
		HTTPClient: &http.Client{
			// It has no timeout of its own: the call's context bounds all, and costs less.
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
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // the cause alone, without "giving up after"
	}
	return c
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
func (c *Client) Close() { c.transport.idle.close() }

// NetworkState is what the last controls of our network found.
func (c *Client) NetworkState() dispatcher.NetworkState {
	u := c.transport.dialer.uplink
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state()
}

// WatchNetwork has changed called whenever what the controls find changes, until ctx ends.
// As long as that lasts, a control that failed is repeated every second.
func (c *Client) WatchNetwork(ctx context.Context, changed func(dispatcher.EgressFault, error)) {
	c.transport.dialer.uplink.watch(ctx, changed)
}

// CheckNetwork makes a control, unless one began within the last second.
func (c *Client) CheckNetwork() {
	u := c.transport.dialer.uplink
	u.control(dispatcher.FaultResolver, "")
	if u.proxy != nil {
		u.control(dispatcher.FaultProxy, "")
	}
}

func (c *Client) send(ctx context.Context, call dispatcher.Call) dispatcher.Answer {
	if class, err := c.blocked(call.URL); err != nil {
		return dispatcher.Answer{Class: class, Err: err}
	}
	t := &callState{Context: ctx, call: call}
	req, err := retryablehttp.FromRequest(t.request())
	if err != nil {
		return t.failed(err)
	}
	resp, err := c.retry.Do(req)
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		return c.judged(t, t.failed(err))
	}
	answer := read(resp)
	answer.Location, answer.Address = t.location, t.address
	return answer
}

// judged changes the class of a failed call to ClassEgress if our own network made it fail.
func (c *Client) judged(t *callState, a dispatcher.Answer) dispatcher.Answer {
	if t.got {
		return a
	}
	why := c.transport.dialer.uplink.fault(t.Context, t.call.URL.Hostname(), a.Err)
	if why == "" {
		return a
	}
	a.Class, a.Err = dispatcher.ClassEgress, &dispatcher.EgressError{Why: why, Err: a.Err}
	return a
}

// blocked is why a URL is not called at all.
func (c *Client) blocked(u *url.URL) (dispatcher.Class, error) {
	switch {
	case u == nil || u.Hostname() == "":
		return dispatcher.ClassInternal, errors.New("the URL has no host")
	case u.Scheme != "http" && u.Scheme != "https":
		return dispatcher.ClassInternal, fmt.Errorf("the URL's scheme is neither http nor https: %.20q", u.Scheme)
	case c.httpsOnly && u.Scheme != "https":
		return dispatcher.ClassRefused, errors.New("http is refused, since HTTPS_ONLY is set; use https")
	case !ascii(u.Hostname()):
		return dispatcher.ClassRefused, foreign(u.Hostname())
	default:
		return dispatcher.ClassNone, nil
	}
}

// noHeader is shared by all requests: http.Client makes its own where it needs one.
var noHeader = http.Header{}

// request stands for the call on its way to the transport, which takes the rest
// from the callState.
func (t *callState) request() *http.Request {
	r := http.Request{Method: http.MethodPost, URL: t.call.URL, Header: noHeader}
	return r.WithContext(t)
}
