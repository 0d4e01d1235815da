package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

const (
	// After its start an instance compares its leases with the store three times
	// in 90 s. After that time its work does not change any more.
	idleStart, idleStartQuick = 95 * time.Second, time.Second
	// Commands are counted over the whole time after the previous run, because
	// the guard runs only once a minute. CPU time is measured over this shorter
	// time, while no other part measures.
	idleQuiet, idleQuietQuick = 5 * time.Second, 2 * time.Second
)

// idlePartitions are the partition counts of the instances.
var idlePartitions = []int{1, 128}

// idler is an instance without work.
type idler struct {
	*rig
	partitions int
	last       idleReading // from the previous run; the zero value before the first run
}

type idleReading struct {
	at           time.Time
	commands     float64
	redis, serve float64 // CPU microseconds
}

// idlePart measures the work of an instance and its store without messages. They run
// from the beginning, beside all other parts.
func idlePart() part {
	var all []*idler
	return part{
		name:  "idle",
		about: "Redis commands and CPU time while nothing is to do, at 1 and at 128 partitions",
		prepare: func(ctx context.Context, l *lab) error {
			for _, n := range idlePartitions {
				g, err := l.rig(ctx, storeOptions{}, "PARTITIONS="+strconv.Itoa(n))
				if err != nil {
					return err
				}
				all = append(all, &idler{rig: g, partitions: n})
			}
			return nil
		},
		measure: func(ctx context.Context, l *lab, s *sample) error {
			start, quiet := idleStart, idleQuiet
			if l.o.Quick {
				start, quiet = idleStartQuick, idleQuietQuick
			}
			for _, i := range all {
				if err := i.settle(ctx, start); err != nil {
					return err
				}
			}
			before, err := readAll(ctx, all)
			if err != nil {
				return err
			}
			if !kit.Rest(ctx, quiet) {
				return ctx.Err()
			}
			after, err := readAll(ctx, all)
			if err != nil {
				return err
			}
			for n, i := range all {
				i.report(s, before[n], after[n])
			}
			return nil
		},
	}
}

// settle waits until the start of an instance is over, and then reads the first
// counts.
func (i *idler) settle(ctx context.Context, start time.Duration) (err error) {
	if !i.last.at.IsZero() {
		return nil
	}
	if !kit.Rest(ctx, time.Until(i.serve.Began.Add(start))) {
		return ctx.Err()
	}
	i.last, err = i.read(ctx)
	return err
}

func readAll(ctx context.Context, all []*idler) ([]idleReading, error) {
	readings := make([]idleReading, len(all))
	for n, i := range all {
		var err error
		if readings[n], err = i.read(ctx); err != nil {
			return nil, err
		}
	}
	return readings, nil
}

func (i *idler) read(ctx context.Context) (r idleReading, err error) {
	if r.serve, err = i.serve.cpu(ctx); err != nil {
		return r, err
	}
	if r.redis, err = i.store.cpu(ctx); err != nil {
		return r, err
	}
	r.commands, err = i.store.commands(ctx)
	r.at = time.Now()
	return r, err
}

// report adds the work between two readings.
func (i *idler) report(s *sample, before, after idleReading) {
	name := "idle at " + strconv.Itoa(i.partitions) + " partitions"
	if i.partitions == 1 {
		name = "idle at 1 partition"
	}
	s.add(name+": Redis commands", "/s", perSecond(i.last, after, func(r idleReading) float64 { return r.commands }))
	for _, of := range []struct {
		what  string
		value func(idleReading) float64
	}{
		{"Redis", func(r idleReading) float64 { return r.redis }},
		{"dispatcher", func(r idleReading) float64 { return r.serve }},
	} {
		s.add(fmt.Sprintf("%s: CPU of %s", name, of.what), "µs/s", perSecond(before, after, of.value))
	}
	i.last = after
}

func perSecond(from, to idleReading, value func(idleReading) float64) float64 {
	return (value(to) - value(from)) / to.at.Sub(from.at).Seconds()
}
