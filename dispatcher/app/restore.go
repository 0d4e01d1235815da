package app

import (
	"context"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
)

// Restored is the result of a restore.
type Restored = archive.RestoreReport

// RestoredSealed counts restored data that no key opens.
type RestoredSealed = archive.RestoreSealed

// LostEndpoint is an endpoint that is missing, although its deliveries were restored.
type LostEndpoint = archive.LostEndpoint

// RestoreStep is the progress of a restore.
type RestoreStep = archive.RestoreStep

// RestoreOptions configure a restore.
type RestoreOptions struct {
	IntoRunning bool // also if nothing counts as lost
	Dead        bool // also restore dead deliveries
	DryRun      bool
	By          string            // for the archive's audit
	Progress    func(RestoreStep) // nil: not called
}

// restoreWaits is the timeout for the archive to read the whole log, before a restore into a
// running store.
const restoreWaits = 5 * time.Second

// Restore restores the store of the options from their archive.
func Restore(ctx context.Context, o Options, r RestoreOptions) (out Restored, err error) {
	vault, err := postgres.OpenVault(ctx, archiveOptions(o))
	if err != nil {
		return out, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	defer vault.Close()
	err = withStore(ctx, o, func(store *redisq.Store) error {
		out, err = archive.Restore(ctx, archive.RestoreOptions{
			From: vault, To: admin.NewRestoreTarget(store, r.By), IntoRunning: r.IntoRunning, Dead: r.Dead, DryRun: r.DryRun,
			Wait:   restoreWaits,
			Limits: o.Engine.Keep, By: r.By, Progress: r.Progress,
		})
		return err
	})
	return out, err
}
