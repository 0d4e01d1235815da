package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

const (
	// awaitPause is between two tries: a Redis that is a second late, as where
	// both are started together, shall cost little more than that second.
	awaitPause = 250 * time.Millisecond
	// awaitLine is between two lines that tell of the wait.
	awaitLine = 5 * time.Second
)

// await opens a store that may not be there yet: for Options.StoreWait it is
// tried again and again. Settings that are wrong are told at once.
func await(ctx context.Context, at string, o Options) (*redisq.Store, error) {
	began, said := time.Now(), time.Time{}
	for {
		store, err := open(ctx, at, o)
		if err == nil || !comes(err) || ctx.Err() != nil || o.StoreWait == 0 {
			return store, err
		}
		waited := time.Since(began)
		if waited >= o.StoreWait {
			return nil, fmt.Errorf("%w (waited %s for it)", err, waited.Round(time.Second))
		}
		if time.Since(said) >= awaitLine {
			said = time.Now()
			o.Log.WarnContext(ctx, "waiting for the store", "waited_s", waited.Round(time.Millisecond).Seconds(), "most_s", o.StoreWait.Seconds(), "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}

// comes reports whether a store that could not be opened may be there in a
// moment: it is not reached, loads its data, or fails over.
func comes(err error) bool {
	return errors.Is(err, dispatcher.ErrUnavailable) && !conn.Refused(err)
}

// open opens a store that answers, and that may be used.
func open(ctx context.Context, at string, o Options) (*redisq.Store, error) {
	store, err := openAny(ctx, at, o)
	if err != nil {
		return nil, err
	}
	if err := admit(ctx, store, o); err != nil {
		return nil, named(o, errors.Join(fmt.Errorf("open store: %w", err), store.Close()))
	}
	return store, nil
}

// openAny opens a store, whatever it says of itself.
func openAny(ctx context.Context, at string, o Options) (*redisq.Store, error) {
	store, err := redisq.Open(ctx, storeOptions(at, o))
	return store, named(o, err)
}

// named begins an error of a store that can't be reached with the setting that
// says where it is.
func named(o Options, err error) error {
	if err == nil || o.RedisURL == "" || !errors.Is(err, dispatcher.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("REDIS_URL: %w", err)
}
