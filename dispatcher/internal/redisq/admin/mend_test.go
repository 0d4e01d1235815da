package admin_test

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// limited is a server whose URL is of a user that can lose rights.
type limited struct{ *redistest.Server }

func (l limited) URL() string { return strings.Replace(l.Server.URL(), "://", "://limited:least@", 1) }

// changing are the commands with which scripts change data.
var changing = []string{
	"set", "del", "expireat", "pexpireat", "hset", "hsetnx", "hdel", "hincrby", "lpop", "lpush", "rpush", "lset", "ltrim", "lrem",
	"zadd", "zrem", "zremrangebyscore", "zremrangebyrank", "xadd", "xdel", "xtrim",
	"hget", "hmget", "hlen", "hexists", "llen", "lrange", "lindex", "lpos", "zrange", "zscore", "zmscore", "zrangebyscore", "zrank", "zcard", "xlen", "xrange", "exists",
}

func isZero[K any](_ K, n int64) bool { return n == 0 }

// A right can be taken away at any time. Redis then ends a script in its middle, and rolls nothing
// back. Nothing else happens in this partition until it is repaired, and nothing stays half done.
func TestNothingStaysHalfDoneAfterARightWasMissing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	may := mustLimit(t, server)
	p := newTestWard(t, limited{server})
	p.alive("one")
	p.fill()
	p.schedule("leased2", to("k2"), 1, keyed)
	p.schedule("leased3", to("c"), 1)
	p.put("later", to("k2"), keyed)
	p.put("soon", to("a"), func(m *dispatcher.Message) { m.Delay = time.Millisecond })
	p.put("expires", to("e"), func(m *dispatcher.Message) { m.ExpiresAt = p.now.Add(time.Hour) })
	p.SetClock(p.now.Add(time.Second))
	p.mustBeSound()
	restore := redisqtest.CopyKeys(t, server.Client, p.project())
	of := func(lane dispatcher.Lane, id string) []dispatcher.DeliveryID {
		return []dispatcher.DeliveryID{{Lane: lane, Message: id}}
	}
	settle := func(ctx context.Context, lane dispatcher.Lane, id string, v dispatcher.Verdict) error {
		s := dispatcher.Settlement{ID: of(lane, id)[0], Verdict: v, First: v == dispatcher.Delivered, Due: p.now, Attempt: dispatcher.Attempt{Number: 1, At: p.now, Status: 200, Verdict: v}}
		if v != dispatcher.Delivered {
			s.Attempt.Status, s.Wait, s.Reason = 500, time.Minute, dispatcher.ReasonGone
		}
		_, _, err := p.store.Settle(ctx, "one", []dispatcher.Settlement{s})
		return err
	}
	works := map[string]func(ctx context.Context) error{
		"settle delivered": func(ctx context.Context) error { return settle(ctx, "c", "leased3", dispatcher.Delivered) },
		"settle retry":     func(ctx context.Context) error { return settle(ctx, "k2", "leased2", dispatcher.Retry) },
		"settle dead":      func(ctx context.Context) error { return settle(ctx, "k2", "leased2", dispatcher.Dead) },
		"claim": func(ctx context.Context) error {
			_, _, err := p.store.Claim(ctx, "one", []int{0}, 10, 100)
			return err
		},
		"move": func(ctx context.Context) error { _, _, err := p.store.Move(ctx, "one", []int{0}); return err },
		"schedule": func(ctx context.Context) error {
			message := func(id, tenant string) *dispatcher.Message {
				return &dispatcher.Message{ID: id, Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: p.now, ContentType: "application/json", Subject: "s", Tenant: tenant}
			}
			one, two := message("new", ""), message("owned", "t")
			got, _, err := p.store.Schedule(ctx, "one", 1024, 0, []dispatcher.Entry{
				{Message: one, Digest: one.Digest(), Lanes: to("a", "n")}, {Message: two, Digest: two.Digest(), Lanes: to("q_o")},
			})
			if err == nil {
				err = cmp.Or(got[0].Err, got[1].Err)
			}
			return err
		},
		"cancel": func(ctx context.Context) error {
			_, err := p.store.Queue().Cancel(ctx, "one", of("a", "r2"))
			return err
		},
		"retry": func(ctx context.Context) error {
			_, err := p.store.Queue().Retry(ctx, "one", of("b", "dead"), false)
			return err
		},
		"erase": func(ctx context.Context) error {
			_, err := p.store.Queue().Erase(ctx, "one", of("b", "done"))
			return err
		},
		"trim": func(ctx context.Context) error {
			_, err := p.store.Trim(ctx, "one", []int{0}, dispatcher.Keep{Finished: time.Millisecond, Dead: time.Millisecond}, false)
			return err
		},
		"reap": func(ctx context.Context) error { _, err := p.store.Queue().Reap(ctx, "two", "one"); return err },
	}
	torn, log := 0, p.store.Conn().Tag(0)+keys.Attempts
	logged := server.Client.XRange(t.Context(), log, "-", "+").Val()
	for name, work := range works {
		for _, command := range changing {
			restore()
			may("-" + command)
			err := work(t.Context())
			if left := server.Client.XRange(t.Context(), log, "-", "+").Val(); name != "trim" {
				require.GreaterOrEqual(t, len(left), len(logged), "%s without %s", name, command)
				require.Equal(t, logged, left[:len(logged)], "%s without %s: no archive may have read them", name, command)
			}
			if err == nil { // it needs other commands
				may("+" + command)
				p.mustBeSound()
				continue
			}
			admin.MendTorn(t.Context(), p.store.Queue(), "one") // it waits for the right
			may("+" + command)
			if len(p.store.Conn().Torn()) > 0 {
				torn++
			}
			require.False(t, admin.MendTorn(t.Context(), p.store.Queue(), "one"), "%s without %s", name, command)
			for _, s := range p.States() {
				// A count of 0 that could not be removed is none, and goes when it is 0 again.
				maps.DeleteFunc(s.Counts, isZero)
				for lane, of := range s.Buried {
					if maps.DeleteFunc(of, isZero); len(of) == 0 {
						delete(s.Buried, lane)
					}
				}
				require.Empty(t, s.Faults(p.setup), "%s without %s: %v", name, command, err)
			}
			require.NoError(t, work(t.Context()), "%s without %s", name, command)
			_, found := p.examine(false)
			require.Empty(t, found, "%s without %s: %v", name, command, err)
		}
	}
	require.Greater(t, torn, 50, "only such that tore a script prove anything")
}

