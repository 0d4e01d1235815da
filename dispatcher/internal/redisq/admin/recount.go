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

// countPage bounds counting: so many entries of each of four kinds are read in one
// call: as many take some 4 ms. A partition that holds more is counted in several
// calls, which only belong together where nothing happened between them.
const countPage = 1000

// tally are numbers by what they count: "in <lane>", "waiting <lane>", "sets
// <lane>", "counts <status>", "buried <lane> <reason>".
type tally map[string]int64

// recount counts one partition once.
type recount struct {
	w         *walker
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

// newRecount counts a partition, whose names must have been read, once.
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
		is: tally{}, said: tally{}, sets: map[string]int64{}, shows: map[string]int64{},
	}
	return c, c.read(ctx)
}

// read counts, in as many calls as it takes.
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
		a, err := c.w.call(ctx, c.w.s.scripts.count, c.partition, args...)
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
	if err := c.readSets(ctx); err != nil {
		return err
	}
	a, err := c.w.call(ctx, c.w.s.scripts.count, c.partition, 1, 0, 1, 0, 0)
	if err != nil {
		return err
	}
	c.whole = a.Text() == before && slices.Equal(c.behind, c.w.rings[c.partition][keys.Behind])
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

// readSets reads the names of the partition's lines again.
func (c *recount) readSets(ctx context.Context) error {
	prefix := c.w.s.tags[c.partition] + keys.Behind
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
