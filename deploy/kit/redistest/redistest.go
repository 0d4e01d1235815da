// Package redistest gives tests a Redis of their own: a real redis-server that
// can be killed, stopped and started again, or a cluster or sentinels of such.
// Where that is enough, it is miniredis in a process beside the test. None of them is a Redis that the machine
// runs for itself, and all end with the test.
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
	// URL is the address as REDIS_URL has it; it stays the same over a Restart.
	URL() string
	// Kill ends the server as a crash would: its connections are cut.
	Kill()
	// Restart starts it again, at its address and with what it kept.
	Restart()
	// Stop ends it for good, in order.
	Stop()
}

// askWait bounds one question of this package. A paused server never answers,
// and another one answers in a millisecond, or in a second on a busy machine.
const askWait = 3 * time.Second

// ask sends a command. It does not wait long for the answer.
func (s *Server) ask(args ...any) (any, error) { return s.askWithin(askWait, args...) }

// mustAsk sends a command to a server that is known to answer, however late.
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

// text is an answer that is a text.
func (s *Server) text(args ...any) (string, error) {
	v, err := s.ask(args...)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(v), nil
}

// info is one field of INFO; empty where there is none.
func (s *Server) info(section, field string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askWait)
	defer cancel()
	return s.Info(ctx, section, field)
}

// until waits until ok reports true. Its last error is the failure's reason.
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

// retryAfter is how long a failover may take before it is asked for again: Redis
// gives it up after five seconds, which it may need on a busy machine.
const retryAfter = 15 * time.Second

// retrying asks for something until it is begun, and again where it does not
// happen: an ok for until.
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
	// Some servers answer with all they have: the name decides.
	for _, entry := range answer {
		fields, ok := entry.([]any)
		if ok && len(fields) > 0 && strings.EqualFold(fmt.Sprint(fields[0]), command) {
			return true
		}
	}
	return false
}

// Long skips a test with -short, as make test-short runs it. It is for tests that
// start a cluster, sentinels, a disk of their own or the whole program. It is also
// for suites on a second store, and for seconds of processor time. No other test
// may be skipped, and none is in a full run.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts many processes or takes long: run the tests without -short")
	}
}

// FreePort is a port of 127.0.0.1 without a listener, which the system gives to
// no connection: a server can stop listening there and begin again.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := kit.FreePort()
	require.NoError(t, err)
	return port
}
