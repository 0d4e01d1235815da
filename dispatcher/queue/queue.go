package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/gauge"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/health"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/start"
)

// Queue publishes messages, and runs the handlers of queues. Its methods may be called from
// several goroutines. It is an instance of its project, as a hookladder serve is, but it
// makes no callbacks.
type Queue struct {
	store  *redisq.Store
	engine *engine.Engine
	policy dispatcher.Policy
	log    *slog.Logger

	mu       sync.Mutex // guards what follows
	handlers *handlers
	running  bool // Run was called
	closed   bool // or Close was, or Run has ended

	end   context.CancelFunc // ends the engine
	ended chan struct{}      // closed when it has
	why   error              // of the engine; read after ended
	shut  sync.Once
	fault error // of closing; read after shut
}

// Open connects to the Redis at url: redis://, rediss:// or unix://, with go-redis' options,
// and several ?addr= for a cluster or sentinels. It refuses a store that would lose what was
// acknowledged. ctx bounds the opening only. A Queue that was opened is to be ended, by Run
// or by Close.
func Open(ctx context.Context, url string, o Options) (*Queue, error) {
	s, err := o.settings(url)
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	store, err := start.Open(ctx, s.store)
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	q := &Queue{store: store, policy: s.policy, log: s.log, ended: make(chan struct{})}
	q.handlers = newHandlers(s)
	s.engine.Endpoints, s.engine.Takeable = store, q.handlers.takeable
	counts := gauge.New(health.New(store.Conn()), gauge.Options{Instance: s.engine.Instance, Now: store.Now, Log: s.log})
	s.engine.Observer = counts
	if q.engine, err = engine.New(store, nil, s.engine); err == nil { // nil: with no permits nothing is called
		err = q.engine.ReadClock(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", errors.Join(err, store.Close()))
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

// work runs the engine until ctx ends, and counts until that has ended.
func (q *Queue) work(ctx context.Context, counts *gauge.Gauge) {
	counting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var counter errgroup.Group
	counter.Go(func() error { return counts.Run(counting) })
	q.why = q.engine.Run(ctx)
	stop()
	q.why = errors.Join(q.why, counter.Wait())
}

// version is that of this module in the program, which other instances are told.
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

// ErrClosed says that the queue was closed, or that its Run has ended.
var ErrClosed = errors.New("the queue is closed")

// ErrUnrecorded says that outcomes of attempts could not be recorded. The text has their
// number.
var ErrUnrecorded = errors.New("outcomes of attempts were not recorded")

// Run has the handlers take what comes to their queues, until ctx ends. Then nothing more is
// taken, and what was taken and not begun goes back to the head of its lane. Handlers may go on for
// Options.Grace; then their contexts are cancelled. What they leave goes back too, and no
// attempt of it was made. At last the outcomes are recorded and the Queue is closed.
//
// Run returns nil after such an end, or an ErrUnrecorded where outcomes of attempts could not
// be recorded: Redis was away, say. It returns an error at once where there is no handler, and
// where it was called before.
func (q *Queue) Run(ctx context.Context) error {
	q.mu.Lock()
	var err error
	switch {
	case q.running:
		err = errors.New("run: it was called before")
	case q.closed:
		err = fmt.Errorf("run: %w", ErrClosed)
	case q.handlers.count() == 0:
		err = errors.New("run: no queue has a handler; a program that only publishes needs Close alone")
	}
	q.running = q.running || err == nil
	q.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // the engine may end by itself
		<-q.ended
		stop()
	}()
	q.handlers.run(ctx)
	err = q.close()
	if n := q.handlers.unrecorded.Load(); n > 0 {
		err = errors.Join(fmt.Errorf("run: %w: %d, whose deliveries may be handled again", ErrUnrecorded, n), err)
	}
	return err
}

// Close records what is under way and ends the connections. A program that calls Run need
// not call it. It may be called again, and while Run runs: then it does nothing.
func (q *Queue) Close() error {
	q.mu.Lock()
	running := q.running
	q.mu.Unlock()
	if running {
		return nil
	}
	return q.close()
}

func (q *Queue) close() error {
	q.shut.Do(func() {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
		q.end()
		<-q.ended
		q.fault = errors.Join(q.why, q.store.Close())
	})
	return q.fault
}
