package app

import (
	"context"
	"errors"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

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
