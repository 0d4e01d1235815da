package app

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// readiness returns the state of the process for GET /readyz.
type readiness struct {
	engine   *engine.Engine
	stopping *atomic.Bool
	archiver *archive.Archiver // nil: not reported
	torn     func() error      // nothing is done in a part of the store until it is repaired
}

// Alive returns an error if the process is stuck.
func (r readiness) Alive() error { return r.engine.Alive() }

// Ready returns the state of the store and of the archive. A fault of the archive stops no
// publish. After the stop began it returns an error, so that load balancers send callers to
// other instances.
func (r readiness) Ready(ctx context.Context) (info dispatcher.StoreInfo, err error) {
	if err = dispatcher.ErrStopping; !r.stopping.Load() {
		info, err = r.engine.Ready(ctx)
		err = cmp.Or(err, r.torn())
	}
	if r.archiver != nil {
		info.Checks = append(slices.Clone(info.Checks), archiveCheck(r.archiver.Status()))
	}
	return info, err
}

// archiveCheck reports the state of the archive in plain words.
func archiveCheck(s archive.Status) dispatcher.Check {
	c := dispatcher.Check{Name: "archive", Holds: dispatcher.Yes, Detail: "what happens is archived"}
	switch {
	case s.Orphans > 0:
		c.Holds = dispatcher.No
		c.Detail = fmt.Sprintf("the store was emptied: %d unfinished deliveries are only in the archive; bring them back with hookladder restore", s.Orphans)
	case s.Since.IsZero():
		c.Holds, c.Detail = dispatcher.Unknown, "the archive was not asked so far"
	case !s.Up:
		c.Holds, c.Detail = dispatcher.No, "the archive takes nothing: deliveries go on, and the store keeps what is not archived"
		if s.Err != nil {
			c.Detail += ": " + s.Err.Error()
		}
	case s.Comparing > 0:
		c.Detail = fmt.Sprintf("new events are archived; %.0f %% of the deliveries are still to be compared with the archive", math.Ceil(100*s.Comparing))
	}
	return c
}

// newAPI returns the handler of the API, the console and the documents.
func newAPI(p *process, o Options) (http.Handler, error) {
	api := p.apiOptions()
	api.Keys = p.keyring
	api.Policy = o.policy(p.engine, p.guard)
	api.Bodies = p.bodies
	api.Waiting = max(o.waiting, 1)
	api.LinksTo, api.NoLinks = o.linksTo()
	api.Version, api.Forgets = o.Version, o.InMemory
	api.Metrics = p.figures
	api.Counter = p.figures.WatchRequests(httpapi.Calls())
	api.Log = o.Log
	handler, err := httpapi.New(api)
	if err != nil {
		return nil, err
	}
	if handler, err = withConsole(handler, p, o); err != nil {
		return nil, err
	}
	return closing(withDocuments(handler, p, o), o.stopping), nil
}

// closing closes the connection after each response while the process stops. The caller opens
// a new connection for its next request, and a load balancer sends it to another instance.
func closing(h http.Handler, stopping *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// linksTo returns the URL of the pages of links, or the reason why there are none.
func (o Options) linksTo() (to *url.URL, why string) {
	switch {
	case o.Console.Off:
		return nil, "CONSOLE=off serves no pages that a link could lead to: unset it"
	case o.Console.PublicURL == nil:
		return nil, "PUBLIC_URL is not set: it says how people reach this API from outside, such as https://hooks.example"
	}
	return o.Console.PublicURL, ""
}

// policy returns the rules for accepted messages.
func (o Options) policy(e *engine.Engine, guard *egress.Guard) dispatcher.Policy {
	return dispatcher.Policy{
		MaxBody:   o.MaxBody,
		Unsigned:  len(o.Engine.Secrets) == 0,
		HTTPSOnly: o.HTTPSOnly,
		CheckURL:  guard.URL,
		Passed:    o.passed,

		CheckLinkURL: o.linkGuard().URL,

		Now: e.Now, // the store's clock, because the clocks of hosts differ

		HeaderPrefix: o.Engine.HeaderPrefix,
	}
}

// newMetrics returns the handler of metrics and health, which needs no key. On a loopback
// address it rejects requests by pages in a browser of this host.
func newMetrics(p *process, o Options) http.Handler {
	open := p.apiOptions()
	open.Forgets = o.InMemory
	open.Keys, open.Metrics, open.Log = p.keyring, p.figures, o.Log
	return closing(httpapi.NewOpen(open, callers.IsLoopback(o.MetricsListen)), o.stopping)
}

// listenBoth opens the listeners before anything else starts, because an address in use is the
// most common error. After that the API's address on this host is known.
func listenBoth(ctx context.Context, o *Options) (api, figures net.Listener, err error) {
	if api, err = listen(ctx, o.Listen); err != nil {
		return nil, nil, fmt.Errorf("serve api: %w", err)
	}
	if figures, err = listen(ctx, o.MetricsListen); err != nil {
		closeListeners(api)
		return nil, nil, fmt.Errorf("serve metrics: %w", err)
	}
	if c := &o.Console; c.AsListening && c.PublicURL == nil && api != nil {
		c.PublicURL = &url.URL{Scheme: "http", Host: reachable(api.Addr())}
	}
	return api, figures, nil
}

// listen opens a listener on an address; empty: no listener.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	network := "tcp"
	if host, _, err := net.SplitHostPort(addr); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			network = "tcp4" // Go also uses 0.0.0.0 for all of IPv6
		}
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, network, addr)
}

// reachable returns a listener's address for a browser on this host.
func reachable(addr net.Addr) string {
	if a, err := netip.ParseAddrPort(addr.String()); err == nil && a.Addr().IsUnspecified() {
		return "localhost:" + strconv.Itoa(int(a.Port()))
	}
	return addr.String()
}

// listening returns the addresses of listeners.
func listening(listeners ...net.Listener) *egress.Listeners {
	own := new(egress.Listeners)
	for _, ln := range listeners {
		if ln != nil {
			own.Add(ln.Addr())
		}
	}
	return own
}

// port is a listener with its server. It responds from the bind on: until the store is there, as
// httpapi.Starting.
type port struct {
	*http.Server
	addr    net.Addr
	handler atomic.Pointer[http.Handler]
	ended   chan struct{} // closed when Serve has returned
	err     error         // its result, after that
}

// openPort begins to serve a listener, whose connections the visitors limit; nil: there is none.
func openPort(ln net.Listener, visitors *callers.Guests, o Options) *port {
	if ln == nil {
		return nil
	}
	p := &port{addr: ln.Addr(), ended: make(chan struct{})}
	p.handle(httpapi.Starting())
	p.Server = callers.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*p.handler.Load()).ServeHTTP(w, r) }), o.Log)
	go func() {
		defer close(p.ended)
		p.err = p.Serve(visitors.Listen(ln))
	}()
	return p
}

// handle replaces the handler.
func (p *port) handle(h http.Handler) { p.handler.Store(&h) }

// close closes the listener and all connections.
func (p *port) close() {
	if p != nil {
		_ = p.Close()
		<-p.ended
	}
}

func closeListeners(listeners ...net.Listener) {
	for _, ln := range listeners {
		if ln != nil {
			_ = ln.Close()
		}
	}
}
