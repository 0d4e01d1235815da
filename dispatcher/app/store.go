package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/devredis"
	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// openStore opens the store that the options ask for, and answers how to close it.
func openStore(ctx context.Context, o Options) (*redisq.Store, func() error, error) {
	at, end, err := storeURL(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if unverified(at) {
		o.Log.Warn("the store's certificate is not verified: anybody on the way can read and change what is kept; leave out skip_verify and name its CA with REDIS_CA_FILE")
	}
	store, err := await(ctx, at, o)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return store, func() error { return errors.Join(store.Close(), end()) }, nil
}

// startDev starts a store in memory; tests start one whose clock is wrong.
var startDev = devredis.Start

// storeURL is the URL of the store. It starts a server of our own, if one is asked for.
// end stops that server, as the last thing that a process does.
func storeURL(ctx context.Context, o Options) (url string, end func() error, err error) {
	switch {
	case o.InMemory:
		dev, err := startDev()
		if err != nil {
			return "", nil, err
		}
		return dev.URL(), func() error { dev.Close(); return nil }, nil
	case o.DataDir != "":
		server, err := embedded.Start(ctx, embedded.Options{Dir: o.DataDir, Fsync: o.Durability.Fsync, Log: o.Log})
		if err != nil {
			return "", nil, fmt.Errorf("DATA_DIR: %w", err)
		}
		return server.URL(), server.Close, nil
	}
	return o.RedisURL, func() error { return nil }, nil
}

// joinURL is storeURL for a command that examines a store while others work. A server
// of our own may run already, under another process, and end does not stop it then.
func joinURL(ctx context.Context, o Options) (url string, end func() error, err error) {
	if o.DataDir != "" {
		if url := embedded.Running(ctx, o.DataDir); url != "" {
			return url, func() error { return nil }, nil
		}
	}
	return storeURL(ctx, o)
}

// unverified reports whether the URL of a store asks for TLS without verification.
func unverified(store string) bool {
	u, err := url.Parse(store)
	if err != nil || u.Scheme != "rediss" {
		return false
	}
	skips, err := strconv.ParseBool(u.Query().Get("skip_verify"))
	return skips && err == nil
}

// storeOptions are the options of the store.
func storeOptions(url string, o Options) redisq.Options {
	return redisq.Options{
		URL:             url,
		Mode:            conn.Mode(cmp.Or(o.RedisMode, string(conn.ModeAuto))),
		Master:          o.RedisMaster,
		CAFile:          o.RedisCAFile,
		Durability:      o.Durability,
		Poll:            o.Poll,
		Keep:            o.Engine.Keep,
		Project:         o.Project,
		Partitions:      o.Partitions,
		LaneMaxInFlight: o.LaneMaxInFlight,
		MaxWaiting:      o.MaxWaiting,
		Permits:         o.Engine.MaxInFlight,

		BreakerFailures: o.BreakerFailures,
		BreakerWait:     o.BreakerWait,
		FailingAfter:    o.Engine.FailingAfter,

		Seal: o.Seal,
		Log:  o.Log,
	}
}

// admit refuses an unfit store, and warns of what a store lacks. The store inside this
// process is always taken.
func admit(ctx context.Context, store *redisq.Store, o Options) error {
	info, err := store.Store(ctx)
	if err != nil || o.InMemory {
		return err
	}
	if err := judgeStore(info); err != nil {
		return err
	}
	for _, c := range storeWarnings(info) {
		text := "the store lacks something"
		if c.Holds == dispatcher.Unknown {
			text = "the store does not tell something"
		}
		o.Log.Warn(text, "check", c.Name, "detail", c.Detail, "store", info.Kind, "version", info.Version)
	}
	return nil
}

// judgeStore refuses a store that is known to lose acknowledged data, or to lack
// something needed, with all reasons at once. Where it is unknown, the store is taken.
func judgeStore(info dispatcher.StoreInfo) error {
	var errs []error
	if info.Kind == "miniredis" {
		errs = append(errs, errors.New("it keeps nothing; use a real Redis"))
	}
	for _, c := range info.Checks {
		if c.Needed && c.Holds == dispatcher.No {
			errs = append(errs, errors.New(c.Detail))
		}
	}
	return errors.Join(errs...)
}

// storeWarnings are what a store lacks, and what it does not report.
func storeWarnings(info dispatcher.StoreInfo) []dispatcher.Check {
	return slices.DeleteFunc(slices.Clone(info.Checks), func(c dispatcher.Check) bool { return c.Holds == dispatcher.Yes })
}

// Scripts are the names of the scripts that change deliveries, such as claim, by
// their SHA-1. Redis reports on a script by its SHA-1.
func Scripts() map[string]string { return redisq.ScriptNames() }
