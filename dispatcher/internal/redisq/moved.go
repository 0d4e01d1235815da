package redisq

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// An instance that was stopped for so long that it was taken for dead, a
// process that somebody continues or a machine that slept, may wake up after a
// repartition: what it then accepted would lie where nobody looks. Another
// version may have changed the layout of the keys meanwhile, or another store
// may be behind the same address. So the instance reads :meta again
//
//   - where its last beat is old, before it accepts anything,
//   - with the beat that finds its name forgotten,
//   - with the next beat after a connection was lost, the subscription began
//     anew or another node took over, until :meta is there.
//
// Where the project is not as it was, every call of the instance fails, and its
// engine ends.

// division is how the project was divided, and its keys laid out, when it was
// opened.
type division struct {
	beaten atomic.Int64          // wall clock in ns of the last beat; a machine that sleeps stops the other one
	doubts atomic.Int64          // grows with each event after which :meta may be another
	solved atomic.Int64          // doubts when :meta was last read
	moved  atomic.Pointer[error] // nil: it is still as it was
}

// stay is said when a beat was answered.
func (d *division) stay() { d.beaten.Store(time.Now().UnixNano()) }

// old reports whether so long ago that anything may have happened since.
func (d *division) old() bool {
	beaten := d.beaten.Load()
	return beaten != 0 && time.Now().UnixNano()-beaten > int64(dispatcher.BeatOld)
}

// doubt has :meta read again with the next beat.
func (d *division) doubt() { d.doubts.Add(1) }

// doubted answers the number of doubts where :meta has to be read again, else 0.
func (d *division) doubted() int64 {
	if n := d.doubts.Load(); n != d.solved.Load() {
		return n
	}
	return 0
}

// mustStand makes sure that the project is as it was. That it can't be asked is
// no error: other partitions may answer.
func (s *Store) mustStand(ctx context.Context) error {
	doubts := s.division.doubts.Load()
	var have *redis.SliceCmd
	err := s.at(ctx, "read "+s.home()+keys.Meta, home, func(p redis.Pipeliner) { have = s.readDivision(ctx, p) })
	if err == nil {
		s.compareDivision(have, doubts)
	}
	return s.stands()
}

// readDivision reads the fields of :meta that compareDivision needs.
func (s *Store) readDivision(ctx context.Context, p redis.Pipeliner) *redis.SliceCmd {
	return p.HMGet(ctx, s.home()+keys.Meta, metaPartitions, metaRepartition, metaSchema, metaID)
}

// compareDivision compares what :meta says with what it said at the start. An
// empty :meta, of a store that lost everything, proves nothing and is read again,
// until another instance made the project anew, under an id of its own.
func (s *Store) compareDivision(have *redis.SliceCmd, doubts int64) {
	if have == nil || len(have.Val()) < 4 {
		return
	}
	partitions, _ := have.Val()[0].(string)
	text, _ := have.Val()[1].(string)
	schema, _ := have.Val()[2].(string)
	id, _ := have.Val()[3].(string)
	if id != s.identity.get() && s.identity.take(id) {
		s.noteTakeover() // what was published under it passed by
	}
	under, err := parseMark(text)
	begun := text != "" && (err != nil || under.phase > phaseBegin)
	switch {
	case begun || partitions != "" && partitions != strconv.Itoa(len(s.tags)):
		s.move(fmt.Errorf("project %s is no longer divided into %d partitions: start this instance anew: %w",
			s.project, len(s.tags), dispatcher.ErrMoved))
	case schema != "" && s.layoutOf(schema) != nil:
		s.move(fmt.Errorf("%w: %w", s.layoutOf(schema), dispatcher.ErrMoved))
	case partitions != "" && schema != "":
		s.division.solved.Store(doubts)
	default:
		s.division.doubt()
	}
}

func (s *Store) move(err error) { s.division.moved.CompareAndSwap(nil, &err) }

// layoutOf refuses a layout of the keys that this version does not know.
func (s *Store) layoutOf(schema string) error {
	known, _ := strconv.Atoi(schemaVersion)
	switch n, err := strconv.Atoi(schema); {
	case schema == schemaVersion:
		return nil
	case err == nil && n < known:
		return fmt.Errorf("the keys of project %s have the older layout %s, this version knows %s only: stop all older instances and use another PROJECT, "+
			"or an empty database; let the older version finish first what waits there", s.project, schema, schemaVersion)
	default:
		return fmt.Errorf("the keys of project %s have layout %q, this version knows %s only: start the newer version that made them", s.project, schema, schemaVersion)
	}
}

// stands is the error of every call once the project is not as it was.
func (s *Store) stands() error {
	if moved := s.division.moved.Load(); moved != nil {
		return *moved
	}
	return nil
}
