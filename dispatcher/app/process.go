package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/jobs"
	"github.com/hookladder/hookladder/dispatcher/internal/metrics"
	"github.com/hookladder/hookladder/dispatcher/internal/notices"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// process has the parts of a running process. newProcess builds them, and apiOptions assigns
// them to the ports of the API.
type process struct {
	store   *redisq.Store
	info    dispatcher.StoreInfo
	guard   *egress.Guard
	figures *metrics.Metrics
	keyring *callers.KeyRing
	bodies  *api.Bodies

	engine    *engine.Engine
	endpoints *endpoints.Registry
	takers    *engine.Takers
	jobs      *jobs.Jobs
	notices   *notices.Notices
	ticker    *engine.Ticker
	gauge     *observe.Gauge
	tail      *engine.Tail
	tracer    trace.Tracer // nil: nothing is traced

	relay    *engine.Relay     // nil: no outbox
	archiver *archive.Archiver // nil: no archive
	lookup   *archive.Lookup   // nil: no archive

	stopping *atomic.Bool // true: it is not ready any more
	close    func()       // closes the lookup's connections
}

// newProcess builds the parts, in the order of their dependencies. The engine runs only after
// this, so its hooks may use parts that are built later.
func newProcess(store *redisq.Store, share descriptors, o Options) (p *process, err error) {
	p = &process{store: store, stopping: o.stopping, guard: o.guard(), figures: metrics.New(), keyring: newRing(store, o)}
	p.bodies = httpapi.NewBodies(o.bodyBudget(), o.MaxBody)
	p.tracer = observe.NewTracer(o.Traces, o.Version)
	o.Engine.Tracer = p.tracer
	o.Engine.Departed = func() { p.jobs.Departed() }
	o.Engine.Notify = func(n dispatcher.News) { p.notices.Notify(n) }
	o.Engine.Stirred = func() {
		if p.archiver != nil {
			p.archiver.Wake()
		}
	}
	o.Engine.Takeable = func(lanes []dispatcher.Lane) { p.takers.OnTakeable(lanes) }
	o.Engine.Gone = func(lane dispatcher.Lane) { p.takers.OnGone(lane) }
	p.gauge = o.watched(store, p.figures)
	if p.engine, err = newEngine(store, p.guard, share, o); err != nil {
		return nil, err
	}
	e := p.engine
	p.endpoints = e.Registry()
	p.tail = engine.NewTail(store.Attempts, o.Log)
	p.takers = engine.NewTakers(store, store.Deliveries, e, o.Log)
	if p.notices, err = newNotices(store, e, o); err != nil {
		return nil, fmt.Errorf("OPS_URL: %w", err)
	}
	p.jobs = jobs.New(jobs.Options{
		Store: admin.NewJobStore(store), List: store.Deliveries.List, Show: e.Show, Name: e.Name, Now: e.Now, PollEvery: o.Engine.PollEvery, Notify: p.notices.Notify, Log: o.Log,
		Stirred: e.Stirred,
		TryNow:  func(ctx context.Context, lanes []dispatcher.Lane) error { return store.TryNow(ctx, e.Name(), lanes) },
	})
	if o.Archive.URL != "" {
		if p.archiver, err = newArchiver(store, e, p.notices.Notify, o); err != nil {
			return nil, err
		}
		p.figures.WatchArchive(p.archiver.Figures)
	}
	if p.relay, err = newRelay(e, o.policy(e, p.guard), o); err != nil {
		return nil, err
	}
	if p.relay != nil {
		p.figures.WatchOutbox(p.relay)
	}
	p.ticker = engine.NewTicker(engine.TickerOptions{
		Permits: o.Engine.MaxInFlight, Rouse: e.Rouse, Doing: e.Doing, Upcoming: e.Upcoming, Others: e.Others, Now: e.Now,
		Jobs: p.jobs.Busy, Notices: p.notices.Busy, Outbox: p.relay.Busy,
	})
	p.figures.WatchBeside(metrics.Beside{Endpoints: store.Endpoints.Count, Jobs: p.jobs.States, Unsent: p.notices.Unsent})
	p.figures.WatchProgress(e.Alive)
	p.figures.WatchClock(store.ClockJumps)
	if o.LogDropped != nil {
		p.figures.WatchLog(o.LogDropped)
	}
	if o.TracesDropped != nil {
		p.figures.WatchTraces(o.TracesDropped)
	}
	p.figures.WatchTorn(func() int { return len(store.Conn().Torn()) })
	p.figures.Running(o.Version)
	store.Conn().OnRoundTrip(p.figures.WatchStoreCalls(slices.Sorted(maps.Values(Scripts()))).Called)
	p.lookup, p.close, err = openLookup(e, store, o)
	return p, err
}

// apiOptions assigns the parts to the ports of the API. If there is an archive, the API also
// queries it for messages and lists that the store deleted.
func (p *process) apiOptions() httpapi.Options {
	ports := httpapi.Options{
		Publisher:    p.engine,
		Messages:     p.engine,
		MessageLanes: p.endpoints,
		Lists:        p.engine,
		Dead:         p.endpoints,
		Attempts:     p.store.Attempts,
		Followers:    p.tail,
		Jobs:         p.jobs,
		Endpoints:    p.endpoints,
		Tester:       p.engine,
		Lanes:        p.endpoints,
		Takers:       p.takers,
		Links:        p.store.Access(),
		Audit:        p.store.Audit(),
		Stats:        p.engine,
		Ticks:        p.ticker,
		Readiness:    readiness{p.engine, p.stopping, p.archiver, p.store.Torn},
		Tracer:       p.tracer,
	}
	if p.lookup != nil {
		ports.Messages, ports.MessageLanes, ports.Lists = p.lookup, p.lookup, p.lookup
	}
	return ports
}

