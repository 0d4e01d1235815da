package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// Queue publishes messages and runs handlers. It is safe for concurrent use. It is an
// instance of its project, like a hookladder serve, but it makes no callbacks.
type Queue struct {
	store  *redisq.Store
	engine *engine.Engine
	policy dispatcher.Policy
	retain time.Duration // how long an id is known at least
	lines  *observe.Log  // of the log
	tracer trace.Tracer  // nil: nothing is traced
	deaths *deaths

	mu         sync.Mutex // guards the fields below
	handlers   *handlers
	middleware []func(HandlerFunc) HandlerFunc
	periodics  []periodic
	running    bool // Run was called
	closed     bool // Close was called, or Run has ended

	end       context.CancelFunc // stops the engine
	ended     chan struct{}      // closed when the engine has stopped
	engineErr error              // the engine's error; read after ended
	closeOnce sync.Once
	closeErr  error // the error of close; read after shut
}

// Open connects to the Redis at url: redis://, rediss:// or unix://, with the options of
// go-redis in the query. Several ?addr= are the nodes of a cluster, or sentinels. It
// returns an error for a Redis that may lose confirmed data, an *InvalidError for a wrong
// url or option, and ErrDenied if Redis refuses the user. ctx bounds only the call of Open.
// The caller must call Run or Close.
func Open(ctx context.Context, url string, o Options) (*Queue, error) {
	s, err := o.settings(url)
	if err == nil && ctx == nil {
		err = errNoContext
	}
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	if engine.IsAlone(ctx) {
		s.engine.BeatEvery, s.engine.PollEvery, s.store.LoadLate = engine.AloneEvery, engine.AloneEvery, true
	}
	store, err := redisq.Await(ctx, s.store)
	if err != nil {
		return nil, failed(ctx, "open queue", err)
	}
	q := &Queue{store: store, policy: s.policy, retain: s.engine.Keep.Finished, lines: s.lines, tracer: s.engine.Tracer, ended: make(chan struct{})}
	q.handlers = newHandlers(s)
	s.engine.Endpoints, s.engine.Takeable = store.Endpoints, q.handlers.takeable
	counts := observe.NewGauge(home.NewHealth(store.Conn()), observe.GaugeOptions{Instance: s.engine.Instance, Now: store.Now, Log: s.log})
	q.deaths = newDeaths(q, counts, s, o.OnDead)
	s.engine.Observer = q.deaths
	queue := engine.Queue{Deliveries: store, Reads: store.Deliveries, Instances: store, Store: store, Lanes: store, LaneReads: store.LaneReader}
	if q.engine, err = engine.New(queue, nil, s.engine); err == nil { // nil: without permits no receiver is called
		err = q.engine.ReadClock(ctx)
	}
	if err != nil {
		return nil, failed(ctx, "open queue", errors.Join(err, store.Close()))
	}
	q.policy.Now = q.engine.Now
	q.handlers.engine, q.handlers.store, q.handlers.polls = q.engine, store, store.Polls()
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	q.end = end
	go func() {
		defer close(q.ended)
		q.work(working, counts)
	}()
	return q, nil
}

// work runs the engine until ctx ends. The metrics are counted until the engine has
// stopped.
func (q *Queue) work(ctx context.Context, counts *observe.Gauge) {
	counting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var counter errgroup.Group
	counter.Go(func() error { return counts.Run(counting) })
	counter.Go(func() error { return q.deaths.run(counting) })
	counter.Go(func() error { return admin.KeepMended(counting, q.store, redisq.InstanceName(), q.lines.Logger()) })
	q.engineErr = q.engine.Run(ctx)
	stop()
	q.engineErr = errors.Join(q.engineErr, counter.Wait())
}

// version returns this module's version in the program, which is shown to other
// instances.
func version() string {
	const module = "github.com/hookladder/hookladder"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}

// Run takes deliveries of the handled queues and calls the handlers, until ctx ends. Then
// it stops in this order:
//
//   - It takes no more deliveries. Deliveries that no handler has begun return to the
//     head of their lanes.
//   - Handlers may continue for Options.Grace. Then their contexts are cancelled, and the
//     deliveries that are still unfinished return to their lanes without a counted
//     attempt.
//   - The outcomes are recorded, and the Queue is closed.
//
// Run returns nil after that, or ErrUnrecorded if outcomes could not be recorded, for
// example because Redis was down. It returns an error at once if there is no handler, or
// if it was called before.
func (q *Queue) Run(ctx context.Context) error {
	if q == nil || q.engine == nil {
		return fmt.Errorf("run: %w", ErrUnopened)
	}
	q.mu.Lock()
	var err error
	switch {
	case ctx == nil:
		err = fmt.Errorf("run: %w", errNoContext)
	case q.running:
		err = errors.New("run: it was called before")
	case q.closed:
		err = fmt.Errorf("run: %w", ErrClosed)
	case len(q.handlers.names())+len(q.periodics) == 0:
		err = errors.New("run: no queue has a handler; a program that only publishes needs Close alone")
	default:
		if err = q.handlers.wrap(q.middleware); err != nil {
			err = fmt.Errorf("run: %w", err)
		}
	}
	q.running = q.running || err == nil
	q.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // the engine may stop by itself
		<-q.ended
		stop()
	}()
	var repeating sync.WaitGroup
	repeating.Go(func() { q.repeat(ctx) })
	q.handlers.run(ctx)
	repeating.Wait()
	err = q.close()
	if n := q.handlers.unrecorded.Load(); n > 0 {
		err = errors.Join(fmt.Errorf("run: %w: %d, whose deliveries may be handled again", ErrUnrecorded, n), err)
	}
	return err
}

// Close records the finished outcomes and closes the connections. A program that calls
// Run need not call it. It may be called again, or while Run runs: then it does nothing.
func (q *Queue) Close() error {
	if q == nil || q.engine == nil {
		return fmt.Errorf("close: %w", ErrUnopened)
	}
	q.mu.Lock()
	running := q.running
	q.mu.Unlock()
	if running {
		return nil
	}
	return q.close()
}

// flushWithin bounds the wait for the last lines of the log.
const flushWithin = time.Second

func (q *Queue) close() error {
	q.closeOnce.Do(func() {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
		q.end()
		<-q.ended
		q.closeErr = errors.Join(q.engineErr, q.store.Close())
		q.lines.Flush(flushWithin)
	})
	return q.closeErr
}
