// Package app joins the parts of Hookladder into a process: a store in Redis,
// the engine, the client that calls receivers, and the HTTP API.
package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/archiver"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/gauge"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/internal/jobs"
	"github.com/hookladder/hookladder/dispatcher/internal/metrics"
	"github.com/hookladder/hookladder/dispatcher/internal/notices"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	jobstore "github.com/hookladder/hookladder/dispatcher/internal/redisq/jobs"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/start"
	"github.com/hookladder/hookladder/dispatcher/internal/relay"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/dispatcher/internal/tail"
	"github.com/hookladder/hookladder/dispatcher/internal/takers"
	"github.com/hookladder/hookladder/dispatcher/internal/ticks"
)

// Keys are the keys with which the API may be called.
type Keys = apikey.Keys

// ParseKeys reads keys as API_KEYS has them: key:scope+scope[:name], with
// commas between.
func ParseKeys(text string) (Keys, error) { return apikey.Parse(text) }

// Seal hides the endpoints' secrets and header values in the store.
type Seal = seal.Box

// EngineOptions say how deliveries are made.
type EngineOptions = engine.Options

// ParseEncryptionKeys reads keys as ENCRYPTION_KEY has them: the base64 of 32
// bytes each, with white space between two. The first seals, all of them open.
func ParseEncryptionKeys(text string) (*Seal, error) { return seal.ParseKeys(text) }

// ParseProxy reads the URL of a proxy as EGRESS_PROXY has it. Its errors do not
// repeat the text, which may hold a password.
func ParseProxy(text string) (*url.URL, error) { return egress.ParseProxy(text) }

// LoadRoots reads what Options.CAFile names, to find out whether it can be used.
func LoadRoots(file string) (*x509.CertPool, error) { return egress.LoadRoots(file) }

// LoadCertificate reads what Options.CertFile and KeyFile name.
func LoadCertificate(certFile, keyFile string) ([]tls.Certificate, error) {
	return egress.LoadCertificate(certFile, keyFile)
}

// ConsoleOptions are what people who look in with a browser are shown.
type ConsoleOptions struct {
	Off       bool     // there are no pages, and no links to them
	PublicURL *url.URL // how people reach the API from outside; nil: it is not known
	// AsListening takes the address of the API's listener for a PublicURL that is not known.
	AsListening bool
	Name        string // on the pages of links, in place of our own; empty: none
	Logo        string // https:// or data:image/png; empty: none
	Color       string // #rrggbb; empty: our own

	Settings []Setting // of this process, for the page that lists them
}

// Setting is a setting as people may see it, without its secret parts.
type Setting = console.Setting

// Options are the settings of a process. Run refuses those that make no sense.
type Options struct {
	Listen string // host:port of the API; empty: none, it only dispatches
	Keys   Keys   // none: the API answers only this host, and only on a loopback address

	MaxConnections int            // most connections of the API; 0: as the file descriptors allow
	Proxies        []netip.Prefix // networks of proxies whose X-Forwarded-For names the address of a caller
	MemoryLimit    int64          // bytes that the process tries to stay within; 0: none

	MetricsListen string // host:port of a server for /metrics, /healthz and /readyz, which need no key; empty: none

	RedisURL    string                // needed, unless InMemory or DataDir is set
	RedisMode   string                // auto, single, cluster or sentinel; empty: auto
	RedisMaster string                // name of the master that sentinels watch
	RedisCAFile string                // certificates trusted for rediss:// besides the system's; empty: none
	DataDir     string                // of a redis-server that Run starts for itself; empty: none
	InMemory    bool                  // a Redis inside the process, which forgets everything when Run returns
	Durability  dispatcher.Durability // what a publish waits for
	Poll        bool                  // neither pub/sub nor blocking commands are used
	StoreWait   time.Duration         // for how long Run waits for a store that does not answer yet

	Project         string // prefix of all keys
	Partitions      int    // 0: what the store says
	LaneMaxInFlight int    // most deliveries of one destination in flight
	MaxWaiting      int    // most deliveries that may wait for one destination; 0: no limit
	Seal            *Seal  // nil: secrets and header values are stored in plain text

	BreakerFailures int           // failures in a row that open the breaker of a destination; 0: none do
	BreakerWait     time.Duration // how long it is open at first

	OpsURL string // where notices for the operator go; empty: nowhere

	Console ConsoleOptions

	Archive   ArchiveOptions
	OutboxURL string // of a PostgreSQL with an outbox, from which Run relays; empty: there is none

	QuickRetries int            // repeats within an attempt, of connection faults before any answer
	AllowNets    []netip.Prefix // networks that may be called besides the public ones
	LinkNets     []netip.Prefix // these networks, if a link set the URL
	HTTPSOnly    bool
	Proxy        *url.URL // of ParseProxy: all calls go through it; nil: none does
	CAFile       string   // certificates trusted besides the system's; empty: none
	CertFile     string   // the client certificate for receivers; empty: none
	KeyFile      string   // its key
	MaxBody      int      // bytes of a message's body

	Engine  EngineOptions // but for Instance, Endpoints and Log, which Run sets
	Version string
	Log     *slog.Logger

	Delay     time.Duration   // how long Run announces its stop before it begins to stop
	SkipDelay <-chan struct{} // closed: the delay is over; nil: it never is before its time

	Renew <-chan Renewal // replaces keys and secrets; nil: none comes

	Ready func(addr string) // called when requests are served, with the API's address; nil: it is not

	stopping *atomic.Bool // of Run; true: it is not ready any more, and its responses close their connections
	waiting  int          // of Run; connections of the API that may wait for events

	once func(context.Context, machinery) // what the process is for, after which it ends; nil: it serves
}

