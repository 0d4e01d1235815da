package observe

import (
	"context"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

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
