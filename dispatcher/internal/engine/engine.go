// Package engine dispatches deliveries. Package dispatcher describes its stages, in the order
// of the flow, with the file of each.
//
// Takers gives out the deliveries that callers take over HTTP: deliveries of queues, and of
// pull endpoints, which are never called (takers.go). It leases deliveries to a caller,
// and lets it wait for some. It does not poll the store meanwhile. The store publishes
// which lanes have deliveries, and each time one of the waiting callers takes.
// It records the outcomes of callers. Leases are bound to no instance, so another instance may settle them.
//
// A Tail shows people the log of attempts as it grows (tail.go). It reads the log for all
// followers of an instance, and only while there are any. It passes on the lines as a chain of
// stretches: each follower reads along it at its own pace, and one that falls too far behind
// is dropped.
//
// A Ticker does all due work inside one call, for a program that runs only from time to time
// (ticks.go). A scheduler makes the calls. Between two calls nothing runs, or the process is
// suspended. A tick wakes the engine and waits until nothing is left to do. Several ticks may
// run at once, here and in other processes.
//
// A Relay publishes the messages that callers inserted as rows of an outbox (relay.go).
package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Options configures an Engine. A field is required unless its comment says otherwise.
type Options struct {
	Instance     string          // a name never used before: host and ULID
	Secrets      []signer.Secret // for bare URLs; none: no message to a bare URL can be published
	Ladder       ladder.Ladder
	Jitter       float64       // a fraction of each wait, always added
	Success      *success.Rule // nil: any 2xx
	Timeout      time.Duration // of one attempt
	FailingAfter time.Duration // a destination that fails for longer is logged; 0: no destination is logged
	DisableAfter time.Duration // default time that a destination may fail before it is given up; 0: for ever
	MaxInFlight  int           // permits; 0: the engine only accepts messages
	Loans        int           // attempts in new lanes that may continue without a permit
	FanoutMax    int           // endpoints that one message may match; 0: no limit
	MaxBytes     int64         // of all bodies of leased deliveries; 0: no limit
	ClaimBatch   int           // permits to gather for each claimable batch
	Excerpt      int           // bytes of a response to keep in the history
	PollEvery    time.Duration // time between two polls of the whole queue
	BeatEvery    time.Duration // time between two heartbeats; 0: wait.BeatEvery, as other instances expect
	Grace        time.Duration // how long attempts may continue after the stop signal
	Keep         dispatcher.Keep
	UserAgent    string
	HeaderPrefix dispatcher.HeaderPrefix // prefix of the headers that describe an attempt to its receiver
	Version      string                  // version of the program, for the other instances

	Endpoints    dispatcher.EndpointStore // nil: there are none
	Audit        dispatcher.Audit         // records endpoints that the engine disables; nil: they are not recorded
	DeriveTenant bool                     // bare URLs of a tenant are signed with secrets derived for that tenant
	Log          *slog.Logger
	Observer     dispatcher.Observer // nil: there is none
	Tracer       trace.Tracer        // nil: nothing is traced
	Departed     func()              // called when an instance is gone; must not block; may be nil
	Stirred      func()              // called when this or another instance may have changed the queue; must not block; may be nil

	Takeable func([]dispatcher.Lane) // called when there may be something to take; must not block; nil: this instance has no takers
	Gone     func(dispatcher.Lane)   // called when the endpoint of a lane was deleted; must not block; nil: this instance has no takers
	Notify   func(dispatcher.News)   // called with news for notices; must not block; may be nil
}

