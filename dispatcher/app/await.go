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
	// awaitPause is the time between two attempts. Where both are started together,
	// Redis may be a second late: the start is to be little later than that.
	awaitPause = 250 * time.Millisecond
	// awaitLine is the time between two log lines about the wait.
	awaitLine = 5 * time.Second
)

// await opens a store that may not be there yet. It tries again for
// Options.StoreWait. Wrong settings are an error at once.
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

// comes reports whether a store that could not be opened may be ready soon: it was not
// reached, it loads its data, or it fails over.
func comes(err error) bool {
	return errors.Is(err, dispatcher.ErrUnavailable) && !conn.Refused(err)
}

// open opens a store that answers and is fit for use.
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

// openAny opens a store, fit for use or not.
func openAny(ctx context.Context, at string, o Options) (*redisq.Store, error) {
	store, err := redisq.Open(ctx, storeOptions(at, o))
	return store, named(o, err)
}

// named prefixes the error of an unreachable store with the name of the setting.
func named(o Options, err error) error {
	if err == nil || o.RedisURL == "" || !errors.Is(err, dispatcher.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("REDIS_URL: %w", err)
}
