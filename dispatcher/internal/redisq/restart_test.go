package redisq_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// restarter is a hook that restarts the server between two pages of a walk.
type restarter struct {
	redis.UniversalClient
	t       *testing.T
	server  *redistest.Server
	behind  string // the command, or the script, behind which it does so; empty: it does not
	scripts map[string]string
}

func (h *restarter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *restarter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *restarter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if err != nil { // the script was not loaded: the page is read again
				break
			}
			if h.behind != "" && (cmd.Name() == h.behind || cmd.Name() == "evalsha" && h.scripts[fmt.Sprint(cmd.Args()[1])] == h.behind) {
				h.restart()
			}
		}
		return err
	}
}

// restart returns when the server answers.
func (h *restarter) restart() {
	h.behind = ""
	h.server.Restart()
	require.Eventually(h.t, func() bool { return h.Ping(context.Background()).Err() == nil }, 10*time.Second, 10*time.Millisecond)
}

const manyToWalk = 3000 // several pages

// each makes a value of each of many lanes.
func each(value func(lane string, n int) []any) (all []any) {
	for n := range manyToWalk {
		all = append(all, value(string(laneOf(n)), n)...)
	}
	return all
}

// walks are what reads a key in several round trips. Each answers how many entries it met.
var walks = map[string]struct {
	behind string
	fill   func(ctx context.Context, c redis.UniversalClient, tag string) error
	count  func(ctx context.Context, s *redisqtest.Raw) (int, error)
}{
	"leases": {
		behind: "zscan",
		fill: func(ctx context.Context, c redis.UniversalClient, tag string) error {
			return c.Do(ctx, append([]any{"zadd", tag + keys.Leases + "one"}, each(func(lane string, n int) []any { return []any{n + 1, lane + ":m"} })...)...).Err()
		},
		count: func(ctx context.Context, s *redisqtest.Raw) (int, error) {
			leases, err := s.Leases(ctx, "one")
			return len(leases), err
		},
	},
	"paused lanes": {
		behind: "hscan",
		fill:   fillHeld,
		count: func(ctx context.Context, s *redisqtest.Raw) (int, error) {
			_, total, err := s.PausedLanes(ctx, 1)
			return total, err
		},
	},
	"states of lanes": {
		behind: "busy_lanes",
		fill:   fillHeld,
		count: func(ctx context.Context, s *redisqtest.Raw) (int, error) {
			stats, err := s.Stats(ctx)
			return int(stats.LanesBy[dispatcher.StatePaused]), err
		},
	},
	"the dead by reason": {
		behind: "hscan",
		fill: func(ctx context.Context, c redis.UniversalClient, tag string) error {
			return c.HSet(ctx, tag+keys.Buried, each(func(lane string, _ int) []any { return []any{lane + " gone", 1} })...).Err()
		},
		count: func(ctx context.Context, s *redisqtest.Raw) (int, error) {
			reasons, _, err := s.Buried(0).ByReason(ctx)
			return int(reasons["gone"]), err
		},
	},
	"keys": {
		behind: "scan",
		fill: func(ctx context.Context, c redis.UniversalClient, tag string) error {
			return c.MSet(ctx, each(func(lane string, _ int) []any { return []any{tag + ":x" + lane, 1} })...).Err()
		},
		count: func(ctx context.Context, s *redisqtest.Raw) (int, error) {
			masters, err := s.Conn().Masters(ctx)
			if err != nil {
				return 0, err
			}
			met := map[string]bool{}
			for cursor, more := "", true; more && err == nil; more = cursor != "" {
				var names []string
				names, cursor, err = s.Conn().ScanKeys(ctx, masters[0], cursor, s.Conn().Tag(0)+":x*", 500)
				for _, name := range names {
					met[name] = true
				}
			}
			return len(met), err
		},
	},
}

func fillHeld(ctx context.Context, c redis.UniversalClient, tag string) error {
	return c.HSet(ctx, tag+keys.Held, each(func(lane string, _ int) []any { return []any{lane, "p 1790000000000 me"} })...).Err()
}

// newRestarted is a trap whose Redis a hook restarts.
func newRestarted(t *testing.T) (*trap, *restarter) {
	t.Helper()
	server := redistest.Start(t)
	f := newTestStores(server)(t, redisqtest.Setup{Partitions: 1, LaneMaxInFlight: 128, Permits: 1024})
	r := &trap{TB: t, fixture: f, store: f.Queue}
	r.setClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	h := &restarter{UniversalClient: r.store.Client(), t: t, server: server, scripts: redisq.SHAs()}
	r.store.Client().AddHook(h)
	return r, h
}

// A process of Redis hashes with a seed of its own: the cursor of another one skips a part.
func TestAWalkMissesNothingWhereRedisIsRestartedMeanwhile(t *testing.T) {
	r, h := newRestarted(t)
	for name, walk := range walks {
		t.Run(name, func(t *testing.T) {
			r.store.ReadAllLanes()
			require.NoError(t, walk.fill(t.Context(), h, r.store.Conn().Tag(0)))
			h.behind = walk.behind
			n, err := walk.count(t.Context(), r.store)
			require.NoError(t, err)
			require.Equal(t, manyToWalk, n)
			require.Empty(t, h.behind, "it was restarted")
		})
	}
}

func TestAListMissesNothingWhereRedisIsRestartedBetweenTwoPages(t *testing.T) {
	r, h := newRestarted(t)
	var batch []dispatcher.Entry
	var ids []dispatcher.DeliveryID
	for n := range 1500 {
		e := r.entry(laneOf(n), fmt.Sprint("m", n), 0)
		batch, ids = append(batch, e), append(ids, dispatcher.DeliveryID{Lane: e.Lanes[0], Message: e.Message.ID})
	}
	r.schedule(batch...)
	walk := func(status dispatcher.Status) {
		met := map[dispatcher.DeliveryID]bool{}
		for cursor, pages := "", 0; ; {
			page := r.list(dispatcher.Filter{Statuses: []dispatcher.Status{status}, Limit: 100, Cursor: cursor})
			for _, d := range page.Deliveries {
				met[d.ID] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
			if pages++; pages == 3 {
				h.restart()
			}
		}
		require.Len(t, met, len(ids), "%s", status)
	}
	walk(dispatcher.StatusReady)
	_, _, err := r.store.Cancel(t.Context(), "one", ids)
	require.NoError(t, err)
	walk(dispatcher.StatusCancelled)
}
