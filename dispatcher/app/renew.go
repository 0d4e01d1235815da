package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/metrics"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/signer"
)

// A Renewal replaces keys and secrets of a running process. A zero field changes
// nothing.
type Renewal struct {
	Err     error // the new ones could not be read, so nothing is changed
	Keys    Keys
	Secrets []signer.Secret
	Seal    *Seal
	Done    chan error // capacity 1: receives nil, or the error if nothing was changed
}

// renewer applies renewals.
type renewer struct {
	keyring *callers.KeyRing
	engine  *engine.Engine
	store   *redisq.Store
	reloads *metrics.Reloads
	log     *slog.Logger
}

// run applies renewals until ctx ends.
func (r renewer) run(ctx context.Context, renewals <-chan Renewal) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-renewals:
			before := r.keyring.Keys()
			err := r.renew(n)
			r.reloads.Reloaded(err)
			n.Done <- err
			r.countLinks(ctx, before.Without(r.keyring.Keys()))
		}
	}
}

// countFor is the timeout of counting links: 10,000 take some 50 ms of Redis.
const countFor = 10 * time.Second

// countLinks logs the number of links that ended because their keys were removed.
func (r renewer) countLinks(ctx context.Context, gone []string) {
	if len(gone) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	n, err := r.store.Access().CountLinks(ctx, gone)
	switch {
	case err != nil:
		r.log.WarnContext(ctx, "links of keys that were taken away were not counted", "keys", len(gone), "err", err)
	case n > 0:
		r.log.InfoContext(ctx, "links ended with their keys", "keys", len(gone), "links", n)
	}
}

// renew applies a renewal. If a part of it fails, it applies nothing.
func (r renewer) renew(n Renewal) error {
	if n.Err != nil {
		return n.Err
	}
	if n.Seal != nil && !r.store.Endpoints.MayReseal(n.Seal) {
		return errors.New("ENCRYPTION_KEY: a key that is in use is no longer there, so that endpoints may be lost; a key is dropped with a restart, after hookladder doctor --seal")
	}
	if len(n.Secrets) > 0 {
		if err := r.engine.Resign(n.Secrets); err != nil {
			return fmt.Errorf("SIGNING_SECRET: %w", err)
		}
	}
	if n.Seal != nil {
		r.store.Endpoints.Reseal(n.Seal)
	}
	if !n.Keys.Empty() {
		r.keyring.Renew(n.Keys)
	}
	return nil
}
