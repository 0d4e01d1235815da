// Package redistest gives tests a Redis of their own: a real redis-server that
// can be killed, stopped and started again, or miniredis in a process
// beside the test. Neither is ever the Redis that a machine may run for itself.
package redistest

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a server that belongs to one test and ends with it.
type Redis interface {
	// URL is the address as REDIS_URL has it; it stays the same over a Restart.
	URL() string
	// Kill ends the server as a crash would: no farewell, connections cut.
	Kill()
	// Restart starts it again, at its address and with what it kept.
	Restart()
	// Stop ends it for good, cleanly.
	Stop()
}

// startWait bounds how long a server may take until it answers. A healthy one
// takes some 20 ms; loading a large append-only file on a busy machine takes
// seconds.
const startWait = 30 * time.Second

// waitReady returns when the server at url has answered PING, or with the last
// error once startWait is over. ended tells early that there is no server any
// more.
func waitReady(url string, ended <-chan struct{}) error {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("wait for redis: %w", err)
	}
	opt.MaxRetries = -1
	client := redis.NewClient(opt)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// While the server loads its file it answers LOADING, which is not yet ready.
		err := client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("wait for redis: it ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("wait for redis: %w", err)
		case <-tick.C:
		}
	}
}
