package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/signer"
)

// A Renewal is what a running process uses from now on, in place of what it was
// started with. What is zero stays as it was.
type Renewal struct {
	Keys    Keys
	Secrets []signer.Secret
	Seal    *Seal
	Done    chan error // 1 deep: told what came of it: all of it is used, or none
}

// renewer puts renewals to use.
type renewer struct {
	keyring *httpapi.Keyring
	engine  *dispatcher.Dispatcher
	store   *redisq.Store
}

// run puts renewals to use until ctx ends.
func (r renewer) run(ctx context.Context, renewals <-chan Renewal) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-renewals:
			n.Done <- r.renew(n)
		}
	}
}

// renew uses all of a renewal, or nothing where part of it can't be used.
func (r renewer) renew(n Renewal) error {
	if n.Seal != nil && !r.store.MayReseal(n.Seal) {
		return errors.New("ENCRYPTION_KEY: a key that is in use is no longer there, so that endpoints may be lost; a key is dropped with a restart, after hookladder doctor --seal")
	}
	if len(n.Secrets) > 0 {
		if err := r.engine.Resign(n.Secrets); err != nil {
			return fmt.Errorf("SIGNING_SECRET: %w", err)
		}
	}
	if n.Seal != nil {
		r.store.Reseal(n.Seal)
	}
	if !n.Keys.Empty() {
		r.keyring.Renew(n.Keys)
	}
	return nil
}
