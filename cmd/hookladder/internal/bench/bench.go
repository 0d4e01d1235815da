// Package bench measures how fast Hookladder is on this machine: the real
// binary, a real redis-server with its append-only file, and a receiver in a
// process of its own. Beside each measurement of throughput it measures what the
// machine could do without a queue. A measurement fails when a message is lost, comes twice,
// unsigned or changed; a target that is missed is only told.
//
// Read part.go, the table of contents, then the parts themselves; lab.go is what
// they stand on.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options say what to measure, and with what.
type Options struct {
	Self        string            // this program, for the processes that it starts
	Version     string            // of it
	Environ     map[string]string // the environment
	RedisServer string            // a program by name or path
	Runs        int
	Quick       bool
	Messages    int      // of each measurement of throughput; 0: as many as it needs
	Only        []string // names of parts; none: all
	Err         io.Writer
}

// Check answers what is wrong with them.
func (o Options) Check() error {
	var errs []error
	if o.Runs < 1 {
		errs = append(errs, fmt.Errorf("--runs %d: must be at least 1", o.Runs))
	}
	if o.Messages < 0 || o.Messages > 0 && o.Messages < publishers {
		errs = append(errs, fmt.Errorf("--messages %d: must be at least %d, one for each publisher", o.Messages, publishers))
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(parts(), func(p part) bool { return p.name == name }) {
			errs = append(errs, fmt.Errorf("--only %s: there are %s", name, strings.Join(names(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// Parts are the names of all parts, each with what it measures.
func Parts() (list [][2]string) {
	for _, p := range parts() {
		list = append(list, [2]string{p.name, p.about})
	}
	return list
}

func names() (list []string) {
	for _, p := range Parts() {
		list = append(list, p[0])
	}
	return list
}

// errInterrupted says that somebody did not want to wait for the end.
var errInterrupted = errors.New("interrupted: nothing was measured to the end")

// noticed is how long it takes at most until it is known that a process ended.
const noticed = time.Second

// Run measures. When it ends, with or without an error, nothing that it started
// is left.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	ctx, fault := context.WithCancelCause(ctx)
	defer fault(nil)
	l, err := newLab(o, fault)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			select { // a process that died breaks calls before it is known to have ended
			case <-ctx.Done():
			case <-time.After(noticed):
			}
		}
		if ctx.Err() != nil { // what failed because of it is not the reason
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
	return r, r.complete(len(o.Only) == 0)
}

// measure carries out all runs of the parts.
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
	for i := range l.o.Runs {
		s := &sample{run: i}
		for _, p := range chosen {
			done := l.begin(fmt.Sprintf("run %d of %d: %s", i+1, l.o.Runs, p.name))
			if err := done(p.measure(ctx, l, s)); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		l.limits.report(s)
		r.add(s)
	}
	return nil
}

// begin tells what is done now, and when that is over how long it took.
func (l *lab) begin(what string) (done func(error) error) {
	began := time.Now()
	fmt.Fprintf(l.tell, "%-32s", what)
	return func(err error) error {
		if err != nil {
			fmt.Fprintln(l.tell, " failed")
			return err
		}
		fmt.Fprintf(l.tell, " %6.1f s\n", time.Since(began).Seconds())
		return nil
	}
}
