package app

import (
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
	"github.com/hookladder/hookladder/dispatcher/internal/archiver"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/gauge"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/internal/jobs"
	"github.com/hookladder/hookladder/dispatcher/internal/lookup"
	"github.com/hookladder/hookladder/dispatcher/internal/metrics"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/access"
	"github.com/hookladder/hookladder/dispatcher/internal/tail"
	"github.com/hookladder/hookladder/dispatcher/internal/takers"
	"github.com/hookladder/hookladder/dispatcher/internal/ticks"
)

// service is an engine with its endpoints, its jobs, the log and the audit, as the API
// has them.
type service struct {
	*engine.Engine
	*endpoints.Registry
	*jobRunner
	dispatcher.Log
	*tail.Hub
	dispatcher.Audit
	*ticks.Ticker
	*takers.Takers

	stopping   *atomic.Bool       // true: it is not ready any more
	look       *lookup.Lookup     // nil: there is no archive
	archiver   *archiver.Archiver // likewise
	*linkStore                    // how people come in
	health     *gauge.Gauge       // how deliveries went over time
}

// lookedUp is a service whose look-ups go into the archive too.
type lookedUp struct {
	service
	*lookup.Lookup
}

// api is what the API calls.
func (s service) api() httpapi.Service {
	if s.look == nil {
		return s
	}
	return lookedUp{s, s.look}
}

// Ready describes the store. From the beginning of a stop it returns an error, so that
// load balancers send callers elsewhere.
func (s service) Ready(ctx context.Context) (dispatcher.StoreInfo, error) {
	if s.stopping.Load() {
		return dispatcher.StoreInfo{}, dispatcher.ErrStopping
	}
	return s.Engine.Ready(ctx)
}

// Ready describes the store, and how the archive does, which stops no publish.
func (l lookedUp) Ready(ctx context.Context) (dispatcher.StoreInfo, error) {
	info, err := l.service.Ready(ctx)
	info.Checks = append(slices.Clone(info.Checks), archiveCheck(l.archiver.Status()))
	return info, err
}

// archiveCheck says how the archive does, in plain words.
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

// These are names under which they can stand beside the methods Jobs and Store.
type (
	jobRunner = jobs.Jobs
	linkStore = access.Store
)

func newAPI(s service, guard *egress.Guard, figures *metrics.Metrics, keyring *apikey.Ring, o Options) (*http.Server, error) {
	linksTo, noLinks := o.linksTo()
	handler, err := httpapi.New(s.api(), httpapi.Options{
		Keys:    keyring,
		Policy:  o.policy(s.Engine, guard),
		Bodies:  o.bodyBudget(),
		Waiting: max(o.waiting, 1),
		LinksTo: linksTo,
		NoLinks: noLinks,
		Version: o.Version,
		Metrics: figures,
		Counter: figures.WatchRequests(httpapi.Calls()),
		Log:     o.Log,
	})
	if err != nil {
		return nil, err
	}
	if handler, err = withConsole(handler, s, keyring, o); err != nil {
		return nil, err
	}
	return callers.Server(closing(handler, o.stopping), o.Log), nil
}

// closing has each response of a process that stops close its connection. The caller sends
// its next request on a new one, by which a load balancer leads it elsewhere.
func closing(h http.Handler, stopping *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// linksTo is how people reach the pages of links, or why there are none.
func (o Options) linksTo() (to *url.URL, why string) {
	switch {
	case o.Console.Off:
		return nil, "CONSOLE=off serves no pages that a link could lead to: unset it"
	case o.Console.PublicURL == nil:
		return nil, "PUBLIC_URL is not set: it says how people reach this API from outside, such as https://hooks.example"
	}
	return o.Console.PublicURL, ""
}

// policy says which messages are taken.
func (o Options) policy(e *engine.Engine, guard *egress.Guard) dispatcher.Policy {
	return dispatcher.Policy{
		MaxBody:   o.MaxBody,
		Unsigned:  len(o.Engine.Secrets) == 0,
		HTTPSOnly: o.HTTPSOnly,
		CheckURL:  guard.URL,

		CheckLinkURL: egress.NewLinkGuard(o.LinkNets).URL,

		Now: e.Now, // the store's clock: the clocks of hosts differ

		HeaderPrefix: o.Engine.HeaderPrefix,
	}
}

// newMetricsServer serves metrics and health without a key. On a loopback address it
// refuses pages in a browser of this host.
func newMetricsServer(s service, figures http.Handler, keyring *apikey.Ring, o Options) *http.Server {
	open := httpapi.Options{Keys: keyring, Metrics: figures, Log: o.Log}
	return callers.Server(closing(httpapi.NewOpen(s, open, loopback(o.MetricsListen)), o.stopping), o.Log)
}

// listenBoth listens before anything else is started, since an address in use is the
// likeliest error. From then on it is known how this host reaches the API.
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

// listen listens on an address; empty: on none.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	network := "tcp"
	if host, _, err := net.SplitHostPort(addr); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			network = "tcp4" // Go takes 0.0.0.0 for all of IPv6 too
		}
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, network, addr)
}

// reachable is a listener's address as a browser on this host can open it.
func reachable(addr net.Addr) string {
	if a, err := netip.ParseAddrPort(addr.String()); err == nil && a.Addr().IsUnspecified() {
		return "localhost:" + strconv.Itoa(int(a.Port()))
	}
	return addr.String()
}

// guarded bounds the connections of a listener.
func guarded(ln net.Listener, visitors *callers.Guests) net.Listener {
	if ln == nil {
		return nil
	}
	return visitors.Listen(ln)
}

func closeListeners(listeners ...net.Listener) {
	for _, ln := range listeners {
		if ln != nil {
			_ = ln.Close()
		}
	}
}
