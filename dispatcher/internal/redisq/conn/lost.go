package conn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// slow is how long a call must have taken before its timeout proves anything about
// its master.
const slow = time.Second

// onLost acts on an error that is no answer of Redis. It cuts the connections that
// are dead, finds out whether another node has taken over, and keeps other calls
// from waiting too.
func (c *Client) onLost(ctx context.Context, master *redis.Client, err error, began time.Time) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, redis.ErrPoolTimeout):
		return // the caller gave up; it was never sent
	case IsTimeout(err) && time.Since(began) < slow:
		return
	}
	c.Doubt()
	addr := master.Options().Addr
	if IsTimeout(err) {
		if c.cluster == nil && c.answers(master) {
			return // only this call took too long: the connections of others are alive, and leases stay
		}
		if c.cluster == nil {
			addr = "" // of any node to which the client's address led
		}
		c.conns.cut(addr, began)
	}
	if c.cluster == nil {
		return
	}
	c.reload(ctx)
	c.breaker.trip(tripped{addr, silentMaster}, err, func(ctx context.Context) bool {
		c.reload(ctx)
		call, cancel := context.WithTimeout(ctx, probeWithin)
		defer cancel()
		err := master.Ping(call).Err()
		if err != nil && Word(err) == "" && !errors.Is(err, redis.ErrClosed) && c.holds(addr) {
			return false
		}
		c.NoteTakeover()
		return true
	})
}

// onWeak has durable calls to a master refused at once until its writes become
// durable again. Else each would hold up the calls to the others by waitMost.
func (c *Client) onWeak(master *redis.Client, why error) {
	if c.cluster == nil {
		return
	}
	addr := master.Options().Addr
	c.breaker.trip(tripped{addr, weakMaster}, why, func(ctx context.Context) bool {
		pipe := master.Pipeline()
		pipe.Ping(ctx) // a wait is for what was written before the command before it
		waited := c.askDurable(ctx, pipe)
		_, err := pipe.Exec(ctx)
		return err == nil && waited() == nil || errors.Is(err, redis.ErrClosed) || !c.holds(addr)
	})
}

// answers reports whether a server answers a question of its own.
func (c *Client) answers(server *redis.Client) bool {
	call, cancel := context.WithTimeout(c.breaker.end, probeWithin)
	defer cancel()
	return server.Ping(call).Err() == nil
}

// NoteTakeover notes that another node may have taken over, which may know less
// than the one before it.
func (c *Client) NoteTakeover() {
	c.Doubt()
	select {
	case c.takeovers <- struct{}{}:
	default: // one is noted already
	}
}

// Takeovers has a value after another node may have taken over.
func (c *Client) Takeovers() <-chan struct{} { return c.takeovers }

// lostOf is the first error that is no answer of Redis.
func lostOf(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && Word(err) == "" {
			return err
		}
	}
	return nil
}

// IsTimeout reports whether nothing was answered within the time that there was.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
