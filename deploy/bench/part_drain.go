package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// drainBatch is the number of messages in one call when the publishing itself is not
// measured.
const drainBatch = 500

// pacing estimates how fast a lab publishes, from the publishing so far. All messages
// with one due time must be in the store before that time. The zero value has no
// estimate yet.
type pacing struct{ slowest float64 } // in messages per second

// paceFirst is the default rate before the first measurement: a fifth of the rate of
// two cores.
const paceFirst = 20_000

// take returns an upper limit for the time to publish n messages.
func (p *pacing) take(n int) time.Duration {
	return time.Second/4 + time.Duration(1.5*float64(n)/cmp.Or(p.slowest, paceFirst)*float64(time.Second))
}

// learn updates the slowest rate from the time that n messages took.
func (p *pacing) learn(n int, took time.Duration) {
	if rate := float64(n) / took.Seconds(); p.slowest == 0 || rate < p.slowest {
		p.slowest = rate
	}
}

// doubt halves the rate, so that later publishing gets twice as much time.
func (p *pacing) doubt() { p.slowest = cmp.Or(p.slowest, paceFirst) / 2 }

// measureDrain measures how fast messages with one due time are delivered.
func measureDrain(ctx context.Context, l *lab, s *sample) error {
	for _, to := range []int{1, many} {
		err := again(func() error { return drain(ctx, l, s, to) }, func() {
			l.pace.doubt()
			l.limits.doubt()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func drain(ctx context.Context, l *lab, s *sample, to int) (err error) {
	g, err := l.rig(ctx, "")
	if err != nil {
		return err
	}
	defer stopping(&err, g.stop)
	if err := g.warm(ctx, to, "delivered"); err != nil {
		return err
	}
	n, run, name := l.load(50_000, 4_000), l.newRun("drain"), fmt.Sprintf("drain to %d", to)
	due, scheduling, err := g.schedule(ctx, run, n, to)
	if err != nil {
		return err
	}
	var delivering used
	_, err = l.against(ctx, s, name, func() (rate float64, err error) {
		rate, delivering, err = g.drain(ctx, run, n, due)
		return rate, err
	})
	if err != nil {
		return err
	}
	scheduling.plus(delivering).report(s, name, n)
	s.add(name+": Redis CPU until due", "µs", scheduling.redis/float64(n))
	s.add(name+": Redis CPU from then on", "µs", delivering.redis/float64(n))
	s.add(name+": dispatcher CPU from then on", "µs", delivering.dispatcher/float64(n))
	memory, err := g.serve.stats(ctx)
	if err != nil {
		return err
	}
	s.add(name+": dispatcher memory", "MiB", memory.peak/(1<<20))
	return g.receiver.forget(ctx, run)
}

// drain measures the delivery of messages with one due time.
func (g *rig) drain(ctx context.Context, run string, n int, due time.Time) (rate float64, spent used, err error) {
	begin, err := g.begin(ctx)
	if err != nil {
		return 0, used{}, err
	}
	if !time.Now().Before(due) {
		return 0, used{}, errLate
	}
	all, err := g.receiver.expect(ctx, run, n)
	if err != nil {
		return 0, used{}, err
	}
	if all.first.Before(due) {
		return 0, used{}, fmt.Errorf("a message of %s came %s early", run, due.Sub(all.first))
	}
	if err := g.holds(ctx, "delivered", n); err != nil {
		return 0, used{}, err
	}
	spent, err = g.since(ctx, begin)
	return float64(n) / all.last.Sub(due).Seconds(), spent, err
}

// schedule publishes a run's messages with one due time, and returns that time. It is
// late enough to measure the limit before it.
func (g *rig) schedule(ctx context.Context, run string, n, to int) (due time.Time, scheduling used, err error) {
	begin, err := g.begin(ctx)
	if err != nil {
		return due, used{}, err
	}
	began := time.Now()
	due = began.Add(g.lab.pace.take(n) + g.lab.limits.take()).Truncate(time.Millisecond)
	err = g.lab.callers.publishAll(ctx, g.serve.URL, work{fillers, n, drainBatch}, func(i int) string {
		return g.message(run, i, to, dueAt(due))
	})
	if err != nil {
		return due, used{}, err
	}
	g.lab.pace.learn(n, time.Since(began))
	scheduling, err = g.since(ctx, begin)
	return due, scheduling, err
}

const slowPermits = 1024

// slowness has n messages to a number of destinations, and the time of their responses.
type slowness struct {
	n, to  int
	answer time.Duration
}

// measureSlow measures how many permits are in use when receivers are slow: a hundred
// that respond after 200 ms, and one for each permit that respond after 2 s.
func measureSlow(ctx context.Context, l *lab, s *sample) error {
	for _, c := range []slowness{
		{l.load(20_000, 8_000), many, 200 * time.Millisecond},
		{l.load(6_000, 4_000), slowPermits, 2 * time.Second},
	} {
		if err := slow(ctx, l, s, c); err != nil {
			return err
		}
	}
	return nil
}

// slow measures one kind of slowness. Another instance publishes the messages first.
// The memory of the measured instance therefore includes its attempts in flight, but no
// publishing.
func slow(ctx context.Context, l *lab, s *sample, c slowness) (err error) {
	g, err := l.rig(ctx, "", "MAX_IN_FLIGHT=0")
	if err != nil {
		return err
	}
	defer stopping(&err, func() error { return g.stop() })
	run, name := l.newRun("slow"), fmt.Sprintf("slow to %d", c.to)
	if err := g.receiver.begin(ctx, run, runOptions{Delay: c.answer, Times: true}); err != nil {
		return err
	}
	if _, _, err := g.schedule(ctx, run, c.n, c.to); err != nil {
		return err
	}
	if err := g.serve.stop(); err != nil {
		return err
	}
	if g.serve, err = l.serve(ctx, g.store, fmt.Sprint("MAX_IN_FLIGHT=", slowPermits)); err != nil {
		return err
	}
	at, err := g.arrivals(ctx, run, c.n)
	if err != nil {
		return err
	}
	used, err := g.serve.stats(ctx)
	if err != nil {
		return err
	}
	rate := steady(at)
	s.add(name+": rate", "/s", rate)
	s.add(name+": ÷ permits", "", rate/(slowPermits/c.answer.Seconds()))
	s.add(name+": dispatcher memory", "MiB", used.peak/(1<<20))
	return g.receiver.forget(ctx, run)
}

// arrivals waits until n messages of a run are delivered, and returns when they arrived.
func (g *rig) arrivals(ctx context.Context, run string, n int) (times []time.Time, err error) {
	if _, err := g.receiver.expect(ctx, run, n); err != nil {
		return nil, err
	}
	if err := g.serve.holds(ctx, "delivered", n); err != nil {
		return nil, err
	}
	at, err := g.receiver.arrivals(ctx, run)
	for _, t := range at {
		times = append(times, t)
	}
	return times, err
}

// steady returns the rate between the first and the last fifth of the arrivals. At
// the start a destination may have only two attempts at a time, until it has shown
// that it can have more. At the end no message is left to send. Because slow
// responses come in waves, steady fits a line and returns its slope. One wave more or
// less at either end hardly changes that slope.
func steady(times []time.Time) (rate float64) {
	slices.SortFunc(times, time.Time.Compare)
	from, to := len(times)/5, len(times)*4/5
	var sumX, sumY, sumXX, sumXY float64
	n := float64(to - from)
	for i := from; i < to; i++ {
		x, y := times[i].Sub(times[from]).Seconds(), float64(i-from)
		sumX, sumY, sumXX, sumXY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}
