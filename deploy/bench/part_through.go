package main

import (
	"context"
	"fmt"
	"time"
)

// measureThrough measures the rate from publishers to the receiver. Each publisher
// waits for its response before it publishes again.
func measureThrough(ctx context.Context, l *lab, s *sample) error {
	for _, to := range []int{1, many} {
		err := through(ctx, l, s, flow{name: fmt.Sprintf("through to %d", to), n: l.load(30_000, 4_000), to: to, batch: 1})
		if err != nil {
			return err
		}
	}
	return through(ctx, l, s, flow{name: "through, batches", n: l.load(51_200, 12_800), to: 1, batch: inBatch})
}

// flow describes messages to publish.
type flow struct {
	name  string
	n     int // messages
	to    int // destinations
	batch int // messages in a call
}

func through(ctx context.Context, l *lab, s *sample, f flow) (err error) {
	g, err := l.rig(ctx, "")
	if err != nil {
		return err
	}
	defer stopping(&err, g.stop)
	if err := g.warm(ctx, f.to, "delivered"); err != nil {
		return err
	}
	run := l.newRun("through")
	var spent used
	ratio, err := l.against(ctx, s, f.name, func() (float64, error) {
		begin, err := g.begin(ctx)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := g.flow(ctx, run, f); err != nil {
			return 0, err
		}
		all, err := g.receiver.expect(ctx, run, f.n)
		if err != nil {
			return 0, err
		}
		if err := g.holds(ctx, "delivered", f.n); err != nil {
			return 0, err
		}
		spent, err = g.since(ctx, begin)
		return float64(f.n) / all.last.Sub(began).Seconds(), err
	})
	if err != nil {
		return err
	}
	if f.batch == 1 { // one POST publishes a message, and another one delivers it
		s.add(f.name+": ÷ limit of two POSTs", "", 2*ratio)
	}
	spent.report(s, f.name, f.n)
	return g.receiver.forget(ctx, run)
}

// flow publishes all messages from all publishers.
func (g *rig) flow(ctx context.Context, run string, f flow) error {
	return g.lab.callers.publishAll(ctx, g.serve.URL, work{publishers, f.n, f.batch}, func(i int) string {
		return g.message(run, i, f.to, "")
	})
}

// measureAccept measures only the publishing, while no message is delivered.
func measureAccept(ctx context.Context, l *lab, s *sample) error {
	for _, fsync := range []string{"everysec", "always"} {
		single := flow{name: "accept, " + fsync, n: l.load(30_000, 4_000), to: 1, batch: 1}
		batches := flow{name: "accept, batches, " + fsync, n: l.load(102_400, 12_800), to: 1, batch: inBatch}
		for _, f := range []flow{single, batches} {
			if err := accept(ctx, l, s, fsync, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func accept(ctx context.Context, l *lab, s *sample, fsync string, f flow) (err error) {
	g, err := l.rig(ctx, fsync, "MAX_IN_FLIGHT=0")
	if err != nil {
		return err
	}
	defer stopping(&err, g.stop)
	if err := g.warm(ctx, f.to, "ready"); err != nil {
		return err
	}
	run := l.newRun("accept")
	var spent used
	measure := func() (float64, error) {
		begin, err := g.begin(ctx)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := g.flow(ctx, run, f); err != nil {
			return 0, err
		}
		took := time.Since(began)
		spent, err = g.since(ctx, begin)
		return float64(f.n) / took.Seconds(), err
	}
	if _, err := l.against(ctx, s, f.name, measure); err != nil {
		return err
	}
	spent.receiver = 0
	spent.report(s, f.name, f.n)
	return g.holds(ctx, "ready", f.n)
}
