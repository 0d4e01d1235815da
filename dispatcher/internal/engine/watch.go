package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// pollRate limits the commands a second of all polls, regardless of the number of parts and of
// PollEvery. The reads of a comparison count too, because a poll requests one.
const pollRate = 0.6

var errWatchEnded = errors.New("the subscription ended")

// watcher subscribes to the messages of other instances. It also polls the queue from time to
// time, because messages can get lost.
type watcher struct {
	engine    *Engine
	pollEvery time.Duration
}

// pollLeast is the minimum time between two polls of the whole queue, because many failures at
// once may request polls. Without pub/sub it is the time between polls.
const pollLeast = time.Second

// Run subscribes to the messages of other instances until ctx ends. It returns at once if the
// queue has no pub/sub.
func (w *watcher) Run(ctx context.Context) error {
	e := w.engine
	if e.store.Polls() {
		return nil
	}
	takeable := e.options.Takeable
	if takeable == nil {
		takeable = func([]dispatcher.Lane) {}
	}
	onEndpoint := func(change dispatcher.EndpointChange) {
		e.endpoints.Cache.OnChange(change)
		if change.Version == 0 && e.options.Gone != nil {
			e.options.Gone(dispatcher.Lane(change.ID))
		}
	}
	onGap := func() {
		takeable([]dispatcher.Lane{dispatcher.AllLanes})
		e.endpoints.Cache.SetSubscribed(true)
		e.pollSoon()
		e.unsure() // a replica may have taken over without the last changes
		e.dead.suspect()
		e.endpoints.Suspect()
	}
	subscriber := dispatcher.Subscriber{OnEndpoint: onEndpoint, OnGap: onGap, OnTakeable: takeable}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := e.store.Watch(ctx, e.name(), subscriber)
		e.endpoints.Cache.SetSubscribed(false)
		if err == nil {
			err = errWatchEnded
		}
		if time.Since(began) > outage.PauseMost {
			failures = 0 // the subscription had worked
		}
		failures = e.outages.Repeat(ctx, "watch", failures, err)
	}
	return nil
}

// Poll polls the whole queue until ctx ends. It polls every PollEvery, if an event may have
// been missed, and every pollLeast without pub/sub. If a response was lost, it polls that part
// of the queue until the part responds again.
func (w *watcher) Poll(ctx context.Context) error {
	e := w.engine
	tick := time.NewTimer(w.pause())
	defer tick.Stop()
	timer := newIdleTimer()
	defer timer.Stop()
	asked := true // a poll of the whole queue was requested
	var last time.Time
	for failures, failed := 0, false; ctx.Err() == nil; {
		due := time.Until(last.Add(pollLeast))
		wants := asked || e.store.Polls()
		all := wants && due <= 0
		if all {
			last = time.Now()
		}
		wait, err := w.pollOnce(ctx, all)
		if wait == 0 {
			if failed && err == nil {
				e.unsure() // the unreachable node may have lost its last changes
				e.dead.suspect()
				e.endpoints.Suspect()
			}
			failed = err != nil
			failures = e.outages.Continue(ctx, "look", failures, err)
			asked = failures > 0 || asked && !all
			continue
		}
		if wants {
			wait = sooner(wait, max(due, 0))
		}
		if wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.unseen:
		case <-e.poll:
			asked = true
		case <-tick.C:
			asked = true
			e.endpoints.Suspect()
			e.trimmer.age()
			tick.Reset(w.pause())
		}
	}
	return nil
}

// pause returns the time until the next poll. It is PollEvery, or longer if the commands of a
// poll would exceed pollRate.
func (w *watcher) pause() time.Duration {
	cost, paused := w.engine.store.Cost()
	cost += w.engine.endpoints.FinishCost(paused)
	return max(w.pollEvery, time.Duration(float64(cost)/pollRate*float64(time.Second)))
}

func (w *watcher) pollOnce(ctx context.Context, all bool) (wait time.Duration, err error) {
	w.engine.progress.poll.begin()
	defer w.engine.progress.poll.end()
	call, cancel := outage.Within(ctx)
	defer cancel()
	return w.engine.store.Poll(call, all)
}

// mover makes due deliveries ready. It sleeps until the queue's next due time.
type mover struct{ engine *Engine }

// Run moves until ctx ends.
func (m *mover) Run(ctx context.Context) error {
	e := m.engine
	timer := newIdleTimer()
	defer timer.Stop()
	for failures := 0; ctx.Err() == nil; {
		wait, err := m.move(ctx)
		if wait == 0 {
			failures = e.outages.Continue(ctx, "move", failures, err)
			continue
		}
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
		case <-e.due:
		case <-timer.C:
		}
	}
	return nil
}

