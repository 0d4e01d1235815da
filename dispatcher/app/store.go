package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// openStore opens the store of the options. It returns the function that closes it.
func openStore(ctx context.Context, o Options) (*redisq.Store, func() error, error) {
	at, end, err := storeURL(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisq.Await(ctx, redisq.AwaitOptions{
		Options: storeOptions(at, o), Wait: o.StoreWait, Forgets: o.InMemory, Name: func(err error) error { return named(o, err) },
	})
	if err == nil && o.Archive.URL != "" {
		// Begin runs before anything is accepted, because deliveries that are missing in the
		// log are not archived.
		if err = admin.NewFeed(store).Begin(ctx); err == nil {
			err = learnLoss(ctx, store, o)
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("begin to archive: %w", err), store.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return store, func() error { return errors.Join(store.Close(), end()) }, nil
}

// startDev starts a store in memory; tests replace it by one with a wrong clock.
var startDev = embedded.StartInMemory

// ErrInUse reports that another process uses DATA_DIR.
var ErrInUse = embedded.ErrInUse

// storeURL returns the URL of the store. It starts our own server, if the options request one.
// end stops that server, as the last step of a process.
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

// joinURL is storeURL for a command that examines a store while instances work. If another
// process already runs our own server, end does not stop it.
func joinURL(ctx context.Context, o Options) (url string, end func() error, err error) {
	if o.DataDir != "" {
		if url := embedded.Running(ctx, o.DataDir); url != "" {
			return url, func() error { return nil }, nil
		}
	}
	return storeURL(ctx, o)
}

// storeOptions returns the options of the store.
func storeOptions(url string, o Options) redisq.Options {
	options := redisq.Options{
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

		Archive:  o.Archive.URL != "",
		LoadLate: o.InMemory,

		Seal: o.Seal,
		Log:  o.Log,
	}
	if o.own != nil {
		options.Listens = o.own.Published()
		options.Listening = func(all map[string][]netip.AddrPort) {
			o.own.SetOthers(reached(all))
			o.passed.Clear()
		}
	}
	return options
}

// reached returns the listeners of instances that calls from this host would reach. A loopback
// address is meant only on the host of its instance.
func reached(all map[string][]netip.AddrPort) (listens []netip.AddrPort) {
	for name, each := range all {
		for _, at := range each {
			if !at.Addr().IsLoopback() || redisq.OnThisHost(name) {
				listens = append(listens, at)
			}
		}
	}
	return listens
}

// openAny opens a store, even if it is not fit for use.
func openAny(ctx context.Context, at string, o Options) (*redisq.Store, error) {
	store, err := redisq.Open(ctx, storeOptions(at, o))
	return store, named(o, err)
}

// ErrSettings reports that the store refuses REDIS_URL or REDIS_MASTER.
var ErrSettings = conn.ErrSettings

// CheckRedisURL returns an error if a URL is none of a Redis. The error has no part of the URL.
func CheckRedisURL(text string) error { return conn.CheckURL(text) }

// CheckDatabaseURL returns an error if a URL is none of a PostgreSQL. The error has no part of the
// URL.
func CheckDatabaseURL(text string) error { return postgres.CheckURL(text) }

// ParseURL parses the URL of a setting with one of the schemes. Its errors have no part of the URL.
func ParseURL(text string, schemes ...string) (*url.URL, error) {
	return input.ParseURL(text, schemes...)
}

// ShowURL returns a URL for people, without its secret parts.
func ShowURL(text string) string { return input.URLText(text) }

// Cause returns the cause of an error of an HTTP call without any URL.
func Cause(err error) error { return input.Cause(err) }

// named adds the name of the setting to the error of an unreachable store.
func named(o Options, err error) error {
	if err == nil || o.RedisURL == "" || errors.Is(err, ErrSettings) || !errors.Is(err, dispatcher.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("REDIS_URL: %w", err)
}

// Scripts returns the names of the scripts that change deliveries, such as claim, by their
// SHA-1. Redis reports scripts by their SHA-1.
func Scripts() map[string]string { return redisq.ScriptNames() }
