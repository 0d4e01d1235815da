package observe

import (
	"context"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// GaugeStore stores the counts of all instances.
type GaugeStore interface {
	// Add adds counts of an instance, oldest first. It returns the counts that failed; they
	// must be added again before newer ones.
	Add(ctx context.Context, instance string, counts []dispatcher.MinuteCount) (left []dispatcher.MinuteCount, err error)
	// Minutes reads the minutes with events, oldest first.
	Minutes(ctx context.Context, since, until time.Time) ([]dispatcher.Minute, error)
	// Bars reads the bars of lanes with events, oldest first.
	Bars(ctx context.Context, lanes []dispatcher.Lane, since time.Time) (map[dispatcher.Lane][]dispatcher.Bar, error)
	// Since returns when the figures of a lane began; zero if unknown.
	Since(lane dispatcher.Lane) time.Time
}

// GaugeOptions are the options of a Gauge.
type GaugeOptions struct {
	Instance string // unique over all time, and constant
	Now      func() time.Time
	Log      *slog.Logger
}

const (
	// maxLanes is the number of lanes with their own bar in one minute of one instance. The
	// store has the same limit for half an hour. Each takes 200 bytes here.
	maxLanes = 2000
	// maxWaiting is how many minutes are kept while the store is down. Few events happen
	// then.
	maxWaiting = 60
)

// Gauge counts events. Its methods may be called from several goroutines.
type Gauge struct {
	store   GaugeStore
	options GaugeOptions
	present present

	mu      sync.Mutex // guards the fields below
	at      time.Time  // the present minute; zero before Run
	number  int64      // of the last count
	waiting []dispatcher.MinuteCount
	version int // changes when an Add begins and when it ends

	failing bool // used by Run: the last Add failed
	dropped int  // used by Run: dropped minutes
}

// NewGauge returns a Gauge.
func NewGauge(s GaugeStore, o GaugeOptions) *Gauge {
	g := &Gauge{store: s, options: o}
	for i := range g.present.stripes {
		g.present.stripes[i].at = map[dispatcher.Lane]int{}
	}
	return g
}

// present has the counts of the present minute.
type present struct {
	accepted atomic.Int64
	dead     atomic.Int64
	lanes    atomic.Int64 // with their own bar
	stripes  [stripes]stripe
}

// stripes reduces lock contention: each lane belongs to one stripe, and counting an attempt
// takes less than 100 ns.
const stripes = 16

// stripe counts the attempts of some lanes.
type stripe struct {
	mu     sync.Mutex // guards the fields below
	minute dispatcher.Minute
	at     map[dispatcher.Lane]int // index of a lane in list
	list   []dispatcher.LaneBar
	_      [64]byte // keeps two stripes out of one cache line
}

var _ dispatcher.Observer = (*Gauge)(nil)

// Attempted counts an attempt.
func (g *Gauge) Attempted(a dispatcher.Attempted) {
	if a.Attempt.Number == 0 {
		return // it ended without an attempt
	}
	s := g.present.stripeOf(a.ID.Lane)
	s.mu.Lock()
	defer s.mu.Unlock()
	bar := s.bar(a.ID.Lane, &g.present)
	if a.Attempt.Verdict == dispatcher.Delivered {
		s.minute.Delivered++
		bar.Delivered++
	} else {
		s.minute.Failed++
		bar.Failed.Add(&a.Attempt)
	}
	if !a.Taken { // a taker attempts at any time
		s.minute.Late.Add(a.Late)
	}
	if dispatcher.ReceiverAnswered(a.Attempt.Class) && (a.Attempt.Duration > 0 || !a.Taken) { // the duration of a taker's late success is unknown
		bar.Took.Add(a.Attempt.Duration)
	}
}

// Published counts a message that was stored.
func (g *Gauge) Published(p dispatcher.Published) {
	if p.Err == nil && p.Result == dispatcher.Accepted && !p.Unmatched() {
		g.present.accepted.Add(1)
	}
}

// Died counts a dead delivery.
func (g *Gauge) Died(dispatcher.Death) { g.present.dead.Add(1) }

// TookOver counts nothing.
func (g *Gauge) TookOver(int) {}

// stripeOf returns the stripe that counts a lane. The last characters of most lanes are a
// hash or random.
func (p *present) stripeOf(lane dispatcher.Lane) *stripe {
	n := 0
	if len(lane) > 1 {
		n = int(lane[len(lane)-1]) + int(lane[len(lane)-2])
	}
	return &p.stripes[n%stripes]
}

// bar returns the bar of a lane, or the shared bar of all others. The caller holds mu.
func (s *stripe) bar(lane dispatcher.Lane, of *present) *dispatcher.LaneBar {
	i, known := s.at[lane]
	if !known && of.lanes.Add(1) > maxLanes {
		of.lanes.Add(-1)
		lane = dispatcher.OtherLanes
		i, known = s.at[lane]
	}
	if !known {
		i = len(s.list)
		lane = dispatcher.Lane(strings.Clone(string(lane))) // a copy, because the lane may be part of a large response
		s.at[lane] = i
		s.list = append(s.list, dispatcher.LaneBar{Lane: lane})
	}
	return &s.list[i]
}

// read adds the stripe's counts to a minute's count. With clears it resets them.
func (s *stripe) read(c *dispatcher.MinuteCount, clears bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Merge(s.minute)
	c.Lanes = append(c.Lanes, s.list...)
	if clears {
		s.minute = dispatcher.Minute{}
		s.list = s.list[:0]
		clear(s.at)
	}
}

// read returns the counts of the present minute, which began at at.
func (p *present) read(at time.Time, clears bool) dispatcher.MinuteCount {
	c := dispatcher.MinuteCount{Minute: dispatcher.Minute{At: at}}
	if clears {
		c.Accepted, c.Dead = p.accepted.Swap(0), p.dead.Swap(0)
	} else {
		c.Accepted, c.Dead = p.accepted.Load(), p.dead.Load()
	}
	for i := range p.stripes {
		p.stripes[i].read(&c, clears)
	}
	if clears {
		p.lanes.Store(0)
	}
	for i := range c.Lanes {
		c.Lanes[i].At = at.Truncate(dispatcher.HalfHour)
	}
	return c
}

// Instances add at different moments: latest is the last one after a minute. An Add then
// ends within the next minute.
const latest = 50 * time.Second

// lastly is the timeout of the last Add when the process stops, because losing some figures
// is acceptable.
const lastly = 2 * time.Second

// momentOf returns how long after a minute an instance adds it.
func momentOf(instance string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(instance))
	return time.Duration(h.Sum32()) % latest
}

