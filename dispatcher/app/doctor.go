package app

import (
	"context"
	"errors"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// Finding is one thing that is not as it should be in the store's keys.
type Finding = redisq.Finding

// Examined counts what an examination looked at.
type Examined = redisq.Examined

// Doctor looks at the store of the options: first at what it says of itself,
// which hear is told, then at all it keeps, while instances work. With fix it
// repairs what can be repaired. tell is called for each finding.
func Doctor(ctx context.Context, o Options, fix bool, hear func(dispatcher.StoreInfo), tell func(Finding)) (out Examined, err error) {
	url, end, err := joinURL(ctx, o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, end()) }()
	store, err := openAny(ctx, url, o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	info, err := store.Store(ctx)
	if err != nil {
		return out, err
	}
	hear(info)
	return store.Examine(ctx, redisq.Examination{Fix: fix, Tell: tell})
}

// SealEndpoints encrypts and proves anew, with the first key, each endpoint that
// is not yet: what was stored without a key is taken as it is. tell is called for
// each, with an error where that failed.
func SealEndpoints(ctx context.Context, o Options, tell func(id string, err error)) (err error) {
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
	return store.SealEndpoints(ctx, tell)
}
