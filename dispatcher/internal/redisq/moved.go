package redisq

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// An instance that was stopped for so long that it was taken for dead, a
// process that somebody continues or a machine that slept, may wake up after a
// repartition: what it then accepted would lie where nobody looks. So where its
// last beat is old, and where a beat finds its name forgotten, it makes sure
// that the project is still divided as it was. Where it is not, every call of
// it fails until it is started anew.

// beatTrusted is how old a beat may be: sooner nobody is taken for dead.
const beatTrusted = 5 * time.Second

// division is how the project was divided when it was opened.
type division struct {
	beaten atomic.Int64          // wall clock in ns of the last beat; a machine that sleeps stops the other one
	moved  atomic.Pointer[error] // nil: it still is
}

// stay is said when a beat was answered.
func (d *division) stay() { d.beaten.Store(time.Now().UnixNano()) }

// old reports whether so long ago that anything may have happened since.
func (d *division) old() bool {
	beaten := d.beaten.Load()
	return beaten != 0 && time.Now().UnixNano()-beaten > int64(beatTrusted)
}

// mustStand makes sure that the project is divided as it was. That it can't be
// asked is no error: other partitions may answer.
func (s *Store) mustStand(ctx context.Context) error {
	var have *redis.SliceCmd
	key := s.home() + keyMeta
	err := s.at(ctx, "read "+key, home, func(p redis.Pipeliner) { have = p.HMGet(ctx, key, metaPartitions, metaRepartition) })
	if err != nil || len(have.Val()) < 2 {
		return s.stands()
	}
	partitions, _ := have.Val()[0].(string)
	text, _ := have.Val()[1].(string)
	under, err := parseMark(text)
	begun := text != "" && (err != nil || under.phase > phaseBegin)
	if begun || partitions != "" && partitions != strconv.Itoa(len(s.tags)) {
		moved := fmt.Errorf("project %s is no longer divided into %d partitions: start this instance anew: %w",
			s.project, len(s.tags), dispatcher.ErrUnavailable)
		s.division.moved.Store(&moved)
	}
	return s.stands()
}

// stands is the error of every call once the project is divided otherwise.
func (s *Store) stands() error {
	if moved := s.division.moved.Load(); moved != nil {
		return *moved
	}
	return nil
}
