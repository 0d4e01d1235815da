package redisq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// How long a publish waits for the disk or for replicas. A disk that takes
// longer is in trouble: the caller is told so and may repeat. waitLeft is
// kept of the caller's time for the answer to come back.
const (
	waitMost = 2 * time.Second
	waitLeft = 200 * time.Millisecond
)

// How what is written is made durable.
const (
	byNothing = "none"
	byWait    = "wait"               // WAIT: so many replicas have it in memory
	byWaitAOF = "waitaof"            // WAITAOF: the master has it on its disk
	byAlways  = "appendfsync always" // an older master answers only then, if it is set so
)

// durableBy tells by what a publish is made as durable as the options ask.
func (s *Store) durableBy() string { return s.durableWay }

// findDurable finds out by what it can be made so. WAITAOF is tried, not looked
// up: a user may be forbidden what the server can.
func (s *Store) findDurable(ctx context.Context) error {
	switch {
	case s.durability.Replicas > 0:
		s.durableWay = byWait
	case !s.durability.Fsync:
		s.durableWay = byNothing
	default:
		s.durableWay = byWaitAOF
		err := s.at(ctx, "waitaof", home, func(p redis.Pipeliner) { p.Do(ctx, "waitaof", 0, 0, 1) })
		if err != nil && meaningOf(err) != nil {
			return err
		}
		if err != nil {
			s.durableWay = byAlways
		}
	}
	return nil
}

// askDurable queues the wait for what was queued before it to be durable: one
// for all of it, on the same connection, since that is whose writes are waited
// for. What it answers has to be asked behind the trip; nil: it is durable.
func (s *Store) askDurable(ctx context.Context, pipe redis.Pipeliner) func() error {
	most := waitMost
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)-waitLeft)
	}
	ms := max(most.Milliseconds(), 1) // 0 would be for ever
	switch s.durableWay {
	case byWait:
		n := pipe.Do(ctx, "wait", s.durability.Replicas, ms)
		return func() error {
			have, err := n.Int()
			return notDurable(have, s.durability.Replicas, "replicas have it", err)
		}
	case byWaitAOF:
		n := pipe.Do(ctx, "waitaof", 1, 0, ms)
		return func() error {
			disks, err := n.Int64Slice()
			have := 0
			if len(disks) > 0 {
				have = int(disks[0])
			}
			return notDurable(have, 1, "disks have it", err)
		}
	}
	return func() error { return nil }
}

// noteWeak has publishes to a master refused at once until what is written there
// becomes durable again: each would hold up those to the others by waitMost. Like
// all gates these are a cluster's only.
func (s *Store) noteWeak(master *redis.Client, why error) {
	if s.cluster == nil {
		return
	}
	addr := master.Options().Addr
	s.weak.close(addr, why, func(ctx context.Context) bool {
		pipe := master.Pipeline()
		pipe.Ping(ctx) // a wait is for what was written before the command before it
		waited := s.askDurable(ctx, pipe)
		_, err := pipe.Exec(ctx)
		return err == nil && waited() == nil || errors.Is(err, redis.ErrClosed) || !s.serves(addr)
	})
}

// notDurable is the error of a write that fewer have than were asked for.
func notDurable(have, want int, what string, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: whether it is durable is unknown: %w", dispatcher.ErrNotDurable, err)
	case have < want:
		return fmt.Errorf("%w: %s of %d %s", dispatcher.ErrNotDurable, strconv.Itoa(have), want, what)
	}
	return nil
}
