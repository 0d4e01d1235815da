package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// options configure a bench.
type options struct {
	Self        string // path of this program, for the receiver process
	Program     string // path of the hookladder that is measured
	Version     string // of that program
	RedisServer string // a program by name or path
	Runs        int
	Quick       bool
	Messages    int      // messages of each measurement of throughput; 0: the default of the part
	Only        []string // names of parts; none: all
}

// check returns an error if an option is not valid.
func (o options) check() error {
	var errs []error
	if o.Runs < 1 {
		errs = append(errs, fmt.Errorf("-runs %d: must be at least 1", o.Runs))
	}
	if o.Messages < 0 || o.Messages > 0 && o.Messages < publishers {
		errs = append(errs, fmt.Errorf("-messages %d: must be at least %d, one for each publisher", o.Messages, publishers))
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(parts(), func(p part) bool { return p.name == name }) {
			errs = append(errs, fmt.Errorf("-only %s: there are %s", name, strings.Join(names(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// names returns the names of all parts.
func names() (list []string) {
	for _, p := range parts() {
		list = append(list, p.name)
	}
	return list
}

// errInterrupted reports that a person stopped the bench before its end.
var errInterrupted = errors.New("interrupted: nothing was measured to the end")

// noticed is the timeout until the exit of a process is known.
const noticed = time.Second

// bench measures, and returns the report. When it returns, with or without an error, it
// has removed and ended everything that it started.
func bench(ctx context.Context, o options) (r *Report, err error) {
	ctx, fault := context.WithCancelCause(ctx)
	defer fault(nil)
	l, err := newLab(o, fault)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			select { // a dead process breaks calls before its exit is known
			case <-ctx.Done():
			case <-time.After(noticed):
			}
		}
		if ctx.Err() != nil { // the cause is the reason, and later errors follow from it
			err = context.Cause(ctx)
		}
		if errors.Is(err, context.Canceled) {
			err = errInterrupted
		}
		if ended := l.close(); err == nil {
			err = ended
		}
	}()
	defer context.AfterFunc(ctx, l.kill)()
	began := time.Now()
	r = newReport(o, began)
	if err := l.facts(ctx, r); err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(parts(), func(p part) bool {
		return len(o.Only) > 0 && !slices.Contains(o.Only, p.name)
	})
	if err := l.measure(ctx, chosen, r); err != nil {
		return nil, err
	}
	r.Took = time.Since(began).Seconds()
	return r, r.complete()
}

// measure runs the parts once per run.
func (l *lab) measure(ctx context.Context, chosen []part, r *Report) error {
	for _, p := range chosen {
		if p.prepare == nil {
			continue
		}
		done := l.begin("prepare " + p.name)
		if err := done(p.prepare(ctx, l)); err != nil {
			return fmt.Errorf("prepare %s: %w", p.name, err)
		}
	}
	var all []*sample
	for l.o.needsRun(all) {
		if n := len(all); n >= l.o.Runs {
			fmt.Fprintln(os.Stderr, "once more, because other programs disturbed a run")
		}
		s, err := l.run(ctx, chosen, len(all))
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	r.addRuns(all)
	return nil
}

// run runs the parts once, and measures what other programs use meanwhile.
func (l *lab) run(ctx context.Context, chosen []part, i int) (*sample, error) {
	s := &sample{run: i}
	before := l.cpuUse()
	for _, p := range chosen {
		done := l.begin(fmt.Sprintf("run %d of %d: %s", i+1, max(l.o.Runs, i+1), p.name))
		if err := done(p.measure(ctx, l, s)); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	s.noise = noise{others: l.cpuUse().others(before), spread: spread(l.limits.rates)}
	l.limits.report(s)
	s.noise.report(s)
	return s, nil
}

// begin logs the start of a step. The function that it returns logs how long the step
// took.
func (l *lab) begin(what string) (done func(error) error) {
	began := time.Now()
	fmt.Fprintf(os.Stderr, "%-32s", what)
	return func(err error) error {
		if err != nil {
			fmt.Fprintln(os.Stderr, " failed")
			return err
		}
		fmt.Fprintf(os.Stderr, " %6.1f s\n", time.Since(began).Seconds())
		return nil
	}
}

// A part measures some figures. Each run measures all parts in turn, so that a slow
// phase of the machine affects all of them alike.
type part struct {
	name    string                                             // for -only
	about   string                                             // one line, for -help
	prepare func(ctx context.Context, l *lab) error            // once, before the first run; may be nil
	measure func(ctx context.Context, l *lab, s *sample) error // once per run
}

// parts returns all parts in the order in which a run measures them: first those that use
// the machine as much as possible, then those with little load.
func parts() []part {
	return []part{
		{"limit", "what the machine can do: a bare loop of signed POSTs, no queue", nil, measureLimit},
		{"drain", "accepted messages that are all due at one moment, to 1 and to 100 destinations", nil, measureDrain},
		{"slow", "100 destinations that answer after 200 ms, and 1,024 after 2 s, with 1,024 permits", nil, measureSlow},
		{"through", "64 publishers through the API while it delivers, one by one and in batches of 100", nil, measureThrough},
		{"accept", "64 publishers and no delivery, one by one and in batches of 100, fsync everysec and always", nil, measureAccept},
		{"masters", "three masters against one server: Redis' CPU time of a delivery", nil, measureMasters},
		latenessPart(), latencyPart(), waitingPart(), isolationPart(), newcomersPart(),
	}
}

// sample has the figures of one run.
type sample struct {
	run     int // from 0
	noise   noise
	figures []figure
}

// figure is one value. Its name is "<measurement>: <what>". The name is the same in
// each run and unique within a run.
type figure struct {
	name  string
	unit  string // "/s", "µs", "ms", "s", "B", "MiB", "%", or empty for ratios and counts
	value float64
}

// add adds a figure.
func (s *sample) add(name, unit string, value float64) {
	s.figures = append(s.figures, figure{name, unit, value})
}
