package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Options say how a Dispatcher works. Every field without a remark is needed.
type Options struct {
	Instance    string          // a name never used before: host and ULID
	Secrets     []signer.Secret // for bare URLs; none: nothing with a bare URL can be published
	Ladder      ladder.Ladder
	Jitter      float64       // a fraction of each wait, only ever added
	Success     *Success      // nil: any 2xx
	Timeout     time.Duration // of one attempt
	MaxInFlight int           // permits; 0: accepts only
	FanoutMax   int           // endpoints that one message may match; 0: any number
	MaxBytes    int64         // of the bodies of what is leased; 0: no limit
	ClaimBatch  int           // permits gathered for each batch that a claim may take
	Excerpt     int           // bytes of an answer kept in the history
	PollEvery   time.Duration // how often the queue is looked at, whatever was told
	Grace       time.Duration // how long attempts may go on after the stop signal
	Keep        Keep
	UserAgent   string
	Version     string // of the program, which other instances are told

	Endpoints    EndpointStore // nil: there are none
	DeriveTenant bool          // bare URLs of a tenant are signed with secrets derived for it
	Log          *slog.Logger
	Observer     Observer // nil: nobody watches
}

// Dispatcher takes messages and delivers them. Its methods may be called from
// several goroutines; deliveries go on while Run does.
type Dispatcher struct {
	*Registry
	engine    *engine
	accepter  *accepter
	deliverer *deliverer
	tests     chan struct{} // one for each that is under way
	lists     turns
	options   Options

	cut     context.CancelFunc // ends the attempts under way
	drained sync.Once
}

