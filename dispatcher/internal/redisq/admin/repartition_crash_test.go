package admin_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// A repartition may end at any command. After it was run again, everything is as
// if it had not. Until then no instance serves what lies in two places.
func TestARepartitionThatEndsAnywhereIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	server := redistest.Start(t)
	p := redisqtest.NewProject(t, server, 2)
	p.Fill(2)
	before := p.Content(2)
	copies := func(name string) *redisqtest.Project {
		clone := *p
		clone.Options.Project = name
		copyProject(t, p.Client, p.Options.Project, name)
		return &clone
	}
	reference := copies("reference")
	reference.To(3)
	require.Equal(t, before, reference.Content(3))
	want := placed(reference, 3)

	crashes := 0
	for after := rand.IntN(3); ; after += 3 { // three runs of the test are needed to end it after each command
		q := copies(fmt.Sprintf("crash%d", after))
		hook := &crash{left: after}
		_, err := admin.Repartition(t.Context(), q.Options, admin.RepartitionOptions{To: 3}.Hooked(hook).Paged(2))
		if err == nil {
			require.Equal(t, want, placed(q, 3)) // it may have been ended as it signed off
			break
		}
		require.ErrorIs(t, err, errCrash)
		crashes++
		o := q.Options
		o.Partitions = 0
		if s, err := redisqtest.OpenRaw(t.Context(), o); err == nil {
			// Before the mark, or behind it.
			n := s.Partitions()
			require.NoError(t, s.Close())
			require.Equal(t, before, q.Content(n), "after %d commands", after)
		} else {
			require.ErrorContains(t, err, "run hookladder repartition --to 3 again", "after %d commands", after)
		}
		q.To(3)
		require.Equal(t, want, placed(q, 3), "after %d commands", after)
		require.NoError(t, p.Client.Del(t.Context(), redisqtest.Keys(t, p.Client, q.Options.Project)...).Err())
	}
	require.Greater(t, crashes, 20, "it is ended everywhere")
}

// placed is where everything lies. A run that ended anywhere is itself among
// the instances that were declared dead.
func placed(p *redisqtest.Project, partitions int) string {
	p.T.Helper()
	states := p.States(partitions)
	for n := range states {
		states[n].Fenced = nil
	}
	return fmt.Sprint(states) + p.Figures(partitions)
}

var errCrash = errors.New("the process is gone")

// crash ends a process after so many commands that change something: they are
// carried out, and nothing after them.
type crash struct {
	mu    sync.Mutex // guards both: a run that takes a while tells beside its work that it lives
	left  int
	ended bool
}

func (c *crash) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *crash) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !c.may(cmd) {
			cmd.SetErr(errCrash)
			return errCrash
		}
		return next(ctx, cmd)
	}
}

func (c *crash) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		last := slices.IndexFunc(cmds, func(cmd redis.Cmder) bool { return !c.may(cmd) })
		if last < 0 {
			return next(ctx, cmds)
		}
		if last > 0 {
			_ = next(ctx, cmds[:last])
		}
		for _, cmd := range cmds[last:] {
			cmd.SetErr(errCrash)
		}
		return errCrash
	}
}

// may reports whether a command is carried out. Reading costs nothing: an end
// before or behind it is the same.
func (c *crash) may(cmd redis.Cmder) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if !slices.Contains([]string{"hset", "hdel", "zadd", "zrem", "rpush", "unlink", "del", "evalsha"}, cmd.Name()) {
		return true
	}
	if c.left == 0 {
		c.ended = true
		return false
	}
	c.left--
	return true
}

// copyProject copies all keys of a project to another.
func copyProject(t *testing.T, client redis.UniversalClient, from, to string) {
	t.Helper()
	ctx := context.Background()
	keys := redisqtest.Keys(t, client, from)
	dumps := make([]*redis.StringCmd, len(keys))
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			dumps[i] = p.Dump(ctx, key)
		}
		return nil
	})
	require.NoError(t, err)
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			p.Restore(ctx, "{"+to+strings.TrimPrefix(key, "{"+from), 0, dumps[i].Val())
		}
		return nil
	})
	require.NoError(t, err)
}