// move moves once. It takes over expired leases of takers, and records that their attempts
// failed.
func (m *mover) move(ctx context.Context) (wait time.Duration, err error) {
	e, by := m.engine, m.engine.name()
	e.progress.move.begin()
	defer e.progress.move.end()
	call := e.beginLease(ctx, by)
	wait, ended, err := e.deliveries.Move(call.Ctx, by)
	e.endLease(call, ended, err)
	if errors.Is(err, dispatcher.ErrFenced) {
		e.rename(by)
		err = nil
	}
	for _, c := range ended {
		e.Finish(c, dispatcher.Handled{Verdict: dispatcher.Retry, Class: dispatcher.ClassLease, At: c.Due}, func(dispatcher.Settled) {})
	}
	return wait, err
}

// The first deathsApart deaths of one lane and reason are logged in a line each. Others within
// deathsEvery of the first share one line with a count and deathsNamed ids. Above deathLanes
// lanes and reasons at once, all other deaths count together, so that no caller or receiver
// can fill the log. The counts of deathLanes need a few hundred KiB.
const (
	deathsApart = 8
	deathsNamed = 10
	deathsEvery = time.Minute
	deathLanes  = 1024
)

// deaths counts dead deliveries, for the log.
type deaths struct {
	log *slog.Logger

	mu sync.Mutex // guards the fields below
	of map[deathKind]*deathCount
}

type deathKind struct {
	lane   dispatcher.Lane // empty: all that are counted together
	reason dispatcher.DeadReason
}

// deathCount counts the deliveries that died within deathsEvery.
type deathCount struct {
	since time.Time
	apart int      // deaths with a line each
	more  int      // deaths without a line
	ids   []string // some of the deaths without a line
}

// count counts a death, and reports whether to log it in its own line.
func (d *deaths) count(id dispatcher.DeliveryID, reason dispatcher.DeadReason) bool {
	if !d.log.Enabled(context.Background(), slog.LevelInfo) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	kind, now := deathKind{id.Lane, reason}, time.Now()
	n := d.of[kind]
	if n == nil && len(d.of) >= deathLanes {
		d.forget(now)
	}
	if n == nil && len(d.of) >= deathLanes {
		kind.lane = ""
		n = d.of[kind]
	}
	if n == nil || n.more == 0 && now.Sub(n.since) >= deathsEvery {
		n = &deathCount{since: now}
		d.of[kind] = n
	}
	if n.apart < deathsApart && kind.lane != "" {
		n.apart++
		return true
	}
	if n.more == 0 {
		time.AfterFunc(n.since.Add(deathsEvery).Sub(now), func() { d.report(kind, n) })
	}
	if n.more++; len(n.ids) < deathsNamed {
		n.ids = append(n.ids, id.String())
	}
	return false
}

// forget drops counts that are over and logged. mu is locked.
func (d *deaths) forget(now time.Time) {
	for kind, n := range d.of {
		if n.more == 0 && now.Sub(n.since) >= deathsEvery {
			delete(d.of, kind)
		}
	}
}

// report logs the deaths without their own line, unless they were logged before.
func (d *deaths) report(kind deathKind, n *deathCount) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[kind] == n {
		delete(d.of, kind)
		d.line(kind, n)
	}
}

// end logs all deaths that were not logged yet.
func (d *deaths) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for kind, n := range d.of {
		if n.more > 0 {
			d.line(kind, n)
		}
	}
	clear(d.of)
}

func (d *deaths) line(kind deathKind, n *deathCount) {
	d.log.LogAttrs(context.Background(), slog.LevelInfo, "deliveries dead", slog.String("lane", string(kind.lane)),
		slog.String("reason", string(kind.reason)), slog.Int("deliveries", n.more), slog.Any("delivery_ids", n.ids))
}

// buried reports the deliveries that died in other calls than Settle.
func (e *Engine) buried(deaths []dispatcher.Death) {
	for _, d := range deaths {
		e.died(d, nil)
	}
}

// died counts and logs one death. o is the outcome that caused it, or nil. It is called only
// for responses of the queue, because the queue decides which deliveries die.
func (e *Engine) died(d dispatcher.Death, o *dispatcher.Settlement) {
	e.tally.dead.Add(1)
	e.Stirred()
	e.watching.observe(func(w dispatcher.Observer) { w.Died(d) })
	if e.options.Notify != nil && !d.ID.OfNotice() { // a dead notice causes no other notice
		news := dispatcher.News{Notice: dispatcher.NoticeDead, Lane: d.ID.Lane, Reason: string(d.Reason)}
		if o != nil {
			news.Status = o.Attempt.Status
		}
		e.notify(news)
	}
	if !e.deaths.count(d.ID, d.Reason) {
		return
	}
	attrs := []slog.Attr{
		slog.String("delivery_id", d.ID.String()), slog.String("reason", string(d.Reason)), slog.Int("attempts", d.Attempts),
	}
	if o != nil && o.Host != "" {
		attrs = append(attrs, slog.String("host", o.Host), slog.Int("status", o.Attempt.Status), slog.String("err", o.Attempt.Logged()))
	}
	e.log.LogAttrs(context.Background(), slog.LevelInfo, "delivery dead", attrs...)
}
