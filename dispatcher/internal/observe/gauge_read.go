package observe

import (
	"context"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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