// mustLimit gives the user of limited all rights, and takes them from it and back.
func mustLimit(t *testing.T, server *redistest.Server) (may func(rules ...string)) {
	t.Helper()
	may = func(rules ...string) {
		t.Helper()
		args := []any{"ACL", "SETUSER", "limited"}
		for _, rule := range rules {
			args = append(args, rule)
		}
		require.NoError(t, server.Client.Do(context.Background(), args...).Err())
	}
	may("reset", "on", ">least", "+@all", "~*", "&*")
	return may
}

// The log lost its tail while the mark that says so could not be written.
func TestALostTailIsStillReportedAfterARightWasMissing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	may := mustLimit(t, server)
	a := newArchived(t, limited{server})
	a.accept(1, 100)
	before := a.read()
	a.archive(before)
	a.Pass(time.Second)
	a.accept(1, 100)
	p := a.read()
	a.archive(p)
	tag := a.store.Conn().Tag(0)
	require.NoError(t, server.Client.XDel(t.Context(), tag+keys.Attempts, p.To.String()).Err())
	require.NoError(t, server.Client.HSet(t.Context(), tag+keys.Archive, "p", before.To.String()).Err())
	a.Pass(time.Second)
	a.accept(1, 100)

	may("-xadd")
	require.Error(t, a.feed.Archived(t.Context(), []archive.Part{p}))
	may("+xadd")
	require.False(t, admin.MendTorn(t.Context(), a.store.Bare(), "one"))
	a.archive(p)
	require.True(t, a.read().TailLost)
}

