package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// drainBatch is how many messages one call publishes, where publishing is not
// what is measured.
const drainBatch = 500

// pacing is how fast a lab's messages are published, learned while it does so:
// what is due at one moment must all be there before. The zero value knows
// nothing yet.
type pacing struct{ slowest float64 } // in messages a second

// paceFirst is what is reckoned with at first: a fifth of what two cores do.
const paceFirst = 20_000

// take is how long publishing n messages takes at most.
func (p *pacing) take(n int) time.Duration {
	return time.Second/4 + time.Duration(1.5*float64(n)/cmp.Or(p.slowest, paceFirst)*float64(time.Second))
}

// learn notes how long n took.
func (p *pacing) learn(n int, took time.Duration) {
	if rate := float64(n) / took.Seconds(); p.slowest == 0 || rate < p.slowest {
		p.slowest = rate
	}
}

// doubt has twice as much time taken for what is published from now on.
func (p *pacing) doubt() { p.slowest = cmp.Or(p.slowest, paceFirst) / 2 }

// measureDrain measures how fast what is all due at once is delivered.
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
	g, err := l.rig(ctx, storeOptions{})
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
	err = l.against(ctx, s, name, func() (rate float64, err error) {
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

// drain measures the delivery of what is due at one moment.
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

// schedule publishes a run's messages, all due at one moment, and answers when
// that is: late enough that the limit can be measured before.
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

const (
	slowAnswer  = 200 * time.Millisecond
	slowPermits = 1024
)

// measureSlow measures how many permits are in use when receivers are slow. The
// messages are published through another instance, so that the memory is that of
// one with as many attempts in flight, and of nothing else.
func measureSlow(ctx context.Context, l *lab, s *sample) (err error) {
	g, err := l.rig(ctx, storeOptions{}, "MAX_IN_FLIGHT=0")
	if err != nil {
		return err
	}
	defer stopping(&err, func() error { return g.stop() })
	n, run, name := l.load(20_000, 8_000), l.newRun("slow"), fmt.Sprintf("slow to %d", many)
	if err := g.receiver.begin(ctx, run, runOptions{Delay: slowAnswer, Times: true}); err != nil {
		return err
	}
	if _, _, err := g.schedule(ctx, run, n, many); err != nil {
		return err
	}
	if err := g.serve.stop(); err != nil {
		return err
	}
	if g.serve, err = l.serve(ctx, g.store, fmt.Sprint("MAX_IN_FLIGHT=", slowPermits)); err != nil {
		return err
	}
	if _, err := g.receiver.expect(ctx, run, n); err != nil {
		return err
	}
	if err := g.serve.holds(ctx, "delivered", n); err != nil {
		return err
	}
	used, err := g.serve.stats(ctx)
	if err != nil {
		return err
	}
	at, err := g.receiver.arrivals(ctx, run)
	if err != nil {
		return err
	}
	var times []time.Time
	for _, t := range at {
		times = append(times, t)
	}
	rate := steady(times)
	s.add(name+": rate", "/s", rate)
	s.add(name+": ÷ permits", "", rate/(slowPermits/slowAnswer.Seconds()))
	s.add(name+": dispatcher memory", "MiB", used.peak/(1<<20))
	return g.receiver.forget(ctx, run)
}

// steady is the rate between the first and the last fifth of what came. At the
// start a destination may have only two attempts at a time, until it shows that
// it can have more. At the end nothing is left to send.
// Since slow answers come in waves, it is the slope of the line that fits best,
// which a wave more or less at either end hardly turns.
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
