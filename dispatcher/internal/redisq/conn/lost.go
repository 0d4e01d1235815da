package conn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// slow is how long a call must have taken before its timeout says anything about its
// master.
const slow = time.Second

// onLost handles an error without a response of Redis. It closes dead connections, finds
// out whether another node has taken over, and opens the breaker so that other calls do
// not wait too.
func (c *Client) onLost(ctx context.Context, master *redis.Client, err error, began time.Time) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, redis.ErrPoolTimeout):
		return // the caller gave up before it was sent
	case IsTimeout(err) && time.Since(began) < slow:
		return
	}
	c.Doubt()
	addr := master.Options().Addr
	if IsTimeout(err) {
		if c.cluster == nil && c.answers(master) {
			return // only this call took too long; other connections and leases are fine
		}
		if c.cluster == nil {
			addr = "" // of any node behind the client's address
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

// onWeak makes durable calls to a master fail at once until its writes become durable
// again. Otherwise each would delay the calls to other masters by waitMost.
func (c *Client) onWeak(master *redis.Client, why error) {
	if c.cluster == nil {
		return
	}
	addr := master.Options().Addr
	c.breaker.trip(tripped{addr, weakMaster}, why, func(ctx context.Context) bool {
		pipe := master.Pipeline()
		pipe.Ping(ctx) // a wait covers the writes before the previous command
		waited := c.askDurable(ctx, pipe)
		_, err := pipe.Exec(ctx)
		return err == nil && waited() == nil || errors.Is(err, redis.ErrClosed) || !c.holds(addr)
	})
}

// answers reports whether a server responds to a ping.
func (c *Client) answers(server *redis.Client) bool {
	call, cancel := context.WithTimeout(c.breaker.end, probeWithin)
	defer cancel()
	return server.Ping(call).Err() == nil
}

// NoteTakeover reports that another node may have taken over, which may have older data.
func (c *Client) NoteTakeover() {
	c.Doubt()
	select {
	case c.takeovers <- struct{}{}:
	default: // one is pending already
	}
}

// Takeovers returns a channel with a value after another node may have taken over.
func (c *Client) Takeovers() <-chan struct{} { return c.takeovers }

// lostOf returns the first error without a response of Redis.
func lostOf(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && Word(err) == "" {
			return err
		}
	}
	return nil
}

// IsTimeout reports whether an error is a timeout.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
