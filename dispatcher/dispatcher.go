package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

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
	ClaimBatch  int           // most deliveries one claim takes of a partition
	Excerpt     int           // bytes of an answer kept in the history
	Guard       time.Duration // how often the queue is looked at, whatever was told
	Grace       time.Duration // how long attempts may go on after the stop signal
	Keep        Keep
	UserAgent   string

	Endpoints    EndpointStore // nil: there are none
	DeriveTenant bool          // bare URLs of a tenant are signed with secrets derived for it
	Log          *slog.Logger
	Observer     Observer // nil: nobody watches
}

// Dispatcher takes messages and delivers them. Its methods may be called from
// several goroutines; deliveries go on while Run does.
type Dispatcher struct {
	engine    *engine
	accepter  *accepter
	deliverer *deliverer
	sweeper   *sweeper
	tests     chan struct{} // one for each that is under way
	options   Options
}

// New makes a Dispatcher of a queue and a sender.
func New(q Queue, s Sender, o Options) (*Dispatcher, error) {
	e := &engine{
		queue: q, log: o.Log, trouble: &trouble{log: o.Log},
		view: newView(q.Partitions()), permits: newPermits(o.MaxInFlight),
		born: time.Now(), holding: newHolding(), doubt: make(chan struct{}, 1),
		look: make(chan struct{}, 1), settled: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	e.self.Store(&self{base: o.Instance, count: 1})
	e.view.look = e.look
	e.settler = newSettler(e, 4*max(o.MaxInFlight, settleMost))
	e.trimmer = newTrimmer(e, o.Keep)
	e.directory = newDirectory(e, o.Endpoints)
	d := &Dispatcher{engine: e, accepter: newAccepter(e), sweeper: newSweeper(e), tests: make(chan struct{}, mostTests), options: o}
	d.deliverer = &deliverer{
		engine: e, sender: s, ladder: o.Ladder, jitter: o.Jitter, success: o.Success, timeout: o.Timeout,
		excerpt: o.Excerpt, agent: []string{o.UserAgent}, observer: o.Observer,
	}
	if len(o.Secrets) > 0 {
		var err error
		if d.deliverer.signers, err = newSigners(o.Secrets, o.DeriveTenant); err != nil {
			return nil, fmt.Errorf("signing secrets: %w", err)
		}
	}
	d.deliverer.gone = d.disableGone
	e.gate = newGate(d.deliverer.deliver)
	return d, nil
}

// Run works until ctx ends. Then it takes no more, lets the attempts under way
// go on for the grace time, hands back the rest, records the last outcomes and
// signs off. It returns nil after an orderly end.
func (d *Dispatcher) Run(ctx context.Context) error {
	e := d.engine
	// Two contexts besides ctx: attempts outlive the stop signal, and the
	// heart and the settler outlive the attempts.
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	life, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	d.deliverer.cut = work

	var taking, keeping errgroup.Group
	taking.Go(func() error { return d.accepter.Run(ctx) })
	taking.Go(func() error { return (&mover{engine: e}).Run(ctx) })
	if d.options.MaxInFlight > 0 {
		taking.Go(func() error { return (&claimer{engine: e, batch: max(d.options.ClaimBatch, 1)}).Run(ctx) })
	}
	watch := &watcher{engine: e, guard: d.options.Guard}
	taking.Go(func() error { return watch.Run(ctx) })
	taking.Go(func() error { return watch.Look(ctx) })
	taking.Go(func() error { return e.trimmer.Run(ctx) })
	taking.Go(func() error { return d.sweeper.Run(ctx) })
	keeping.Go(func() error { return e.gate.Run(life) })
	keeping.Go(func() error { return newHeart(e).Run(life) })
	keeping.Go(func() error { return (&reconciler{engine: e}).Run(life) })
	keeping.Go(func() error { return e.settler.Run(life) })

	<-ctx.Done()
	err := taking.Wait()
	close(e.stopped)
	d.drain(cut)
	die()
	err = errors.Join(err, keeping.Wait())
	d.leave(context.WithoutCancel(ctx))
	return err
}

// drain ends what is leased: attempts under way have the grace time, and what
// was not begun goes back.
func (d *Dispatcher) drain(cut context.CancelFunc) {
	var back []Settlement
	for _, c := range d.engine.gate.close() {
		back = append(back, Settlement{ID: c.ID, Verdict: Back, Due: c.Due})
	}
	d.engine.permits.release(len(back))
	d.engine.settler.put(back...)
	timer := time.AfterFunc(d.options.Grace, cut)
	defer timer.Stop()
	d.engine.gate.wait()
}

// leave gives the outcomes that could not be recorded a last chance, hands back
// what the queue says is still held, and signs off. Where that fails others
// take over.
func (d *Dispatcher) leave(ctx context.Context) {
	e := d.engine
	ctx, cancel := within(ctx)
	defer cancel()
	var err error
	if rest := e.settler.rest(); len(rest) > 0 {
		if rest, err = e.settler.settle(ctx, rest); err != nil {
			e.log.Error("outcomes not recorded, their deliveries will be attempted again", "deliveries", len(rest), "err", err)
		}
	}
	var ids []DeliveryID
	if err == nil {
		ids, err = e.queue.Leases(ctx, e.name())
	}
	if err == nil && len(ids) > 0 {
		_, _, err = e.queue.Settle(ctx, e.name(), handBack(ids, e.view.clock.now()))
	}
	if err == nil {
		err = e.queue.Leave(ctx, e.name())
	}
	if err != nil {
		e.log.Warn("could not sign off, others will take over", "err", err)
	}
}

// Message reads a message and its deliveries, or answers ErrNotFound.
func (d *Dispatcher) Message(ctx context.Context, id string) (Record, error) {
	return d.look(ctx, id)
}

// look reads a message, and where its deliveries go by now.
func (d *Dispatcher) look(ctx context.Context, id string) (Record, error) {
	record, err := d.engine.queue.Look(ctx, id)
	if err != nil {
		return Record{}, err
	}
	return record, d.address(ctx, record.Deliveries)
}

// Cancel ends what is not finished of a message, or of it in one lane, and
// answers those deliveries as they are then.
func (d *Dispatcher) Cancel(ctx context.Context, id string, lane Lane) ([]Delivery, error) {
	return d.change(ctx, id, lane, d.engine.queue.Cancel)
}

// Retry has a message attempted now, everywhere or in one lane, and answers
// those deliveries as they are then. ErrInFlight says that an attempt of each
// is under way already, ErrDisabled and ErrDeleted that none can be attempted.
func (d *Dispatcher) Retry(ctx context.Context, id string, lane Lane) ([]Delivery, error) {
	return d.change(ctx, id, lane, d.engine.queue.Retry)
}

type changeFunc func(ctx context.Context, by string, ids []DeliveryID) ([]Change, []Hint, error)

func (d *Dispatcher) change(ctx context.Context, id string, lane Lane, change changeFunc) ([]Delivery, error) {
	ids, err := d.deliveries(ctx, id, lane)
	if err != nil {
		return nil, err
	}
	changes, hints, err := change(ctx, d.engine.name(), ids)
	d.engine.view.note(hints...)
	if err != nil {
		return nil, err
	}
	if err := refusal(changes); err != nil {
		return nil, fmt.Errorf("message %s: %w", id, err)
	}
	record, err := d.look(ctx, id)
	if err != nil {
		return nil, err
	}
	return only(record.Deliveries, lane), nil
}

// refusal is why nothing was changed, or nil where something was, or was so
// already.
func refusal(changes []Change) error {
	var first error
	for _, c := range changes {
		if c.Err == nil || errors.Is(c.Err, ErrNotFound) {
			return nil
		}
		if first == nil {
			first = c.Err
		}
	}
	return first
}

func (d *Dispatcher) deliveries(ctx context.Context, id string, lane Lane) ([]DeliveryID, error) {
	record, err := d.engine.queue.Look(ctx, id)
	if err != nil {
		return nil, err
	}
	var ids []DeliveryID
	for _, delivery := range only(record.Deliveries, lane) {
		ids = append(ids, delivery.ID)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("message %s to %s: %w", id, lane, ErrNotFound)
	}
	return ids, nil
}

// only are the deliveries of one lane; all where it is empty.
func only(list []Delivery, lane Lane) []Delivery {
	return slices.DeleteFunc(slices.Clone(list), func(d Delivery) bool { return lane != "" && d.ID.Lane != lane })
}

// Deliveries reads a page of deliveries.
func (d *Dispatcher) Deliveries(ctx context.Context, f Filter) (Page, error) {
	page, err := d.engine.queue.List(ctx, f)
	if err != nil {
		return Page{}, err
	}
	return page, d.address(ctx, page.Deliveries)
}

// Stats counts.
func (d *Dispatcher) Stats(ctx context.Context) (Stats, error) {
	stats, err := d.engine.queue.Stats(ctx)
	if err != nil {
		return Stats{}, err
	}
	var ids []string
	for _, l := range stats.Lanes {
		if l.Lane.IsEndpoint() {
			ids = append(ids, string(l.Lane))
		}
	}
	found, err := d.engine.directory.find(ctx, ids...)
	for i := range stats.Lanes {
		if dest := found[string(stats.Lanes[i].Lane)]; dest != nil {
			stats.Lanes[i].URL = dest.origin()
		}
	}
	return stats, err
}

// Ready reports whether the queue answers, and what it says of itself.
func (d *Dispatcher) Ready(ctx context.Context) (StoreInfo, error) {
	select {
	case <-d.engine.stopped:
		return StoreInfo{}, fmt.Errorf("shutting down: %w", ErrUnavailable)
	default:
	}
	if err := d.engine.queue.Ping(ctx); err != nil {
		return StoreInfo{}, err
	}
	return d.engine.queue.Store(ctx)
}
