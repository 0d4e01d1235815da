package bench

import (
	"context"
	"errors"
	"strconv"
)

// rig is what one measurement of throughput stands on: a store and a dispatcher
// of its own, and the receiver.
type rig struct {
	lab      *lab
	store    *store
	serve    *serve
	receiver *receiver
	warmed   int // messages published before measuring
}

// warmUp is how many messages go first, so that connections, heaps and lanes are
// as they are in a process that did not just start.
const warmUp = 2_000

func (l *lab) rig(ctx context.Context, o storeOptions, env ...string) (g *rig, err error) {
	g = &rig{lab: l}
	if g.receiver, err = l.receiver(ctx); err != nil {
		return nil, err
	}
	if g.store, err = l.store(ctx, o); err != nil {
		return nil, err
	}
	g.serve, err = l.serve(ctx, g.store, env...)
	return g, err
}

// stop ends the dispatcher first: it would miss its store.
func (g *rig) stop() error { return errors.Join(g.serve.stop(), g.store.stop()) }

// warm publishes some messages one by one, to as many destinations, and waits
// until they have that status.
func (g *rig) warm(ctx context.Context, to int, status string) error {
	g.warmed = g.lab.size(warmUp, warmUp/2)
	run := g.lab.newRun("warm")
	if err := g.flow(ctx, run, flow{n: g.warmed, to: to, batch: 1}); err != nil {
		return err
	}
	if err := g.holds(ctx, status, 0); err != nil {
		return err
	}
	return g.receiver.forget(ctx, run)
}

// holds waits until n deliveries, and those that went first, have a status, and
// nothing else is there.
func (g *rig) holds(ctx context.Context, status string, n int) error {
	return g.serve.holds(ctx, status, g.warmed+n)
}

// url is where message i of a run goes, when there are that many destinations.
func (g *rig) url(run string, i, to int) string {
	if to > 1 {
		return g.receiver.url(1+i%to) + "/" + run
	}
	return g.receiver.url(0) + "/" + run
}

// message is message i of a run.
func (g *rig) message(run string, i, to int, more string) string {
	return message(run+"_"+strconv.Itoa(i), g.url(run, i, to), more)
}

// used is what everybody has used so far.
type used struct{ dispatcher, redis, callers, receiver, calls, allocs float64 }

// begin reads what was used until now. What reading costs is not in it.
func (g *rig) begin(ctx context.Context) (u used, err error) {
	s, err := g.serve.stats(ctx)
	if err != nil {
		return u, err
	}
	u, err = g.count(ctx)
	u.allocs = s.allocs
	return u, err
}

// since reads what was used since begin. What reading costs is not in it, apart
// from a scrape's few hundred allocations.
func (g *rig) since(ctx context.Context, begin used) (u used, err error) {
	if u, err = g.count(ctx); err != nil {
		return u, err
	}
	s, err := g.serve.stats(ctx)
	u.allocs = s.allocs
	return u.minus(begin), err
}

// count reads all but the allocations, the processors' time first.
func (g *rig) count(ctx context.Context) (u used, err error) {
	u.callers, _ = cpuOf(0)
	u.receiver, _ = g.receiver.cpu()
	if u.dispatcher, err = g.serve.cpu(ctx); err != nil {
		return u, err
	}
	if u.redis, err = g.store.cpu(ctx); err != nil {
		return u, err
	}
	u.calls, err = g.store.calls(ctx)
	return u, err
}

func (u used) minus(v used) used {
	return used{
		u.dispatcher - v.dispatcher, u.redis - v.redis, u.callers - v.callers,
		u.receiver - v.receiver, u.calls - v.calls, u.allocs - v.allocs,
	}
}

func (u used) plus(v used) used { return u.minus(used{}.minus(v)) }

// report notes what each of n deliveries, or messages accepted, used.
func (u used) report(s *sample, name string, n int) {
	each := float64(n)
	s.add(name+": dispatcher CPU", "µs", u.dispatcher/each)
	s.add(name+": Redis CPU", "µs", u.redis/each)
	if u.callers > 0 { // else it is not known here
		s.add(name+": publishers CPU", "µs", u.callers/each)
	}
	if u.receiver > 0 { // else nothing was sent there
		s.add(name+": receiver CPU", "µs", u.receiver/each)
	}
	s.add(name+": calls", "", u.calls/each)
	s.add(name+": allocations", "", u.allocs/each)
}
