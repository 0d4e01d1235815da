package redisq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/ladder"
)

const (
	// awaitPause is the time between two attempts. If Redis starts together with this process, it
	// may be a second late. The short pause keeps the start close to that moment.
	awaitPause = 250 * time.Millisecond
	// awaitLine is the time between two log lines about the wait.
	awaitLine = 5 * time.Second
)

// AwaitOptions configure the store and how long Await waits for it.
type AwaitOptions struct {
	Options               // must have a logger
	Wait    time.Duration // how long Await retries if the store is out of reach; 0: Await does not retry
	Forgets bool          // the store may lose its data; for experiments and for tests

	Name func(error) error // adds the name of the setting to the error of an unreachable store; nil: the error is returned unchanged
}

// named returns an error in the form that people read.
func (o AwaitOptions) named(err error) error {
	if o.Name == nil {
		return err
	}
	return o.Name(err)
}

// Await opens a store that may not be available yet. It retries for AwaitOptions.Wait. If the settings
// are wrong or the store is unfit, it returns the error at once.
func Await(ctx context.Context, o AwaitOptions) (*Store, error) {
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

// comes reports whether a store that failed to open may be ready soon. That is so if it was out of
// reach, is loading its data, or is in a failover.
func comes(err error) bool {
	return errors.Is(err, dispatcher.ErrUnavailable) && !errors.Is(err, conn.ErrSettings) && !conn.Forbidden(err)
}

// open opens a store that replies and is fit for use.
func open(ctx context.Context, o AwaitOptions) (*Store, error) {
	store, err := Open(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	if err := admit(ctx, store, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), store.Close())
	}
	return store, nil
}

// admit returns an error if the store is unfit, and logs a warning for each capability that it
// lacks. If AwaitOptions.Forgets is set, it always accepts the store.
func admit(ctx context.Context, store *Store, o AwaitOptions) error {
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
			text = "the store does not report something"
		}
		o.Log.Warn(text, "check", c.Name, "detail", c.Detail, "store", info.Kind, "version", info.Version)
	}
	return nil
}

// judge returns an error if a store is known to lose acknowledged data, or lacks a required
// capability. The error has all reasons. If a capability is unknown, the store is accepted.
func judge(info dispatcher.StoreInfo) error {
	var errs []error
	if info.Kind == "miniredis" {
		errs = append(errs, errors.New("it keeps nothing; use a real Redis"))
	}
	for _, c := range info.Checks {
		if c.Needed && c.Holds == dispatcher.No {
			err := errors.New(c.Detail)
			if c.Name == conn.CheckRights {
				err = fmt.Errorf("%w: %s", conn.ErrSettings, c.Detail)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// warnings returns the checks that a store fails, and the checks whose result it does not report.
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

// InstanceName returns a name that no process had before. It begins with the name of the host, so that
// people can find the process.
func InstanceName() string {
	return hostname() + "-" + ulid.MustNew(ulid.Now(), rand.Reader).String()
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "unknown"
	}
	return host
}

// OnThisHost reports whether an instance runs on this host, by its name.
func OnThisHost(instance string) bool {
	rest, ok := strings.CutPrefix(instance, hostname()+"-")
	if !ok || len(rest) < ulid.EncodedSize {
		return false
	}
	number, more := strings.CutPrefix(rest[ulid.EncodedSize:], "-") // it was declared dead, and continues with a number
	_, err := strconv.ParseUint(number, 10, 32)
	return rest[ulid.EncodedSize:] == "" || more && err == nil
}
