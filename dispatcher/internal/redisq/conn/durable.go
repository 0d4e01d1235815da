package conn

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// Timeouts of a durable call for the disk or for replicas. A disk that takes longer has a
// fault, so the caller gets an error and may retry. waitLeft is the part of the caller's
// time that is left for the response.
const (
	waitMost = 2 * time.Second
	waitLeft = 200 * time.Millisecond
)

// The ways to make writes durable.
const (
	ByNothing = "none"
	ByWait    = "wait"               // WAIT: the required number of replicas have the write in memory
	ByWaitAOF = "waitaof"            // WAITAOF: the master has the write on its disk
	ByAlways  = "appendfsync always" // an older master with this setting responds only when the write is on its disk
)

// DurableBy returns the way in which calls are made durable.
func (c *Client) DurableBy() string { return c.durableWay }

// FindDurable detects that way. It tries WAITAOF instead of a version check, because the
// server may have it and still forbid it to the user.
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

// askDurable queues one wait for all writes before it on the same connection. The
// returned function must be called after the round trip. It returns nil if the writes are
// durable.
func (c *Client) askDurable(ctx context.Context, pipe redis.Pipeliner) func() error {
	most := waitMost
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)-waitLeft)
	}
	ms := max(most.Milliseconds(), 1) // 0 would wait forever
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

// notDurable returns the error of a write that too few disks or replicas have.
func notDurable(have, want int, what string, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: whether it is durable is unknown: %w", dispatcher.ErrNotDurable, err)
	case have < want:
		return fmt.Errorf("%w: %s of %d %s", dispatcher.ErrNotDurable, strconv.Itoa(have), want, what)
	}
	return nil
}
