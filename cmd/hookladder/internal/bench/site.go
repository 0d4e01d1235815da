package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	fillers  = 4   // goroutines that publish what has to be there before something is measured
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
	err := w.lab.callers.each(ctx, fillers, (n+batch-1)/batch, func(b int) error {
		messages := make([]string, 0, batch)
		for i := b * batch; i < min((b+1)*batch, n); i++ {
			messages = append(messages, text(i))
		}
		return w.lab.callers.publishBatch(w.serve.api, messages)
	})
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
	return until(ctx, fmt.Sprintf("all of %s is settled", run), func() error {
		s, err := w.serve.calls.Stats(ctx)
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
