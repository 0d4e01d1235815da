package conn

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// How long a durable call waits for the disk or for replicas. A disk that takes
// longer is in trouble: the caller gets an error and may repeat. waitLeft is
// what is left of the caller's time for the answer to come back.
const (
	waitMost = 2 * time.Second
	waitLeft = 200 * time.Millisecond
)

// The ways in which writes are made durable.
const (
	ByNothing = "none"
	ByWait    = "wait"               // WAIT: so many replicas have the write in memory
	ByWaitAOF = "waitaof"            // WAITAOF: the master has the write on its disk
	ByAlways  = "appendfsync always" // an older master that is set so answers only when the write is on its disk
)

// DurableBy is the way in which calls are made as durable as the options ask.
func (c *Client) DurableBy() string { return c.durableWay }

// FindDurable finds that way. It tries WAITAOF instead of looking it up: the server
// may know it and still forbid it to the user.
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

// askDurable queues one wait for all writes that were queued before it on the same
// connection. The function that it answers has to be called after the round trip;
// it answers nil where the writes are durable.
func (c *Client) askDurable(ctx context.Context, pipe redis.Pipeliner) func() error {
	most := waitMost
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)-waitLeft)
	}
	ms := max(most.Milliseconds(), 1) // 0 would wait for ever
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

// notDurable is the error of a write that too few disks or replicas have.
func notDurable(have, want int, what string, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: whether it is durable is unknown: %w", dispatcher.ErrNotDurable, err)
	case have < want:
		return fmt.Errorf("%w: %s of %d %s", dispatcher.ErrNotDurable, strconv.Itoa(have), want, what)
	}
	return nil
}
