// Package start opens a store for a process that works with it for long. It waits for a
// store that is not there yet, refuses one that is known to lose what was acknowledged,
// and warns of what a store lacks.
package start

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/ladder"
)

const (
	// awaitPause is the time between two attempts. Where both are started together,
	// Redis may be a second late: the start is to be little later than that.
	awaitPause = 250 * time.Millisecond
	// awaitLine is the time between two log lines about the wait.
	awaitLine = 5 * time.Second
)

// Options say which store, and how long to wait for it.
type Options struct {
	redisq.Options               // with a logger
	Wait           time.Duration // for how long it may be out of reach; 0: it has to be there
	Forgets        bool          // it may keep nothing: for trying things out, and for tests

	Name func(error) error // says which setting an error of an unreachable store is about; nil: it stays as it is
}

// named is an error as people are told it.
func (o Options) named(err error) error {
	if o.Name == nil {
		return err
	}
	return o.Name(err)
}

// Open opens a store that may not be there yet. It tries again for Options.Wait. Wrong
// settings, and a store that is not fit for use, are an error at once.
func Open(ctx context.Context, o Options) (*redisq.Store, error) {
	if unverified(o.URL) {
		o.Log.Warn("the store's certificate is not verified: anybody on the way can read and change what is kept; leave out skip_verify and name its CA with REDIS_CA_FILE")
	}
	began, said := time.Now(), time.Time{}
	for {
		store, err := open(ctx, o)
		if err == nil || !comes(err) || ctx.Err() != nil || o.Wait == 0 {
			return store, o.named(err)
		}
		waited := time.Since(began)
		if waited >= o.Wait {
			return nil, fmt.Errorf("%w (waited %s for it)", o.named(err), ladder.FormatDuration(waited.Round(time.Second)))
		}
		if time.Since(said) >= awaitLine {
			said = time.Now()
			o.Log.WarnContext(ctx, "waiting for the store", "waited_s", waited.Round(time.Millisecond).Seconds(), "most_s", o.Wait.Seconds(), "err", o.named(err))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}

// comes reports whether a store that could not be opened may be ready soon: it was not
// reached, it loads its data, or it fails over.
func comes(err error) bool {
	return errors.Is(err, dispatcher.ErrUnavailable) && !conn.Refused(err)
}

// open opens a store that answers and is fit for use.
func open(ctx context.Context, o Options) (*redisq.Store, error) {
	store, err := redisq.Open(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	if err := admit(ctx, store, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), store.Close())
	}
	return store, nil
}

// admit refuses an unfit store, and warns of what a store lacks. One that may forget is
// always taken.
func admit(ctx context.Context, store *redisq.Store, o Options) error {
	info, err := store.Store(ctx)
	if err != nil || o.Forgets {
		return err
	}
	if err := judge(info); err != nil {
		return err
	}
	for _, c := range warnings(info) {
		text := "the store lacks something"
		if c.Holds == dispatcher.Unknown {
			text = "the store does not tell something"
		}
		o.Log.Warn(text, "check", c.Name, "detail", c.Detail, "store", info.Kind, "version", info.Version)
	}
	return nil
}

// judge refuses a store that is known to lose acknowledged data, or to lack something
// needed, with all reasons at once. Where it is unknown, the store is taken.
func judge(info dispatcher.StoreInfo) error {
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

// warnings are what a store lacks, and what it does not report.
func warnings(info dispatcher.StoreInfo) []dispatcher.Check {
	return slices.DeleteFunc(slices.Clone(info.Checks), func(c dispatcher.Check) bool { return c.Holds == dispatcher.Yes })
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

// Instance makes a name that no process had before. It begins with the host, to find
// the process.
func Instance() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return host + "-" + ulid.MustNew(ulid.Now(), rand.Reader).String()
}