// Run adds the counts once a minute, if there are any, until ctx ends. Then it adds the
// present minute too. Nothing may be counted after that.
func (g *Gauge) Run(ctx context.Context) error {
	moment := momentOf(g.options.Instance)
	g.mu.Lock()
	g.at = g.options.Now().Truncate(time.Minute)
	g.mu.Unlock()
	for {
		now := g.options.Now()
		if now.Truncate(time.Minute).Equal(g.at) { // only Run changes it
			if !wait.Sleep(ctx, g.at.Add(time.Minute).Sub(now)) {
				break
			}
			continue
		}
		g.turn(now)
		if !wait.Sleep(ctx, moment) {
			break
		}
		if err := g.flush(ctx); ctx.Err() == nil {
			g.report(ctx, err)
		}
	}
	g.turn(g.options.Now())
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastly)
	defer cancel()
	err := g.flush(last)
	if left := len(g.waiting) + g.dropped; left > 0 {
		g.options.Log.Warn("adding the figures of some minutes failed", "minutes", left, "err", err)
	}
	return nil
}

// turn ends the present minute.
func (g *Gauge) turn(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.present.read(g.at, true)
	g.at = now.Truncate(time.Minute)
	if !c.Moved() && len(c.Lanes) == 0 {
		return
	}
	// Each number is greater than the one before, even after the clock stepped back.
	g.number = max(g.number+1, c.At.Unix()/60)
	c.Number = g.number
	g.waiting = append(g.waiting, c)
	if over := len(g.waiting) - maxWaiting; over > 0 {
		clear(g.waiting[:over])
		g.waiting = g.waiting[over:]
		g.dropped += over
	}
}

