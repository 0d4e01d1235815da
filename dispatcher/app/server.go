package app

import (
	"context"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/internal/devredis"
	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

// startDev starts a store in memory; tests start one whose clock is wrong.
var startDev = devredis.Start

// storeURL is the URL of the store. It starts a server of our own, if one is asked for.
// end stops that server, as the last thing that a process does.
func storeURL(ctx context.Context, o Options) (url string, end func() error, err error) {
	switch {
	case o.InMemory:
		dev, err := startDev()
		if err != nil {
			return "", nil, err
		}
		return dev.URL(), func() error { dev.Close(); return nil }, nil
	case o.DataDir != "":
		server, err := embedded.Start(ctx, embedded.Options{Dir: o.DataDir, Fsync: o.Durability.Fsync, Log: o.Log})
		if err != nil {
			return "", nil, fmt.Errorf("DATA_DIR: %w", err)
		}
		return server.URL(), server.Close, nil
	}
	return o.RedisURL, func() error { return nil }, nil
}

// joinURL is storeURL for a command that examines a store while others work. A server
// of our own may run already, under another process, and end does not stop it then.
func joinURL(ctx context.Context, o Options) (url string, end func() error, err error) {
	if o.DataDir != "" {
		if url := embedded.Running(ctx, o.DataDir); url != "" {
			return url, func() error { return nil }, nil
		}
	}
	return storeURL(ctx, o)
}
