package conn

import (
	"context"
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
	ByNothing = "none"
	ByWait    = "wait"               // WAIT: so many replicas have it in memory
	ByWaitAOF = "waitaof"            // WAITAOF: the master has it on its disk
	ByAlways  = "appendfsync always" // an older master answers only then, if it is set so
)

// DurableBy tells by what a durable call is made as durable as the options ask.
func (c *Client) DurableBy() string { return c.durableWay }

// FindDurable finds out by what it can be made so. WAITAOF is tried, not looked
// up: a user may be forbidden what the server can.
func (c *Client) FindDurable(ctx context.Context) error {
	switch {
	case c.options.Durability.Replicas > 0:
		c.durableWay = ByWait
	case !c.options.Durability.Fsync:
		c.durableWay = ByNothing
	default:
		c.durableWay = ByWaitAOF
		err := c.At(ctx, "waitaof", Home, func(p redis.Pipeliner) { p.Do(ctx, "waitaof", 0, 0, 1) })
		if err != nil && Meaning(err) != nil {
			return err
		}
		if err != nil {
			c.durableWay = ByAlways
		}
	}
	return nil
}

// askDurable queues the wait for what was queued before it to be durable: one
// for all of it, on the same connection, since that is whose writes are waited
// for. What it answers has to be asked behind the trip; nil: it is durable.
func (c *Client) askDurable(ctx context.Context, pipe redis.Pipeliner) func() error {
	most := waitMost
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)-waitLeft)
	}
	ms := max(most.Milliseconds(), 1) // 0 would be for ever
	switch c.durableWay {
	case ByWait:
		n := pipe.Do(ctx, "wait", c.options.Durability.Replicas, ms)
		return func() error {
			have, err := n.Int()
			return notDurable(have, c.options.Durability.Replicas, "replicas have it", err)
		}
	case ByWaitAOF:
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
