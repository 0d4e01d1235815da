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

// Finding is one fault in the store's keys.
type Finding = admin.Finding

// Examined counts the keys that an examination read.
type Examined = admin.Examined

// Doctor examines the store of the options while instances work. If there is an archive, it
// first finds out from that whether the store lost its data. It calls hear with
// the description of the store, then examines all keys and calls tell for each
// finding. With fix it repairs what can be repaired.
func Doctor(ctx context.Context, o Options, fix bool, hear func(dispatcher.StoreInfo), tell func(Finding)) (out Examined, err error) {
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
		out, err = admin.Examine(ctx, store, admin.Examination{Fix: fix, Tell: tell})
		return err
	})
	return out, err
}

// comparisonCheck says how far the archive is compared with the store.
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

// stillToCompare counts the partitions that are still to be compared with the archive since
// the last gap in their log. left is the share of all deliveries.
func stillToCompare(ctx context.Context, store *redisq.Store, r *postgres.Reader) (due int, left float64, err error) {
	states, err := feed.New(store).Look(ctx, store.Partitions())
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

// SealEndpoints encrypts and signs with the first key each endpoint that is not yet,
// also those that were stored without a key. tell is called for each, with an error
// where that failed.
func SealEndpoints(ctx context.Context, o Options, tell func(id string, err error)) error {
	return withStore(ctx, o, func(store *redisq.Store) error {
		store.Audit().Record(ctx, dispatcher.AuditEntry{By: dispatcher.System, What: "doctor.seal"})
		return admin.SealEndpoints(ctx, store, tell)
	})
}

// SealMessages encrypts with the first key the headers of each message that are not
// yet, and counts those. fail is called for each that no key opens.
func SealMessages(ctx context.Context, o Options, fail func(err error)) (sealed int, err error) {
	err = withStore(ctx, o, func(store *redisq.Store) error {
		sealed, err = admin.SealMessages(ctx, store, fail)
		return err
	})
	return sealed, err
}

// withStore opens the store of the options while instances may work, and closes it
// after do.
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