// Engine accepts messages and delivers them. Its methods may be called from several
// goroutines. It delivers only while Run runs.
type Engine struct {
	options Options

	// The store: the fields of Queue.
	deliveries Deliveries
	reads      Reads
	instances  Instances
	store      Store

	log       *slog.Logger
	outages   *outage.Log // the store does not respond
	fullLog   *outage.Log // it has no memory left
	diskLog   *outage.Log // it can't write to its disk
	watching  watching
	endpoints *endpoints.Registry
	lists     *callers.Shares // for callers that read lists
	tests     *callers.Shares // one place for each running test message

	// The stages, in the order of the flow.
	accepter  *accepter
	permits   *permits
	loans     *loans
	loader    *loader
	workers   *workers
	deliverer *deliverer
	settler   *settler
	trimmer   *trimmer
	dead      *reaper
	shortage  *shortage
	network   *ownNetwork
	deaths    *deaths
	sealed    sealedWaits

	taking  context.Context // ends when the shutdown begins: no more moves and leases
	stop    context.CancelFunc
	cut     context.CancelFunc // cancels the running attempts
	drained sync.Once

	over context.Context // ends, with a cause, when this instance can't continue
	quit context.CancelCauseFunc

	progress *progress

	identity atomic.Pointer[identity]
	seen     sightings
	wall     func(time.Time) time.Time // wall clock of this host; tests set it

	worked atomic.Bool // this instance did something after the last beat
	tally  tickCounts
	rouse  wait.Signal // requests a beat now, unless there was one just before
	leases *leaseSet
	rounds atomic.Int32 // number of further comparisons by the reconciler
	doubt  wait.Signal  // a response was lost, so the reconciler compares soon

	ready   wait.Signal   // something may be claimed
	due     wait.Signal   // something is due earlier than the mover knows
	unseen  wait.Signal   // a response was lost, so the watcher polls that part of the queue
	poll    wait.Signal   // requests a poll of the whole queue
	settled wait.Signal   // outcomes were recorded
	stopped chan struct{} // closed when publishes are no longer accepted

	lost atomic.Pointer[dispatcher.Emptied] // data lost by the store; nil: none
}

// listsAtOnce is how many lists are read at a time, so that lists do not slow down publishing.
const listsAtOnce = 2

// New returns an Engine for a queue and a sender.
func New(q Queue, s dispatcher.Sender, o Options) (*Engine, error) {
	o.BeatEvery = cmp.Or(o.BeatEvery, wait.BeatEvery)
	e := &Engine{
		options: o, deliveries: q.Deliveries, reads: q.Reads, instances: q.Instances, store: q.Store, log: o.Log, watching: watching{observer: o.Observer, log: o.Log},
		outages: outage.New(o.Log, "store lost", "store back"),
		fullLog: outage.New(o.Log, "store full", "store has room again"), diskLog: outage.New(o.Log, "store refuses changes", "store takes changes again"),
		lists: callers.NewTurns(listsAtOnce, dispatcher.ErrListing), tests: callers.NewPlaces(mostTests, testsEach, dispatcher.ErrBusy), permits: newPermits(o.MaxInFlight),
		wall: wallClock, rouse: wait.NewSignal(), leases: newLeaseSet(), doubt: wait.NewSignal(),
		ready: wait.NewSignal(), due: wait.NewSignal(), unseen: wait.NewSignal(),
		poll: wait.NewSignal(), settled: wait.NewSignal(), stopped: make(chan struct{}),
	}
	e.outages.Notify, e.fullLog.Notify, e.diskLog.Notify = e.storeNews("unreachable"), e.storeNews("full"), e.storeNews("read_only")
	e.outages.ReadOnly, e.outages.Writes = e.diskLog, stageBeat
	e.taking, e.stop = context.WithCancel(context.Background())
	e.over, e.quit = context.WithCancelCause(context.Background())
	e.progress = &progress{stages: newStages(), log: e.log}
	e.identity.Store(&identity{base: o.Instance, count: 1})
	e.shortage = &shortage{log: e.log, over: e.ready}
	e.network = newOwnNetwork(e, s)
	e.deaths = &deaths{log: e.log, of: map[deathKind]*deathCount{}}
	e.settler = newSettler(e, 4*max(o.MaxInFlight, settleMost))
	e.trimmer = newTrimmer(e, o.Keep)
	e.store.Notify(e.events())
	e.dead = newReaper(e)
	e.endpoints = endpoints.New(endpoints.Options{
		Store: o.Endpoints, Queue: q.Lanes, LaneReads: q.LaneReads, Read: q.Reads.Read, ReadDead: q.Reads.Dead, Log: o.Log, Outages: e.outages, Audit: o.Audit, Lists: e.lists, Name: e.name, PollSoon: e.pollSoon,
		FailingAfter: o.FailingAfter, OnActivity: e.Stirred, Notify: e.notify,
	})
	e.accepter = newAccepter(e)
	e.deliverer = &deliverer{
		engine: e, sender: s, ladder: o.Ladder, jitter: o.Jitter, success: o.Success, timeout: o.Timeout, disableAfter: o.DisableAfter,
		excerpt: o.Excerpt, agent: []string{o.UserAgent}, prefix: o.HeaderPrefix, names: o.HeaderPrefix.Headers(),
	}
	// Attempts continue after the stop signal.
	e.deliverer.cut, e.cut = context.WithCancel(context.Background())
	if len(o.Secrets) > 0 {
		if err := e.Resign(o.Secrets); err != nil {
			return nil, fmt.Errorf("signing secrets: %w", err)
		}
	}
	e.loans = newLoans(e.permits, o.Loans)
	e.workers = newWorkers(e.deliverer.deliver)
	e.loader = newLoader(e, o.MaxBytes, o.MaxInFlight)
	return e, nil
}

