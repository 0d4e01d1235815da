package redisq

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Fields of :meta.
const (
	metaPartitions  = "partitions"
	metaSchema      = "schema"
	metaID          = "id"          // random, of the project, in all that is published
	metaRepartition = "repartition" // "<from> <to> <phase>" while one is under way
)

// mark is how far a repartition came.
type mark struct {
	from, to int
	phase    phase
}

// phase is a part of a repartition, of which each may be done again, but none
// after the one that follows it.
type phase int

// The phases, in their order.
const (
	phaseBegin phase = iota // nothing was changed yet
	phaseIDs                // known ids are copied to where they may be asked for
	phaseMove               // what belongs to lanes is moved
	phaseCount              // counts are made anew, what is left over goes
)

var phases = [...]string{"begin", "ids", "move", "count"}

// String is the phase's word.
func (p phase) String() string { return phases[p] }

func (m mark) String() string { return fmt.Sprintf("%d %d %s", m.from, m.to, m.phase) }

func parseMark(text string) (mark, error) {
	var m mark
	var word string
	if _, err := fmt.Sscanf(text, "%d %d %s", &m.from, &m.to, &word); err == nil && m.from > 0 && m.to > 0 {
		for p, name := range phases {
			if name == word {
				m.phase = phase(p)
				return m, nil
			}
		}
	}
	return m, fmt.Errorf("its mark of a repartition is %q, which this version does not know", text)
}

// underWay refuses a project of which a repartition has not ended: a part of
// it lies where nobody would look.
func underWay(meta map[string]string) error {
	text := meta[metaRepartition]
	if text == "" {
		return nil
	}
	m, err := parseMark(text)
	if err != nil {
		return err
	}
	if m.phase == phaseBegin {
		return fmt.Errorf("a repartition from %d to %d partitions was begun, and moved nothing yet: wait for it, run hookladder repartition --to %d again, or give it up with --to %d",
			m.from, m.to, m.to, m.from)
	}
	return fmt.Errorf("a repartition from %d to %d partitions has not ended: run hookladder repartition --to %d again", m.from, m.to, m.to)
}

// readMark finds what is to be done, and whether it was begun before.
func (r *repartition) readMark(ctx context.Context) (m mark, again bool, err error) {
	key := r.home() + keys.Meta
	meta, err := r.meta(ctx, key)
	switch {
	case err != nil:
		return m, false, err
	case len(meta) == 0:
		return m, false, errors.New("there is no such project in this Redis")
	}
	if err := r.layoutOf(meta[metaSchema]); err != nil {
		return m, false, err
	}
	r.identity.take(meta[metaID]) // without one it is not heard, and no instance is there to hear it
	if text := meta[metaRepartition]; text != "" {
		m, err = parseMark(text)
		switch {
		case err != nil:
			return m, false, err
		case m.phase > phaseBegin && m.to != r.options.To:
			return m, false, fmt.Errorf("one from %d to %d partitions has not ended: finish it with --to %d first", m.from, m.to, m.to)
		case m.phase > phaseBegin:
			return m, true, nil
		}
		// It was ended before it changed anything.
	}
	m = mark{to: r.options.To}
	if m.from, err = strconv.Atoi(meta[metaPartitions]); err != nil || m.from < 1 {
		return m, false, fmt.Errorf("%s says %q partitions", key, meta[metaPartitions])
	}
	return m, false, nil
}

// reach marks that a phase has begun.
func (r *repartition) reach(ctx context.Context, p phase) error {
	r.mark.phase = p
	if p != phaseBegin {
		r.tell(p, -1)
	}
	return r.at(ctx, "mark", home, func(c redis.Pipeliner) {
		c.HSet(ctx, r.home()+keys.Meta, metaRepartition, r.mark.String())
	})
}

// mustBeMarked makes sure that it is still this that is under way: a run that
// was stopped for long may find that another has ended it.
func (r *repartition) mustBeMarked(ctx context.Context) error {
	have, err := r.meta(ctx, r.home()+keys.Meta)
	if err == nil && have[metaRepartition] != r.mark.String() {
		err = errors.New("another run has ended or changed it meanwhile")
	}
	return err
}

// unmark gives the project back as it was.
func (r *repartition) unmark(ctx context.Context) error {
	return r.at(ctx, "unmark", home, func(c redis.Pipeliner) { c.HDel(ctx, r.home()+keys.Meta, metaRepartition) })
}

// serve gives the project back with its new partitions. The mark goes last.
func (r *repartition) serve(ctx context.Context) error {
	return r.at(ctx, "unmark", home, func(c redis.Pipeliner) {
		c.HSet(ctx, r.home()+keys.Meta, metaPartitions, r.mark.to)
		c.HDel(ctx, r.home()+keys.Meta, metaRepartition)
	})
}