// flush adds the waiting minutes to the store.
func (g *Gauge) flush(ctx context.Context) error {
	g.mu.Lock()
	waiting := g.waiting
	if len(waiting) > 0 {
		g.version++
	}
	g.mu.Unlock()
	if len(waiting) == 0 {
		return nil
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	left, err := g.store.Add(call, g.options.Instance, waiting)
	g.mu.Lock()
	g.waiting = left
	g.version++
	g.mu.Unlock()
	return err
}

// report logs once that adding fails, and once that it works again.
func (g *Gauge) report(ctx context.Context, err error) {
	switch {
	case err != nil && !g.failing:
		g.options.Log.LogAttrs(ctx, slog.LevelWarn, "adding figures failed, they are kept for an hour", slog.Any("err", err))
	case err == nil && g.failing:
		g.options.Log.LogAttrs(ctx, slog.LevelInfo, "figures added again", slog.Int("minutes_dropped", g.dropped))
		g.dropped = 0
	}
	g.failing = err != nil
}

// readings is how often a read is repeated because an Add ran at the same time: the read
// could return counts from both the store and memory. An Add takes some ms. After that a
// double count is accepted, because a missing one would be worse.
const readings = 3

// Minutes reads the minutes of all instances with events, oldest first, from the minute of
// since up to until. The present minute of other instances is missing.
func (g *Gauge) Minutes(ctx context.Context, since, until time.Time) (found []dispatcher.Minute, err error) {
	err = g.read(func(own []dispatcher.MinuteCount) error {
		if found, err = g.store.Minutes(ctx, since, until); err != nil {
			return err
		}
		for _, c := range own {
			if c.Moved() && !c.At.Before(since.Truncate(time.Minute)) && c.At.Before(until) {
				found = mergeMinute(found, c.Minute)
			}
		}
		return nil
	})
	return found, err
}

// Bars reads the bars of lanes of all instances with events, oldest first, from the half
// hour of since. If the store can't return some bars, they are missing and the error says
// so.
func (g *Gauge) Bars(ctx context.Context, lanes []dispatcher.Lane, since time.Time) (found map[dispatcher.Lane][]dispatcher.Bar, err error) {
	wanted := make(map[dispatcher.Lane]bool, len(lanes))
	for _, lane := range lanes {
		wanted[lane] = true
	}
	err = g.read(func(own []dispatcher.MinuteCount) error {
		if found, err = g.store.Bars(ctx, lanes, since); found == nil {
			return err
		}
		for _, c := range own {
			for _, b := range c.Lanes {
				if wanted[b.Lane] && !b.At.Before(since.Truncate(dispatcher.HalfHour)) {
					found[b.Lane] = mergeBar(found[b.Lane], b.Bar)
				}
			}
		}
		return err
	})
	return found, err
}

// Since returns when the figures of a lane began. Zero means unknown.
func (g *Gauge) Since(lane dispatcher.Lane) time.Time { return g.store.Since(lane) }

// read calls from with the own counts, and repeats it if an Add ran in the meantime.
func (g *Gauge) read(from func(own []dispatcher.MinuteCount) error) (err error) {
	for range readings {
		own, version := g.own()
		if err = from(own); err != nil {
			return err
		}
		g.mu.Lock()
		after := g.version
		g.mu.Unlock()
		if after == version && version%2 == 0 {
			break
		}
	}
	return err
}

// own returns the counts of this instance that are not added yet.
func (g *Gauge) own() (counts []dispatcher.MinuteCount, version int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at.IsZero() {
		return nil, g.version
	}
	return append(slices.Clone(g.waiting), g.present.read(g.at, false)), g.version
}

// mergeMinute merges a minute into a list ordered by time.
func mergeMinute(list []dispatcher.Minute, m dispatcher.Minute) []dispatcher.Minute {
	i, there := slices.BinarySearchFunc(list, m.At, func(is dispatcher.Minute, at time.Time) int { return is.At.Compare(at) })
	if !there {
		return slices.Insert(list, i, m)
	}
	list[i].Merge(m)
	return list
}

// mergeBar merges a bar into a list ordered by time.
func mergeBar(list []dispatcher.Bar, b dispatcher.Bar) []dispatcher.Bar {
	i, there := slices.BinarySearchFunc(list, b.At, func(is dispatcher.Bar, at time.Time) int { return is.At.Compare(at) })
	if !there {
		return slices.Insert(list, i, b)
	}
	list[i].Merge(b)
	return list
}
