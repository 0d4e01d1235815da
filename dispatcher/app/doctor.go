package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/feed"
)

// Finding is a fault in the store's keys.
type Finding = admin.Finding

// Examined counts the keys that an examination read.
type Examined = admin.Examined

// Doctor examines the store of the options while instances work. If there is an archive, it
// first queries the archive to check whether the store lost its data. It calls hear with the
// state of the store. Then it examines all keys and reports each finding. With fix it
// repairs the faults that can be repaired.
func Doctor(ctx context.Context, o Options, fix bool, hear func(dispatcher.StoreInfo), report func(Finding)) (out Examined, err error) {
	err = withStore(ctx, o, func(store *redisq.Store) error {
		if o.Archive.URL != "" {
			if err := learnLoss(ctx, store, o); err != nil {
				return err
			}
		}
		info, err := store.Store(ctx)
		if err != nil {
			return err
		}
		if o.Archive.URL != "" {
			info.Checks = append(slices.Clone(info.Checks), comparisonCheck(ctx, store, o))
		}
		hear(info)
		if fix {
			store.Audit().Record(ctx, dispatcher.AuditEntry{By: dispatcher.System, What: "doctor.fix"})
		}
		out, err = admin.Examine(ctx, store, admin.Examination{Fix: fix, Report: report})
		return err
	})
	return out, err
}

// comparisonCheck reports the progress of the comparison between archive and store.
func comparisonCheck(ctx context.Context, store *redisq.Store, o Options) dispatcher.Check {
	c := dispatcher.Check{Name: "archive", Holds: dispatcher.Unknown}
	var due int
	var left float64
	err := withReader(o, func(r *postgres.Reader) (err error) {
		due, left, err = stillToCompare(ctx, store, r)
		return err
	})
	if err != nil {
		c.Detail = "it is not known whether the archive was compared with the store: " + err.Error()
		return c
	}
	if due == 0 {
		c.Holds, c.Detail = dispatcher.Yes, "the archive was compared with the store since the last gap in the log"
		return c
	}
	c.Detail = fmt.Sprintf("%d of %d partitions are still to be compared with the archive, %.0f %% of the deliveries: an instance with ARCHIVE_URL does that",
		due, store.Partitions(), math.Ceil(100*left))
	return c
}

// stillToCompare counts the partitions that must still be compared with the archive after the
// last gap in their log. left is their share of all deliveries.
func stillToCompare(ctx context.Context, store *redisq.Store, r *postgres.Reader) (due int, left float64, err error) {
	states, err := feed.New(store).ReadStates(ctx, store.Partitions())
	if err != nil {
		return 0, 0, err
	}
	all, err := r.Comparisons(ctx)
	for i := range states {
		k := slices.IndexFunc(all, func(c archive.Comparison) bool { return c.Partition == states[i].Partition })
		switch {
		case k < 0:
			due, left = due+1, left+1
		case all[k].Due(&states[i]):
			due, left = due+1, left+all[k].Left
		}
	}
	return due, left / float64(max(len(states), 1)), err
}

// SealEndpoints encrypts and signs each endpoint with the first key, unless that is done
// already. It includes endpoints that were stored without a key. It reports each endpoint, with
// an error if that failed.
func SealEndpoints(ctx context.Context, o Options, report func(id string, err error)) error {
	return withStore(ctx, o, func(store *redisq.Store) error {
		store.Audit().Record(ctx, dispatcher.AuditEntry{By: dispatcher.System, What: "doctor.seal"})
		return admin.SealEndpoints(ctx, store, report)
	})
}

// SealMessages encrypts the headers of each message with the first key, unless that is done
// already, and counts the changed messages. It calls fail for each message that no key
// decrypts.
func SealMessages(ctx context.Context, o Options, fail func(err error)) (sealed int, err error) {
	err = withStore(ctx, o, func(store *redisq.Store) error {
		sealed, err = admin.SealMessages(ctx, store, fail)
		return err
	})
	return sealed, err
}

// withStore opens the store of the options, calls do, and closes the store. Instances may work
// at the same time.
func withStore(ctx context.Context, o Options, do func(*redisq.Store) error) (err error) {
	url, end, err := joinURL(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	store, err := openAny(ctx, url, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(store)
}
