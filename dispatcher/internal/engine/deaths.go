package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// How deaths are logged: of one lane and reason deathsApart in a line each, and
// what else dies within deathsEvery of the first in one line with a count and
// deathsNamed ids. So no caller and no receiver can fill the log: beyond
// deathLanes at once, which hold a few hundred KiB, all others count together.
const (
	deathsApart = 8
	deathsNamed = 10
	deathsEvery = time.Minute
	deathLanes  = 1024
)

// deaths counts what dies, for the log.
type deaths struct {
	log *slog.Logger

	mu sync.Mutex // guards what follows
	of map[deathKind]*deathCount
}

type deathKind struct {
	lane   dispatcher.Lane // empty: of all that are counted together
	reason dispatcher.DeadReason
}

// deathCount is what died within deathsEvery.
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
		time.AfterFunc(n.since.Add(deathsEvery).Sub(now), func() { d.tell(kind, n) })
	}
	if n.more++; len(n.ids) < deathsNamed {
		n.ids = append(n.ids, id.String())
	}
	return false
}

// forget drops what is over and told. mu is held.
func (d *deaths) forget(now time.Time) {
	for kind, n := range d.of {
		if n.more == 0 && now.Sub(n.since) >= deathsEvery {
			delete(d.of, kind)
		}
	}
}

// tell logs what had no line of its own, unless that was done before.
func (d *deaths) tell(kind deathKind, n *deathCount) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[kind] == n {
		delete(d.of, kind)
		d.line(kind, n)
	}
}

// end tells all that was not told yet.
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

// buried tells of what died of a call that was no outcome's.
func (e *Engine) buried(deaths []dispatcher.Death) {
	for _, d := range deaths {
		e.died(d, nil)
	}
}

// died counts and logs one death; o is the outcome that brought it about, nil: none. It
// is fed by the queue's answers only: what becomes of an outcome is decided there.
func (e *Engine) died(d dispatcher.Death, o *dispatcher.Settlement) {
	e.tally.dead.Add(1)
	e.Stirred()
	e.watching.tell(func(w dispatcher.Observer) { w.Died(d) })
	if e.options.Tell != nil && !d.ID.OfNotice() { // a notice that dies makes no other
		news := dispatcher.News{Notice: dispatcher.NoticeDead, Lane: d.ID.Lane, Reason: string(d.Reason)}
		if o != nil {
			news.Status = o.Attempt.Status
		}
		e.tell(news)
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
