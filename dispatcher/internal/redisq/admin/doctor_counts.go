package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of comparing counters: how often a partition is counted until the result is
// consistent, and how often a repair is checked.
const (
	countTries = 20
	countMost  = 3
)

// counts compares all counters of a partition with the data.
func (d *doctor) counts(ctx context.Context, n int) error {
	for range countMost {
		first, ok, err := d.differences(ctx, n)
		if err == nil && ok && len(first) > 0 {
			// A real difference is the same each time. Entries that were missed, or came
			// in between, are not.
			var second tally
			if second, ok, err = d.differences(ctx, n); err == nil && ok {
				maps.DeleteFunc(first, func(field string, by int64) bool { return second[field] != by })
			}
		}
		switch {
		case err != nil:
			return err
		case !ok:
			d.out.Unjudged++
			return nil
		case len(first) == 0:
			return nil
		}
		for _, field := range slices.Sorted(maps.Keys(first)) {
			d.report(n, field, "counts", fmt.Sprintf("off by %+d", -first[field]), d.e.Fix)
		}
		if !d.e.Fix {
			return nil
		}
		if err := d.correct(ctx, n, first); err != nil {
			return err
		}
	}
	return nil
}

// differences counts until the result is consistent, and returns the number to add to
// each wrong counter. ok is false if the partition was always busy.
func (d *doctor) differences(ctx context.Context, n int) (add tally, ok bool, err error) {
	for range countTries {
		c, err := d.newRecount(ctx, n)
		if err != nil {
			return nil, false, err
		}
		d.lanes[n] = c.lanes
		if c.whole {
			return c.compare(), true, nil
		}
	}
	return nil, false, nil
}

// correct adds the differences to the counters.
func (d *doctor) correct(ctx context.Context, n int, add tally) error {
	lanes := map[string]*[3]int64{}
	var rest []any
	for _, field := range slices.Sorted(maps.Keys(add)) {
		kind, name, _ := strings.Cut(field, " ")
		at := slices.Index([]string{"in", "waiting", "sets"}, kind)
		if at < 0 {
			rest = append(rest, kind[:1], name, add[field])
			continue
		}
		if lanes[name] == nil {
			lanes[name] = &[3]int64{}
		}
		lanes[name][at] = add[field]
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(lanes)), judgeBatch) {
		args := []any{len(some)}
		for _, lane := range some {
			args = append(args, lane, lanes[lane][0], lanes[lane][1], lanes[lane][2])
		}
		if _, err := d.call(ctx, d.s.scripts.add, n, args...); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(rest, 3*judgeBatch) {
		if _, err := d.call(ctx, d.s.scripts.add, n, append([]any{0}, some...)...); err != nil {
			return err
		}
	}
	return nil
}