// New makes a Dispatcher of a queue and a sender.
func New(q Queue, s Sender, o Options) (*Dispatcher, error) {
	e := &engine{
		queue: q, version: o.Version, log: o.Log, watching: watching{observer: o.Observer, log: o.Log},
		outages: newOutageLog(o.Log, "store lost", "store back"),
		fullLog: newOutageLog(o.Log, "store full", "store has room again"),
		permits: newPermits(o.MaxInFlight),
		wall:    wallClock, leases: newLeaseSet(), doubt: make(chan struct{}, 1),
		ready: make(chan struct{}, 1), due: make(chan struct{}, 1), unseen: make(chan struct{}, 1),
		look: make(chan struct{}, 1), settled: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	e.taking, e.stop = context.WithCancel(context.Background())
	e.over, e.quit = context.WithCancelCause(context.Background())
	e.identity.Store(&identity{base: o.Instance, count: 1})
	e.shortage = &shortage{log: e.log, over: e.ready}
	e.deaths = &deaths{log: e.log, of: map[deathKind]*deathCount{}}
	e.settler = newSettler(e, 4*max(o.MaxInFlight, settleMost))
	e.trimmer = newTrimmer(e, o.Keep)
	q.Notify(e.events())
	e.dead = newReaper(e)
	lists := newTurns()
	e.endpoints = NewRegistry(RegistryOptions{
		Store: o.Endpoints, Queue: q, Log: o.Log, Outages: e.outages, Lists: lists,
		Name: e.name, PollSoon: e.pollSoon,
	})
	d := &Dispatcher{engine: e, Registry: e.endpoints, accepter: newAccepter(e), tests: make(chan struct{}, mostTests), lists: lists, options: o}
	d.deliverer = &deliverer{
		engine: e, sender: s, ladder: o.Ladder, jitter: o.Jitter, success: o.Success, timeout: o.Timeout,
		excerpt: o.Excerpt, agent: []string{o.UserAgent},
	}
	// Attempts outlive the stop signal.
	d.deliverer.cut, d.cut = context.WithCancel(context.Background())
	if len(o.Secrets) > 0 {
		if err := d.Resign(o.Secrets); err != nil {
			return nil, fmt.Errorf("signing secrets: %w", err)
		}
	}
	d.deliverer.gone = e.endpoints.DisableGone
	e.workers = newWorkers(d.deliverer.deliver)
	e.loader = newLoader(e, o.MaxBytes, o.MaxInFlight)
	return d, nil
}

// Resign has bare URLs signed with other secrets from the next attempt on.
func (d *Dispatcher) Resign(secrets []signer.Secret) error {
	s, err := newSigners(secrets, d.options.DeriveTenant)
	if err == nil {
		d.deliverer.signers.Store(s)
	}
	return err
}

// Message reads a message and its deliveries, or answers ErrNotFound.
func (d *Dispatcher) Message(ctx context.Context, id string) (MessageView, error) {
	record, err := d.read(ctx, id)
	if a := record.Message.Apart; err == nil && a != nil && len(record.Deliveries) > 0 {
		record.Message.Body, err = d.engine.queue.Body(ctx, record.Deliveries[0].ID, *a)
		if errors.Is(err, ErrNotFound) {
			err = nil // it is shown without
		}
	}
	return record, err
}

// read reads a message, and where its deliveries go by now.
func (d *Dispatcher) read(ctx context.Context, id string) (MessageView, error) {
	record, err := d.engine.queue.Read(ctx, id)
	if err != nil {
		return MessageView{}, err
	}
	return record, d.address(ctx, record.Deliveries)
}

// Cancel ends what is not finished of a message, or of it in one lane, and
// answers those deliveries as they are then.
func (d *Dispatcher) Cancel(ctx context.Context, id string, lane Lane) ([]Delivery, error) {
	ids, err := d.deliveries(ctx, id, lane)
	if err != nil {
		return nil, err
	}
	_, err = d.engine.queue.Cancel(ctx, d.engine.name(), ids)
	if err != nil {
		d.engine.pollSoon() // it may be done, and nobody here was told what is ready now
		return nil, err
	}
	record, err := d.read(ctx, id)
	if err != nil {
		return nil, err
	}
	return only(record.Deliveries, lane), nil
}

// Deliveries reads a page of deliveries. ErrListing says that too many ask for one.
func (d *Dispatcher) Deliveries(ctx context.Context, f Filter) (Page, error) {
	if err := d.lists.enter(ctx); err != nil {
		return Page{}, err
	}
	defer d.lists.leave()
	page, err := d.engine.queue.List(ctx, f)
	if err != nil {
		return Page{}, err
	}
	return page, d.address(ctx, page.Deliveries)
}

// Stats counts. It takes many calls, so they have one end together.
func (d *Dispatcher) Stats(ctx context.Context) (Stats, error) {
	call, cancel := within(ctx)
	defer cancel()
	stats, err := d.engine.queue.Stats(call)
	if err != nil {
		return Stats{}, err
	}
	return stats, d.TellURLs(ctx, stats.Lanes)
}

// Ping reports whether the store answers.
func (d *Dispatcher) Ping(ctx context.Context) error { return d.engine.queue.Ping(ctx) }

// Ready reports whether the queue answers, and what it says of itself. Once the
// end has begun it is ErrUnavailable, so that a load balancer sends callers elsewhere.
func (d *Dispatcher) Ready(ctx context.Context) (StoreInfo, error) {
	if d.engine.taking.Err() != nil {
		return StoreInfo{}, fmt.Errorf("shutting down: %w", ErrUnavailable)
	}
	if err := d.engine.queue.Ping(ctx); err != nil {
		return StoreInfo{}, err
	}
	return d.engine.queue.Store(ctx)
}

// ReadClock hears the queue's clock, so that the first call too is judged by it.
func (d *Dispatcher) ReadClock(ctx context.Context) error {
	if err := d.engine.queue.ReadClock(ctx); err != nil {
		return fmt.Errorf("read the queue's clock: %w", err)
	}
	return nil
}

// Now is what time it is by the queue's clock, by this host's while nothing was
// heard of the queue yet.
func (d *Dispatcher) Now() time.Time { return d.engine.queue.Now() }

// Permits are how many leases this instance holds, and may hold.
func (d *Dispatcher) Permits() (used, all int) {
	p := d.engine.permits
	return p.total - p.free(), p.total
}
