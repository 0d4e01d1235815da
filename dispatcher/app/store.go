package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/devredis"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// openStore opens the store that the options ask for, and answers how to close it.
func openStore(ctx context.Context, o Options) (*redisq.Store, func() error, error) {
	end := func() {}
	if o.InMemory {
		dev, err := devredis.Start()
		if err != nil {
			return nil, nil, err
		}
		o.RedisURL, end = dev.URL(), dev.Close
	}
	store, err := redisq.Open(ctx, redisq.Options{
		URL:        o.RedisURL,
		Project:    o.Project,
		Partitions: o.Partitions,
		MaxWindow:  o.LaneMax,
		MaxWaiting: o.MaxWaiting,
		Permits:    o.Engine.MaxInFlight,

		BreakerFailures: o.BreakerFailures,
		BreakerWait:     o.BreakerWait,

		Seal: o.Seal,
		Log:  o.Log,
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	closeAll := func() error {
		err := store.Close()
		end()
		return err
	}
	info, err := store.Store(ctx)
	if err == nil && !o.InMemory {
		err = judgeStore(info)
		for _, w := range storeWarnings(info) {
			o.Log.Warn(w, "store", info.Kind, "version", info.Version)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open store: %w", err), closeAll())
	}
	return store, closeAll, nil
}

// judgeStore refuses a store that is known to lose what it acknowledged. One
// that does not tell is taken.
func judgeStore(info dispatcher.StoreInfo) error {
	switch {
	case info.Kind == "miniredis":
		return errors.New("it keeps nothing; use a real Redis")
	case strings.HasPrefix(info.Eviction, "allkeys-"):
		return fmt.Errorf("maxmemory-policy is %s, so it would throw deliveries away when it is full: set it to noeviction", info.Eviction)
	}
	return nil
}

// storeWarnings are what a person should know of a store that is taken.
func storeWarnings(info dispatcher.StoreInfo) (warnings []string) {
	if info.AppendOnly == nil {
		return []string{"the store does not tell whether it keeps an append-only file"}
	}
	if !*info.AppendOnly {
		warnings = append(warnings, "the store keeps no append-only file: if it dies, what came after its last snapshot is lost")
	}
	return warnings
}
