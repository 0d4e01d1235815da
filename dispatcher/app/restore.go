package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
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

// learnWithin is the timeout of the archive at a start.
const learnWithin = 3 * time.Second

// learnLoss queries the archive, before anything is accepted, to check whether the store lost
// its data while no instance ran. If the archive is down, it is queried later.
func learnLoss(ctx context.Context, store *redisq.Store, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, learnWithin)
	defer cancel()
	vault, err := postgres.OpenVault(ctx, archiveOptions(o))
	if err == nil {
		defer vault.Close()
		var id string
		var epochs map[int]string
		if id, epochs, err = vault.Home(ctx); err == nil {
			_, err = admin.NewFeed(store).Lost(ctx, id, epochs)
			return err
		}
	}
	if !errors.Is(err, postgres.ErrNothing) {
		o.Log.Warn("the archive does not answer: whether the store lost data is found out when it does", "err", err)
	}
	return nil
}

// Loss describes the data that a store lost, and the deliveries that are lost with it.
type Loss struct {
	Lost      *dispatcher.Emptied // nil: nothing was lost
	Archive   bool                // the archive has the following
	Open      int64               // unfinished deliveries
	Endpoints int64
	Done      bool // the loss was accepted
}

// LossOptions decide whether a loss is accepted, or only reported.
type LossOptions struct {
	Accept  bool
	Discard bool   // also discard the archive's copies
	By      string // for the archive's audit
}

// ErrDiscard reports that the archive could restore the lost data.
var ErrDiscard = errors.New("the archive has the lost data: hookladder restore brings them back; to give them up add --discard-archive")

// AcceptLoss accepts the loss of a store's data, or reports it.
func AcceptLoss(ctx context.Context, o Options, l LossOptions) (out Loss, err error) {
	var vault *postgres.Vault
	if o.Archive.URL != "" {
		if vault, err = postgres.OpenVault(ctx, archiveOptions(o)); err != nil && !errors.Is(err, postgres.ErrNothing) {
			return out, fmt.Errorf("ARCHIVE_URL: %w", err)
		}
	}
	if vault != nil {
		defer vault.Close()
	}
	err = withStore(ctx, o, func(store *redisq.Store) error {
		if vault != nil {
			if out, err = archivedLoss(ctx, store, vault); err != nil {
				return err
			}
		}
		switch out.Lost = store.Emptied(); {
		case out.Lost == nil:
			return nil
		case out.Lost.Archived && vault == nil:
			return errors.New("the project has an archive: set ARCHIVE_URL as serve has it")
		case !l.Accept:
			return nil
		case vault != nil && !l.Discard:
			return ErrDiscard
		}
		if vault != nil {
			if err := discard(ctx, store, vault, &out, l.By); err != nil {
				return err
			}
		}
		store.Audit().Record(ctx, dispatcher.AuditEntry{By: dispatcher.System, What: "loss.accept", Detail: out.Lost.Error()})
		err := store.EndLoss(ctx, out.Lost)
		out.Done = err == nil
		return err
	})
	return out, err
}

// archivedLoss counts the lost deliveries that the archive has.
func archivedLoss(ctx context.Context, store *redisq.Store, vault *postgres.Vault) (out Loss, err error) {
	id, epochs, err := vault.Home(ctx)
	if err == nil {
		err = store.Conn().NoteLost(ctx, id, epochs)
	}
	lost := store.Emptied()
	if err != nil || lost == nil {
		return out, err
	}
	out.Archive = true
	if out.Open, err = vault.CountOpen(ctx, store.Conn().Epochs()); err != nil || !lost.Home {
		return out, err
	}
	var list []archive.Endpoint
	list, _, err = vault.Endpoints(ctx)
	for i := range list {
		if !list[i].Deleted {
			out.Endpoints++
		}
	}
	return out, err
}

// discard discards the archive's copies, and then changes the store. If it fails between the
// two, the data still count as lost, and it can run again.
func discard(ctx context.Context, store *redisq.Store, vault *postgres.Vault, out *Loss, by string) (err error) {
	if err := vault.Sever(ctx, store.Conn().Epochs()); err != nil {
		return err
	}
	if out.Open, out.Endpoints, err = vault.Discard(ctx, store.Conn().Epochs(), out.Lost.Home); err != nil {
		return err
	}
	if err := vault.KeepHome(ctx, store.Conn().ID()); err != nil {
		return err
	}
	return vault.Note(ctx, by, "accept-loss", map[string]any{"unfinished": out.Open, "endpoints": out.Endpoints})
}

// Repartitioned is the result of a repartition.
type Repartitioned = admin.Repartitioned

// RepartitionStep is the progress of a repartition.
type RepartitionStep = admin.RepartitionStep

// RepartitionOptions are the settings of a repartition.
type RepartitionOptions = admin.RepartitionOptions

// Repartition moves the project of the options to another number of partitions while
// no instance serves it.
func Repartition(ctx context.Context, o Options, r RepartitionOptions) (out Repartitioned, err error) {
	url, end, err := storeURL(ctx, o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, end()) }()
	r.Quiet = wait.DeadFor
	out, err = admin.Repartition(ctx, storeOptions(url, o), r)
	return out, named(o, err)
}
