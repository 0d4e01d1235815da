package redisq

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Bounds of counting. countPage entries of each of four kinds are read in one
// call: as many take some 4 ms. A partition that holds more is counted in several
// calls, which only belong together where nothing happened between them;
// countTries is how often that is tried.
const (
	countPage  = 1000
	countTries = 20
	countMost  = 3 // times that a repair is looked at again
)

// tally are numbers by what they count: "in <lane>", "waiting <lane>", "sets
// <lane>", "counts <status>", "buried <lane> <reason>".
type tally map[string]int64

// counts compares all counts of a partition with what there is.
func (d *doctor) counts(ctx context.Context, n int) error {
	for range countMost {
		first, ok, err := d.differences(ctx, n)
		if err == nil && ok && len(first) > 0 {
			// A difference is the same whenever it is looked at; what was only
			// missed, or came in between, is not.
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
			d.find(n, field, "counts", fmt.Sprintf("%+d", -first[field]), d.e.Fix)
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

// differences counts until all that was read belongs together, and answers what
// has to be added to each count that is wrong. ok is false where the partition
// was never at rest for so long.
func (d *doctor) differences(ctx context.Context, n int) (add tally, ok bool, err error) {
	for range countTries {
		c := &recount{d: d, partition: n, is: tally{}, said: tally{}, sets: map[string]int64{}, shows: map[string]int64{}}
		if err := c.prepare(ctx); err != nil {
			return nil, false, err
		}
		if err := c.read(ctx); err != nil {
			return nil, false, err
		}
		d.lanes[n] = c.lanes
		if c.whole {
			return c.compare(), true, nil
		}
	}
	return nil, false, nil
}

// recount counts one partition once.
type recount struct {
	d         *doctor
	partition int
	lanes     []string
	behind    []string // sets

	is    tally            // what there is
	said  tally            // what the counts say
	sets  map[string]int64 // of each lane, that are not empty and known
	shows map[string]int64 // as many it says to have
	token string
	whole bool // it belongs together, and nothing that is counted was left out
}

// prepare reads the names of what has to be counted: lanes have a field in :in,
// and the sets are keys of their own.
func (c *recount) prepare(ctx context.Context) error {
	d := c.d
	lanes := map[string]bool{}
	tag := d.s.tags[c.partition]
	for _, key := range []string{keys.In, keys.Lane, keys.Limits, keys.Held, keys.LaneNames} {
		if err := d.eachField(ctx, c.partition, tag+key, func(lane string) { lanes[lane] = true }); err != nil {
			return err
		}
	}
	for _, key := range []string{keys.Lanes, keys.Parked} {
		if err := d.eachMember(ctx, c.partition, tag+key, func(lane string) { lanes[lane] = true }); err != nil {
			return err
		}
	}
	for _, lane := range d.keys[c.partition].ready {
		lanes[lane] = true
	}
	for _, set := range d.keys[c.partition].behind {
		lane, _, _ := strings.Cut(set, ":")
		lanes[lane] = true
	}
	delete(lanes, "*")
	c.lanes, c.behind = slices.Sorted(maps.Keys(lanes)), d.keys[c.partition].behind
	return d.readHolders(ctx)
}

// read counts, in as many calls as it takes.
func (c *recount) read(ctx context.Context) error {
	var due, dead int64 = 1, 1
	complete, listed := int64(0), int64(0)
	c.whole = true
	for page := int64(0); page == 0 || page < max(due, dead, int64(len(c.lanes)), int64(len(c.behind))); page += countPage {
		lanes, sets := paged(c.lanes, page), paged(c.behind, page)
		args := []any{page, page + countPage - 1, page, page + countPage - 1, len(lanes)}
		for _, name := range slices.Concat(lanes, sets) {
			args = append(args, name)
		}
		a, err := c.d.call(ctx, c.d.s.scripts.doctor.count, c.partition, args...)
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
			c.is.put("counts in_flight", flying)
			c.is.put("counts dead", dead)
			c.is.put("counts delivered", sizes.Number())
			c.is.put("counts cancelled", sizes.Number())
		}
		complete += c.take(a, lanes, sets, page == 0)
		if a.Err != nil || sizes.Err != nil {
			return conn.ErrReply
		}
	}
	c.whole = c.whole && complete == listed
	return c.settle(ctx)
}

// take reads what one call counted, and answers how many of its lanes have a
// count.
func (c *recount) take(a *conn.Reply, lanes, sets []string, first bool) (counted int64) {
	c.is.put("counts scheduled", a.Number())
	c.is.put("counts retrying", a.Number())
	for found := (conn.Reply{Values: a.List()}); found.More(); {
		lane := found.Text()
		c.is.put("waiting "+lane, found.Number())
		c.is.put("in "+lane, found.Number())
	}
	for found := (conn.Reply{Values: a.List()}); found.More(); {
		c.is.put("buried "+found.Text(), found.Number())
	}
	said := conn.Reply{Values: a.List()}
	for _, lane := range lanes {
		var flying, waiting int64
		if text := said.Text(); text != "" {
			counted++
			_, _ = fmt.Sscanf(text, "%d %d", &flying, &waiting) // what can't be read counts as nothing, as in the scripts
		}
		c.said.put("in "+lane, flying)
		c.said.put("waiting "+lane, waiting)
		c.shows[lane] = said.Number()
		ready := said.Number()
		c.is.put("waiting "+lane, ready)
		c.is.put("counts ready", ready)
	}
	lengths := conn.Reply{Values: a.List()}
	for _, set := range sets {
		if n := lengths.Number(); n > 0 {
			lane, _, _ := strings.Cut(set, ":")
			c.sets[lane]++
			c.is.put("waiting "+lane, n-1)
			c.is.put("counts scheduled", n-1)
		}
	}
	for _, prefix := range []string{"counts ", "buried "} {
		for found := (conn.Reply{Values: a.List()}); first && found.More(); {
			c.said.put(prefix+found.Text(), found.Number())
		}
	}
	return counted
}

// settle judges the lines: a lane that says to have more sets than are known
// may have made them since their names were read. Then they are read again, and
// it is believed only if nothing happened meanwhile.
func (c *recount) settle(ctx context.Context) error {
	hidden := false
	for _, lane := range c.lanes {
		hidden = hidden || c.shows[lane] > c.sets[lane]
	}
	if !hidden || !c.whole {
		return nil
	}
	before := c.token
	if err := c.d.readSets(ctx, c.partition); err != nil {
		return err
	}
	a, err := c.d.call(ctx, c.d.s.scripts.doctor.count, c.partition, 1, 0, 1, 0, 0)
	if err != nil {
		return err
	}
	c.whole = a.Text() == before && slices.Equal(c.behind, c.d.keys[c.partition].behind)
	return a.Err
}

// compare answers what has to be added to what the counts say.
func (c *recount) compare() tally {
	for _, lane := range c.lanes {
		c.is.put("sets "+lane, c.sets[lane])
		c.said.put("sets "+lane, c.shows[lane])
	}
	add := tally{}
	for field, n := range c.is {
		add.put(field, n-c.said[field])
	}
	for field, n := range c.said {
		if _, counted := c.is[field]; !counted {
			add.put(field, -n)
		}
	}
	maps.DeleteFunc(add, func(_ string, by int64) bool { return by == 0 })
	return add
}

func (t tally) put(field string, n int64) { t[field] += n }

// paged is one page of a list, empty behind its end.
func paged(list []string, from int64) []string {
	if from >= int64(len(list)) {
		return nil
	}
	return list[from:min(int(from)+countPage, len(list))]
}

// readSets reads the names of a partition's lines again.
func (d *doctor) readSets(ctx context.Context, n int) error {
	prefix := d.s.tags[n] + keys.Behind
	var sets []string
	err := d.eachKey(ctx, prefix+"*", func(key string) { sets = append(sets, strings.TrimPrefix(key, prefix)) })
	slices.Sort(sets)
	d.keys[n].behind = slices.Compact(sets)
	return err
}

// correct adds differences to the counts.
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
		if _, err := d.call(ctx, d.s.scripts.doctor.add, n, args...); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(rest, 3*judgeBatch) {
		if _, err := d.call(ctx, d.s.scripts.doctor.add, n, append([]any{0}, some...)...); err != nil {
			return err
		}
	}
	return nil
}

// eachField goes through the fields of a hash in pages.
func (d *doctor) eachField(ctx context.Context, n int, key string, do func(field string)) error {
	for cursor := uint64(0); ; {
		var page *redis.ScanCmd
		err := d.s.conn.At(ctx, "read "+key, n, func(p redis.Pipeliner) { page = p.HScan(ctx, key, cursor, "", scanPage) })
		if err != nil {
			return err
		}
		fields, next := page.Val()
		for i := 0; i < len(fields); i += 2 {
			do(fields[i])
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// eachMember goes through the members of a sorted set in pages.
func (d *doctor) eachMember(ctx context.Context, n int, key string, do func(member string)) error {
	for cursor := uint64(0); ; {
		var page *redis.ScanCmd
		err := d.s.conn.At(ctx, "read "+key, n, func(p redis.Pipeliner) { page = p.ZScan(ctx, key, cursor, "", scanPage) })
		if err != nil {
			return err
		}
		members, next := page.Val()
		for i := 0; i < len(members); i += 2 {
			do(members[i])
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
