package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// rig has a store and a dispatcher for one measurement of throughput. The receiver is
// shared.
type rig struct {
	lab      *lab
	store    *store
	serve    *serve
	receiver *receiver
	warmed   int // messages published before measuring
}

// warmUp is the number of messages before a measurement. After them the connections,
// heaps and lanes are in the same state as in a process that has run for some time.
const warmUp = 2_000

func (l *lab) rig(ctx context.Context, appendfsync string, env ...string) (g *rig, err error) {
	st, err := l.store(ctx, appendfsync)
	if err != nil {
		return nil, err
	}
	return l.rigOn(ctx, st, env...)
}

func (l *lab) rigOn(ctx context.Context, st *store, env ...string) (g *rig, err error) {
	g = &rig{lab: l, store: st}
	if g.receiver, err = l.receiver(ctx); err != nil {
		return nil, err
	}
	g.serve, err = l.serve(ctx, st, env...)
	return g, err
}

// stop ends the dispatcher before its store, because the dispatcher would log errors
// without a store.
func (g *rig) stop() error {
	return errors.Join(g.serve.stop(), g.store.stop())
}

// warm publishes some messages one by one to a number of destinations, and waits
// until they have the status.
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

// holds polls until n deliveries, and the messages of warm, have a status. No other
// delivery may be in the store.
func (g *rig) holds(ctx context.Context, status string, n int) error {
	return g.serve.holds(ctx, status, g.warmed+n)
}

// url returns the URL of a run's message i, for a number of destinations.
func (g *rig) url(run string, i, to int) string {
	if to > 1 {
		return g.receiver.url(1+i%min(to, many)) + "/" + run
	}
	return g.receiver.url(0) + "/" + run
}

// message returns a run's message i. More destinations than the receiver has are its
// destinations for as many tenants, because a tenant's origin is a lane of its own.
func (g *rig) message(run string, i, to int, more string) string {
	if to > many {
		more += `,"tenant":"t` + strconv.Itoa(i%to) + `"`
	}
	return message(run+"_"+strconv.Itoa(i), g.url(run, i, to), more)
}

// used has the resources that each process has used so far.
type used struct{ dispatcher, redis, callers, receiver, calls, allocs float64 }

// begin reads the counters before a measurement. It excludes its own cost.
func (g *rig) begin(ctx context.Context) (u used, err error) {
	s, err := g.serve.stats(ctx)
	if err != nil {
		return u, err
	}
	u, err = g.count(ctx)
	u.allocs = s.allocs
	return u, err
}

// since returns the difference to begin. It excludes its own cost, except for a few
// hundred allocations of a scrape.
func (g *rig) since(ctx context.Context, begin used) (u used, err error) {
	if u, err = g.count(ctx); err != nil {
		return u, err
	}
	s, err := g.serve.stats(ctx)
	u.allocs = s.allocs
	return u.minus(begin), err
}

// count reads all counters but the allocations. It reads the CPU times first.
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

// report adds the resources per delivery, or per accepted message.
func (u used) report(s *sample, name string, n int) {
	each := float64(n)
	s.add(name+": dispatcher CPU", "µs", u.dispatcher/each)
	s.add(name+": Redis CPU", "µs", u.redis/each)
	if u.callers > 0 { // unknown on this system otherwise
		s.add(name+": publishers CPU", "µs", u.callers/each)
	}
	if u.receiver > 0 { // no message was sent there otherwise
		s.add(name+": receiver CPU", "µs", u.receiver/each)
	}
	s.add(name+": calls", "", u.calls/each)
	s.add(name+": allocations", "", u.allocs/each)
}

const (
	fillers  = 4   // goroutines that publish messages before a measurement: enough to keep the API busy
	dueBatch = 100 // messages in one of their batches
	warmings = 500 // messages that bring a new dispatcher up to its speed
)

// Messages with a later due time get three times the publishing time so far, and one
// second more.
const (
	leadTimes = 3
	leadLeast = time.Second
)

// site is a rig that is used in all runs, so that its store keeps the messages of
// earlier runs.
type site struct {
	*rig
	waiting int           // messages with a due time in the far future
	ended   int           // delivered messages of all runs so far
	late    int           // measurements that failed because the due time was too early
	each    time.Duration // publishing time of one message in a batch; 0: not known
}

func newSite(ctx context.Context, l *lab, env ...string) (*site, error) {
	g, err := l.rig(ctx, "", env...)
	if err != nil {
		return nil, err
	}
	return &site{rig: g}, nil
}

// messageID returns the id of a run's message i.
func messageID(run string, i int) string { return run + "_" + strconv.Itoa(i) }

// fill publishes n messages in batches.
func (w *site) fill(ctx context.Context, n, batch int, text func(i int) string) error {
	began := time.Now()
	err := w.lab.callers.publishAll(ctx, w.serve.URL, work{fillers, n, batch}, text)
	w.each = time.Since(began) / time.Duration(n)
	return err
}

// warm delivers messages to some destinations twice. The first round opens the
// connections and marks the destinations as good. The second round measures the
// publishing time.
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

// await waits until all n messages of a run have arrived and are settled.
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

// lead returns how long before the first due time the publishing of n messages must
// start. It doubles with each measurement that was late.
func (w *site) lead(n int) time.Duration {
	return (leadTimes*time.Duration(n)*w.each + leadLeast) << w.late
}

// errLate reports that a message was due before everything was ready. The figure
// would then be wrong.
var errLate = errors.New("what was published was due too early: the machine is too busy to measure this")

// lateTries is the limit for tries of one measurement that is late. Each retry gets
// more time than the try before it.
const lateTries = 6

// again retries measure while it returns errLate. more gives the next try more time.
func again(measure func() error, more func()) error {
	err := measure()
	for try := 1; try < lateTries && errors.Is(err, errLate); try++ {
		more()
		err = measure()
	}
	return err
}

// again retries a measurement at the site while it is late.
func (w *site) again(measure func() error) error { return again(measure, func() { w.late++ }) }

// deliverDue publishes n messages with one due time to some destinations. It waits
// until they are delivered and settled, even if the publishing was late.
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

// dueAt returns the field that sets the due time of a message.
func dueAt(at time.Time) string {
	return `,"deliver_at":"` + at.UTC().Format("2006-01-02T15:04:05.000Z") + `"`
}
