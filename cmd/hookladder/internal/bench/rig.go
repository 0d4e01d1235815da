package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
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
	u.callers, _ = kit.CPU(0)
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

const (
	fillers  = 4   // goroutines that publish what has to be there before something is measured: enough to keep the API busy
	dueBatch = 100 // how many of that at a time
	warmings = 500 // that bring a new dispatcher up to its speed
)

// What is due at one later moment has three times as long to be published as
// it took before, and a second.
const (
	leadTimes = 3
	leadLeast = time.Second
)

// site is a rig that lasts over all runs, so that its store holds what was
// before.
type site struct {
	*rig
	waiting int           // messages that are due some day
	ended   int           // those delivered, by all runs so far
	late    int           // how often what was published was due too early
	each    time.Duration // publishing takes, of one message in a batch; 0: not known
}

func newSite(ctx context.Context, l *lab, o storeOptions, env ...string) (*site, error) {
	g, err := l.rig(ctx, o, env...)
	if err != nil {
		return nil, err
	}
	return &site{rig: g}, nil
}

// messageID is the id of a run's message i.
func messageID(run string, i int) string { return run + "_" + strconv.Itoa(i) }

// fill publishes n messages in batches.
func (w *site) fill(ctx context.Context, n, batch int, text func(i int) string) error {
	began := time.Now()
	err := w.lab.callers.publishAll(ctx, w.serve.URL, work{fillers, n, batch}, text)
	w.each = time.Since(began) / time.Duration(n)
	return err
}

// warm delivers messages to some destinations, twice: connections are opened and
// the destinations known as good, and then it shows how long publishing takes.
func (w *site) warm(ctx context.Context, destinations int) error {
	for range 2 {
		run, n := w.lab.newRun("warm"), w.lab.size(warmings, warmings)
		err := w.fill(ctx, n, dueBatch, func(i int) string {
			return w.message(run, i, destinations, "")
		})
		if err != nil {
			return err
		}
		if err := w.await(ctx, run, n); err != nil {
			return err
		}
	}
	return nil
}

// await waits until all n of a run came and are settled.
func (w *site) await(ctx context.Context, run string, n int) error {
	if _, err := w.receiver.expect(ctx, run, n); err != nil {
		return err
	}
	w.ended += n
	return kit.Until(ctx, fmt.Sprintf("all of %s is settled", run), func() error {
		s, err := w.serve.Stats(ctx)
		if err != nil {
			return err
		}
		if int(s.Counts["delivered"]) != w.ended || int(s.Counts["scheduled"]) != w.waiting {
			return fmt.Errorf("there are %v", s.Counts)
		}
		return nil
	})
}

// lead is how long before the first due time n messages have to be published:
// twice as long each time that it was too little.
func (w *site) lead(n int) time.Duration {
	return (leadTimes*time.Duration(n)*w.each + leadLeast) << w.late
}

// errLate says that something was due before all was ready for it: then
// something else would be measured.
var errLate = errors.New("what was published was due too early: the machine is too busy to measure this")

// lateTries bounds how often that may happen to one measurement. Each try has
// more time than the one before it.
const lateTries = 6

// again measures until it was not too late. more gives the next try more time.
func again(measure func() error, more func()) error {
	err := measure()
	for try := 1; try < lateTries && errors.Is(err, errLate); try++ {
		more()
		err = measure()
	}
	return err
}

// again measures at the site until it was not too late.
func (w *site) again(measure func() error) error { return again(measure, func() { w.late++ }) }

// deliverDue has n messages to some destinations become due at one moment, and
// waits until they are delivered and settled: also where it was too late.
func (w *site) deliverDue(ctx context.Context, n, destinations int) error {
	run := w.lab.newRun("due")
	due := time.Now().Add(w.lead(n))
	err := w.fill(ctx, n, dueBatch, func(i int) string {
		return w.message(run, i, destinations, dueAt(due))
	})
	if err != nil {
		return err
	}
	late := !time.Now().Before(due)
	if err := w.await(ctx, run, n); err != nil {
		return err
	}
	if err := w.receiver.forget(ctx, run); err != nil || !late {
		return err
	}
	return errLate
}

// dueAt is the field of a message that has to wait until a moment.
func dueAt(at time.Time) string {
	return `,"deliver_at":"` + at.UTC().Format("2006-01-02T15:04:05.000Z") + `"`
}
