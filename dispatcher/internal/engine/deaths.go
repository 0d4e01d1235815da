package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// How deaths are logged: deathsApart of one lane and reason in a line each. Others that die
// within deathsEvery of the first share one line, with a count and deathsNamed ids. So no caller and no receiver can fill the log: beyond
// deathLanes at once, which hold a few hundred KiB, all others count together.
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
	lane   dispatcher.Lane // empty: of all that are counted together
	reason dispatcher.DeadReason
}

// deathCount counts the deliveries that died within deathsEvery.
type deathCount struct {
	since time.Time
	apart int      // had a line each
	more  int      // did not
	ids   []string // some of those
}

// count counts a death, and reports whether it is to have a line of its own.
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

// forget drops counts that are over and were logged. mu is locked.
func (d *deaths) forget(now time.Time) {
	for kind, n := range d.of {
		if n.more == 0 && now.Sub(n.since) >= deathsEvery {
			delete(d.of, kind)
		}
	}
}

// report logs the deaths that had no line of their own, unless it did so before.
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

// died counts and logs one death; o is the outcome that brought it about, nil: none. It
// is called for the queue's answers only, because the queue decides which deliveries die.
func (e *Engine) died(d dispatcher.Death, o *dispatcher.Settlement) {
	e.tally.dead.Add(1)
	e.Stirred()
	e.watching.observe(func(w dispatcher.Observer) { w.Died(d) })
	if e.options.Tell != nil && !d.ID.OfNotice() { // a notice that dies makes no other
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
