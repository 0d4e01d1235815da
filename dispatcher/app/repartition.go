package app

import (
	"context"
	"errors"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
)

// Repartitioned is the result of a repartition.
type Repartitioned = admin.Repartitioned

// RepartitionStep is the progress of a repartition.
type RepartitionStep = admin.RepartitionStep

// Repartition moves the project of the options to so many partitions while no
// instance serves it. With dry nothing is changed, only counted. tell is called
// at each step, unless it is nil.
func Repartition(ctx context.Context, o Options, to int, dry bool, tell func(RepartitionStep)) (out Repartitioned, err error) {
	url, end, err := storeURL(ctx, o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, end()) }()
	out, err = admin.Repartition(ctx, storeOptions(url, o), admin.RepartitionOptions{
		To: to, DryRun: dry, Quiet: dispatcher.DeadFor, Tell: tell,
	})
	return out, named(o, err)
}