// Run runs a process until ctx ends. Then it announces its stop for as long as Delay says,
// and stops in the order that flow describes. At last it closes the store, and its server if that is our own.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	o.stopping = new(atomic.Bool)
	share, err := o.budget(fileLimit())
	if err != nil {
		return err
	}
	ln, metricsLn, err := listenBoth(ctx, &o)
	if err != nil {
		return err
	}
	defer closeListeners(ln, metricsLn) // they are closed already where they were served
	store, closeStore, err := openStore(ctx, o)
	if err != nil && ctx.Err() != nil {
		o.Log.Info("stopped before it began", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	info, err := inspected(ctx, store, o)
	if err != nil {
		return err
	}
	guard := egress.NewGuard(o.AllowNets)
	figures := metrics.New()
	work, err := newWork(store, guard, figures, share, o)
	if err != nil {
		return err
	}
	e, hub := work.engine, tail.New(store, o.Log)
	look, closeLook, err := openLookup(e, store, o)
	if err != nil {
		return err
	}
	defer closeLook()
	keyring := newRing(store, o)
	svc := service{e, e.Registry(), work.jobs, store, hub, store.Audit(), work.ticker, work.takers, o.stopping, look, work.archiver, store.Access(), work.gauge}
	if err := e.ReadClock(ctx); err != nil {
		return err
	}
	figures.Watch(e)
	o.waiting = share.accepted / 2
	api, err := newAPI(svc, guard, figures, keyring, o)
	if err != nil {
		return err
	}
	visitors := callers.New(share.accepted, o.Proxies, o.Log)
	figures.WatchConnections(visitors)
	f := flow{
		machinery: work, tail: hub, audit: store.Audit(), api: api, ln: guarded(ln, visitors),
		figures: newMetricsServer(svc, figures, keyring, o), figuresLn: guarded(metricsLn, callers.New(figuresConnections, nil, o.Log)),
		renew: renewer{keyring: keyring, engine: e, store: store, log: o.Log},
		o:     o, info: info, partitions: store.Partitions(),
	}
	return f.run(ctx)
}

// newRing makes the ring of keys, by which sessions and links are known too.
func newRing(store *redisq.Store, o Options) *apikey.Ring {
	ring := apikey.NewRing(o.Keys)
	store.Access().UseKeys(func() access.Keys { return ring.Keys().Bindings() })
	return ring
}

// inspected describes a store that this process can work with.
func inspected(ctx context.Context, store *redisq.Store, o Options) (info dispatcher.StoreInfo, err error) {
	if err := checkSealed(ctx, store, o); err != nil {
		return info, err
	}
	if info, err = store.Store(ctx); err != nil {
		return info, fmt.Errorf("open store: %w", err)
	}
	return info, nil
}

// machinery is what works besides answering callers.
type machinery struct {
	engine  *engine.Engine
	jobs    *jobs.Jobs
	notices *notices.Notices
	ticker  *ticks.Ticker
	takers  *takers.Takers
	gauge   *gauge.Gauge
	relay   *relay.Relay // nil: there is no outbox

	archiver *archiver.Archiver // nil: there is no archive
}

// newWork makes the engine, the jobs, which are told by it that an instance is gone, and
// the takers, which are told that there is something to take. Engine and jobs tell the
// notices what happened, and those publish through the engine.
func newWork(store *redisq.Store, guard *egress.Guard, figures *metrics.Metrics, share descriptors, o Options) (w machinery, err error) {
	var tell func(dispatcher.News)
	o.Engine.Departed = func() { w.jobs.Departed() } // not before the engine runs
	o.Engine.Tell = func(n dispatcher.News) { tell(n) }
	o.Engine.Stirred = func() {
		if w.archiver != nil {
			w.archiver.Stirred()
		}
	}
	o.Engine.Takeable = func(lanes []dispatcher.Lane) { w.takers.OnTakeable(lanes) }
	o.Engine.Gone = func(lane dispatcher.Lane) { w.takers.OnGone(lane) }
	w.gauge = o.watched(store, figures)
	if w.engine, err = newEngine(store, guard, share, o); err != nil {
		return w, err
	}
	e := w.engine
	watched := store.Store
	if o.once != nil {
		watched = nil // each process would tell anew what it finds, and none that it is over
		store.TrimFrom(mathrand.IntN(store.Partitions()))
	}
	w.takers = takers.New(store, e, o.Log)
	w.notices, err = notices.New(notices.Options{
		URL: o.OpsURL, Publish: e.Publish, Lanes: e.Registry().LaneStates, Listeners: e.Registry().Listeners, Known: store.Known,
		Store: watched, Now: e.Now, PollEvery: o.Engine.PollEvery, Log: o.Log,
	})
	if err != nil {
		return w, fmt.Errorf("OPS_URL: %w", err)
	}
	tell = w.notices.Tell
	w.jobs = jobs.New(jobs.Options{
		Store: jobstore.New(store), List: store.List, Show: e.Show, Name: e.Name, Now: e.Now, PollEvery: o.Engine.PollEvery, Tell: tell, Log: o.Log,
		Stirred: e.Stirred,
	})
	if o.Archive.URL != "" {
		if w.archiver, err = newArchiver(store, e, tell, o); err != nil {
			return w, err
		}
		figures.WatchArchive(w.archiver.Figures)
	}
	if w.relay, err = newRelay(e, o.policy(e, guard), o); err != nil {
		return w, err
	}
	if w.relay != nil {
		figures.WatchOutbox(w.relay)
	}
	w.ticker = ticks.New(ticks.Options{
		Permits: o.Engine.MaxInFlight, Rouse: e.Rouse, Doing: e.Doing, Upcoming: e.Upcoming, Others: e.Others, Now: e.Now,
		Jobs: w.jobs.Busy, Notices: w.notices.Busy, Outbox: w.relay.Busy,
	})
	return w, nil
}

func newEngine(store *redisq.Store, guard *egress.Guard, share descriptors, o Options) (*engine.Engine, error) {
	sender, err := newSender(guard, share.idle, o)
	if err != nil {
		return nil, err
	}
	e := o.Engine
	e.Instance = start.Instance()
	e.UserAgent = cmp.Or(e.UserAgent, "Hookladder/"+o.Version)
	e.Version = o.Version
	e.Log = o.Log
	e.Endpoints = store
	e.Audit = store.Audit()
	return engine.New(store, sender, e)
}

// newSender makes the client that calls receivers.
func newSender(guard *egress.Guard, idle int, o Options) (*egress.Client, error) {
	e := egress.Options{
		Guard:          guard,
		LinkGuard:      egress.NewLinkGuard(o.LinkNets),
		HTTPSOnly:      o.HTTPSOnly,
		QuickRetries:   o.QuickRetries,
		MaxIdle:        idle,
		MaxIdlePerHost: o.LaneMaxInFlight,
		Proxy:          o.Proxy,
	}
	var err error
	if o.CAFile != "" {
		if e.RootCAs, err = egress.LoadRoots(o.CAFile); err != nil {
			return nil, fmt.Errorf("EGRESS_CA_FILE: %w", err)
		}
	}
	if o.CertFile != "" || o.KeyFile != "" {
		if e.Certificates, err = egress.LoadCertificate(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("EGRESS_CERT_FILE, EGRESS_KEY_FILE: %w", err)
		}
	}
	return egress.New(e), nil
}