// What could not be looked at is not missing.
func TestAQueryWithoutARightIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	may := mustLimit(t, server)
	p := newTestWard(t, limited{server})
	p.alive("one")
	p.fill()
	view, err := p.store.Read(t.Context(), "done")
	require.NoError(t, err)
	require.NotEmpty(t, view.Deliveries[0].History)
	may("-lrange")
	_, err = p.store.Read(t.Context(), "done")
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}

// The scripts of endpoints and links leave no mark. So they look for the rights that they need before
// they change anything.
func TestNoEndpointIsHalfDoneAfterARightWasMissing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	may := mustLimit(t, server)
	p := newTestWard(t, limited{server})
	p.alive("one")
	there := redisqtest.Endpoint("ep_000000001")
	there.UID, there.Tenant = "uid1", "shop"
	_, err := p.store.CreateEndpoint(t.Context(), there)
	require.NoError(t, err)
	_, _, err = p.store.Limit(t.Context(), "one", there.Lane(), there.Limits(), false)
	require.NoError(t, err)
	_, found := p.examine(false)
	require.Empty(t, found)
	restore := redisqtest.CopyKeys(t, server.Client, p.project())
	works := map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			e := redisqtest.Endpoint("ep_000000002")
			e.UID, e.Tenant = "uid2", "shop"
			_, err := p.store.CreateEndpoint(ctx, e)
			return err
		},
		"change": func(ctx context.Context) error {
			e := there.Clone()
			e.Version++
			e.Description = "changed"
			return p.store.ChangeEndpoint(ctx, e)
		},
		"delete": func(ctx context.Context) error { _, err := p.store.DeleteEndpoint(ctx, there.ID); return err },
	}
	for name, work := range works {
		missing := 0
		for _, command := range changing {
			restore()
			may("-" + command)
			err := work(t.Context())
			may("+" + command)
			if err == nil {
				continue
			}
			missing++
			_, found := p.examine(false)
			require.Empty(t, found, "%s without %s", name, command)
		}
		require.Greater(t, missing, 2, name)
	}
}

// A message that is kept and was not named to the archive would never come there.
func TestEachMessageComesToTheArchiveAfterARightWasMissing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	may := mustLimit(t, server)
	a := newArchived(t, limited{server})
	a.accept(1, 100)
	a.archive(a.read())
	restore := redisqtest.CopyKeys(t, server.Client, a.Options.Project)
	missing := 0
	for _, command := range changing {
		restore()
		publish := func() error {
			got, _, err := a.store.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{a.Entry("new", to("u_a")), a.Entry("late", to("u_b"), redisqtest.Delay(time.Hour))})
			if err == nil {
				err = cmp.Or(got[0].Err, got[1].Err)
			}
			return err
		}
		may("-" + command)
		err := publish()
		if err != nil {
			missing++
		}
		may("+" + command)
		require.False(t, admin.MendTorn(t.Context(), a.store.Bare(), "one"), command)
		named := func() (ids []string) {
			for _, one := range a.read().Accepted {
				require.NotNil(t, one.Message, "without %s: %s is named and not kept", command, one.ID)
				ids = append(ids, one.ID)
			}
			return ids
		}
		for _, id := range []string{"new", "late"} {
			if server.Client.HExists(t.Context(), a.store.Conn().Tag(0)+keys.Messages, id).Val() {
				require.Contains(t, named(), id, "without %s: it is kept and not named", command)
			}
		}
		require.NoError(t, publish(), command)
		require.ElementsMatch(t, []string{"new", "late"}, named(), "without %s", command)
	}
	require.Greater(t, missing, 5, "only a right that was missed proves anything")
}