// newRing returns the ring of keys. It also checks sessions and links.
func newRing(store *redisq.Store, o Options) *callers.KeyRing {
	ring := callers.NewKeyRing(o.Keys)
	store.Access().UseKeys(func() dispatcher.AccessKeys { return ring.Keys().Bindings() })
	return ring
}

func newNotices(store *redisq.Store, e *engine.Engine, o Options) (*notices.Notices, error) {
	watched := store.Store
	if o.once != nil {
		watched = nil // because each process would report its findings again, and none would report their end
		store.TrimFrom(mathrand.IntN(store.Partitions()))
	}
	return notices.New(notices.Options{
		URL: o.OpsURL, Publish: e.Publish, Lanes: e.Registry().LaneStates, Listeners: e.Registry().Listeners, Known: store.Deliveries.Known,
		Store: watched, Now: e.Now, PollEvery: o.Engine.PollEvery, Log: o.Log,
	})
}

func newEngine(store *redisq.Store, guard *egress.Guard, share descriptors, o Options) (*engine.Engine, error) {
	sender, err := newSender(guard, share.idle, o)
	if err != nil {
		return nil, err
	}
	e := o.Engine
	e.Instance = redisq.InstanceName()
	e.UserAgent = cmp.Or(e.UserAgent, "Hookladder/"+o.Version)
	e.Version = o.Version
	e.Log = o.Log
	e.Endpoints = store.Endpoints
	e.Audit = store.Audit()
	queue := engine.Queue{Deliveries: store, Reads: store.Deliveries, Instances: store, Store: store, Lanes: store, LaneReads: store.LaneReader}
	return engine.New(queue, sender, e)
}

// guard returns the guard of calls.
func (o Options) guard() *egress.Guard {
	g := egress.NewGuard(o.AllowNets)
	g.Own = o.own
	return g
}

// linkGuard returns the guard of calls to URLs that a link set.
func (o Options) linkGuard() *egress.Guard {
	g := egress.NewLinkGuard(o.LinkNets)
	g.Own = o.own
	return g
}

// newSender returns the client that calls receivers.
func newSender(guard *egress.Guard, idle int, o Options) (*egress.Client, error) {
	e := egress.Options{
		Guard:          guard,
		LinkGuard:      o.linkGuard(),
		HTTPSOnly:      o.HTTPSOnly,
		QuickRetries:   o.QuickRetries,
		MaxIdle:        idle,
		MaxIdlePerHost: o.LaneMaxInFlight,
		Proxy:          o.Proxy,
	}
	var err error
	if o.CAFile != "" {
		if e.RootCAs, err = input.LoadRoots(o.CAFile); err != nil {
			return nil, fmt.Errorf("EGRESS_CA_FILE: %w", err)
		}
	}
	if o.CertFile != "" || o.KeyFile != "" {
		if e.Certificates, err = input.LoadCertificate(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("EGRESS_CERT_FILE, EGRESS_KEY_FILE: %w", err)
		}
	}
	return egress.New(e), nil
}

// A row of the outbox may have its body in JSON, in which a byte takes at most six letters. It
// also has an envelope.
const (
	rowEscaped  = 6
	rowEnvelope = 64 << 10
)

// newRelay returns the relay from the outbox to the engine; nil: there is no outbox.
func newRelay(e *engine.Engine, policy dispatcher.Policy, o Options) (*engine.Relay, error) {
	if o.OutboxURL == "" {
		return nil, nil
	}
	rows, err := postgres.NewOutbox(o.OutboxURL, o.MaxBody*rowEscaped+rowEnvelope)
	if err != nil {
		return nil, fmt.Errorf("OUTBOX_URL: %w", err)
	}
	return engine.NewRelay(engine.RelayOptions{
		Outbox: rows,
		Read: func(r *dispatcher.OutboxRow) (*dispatcher.Message, engine.RowRefusal) {
			m, status, problem := httpapi.ReadRow(r.ID, r.Message, r.Body, policy)
			return m, engine.RowRefusal{Status: status, Problem: problem}
		},
		Publish: e.Publish,
		Judge: func(p *dispatcher.Published) engine.RowRefusal {
			status, problem := httpapi.RowOutcome(p)
			return engine.RowRefusal{Status: status, Problem: problem}
		},
		Retention: o.Engine.Keep.Finished,
		Tracer:    o.Engine.Tracer,
		Log:       o.Log,
	}), nil
}

// watched returns a gauge, which observes the engine like the metrics. It has its own instance
// name, because the engine's name changes if other instances report the engine dead.
func (o *Options) watched(store *redisq.Store, figures *metrics.Metrics) *observe.Gauge {
	g := observe.NewGauge(home.NewHealth(store.Conn()), observe.GaugeOptions{Instance: redisq.InstanceName(), Now: store.Now, Log: o.Log})
	all := observers{figures, g}
	if o.Engine.Observer != nil {
		all = append(all, o.Engine.Observer)
	}
	o.Engine.Observer = all
	return g
}

// observers calls several observers, one after the other.
type observers []dispatcher.Observer

// Attempted reports an attempt.
func (all observers) Attempted(a dispatcher.Attempted) {
	for _, o := range all {
		o.Attempted(a)
	}
}

// Published reports a publish.
func (all observers) Published(p dispatcher.Published) {
	for _, o := range all {
		o.Published(p)
	}
}

// Died reports a death.
func (all observers) Died(d dispatcher.Death) {
	for _, o := range all {
		o.Died(d)
	}
}

// TookOver reports a takeover.
func (all observers) TookOver(deliveries int) {
	for _, o := range all {
		o.TookOver(deliveries)
	}
}
