package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// countPage bounds one call: it reads that many entries of each of four kinds, in some 4
// ms. A larger partition is counted in several calls, whose results are consistent only
// if nothing changed between them.
const countPage = 1000

// tally has counters by name: "in <lane>", "waiting <lane>", "sets <lane>", "counts
// <status>", "buried <lane> <reason>".
type tally map[string]int64

// recount counts one partition once.
type recount struct {
	w         *walker
	partition int
	lanes     []string
	behind    []string // queues of ordering keys

	counted tally            // counted entries
	stored  tally            // stored counters
	sets    map[string]int64 // by lane: known queues of ordering keys that are not empty
	shows   map[string]int64 // by lane: the stored number of them
	token   string
	whole   bool // the result is consistent, and nothing was left out
}

// newRecount counts a partition once. The names of its keys must have been read.
func (w *walker) newRecount(ctx context.Context, partition int) (*recount, error) {
	lanes, err := w.lanesOf(ctx, partition)
	if err == nil {
		err = w.readHolders(ctx)
	}
	if err != nil {
		return nil, err
	}
	c := &recount{
		w: w, partition: partition, lanes: lanes, behind: w.rings[partition][keys.Behind],
		counted: tally{}, stored: tally{}, sets: map[string]int64{}, shows: map[string]int64{},
	}
	return c, c.read(ctx)
}

// read counts in one or more calls.
func (c *recount) read(ctx context.Context) error {
	var due, dead, taken int64 = 1, 1, 0
	complete, listed := int64(0), int64(0)
	c.whole = true
	for page := int64(0); page == 0 || page < max(due, dead, taken, int64(len(c.lanes)), int64(len(c.behind))); page += countPage {
		lanes, sets := paged(c.lanes, page), paged(c.behind, page)
		args := []any{page, page + countPage - 1, page, page + countPage - 1, len(lanes)}
		for _, name := range slices.Concat(lanes, sets) {
			args = append(args, name)
		}
		a, err := c.w.call(ctx, countScript, c.partition, args...)
		if err != nil {
			return err
		}
		token := a.Text()
		c.whole = c.whole && (page == 0 || token == c.token)
		c.token = token
		sizes := conn.Reply{Values: a.List()}
		due, dead = sizes.Number(), sizes.Number()
		flying := sizes.Number()
		listed = sizes.Number()
		if page == 0 {
			c.counted.put("counts in_flight", flying)
			c.counted.put("counts dead", dead)
			c.counted.put("counts delivered", sizes.Number())
			c.counted.put("counts cancelled", sizes.Number())
			taken = sizes.Number()
		}
		complete += c.take(a, lanes, sets, page == 0)
		if a.Err != nil || sizes.Err != nil {
			return conn.ErrReply
		}
	}
	c.whole = c.whole && complete == listed
	return c.settle(ctx)
}

// take reads the result of one call, and returns how many of its lanes have a counter.
func (c *recount) take(a *conn.Reply, lanes, sets []string, first bool) (counted int64) {
	c.counted.put("counts scheduled", a.Number())
	c.counted.put("counts retrying", a.Number())
	for found := (conn.Reply{Values: a.List()}); found.More(); {
		lane := found.Text()
		c.counted.put("waiting "+lane, found.Number())
		c.counted.put("in "+lane, found.Number())
	}
	for found := (conn.Reply{Values: a.List()}); found.More(); {
		c.counted.put("buried "+found.Text(), found.Number())
	}
	stored := conn.Reply{Values: a.List()}
	for _, lane := range lanes {
		var flying, waiting int64
		if text := stored.Text(); text != "" {
			counted++
			_, _ = fmt.Sscanf(text, "%d %d", &flying, &waiting) // an invalid text counts as 0, as in the scripts
		}
		c.stored.put("in "+lane, flying)
		c.stored.put("waiting "+lane, waiting)
		c.shows[lane] = stored.Number()
		ready := stored.Number()
		c.counted.put("waiting "+lane, ready)
		c.counted.put("counts ready", ready)
	}
	lengths := conn.Reply{Values: a.List()}
	for _, set := range sets {
		if n := lengths.Number(); n > 0 {
			lane, _, _ := strings.Cut(set, ":")
			c.sets[lane]++
			c.counted.put("waiting "+lane, n-1)
			c.counted.put("counts scheduled", n-1)
		}
	}
	for _, prefix := range []string{"counts ", "buried "} {
		for found := (conn.Reply{Values: a.List()}); first && found.More(); {
			c.stored.put(prefix+found.Text(), found.Number())
		}
	}
	return counted
}

// settle compares the queues of ordering keys. A lane may have added some after their names
// were read. If its counter is higher, the names are read again. The counter is wrong only if
// nothing changed in the meantime.
func (c *recount) settle(ctx context.Context) error {
	hidden := false
	for _, lane := range c.lanes {
		hidden = hidden || c.shows[lane] > c.sets[lane]
	}
	if !hidden || !c.whole {
		return nil
	}
	before := c.token
	if err := c.readSets(ctx); err != nil {
		return err
	}
	a, err := c.w.call(ctx, countScript, c.partition, 1, 0, 1, 0, 0)
	if err != nil {
		return err
	}
	c.whole = a.Text() == before && slices.Equal(c.behind, c.w.rings[c.partition][keys.Behind])
	return a.Err
}

// compare returns the numbers to add to the stored counters.
func (c *recount) compare() tally {
	for _, lane := range c.lanes {
		c.counted.put("sets "+lane, c.sets[lane])
		c.stored.put("sets "+lane, c.shows[lane])
	}
	add := tally{}
	for field, n := range c.counted {
		add.put(field, n-c.stored[field])
	}
	for field, n := range c.stored {
		if _, counted := c.counted[field]; !counted {
			add.put(field, -n)
		}
	}
	maps.DeleteFunc(add, func(_ string, by int64) bool { return by == 0 })
	return add
}

func (t tally) put(field string, n int64) { t[field] += n }

// paged returns one page of a list. It is empty after the end.
func paged(list []string, from int64) []string {
	if from >= int64(len(list)) {
		return nil
	}
	return list[from:min(int(from)+countPage, len(list))]
}

// readSets reads the names of the partition's ordering keys again.
func (c *recount) readSets(ctx context.Context) error {
	prefix := c.w.s.conn.Tag(c.partition) + keys.Behind
	var sets []string
	for key, err := range c.w.matching(ctx, prefix+"*") {
		if err != nil {
			return err
		}
		sets = append(sets, strings.TrimPrefix(key, prefix))
	}
	slices.Sort(sets)
	c.w.rings[c.partition][keys.Behind] = slices.Compact(sets)
	return nil
}

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
		if _, err := d.call(ctx, addScript, n, args...); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(rest, 3*judgeBatch) {
		if _, err := d.call(ctx, addScript, n, append([]any{0}, some...)...); err != nil {
			return err
		}
	}
	return nil
}
