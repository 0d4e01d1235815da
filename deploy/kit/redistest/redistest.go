// Package redistest gives tests a Redis of their own. A real redis-server can be
// killed, stopped and restarted, alone, in a cluster or with sentinels. If a test
// needs less, miniredis in a separate process is enough. The package never uses a
// Redis that the machine runs for itself, and each server ends with its test.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Redis is a server that belongs to one test and ends with it.
type Redis interface {
	// URL returns the address in the format of REDIS_URL. A Restart does not
	// change it.
	URL() string
	// Kill ends the server like a crash and closes its connections.
	Kill()
	// Restart starts the server again at its address, with the data that it kept.
	Restart()
	// Stop ends the server for good, in order.
	Stop()
}

// askWait is the timeout of one command of this package. A paused server never
// replies. Another server replies in a millisecond, or in a second on a busy machine.
const askWait = 3 * time.Second

// ask sends a command with a short timeout.
func (s *Server) ask(args ...any) (any, error) { return s.askWithin(askWait, args...) }

// mustAsk sends a command with a long timeout, to a server that is known to reply.
func (s *Server) mustAsk(args ...any) (any, error) { return s.askWithin(kit.Patience, args...) }

func (s *Server) askWithin(wait time.Duration, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	v, err := s.Client.Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v at %s: %w", args[0], s.Addr(), err)
	}
	return v, nil
}

// text sends a command and returns its reply as a text.
func (s *Server) text(args ...any) (string, error) {
	v, err := s.ask(args...)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(v), nil
}

// info returns one field of INFO, or an empty text if the field is missing.
func (s *Server) info(section, field string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askWait)
	defer cancel()
	return s.Info(ctx, section, field)
}

// until polls until ok reports true. After the timeout it returns the last error of
// ok as the reason.
func until(what string, ok func() (bool, error)) error {
	return kit.Until(context.Background(), what, func() error {
		done, err := ok()
		if done {
			return nil
		}
		return cmp.Or(err, errNotYet)
	})
}

var errNotYet = errors.New("no error meanwhile")

// retryAfter is the backoff between two tries to start a failover. Redis itself gives
// up a failover after five seconds, which may be too short on a busy machine.
const retryAfter = 15 * time.Second

// retrying returns an ok for until. It retries begin until begin succeeds, and calls
// it again if ok is not true after retryAfter.
func retrying(begin func() error, ok func() (bool, error)) func() (bool, error) {
	var begun time.Time
	return func() (bool, error) {
		if done, err := ok(); done || err != nil {
			return done, err
		}
		if time.Since(begun) < retryAfter {
			return false, nil
		}
		err := begin()
		if err == nil {
			begun = time.Now()
		}
		return false, err
	}
}

// Knows reports whether the server at url has a command.
func Knows(t testing.TB, url, command string) bool {
	t.Helper()
	opt, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redis.NewClient(opt)
	defer client.Close()
	answer, err := client.Do(t.Context(), "COMMAND", "INFO", command).Slice()
	require.NoError(t, err)
	// Some servers return all commands, so the name decides.
	for _, entry := range answer {
		fields, ok := entry.([]any)
		if ok && len(fields) > 0 && strings.EqualFold(fmt.Sprint(fields[0]), command) {
			return true
		}
	}
	return false
}

// Long skips a test with -short, which make test-short uses. It is for tests that
// start a cluster, sentinels, a disk of their own or the whole program. It is also
// for suites on a second store, and for seconds of processor time. No other test may
// be skipped, and a full run skips no test.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts many processes or takes long: run the tests without -short")
	}
}

// FreePort returns a port of 127.0.0.1 without a listener. The system gives such a
// port to no connection, so that a server can restart on it.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := kit.FreePort()
	require.NoError(t, err)
	return port
}