// Registry returns the endpoints that the engine delivers to.
func (e *Engine) Registry() *endpoints.Registry { return e.endpoints }

// Resign replaces the signing secrets of bare URLs. The next attempt uses the new ones.
func (e *Engine) Resign(secrets []signer.Secret) error {
	s, err := newSigners(secrets, e.options.DeriveTenant)
	if err == nil {
		e.deliverer.signers.Store(s)
	}
	return err
}

// Ping returns an error if the store does not respond.
func (e *Engine) Ping(ctx context.Context) error { return e.store.Ping(ctx) }

// Ready returns a description of the store, or an error if it does not respond, or if this
// instance is stuck. During the shutdown it returns ErrStopping, so that a load balancer stops
// sending callers here.
func (e *Engine) Ready(ctx context.Context) (dispatcher.StoreInfo, error) {
	if e.taking.Err() != nil {
		return dispatcher.StoreInfo{}, dispatcher.ErrStopping
	}
	if err := e.Alive(); err != nil {
		return dispatcher.StoreInfo{}, err
	}
	if err := e.store.Ping(ctx); err != nil {
		return dispatcher.StoreInfo{}, err
	}
	return e.store.Store(ctx)
}

// Lost returns why the whole store can't be reached now. It returns nil if it can be reached, or if
// its calls only take too long.
func (e *Engine) Lost() error { return e.outages.Lost() }

// Emptied returns the data that the store lost, until they are restored or given up. It
// returns nil if no data are lost.
func (e *Engine) Emptied() *dispatcher.Emptied { return e.lost.Load() }

// emptied reports that the store lost data. With nil it reports that the data were restored or
// given up.
func (e *Engine) emptied(lost *dispatcher.Emptied) {
	e.lost.Store(lost)
	news := dispatcher.News{Notice: dispatcher.NoticeHealthy, Reason: "emptied"}
	if lost != nil {
		e.log.Error("the store lost data: what needs them is refused", "err", lost)
		news.Notice, news.Detail = dispatcher.NoticeUnhealthy, lost.Error()
		news.Since = e.store.Now().Truncate(time.Millisecond)
	} else {
		e.log.Info("the data that the store lost were restored or given up")
		e.endpoints.Cache.Clear() // it may have endpoints that no longer exist
		e.pollSoon()
		e.endpoints.SuspectAll() // lanes may have lost their endpoints, or their limits
		e.dead.suspect()         // the names of instances that left are known again
	}
	e.notify(news)
}

// clockJumped logs a jump of the queue's clock. If host is as long, this host was suspended, or its
// clock was set together with the queue's.
func (e *Engine) clockJumped(by, host time.Duration) {
	effect := "what waits for its time is attempted too early, and what fails or is delayed now is due too late once the clock is right"
	if by < 0 {
		effect = "what failed or was delayed before is due too late"
	}
	e.log.LogAttrs(context.Background(), slog.LevelWarn, "the clock of redis jumped", seconds("jumped_s", by), seconds("host_jumped_s", host),
		slog.String("effect", effect), slog.String("cure", "set the clock right; hookladder doctor then finds what is due too late, and doctor --fix releases it"))
}

