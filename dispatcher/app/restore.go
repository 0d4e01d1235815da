package app

import (
	"context"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/restore"
	"github.com/hookladder/hookladder/dispatcher/internal/restorer"
)

// Restored is the result of a restore.
type Restored = restorer.Report

// LostEndpoint is one whose deliveries were restored without it.
type LostEndpoint = restorer.LostEndpoint

// RestoreStep is the progress of a restore.
type RestoreStep = restorer.Step

// RestoreOptions say how a store is restored.
type RestoreOptions struct {
	IntoRunning bool // also where nothing counts as lost
	Dead        bool // dead deliveries are put back too
	DryRun      bool
	By          string            // for the archive's audit
	Tell        func(RestoreStep) // nil: it is not called
}

// restoreWaits is how long a restore into a running store waits until the archive has all of its log.
const restoreWaits = 5 * time.Second

// Restore makes the store of the options of their archive again.
func Restore(ctx context.Context, o Options, r RestoreOptions) (out Restored, err error) {
	vault, err := postgres.OpenVault(ctx, archiveOptions(o))
	if err != nil {
		return out, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	defer vault.Close()
	err = withStore(ctx, o, func(store *redisq.Store) error {
		out, err = restorer.Restore(ctx, restorer.Options{
			From: vault, To: restore.New(store, r.By), IntoRunning: r.IntoRunning, Dead: r.Dead, DryRun: r.DryRun,
			Wait:   restoreWaits,
			Limits: o.Engine.Keep, By: r.By, Progress: r.Tell,
		})
		return err
	})
	return out, err
}
