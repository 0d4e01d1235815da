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
)

// askWait bounds one question of the package itself. A paused server never
// answers, and one that can takes a millisecond; on a busy machine, a second.
const askWait = 3 * time.Second

// patience bounds how long the package waits for what always comes: replicas
// that are in step, a cluster that is whole. It takes seconds, on a busy machine
// many of them.
const patience = 3 * time.Minute

// newClient asks once, since who asks knows best whether to ask again.
func newClient(url string) (*redis.Client, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	opt.MaxRetries = -1
	opt.DialerRetries = 1
	opt.ContextTimeoutEnabled = true
	opt.ReadTimeout, opt.DialTimeout = patience, patience // the context's is shorter
	opt.DisableIdentity = true
	// After as many dials that failed the client stops dialling for a second,
	// and would not notice a server that was started again.
	opt.PoolSize = 4096
	return redis.NewClient(opt), nil
}

// connect makes the client that the package itself uses.
func (s *Server) connect() error {
	client, err := newClient(s.URL())
	if err != nil {
		return err
	}
	s.client = client
	s.t.Cleanup(func() { _ = client.Close() })
	return nil
}

// ask sends a command and waits for its answer, as long as one that can needs.
func (s *Server) ask(args ...any) (any, error) { return s.askWithin(askWait, args...) }

// tell sends a command to a server that is known to answer, however late.
func (s *Server) tell(args ...any) (any, error) { return s.askWithin(patience, args...) }

func (s *Server) askWithin(wait time.Duration, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	v, err := s.client.Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v at %s: %w", args[0], s.Addr(), err)
	}
	return v, nil
}

// text is the answer to a command that is answered with a text.
func (s *Server) text(args ...any) (string, error) {
	v, err := s.ask(args...)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(v), nil
}

// info is one field of INFO; empty where it has none.
func (s *Server) info(section, field string) (string, error) {
	text, err := s.text("INFO", section)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// until waits until ok reports true; what it last said is the failure's reason.
func until(what string, ok func() (bool, error)) error {
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ok()
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("%s: still not so after %s: %w", what, patience, cmp.Or(err, errNotYet))
		}
	}
}

var errNotYet = errors.New("no error meanwhile")

// begunWithin is how long what was begun may take before it is begun anew: Redis
// gives up a failover after five seconds, which a busy machine may take.
const begunWithin = 15 * time.Second

// again asks for something, until it is taken on, and anew where it does not
// come: an ok for until.
func again(begin func() error, ok func() (bool, error)) func() (bool, error) {
	var begun time.Time
	return func() (bool, error) {
		if done, err := ok(); done || err != nil {
			return done, err
		}
		if time.Since(begun) < begunWithin {
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
	client, err := newClient(url)
	require.NoError(t, err)
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
