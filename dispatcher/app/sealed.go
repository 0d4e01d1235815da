package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
)

// ErrLocked reports that endpoints are encrypted with keys that ENCRYPTION_KEY lacks.
var ErrLocked = errors.New("endpoints can't be opened")

// checkSealed returns an error at the start if endpoints can't be decrypted, because their
// deliveries would wait for a correct setting.
func checkSealed(ctx context.Context, store *redisq.Store, o Options) error {
	l, err := store.Endpoints.LockedEndpoints(ctx)
	if err != nil {
		return fmt.Errorf("check ENCRYPTION_KEY: %w", err)
	}
	if l.Plain > 0 {
		o.Log.Warn("endpoints were stored without ENCRYPTION_KEY: nothing is sent to them until they are sealed",
			"endpoints", l.Plain, "cure", "run hookladder doctor --seal with this ENCRYPTION_KEY")
	}
	if l.Endpoints == 0 {
		return sampleHeaders(ctx, store, o)
	}
	least, were, what := "", "endpoints were", "ENCRYPTION_KEY has other keys than"
	if l.Least {
		least = "at least "
	}
	if l.Endpoints == 1 && !l.Least {
		were = "endpoint was"
	}
	if o.Seal == nil {
		what = "ENCRYPTION_KEY is not set, but needed are"
	}
	return fmt.Errorf("%w: %s those with which %s%d %s sealed (key ids %s); set ENCRYPTION_KEY to the key they were stored with, "+
		"behind a new one if there is one; then hookladder doctor --seal encrypts all with the first", ErrLocked, what, least, l.Endpoints, were, strings.Join(l.Keys, ", "))
}

// headersSample is how many messages a start reads, which takes some milliseconds. doctor reads all.
const headersSample = 1024

// sampleHeaders logs that headers of messages can't be decrypted. That is no error, because only these
// messages wait, and if their key is lost for good the others must still be delivered.
func sampleHeaders(ctx context.Context, store *redisq.Store, o Options) error {
	read, unopened, err := admin.SampleHeaders(ctx, store, headersSample)
	if err != nil {
		return fmt.Errorf("check ENCRYPTION_KEY: %w", err)
	}
	if unopened > 0 {
		o.Log.Error("headers of messages can't be opened: those that are not finished wait alone", "messages", unopened, "of", read,
			"cure", "add the key with which they were sealed to ENCRYPTION_KEY; hookladder doctor counts all of them")
	}
	return nil
}