// ReadClock reads the queue's clock. It is called at the start, so that Now is correct for the
// first caller too.
func (e *Engine) ReadClock(ctx context.Context) error {
	if err := e.store.ReadClock(ctx); err != nil {
		return fmt.Errorf("read the queue's clock: %w", err)
	}
	return nil
}

// Now returns the time by the queue's clock. Before the queue's first response it is the time
// by this host's clock.
func (e *Engine) Now() time.Time { return e.store.Now() }

// Permits returns the number of taken permits and the number of all permits.
func (e *Engine) Permits() (used, all int) {
	p := e.permits
	return p.total - p.free(), p.total
}

// events returns the engine's handlers for events of its queue.
func (e *Engine) events() dispatcher.Events {
	return dispatcher.Events{
		Ready: func() { e.ready.Set() }, Due: func() { e.due.Set() }, Unseen: func() { e.unseen.Set() },
		Back: e.pollSoon, Ended: e.trimmer.ended, Dead: e.buried, Emptied: e.emptied, Jumped: e.clockJumped,
		Failing: func(f dispatcher.LaneFailing) {
			status := 0
			if f.For > 0 { // else it belongs to no attempt that is being recorded
				status = e.settler.lastStatus(f.Lane)
			}
			e.endpoints.Failing(f, status)
		},
		Opened: func(lane dispatcher.Lane, since time.Time, wait time.Duration) {
			e.log.LogAttrs(context.Background(), slog.LevelInfo, "breaker opened", slog.String("lane", string(lane)), seconds("wait_s", wait))
			e.notifyBreaker(dispatcher.News{
				Notice: dispatcher.NoticeOpened, Lane: lane, Key: dispatcher.Summary(since, e.store.Now().Sub(since)),
				Since: since, Reason: string(dispatcher.WhyBreaker),
			})
		},
		Closed: func(lane dispatcher.Lane, since time.Time) {
			e.log.LogAttrs(context.Background(), slog.LevelInfo, "breaker closed", slog.String("lane", string(lane)))
			e.notifyBreaker(dispatcher.News{Notice: dispatcher.NoticeClosed, Lane: lane, Key: dispatcher.Summary(since, 0), Since: since})
		},
	}
}

// notify publishes news with the current time.
func (e *Engine) notify(news dispatcher.News) {
	if e.options.Notify == nil {
		return
	}
	news.At = e.store.Now().Truncate(time.Millisecond)
	e.options.Notify(news)
}

// notifyBreaker publishes news about a breaker. If a resume or a test closed it, news.Since is
// zero and no outcome is being recorded.
func (e *Engine) notifyBreaker(news dispatcher.News) {
	if news.Since.IsZero() {
		news.Key = dispatcher.Summary(e.store.Now(), 0)
	} else {
		news.Status = e.settler.lastStatus(news.Lane)
	}
	e.notify(news)
}

// storeNews returns a function that publishes news when the store becomes unreachable, full or
// read only, and when that ends.
func (e *Engine) storeNews(reason string) func(time.Time, error) {
	return func(since time.Time, why error) {
		news := dispatcher.News{Notice: dispatcher.NoticeHealthy, Reason: reason}
		if why != nil {
			news.Notice, news.Detail = dispatcher.NoticeUnhealthy, why.Error()
		}
		news.Since = e.store.Now().Add(-time.Since(since)).Truncate(time.Millisecond)
		e.notify(news)
	}
}

// Stirred reports that something may have happened in the queue. Followers of this instance
// hear it at once, other instances with the next beat.
func (e *Engine) Stirred() {
	if !e.worked.Load() {
		e.worked.Store(true)
	}
	if e.options.Stirred != nil {
		e.options.Stirred()
	}
}

// unsure requests that the reconciler compares leases with the queue. It is called if a
// response was lost, or if the queue may have lost its last changes in a failover.
func (e *Engine) unsure() {
	e.rounds.Store(roundsAfter)
	e.doubt.Set()
}

// pollSoon requests a poll of the whole queue.
func (e *Engine) pollSoon() { e.poll.Set() }

// sooner returns the smaller of two waits. A negative wait has no end.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// newIdleTimer returns a stopped timer.
func newIdleTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
