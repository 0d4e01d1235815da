package home_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestALinkIsOpenedByItsToken(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		want := dispatcher.Link{Key: "ops", Tenant: "m 7", Endpoint: "ep_1", Manage: true, Name: "Anna <anna@m7.example> \"Köln\"", By: "key:ops"}
		made, token := r.create(want, 24*time.Hour)
		want.ID, want.CreatedAt, want.ExpiresAt = made.ID, r.now.UTC(), r.now.Add(24*time.Hour).UTC()
		require.Equal(t, want, made)
		require.Regexp(t, `^lnk_[a-z2-7]{20}$`, made.ID)
		require.True(t, dispatcher.ValidLinkID(made.ID))
		require.Len(t, token, 43)
		have, err := r.another().LinkByToken(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, want, have)
		have, err = r.Link(t.Context(), made.ID)
		require.NoError(t, err)
		require.Equal(t, want, have)
		for _, other := range []string{"", "x", token[1:], token + "=", made.ID} {
			_, err := r.LinkByToken(t.Context(), other)
			require.ErrorIs(t, err, dispatcher.ErrNoLink, "%q", other)
		}
		require.Empty(t, have.Ended)
		plain, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m8"}, time.Minute)
		have, err = r.Link(t.Context(), plain.ID)
		require.NoError(t, err)
		require.Equal(t, plain, have)
	})
}

func TestLinksAreListedNewestFirst(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		require.Empty(t, r.ids(10))
		var made []string
		for i := range 7 { // several in one millisecond
			l, _ := r.create(dispatcher.Link{Key: "ops", Tenant: fmt.Sprint("m", i)}, time.Duration(10-i)*time.Hour)
			made = append([]string{l.ID}, made...)
			if i == 4 {
				r.pass(time.Second)
			}
		}
		for _, limit := range []int{1, 2, 3, 7, 500} {
			require.Equal(t, made, r.ids(limit))
		}
		page, next, err := r.Links(t.Context(), 3, "")
		require.NoError(t, err)
		require.Equal(t, "m6", page[0].Tenant)
		require.NoError(t, r.RevokeLink(t.Context(), page[2].ID), "the cursor's own")
		page, _, err = r.Links(t.Context(), 3, next)
		require.NoError(t, err)
		require.Equal(t, made[3], page[0].ID)
		for _, bad := range []string{"x", "-1", "1.5", "1 2", "+inf", "(1"} {
			_, _, err := r.Links(t.Context(), 3, bad)
			require.ErrorIs(t, err, dispatcher.ErrCursor, bad)
		}
	})
}

func TestALinkEndsByTheStoresClock(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		short, token := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		long, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, 2*time.Hour)
		r.pass(time.Hour - time.Millisecond)
		_, err := r.LinkByToken(t.Context(), token)
		require.NoError(t, err)
		r.pass(time.Millisecond)
		_, err = r.LinkByToken(t.Context(), token)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
		_, err = r.Link(t.Context(), short.ID)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
		_, err = r.SpendLink(t.Context(), short.ID)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
		require.Equal(t, [3]int64{2, 2, 2}, r.kept())
		require.Equal(t, []string{long.ID}, r.ids(10))
		require.Equal(t, [3]int64{1, 1, 1}, r.kept(), "a list tidies")
		require.ErrorIs(t, r.RevokeLink(t.Context(), short.ID), dispatcher.ErrNoLink)
		r.pass(time.Hour)
		require.ErrorIs(t, r.RevokeLink(t.Context(), long.ID), dispatcher.ErrNoLink, "it has expired")
		require.Equal(t, [3]int64{}, r.kept())
	})
}

func TestARevokedLinkIsGone(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		one, token := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		two, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		require.NoError(t, r.another().RevokeLink(t.Context(), one.ID))
		_, err := r.LinkByToken(t.Context(), token)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
		_, err = r.SpendLink(t.Context(), one.ID)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
		require.ErrorIs(t, r.RevokeLink(t.Context(), one.ID), dispatcher.ErrNoLink)
		require.Equal(t, []string{two.ID}, r.ids(10))
		require.Equal(t, [3]int64{1, 1, 1}, r.kept())
	})
}

// fill writes links as they lie in Redis, all made before now.
func (r *accessRig) fill(n int, ends time.Time) {
	r.Helper()
	pipe := r.client.Pipeline()
	for i := range n {
		id, made := fmt.Sprintf("lnk_%020d", i), r.now.Add(-24*time.Hour).UnixMilli()+int64(i)
		pipe.HSet(r.Context(), r.home+":links", id, fmt.Sprintf("%064x %d %d - mac {\"Tenant\":\"m\",\"Key\":\"gone\"}", i, made, ends.UnixMilli()))
		pipe.ZAdd(r.Context(), r.home+":linked", redis.Z{Score: float64(made), Member: id})
		pipe.ZAdd(r.Context(), r.home+":lapse", redis.Z{Score: float64(ends.UnixMilli()), Member: id})
	}
	_, err := pipe.Exec(r.Context())
	require.NoError(r, err)
}

func TestThereAreSoManyLinks(t *testing.T) {
	r := newAccessRig(t, redistest.Share(t))
	r.fill(10_000, r.now.Add(time.Hour))
	_, _, err := r.CreateLink(t.Context(), dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	require.ErrorIs(t, err, dispatcher.ErrLinks)
	require.NoError(t, r.RevokeLink(t.Context(), fmt.Sprintf("lnk_%020d", 5000)))
	r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, 30*24*time.Hour)
	_, _, err = r.CreateLink(t.Context(), dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	require.ErrorIs(t, err, dispatcher.ErrLinks)
	require.Len(t, r.ids(500), 10_000)

	r.pass(time.Hour) // each that is made removes some that have expired
	made, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	require.Equal(t, [3]int64{9_901, 9_901, 9_901}, r.kept())
	page, next, err := r.Links(t.Context(), 1, "")
	require.NoError(t, err)
	require.Equal(t, made.ID, page[0].ID)
	page, next, err = r.Links(t.Context(), 500, next)
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.NotEmpty(t, next, "a page looks at so many only")
	require.Equal(t, [3]int64{7_902, 7_902, 7_902}, r.kept())
	require.Len(t, r.ids(500), 2)
	require.Equal(t, [3]int64{2, 2, 2}, r.kept())
}

func TestALinkMakesSixtyCallsAnHourAtAllInstancesTogether(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		l, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m 7", Name: "a b"}, 24*time.Hour)
		instances := []*home.Access{r.Access, r.another(), r.another()}
		spend := func(i int) time.Duration {
			t.Helper()
			wait, err := instances[i%len(instances)].SpendLink(t.Context(), l.ID)
			require.NoError(t, err)
			return wait
		}
		for i := range dispatcher.LinkCalls {
			require.Zero(t, spend(i), "call %d", i)
			r.pass(time.Second)
		}
		require.Equal(t, time.Hour-time.Minute, spend(0))
		require.Equal(t, time.Hour-time.Minute, spend(1), "a call that was refused is none")
		r.pass(time.Hour - time.Minute - time.Millisecond)
		require.Equal(t, time.Millisecond, spend(2))
		r.pass(time.Millisecond)
		require.Zero(t, spend(0), "the first is an hour ago")
		require.Equal(t, time.Second, spend(1), "the second is not")
		r.pass(2 * time.Hour)
		for i := range dispatcher.LinkCalls {
			require.Zero(t, spend(i))
		}
		require.Equal(t, time.Hour, spend(0))
		have, err := r.Link(t.Context(), l.ID)
		require.NoError(t, err)
		require.Equal(t, l, have, "counting changes nothing else")
		other, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m8"}, time.Hour)
		wait, err := r.SpendLink(t.Context(), other.ID)
		require.NoError(t, err)
		require.Zero(t, wait, "each link has its own")

		r.pass(-30 * time.Minute) // another master, whose clock is behind
		require.LessOrEqual(t, spend(0), time.Hour)
	})
}

func TestCallsAtTheSameTimeAreCountedOnce(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		l, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		var made atomic.Int64
		var all sync.WaitGroup
		for _, instance := range []*home.Access{r.Access, r.another()} {
			for range 4 {
				all.Go(func() {
					for range 20 {
						if wait, err := instance.SpendLink(context.Background(), l.ID); err == nil && wait == 0 {
							made.Add(1)
						}
					}
				})
			}
		}
		all.Wait()
		require.EqualValues(t, dispatcher.LinkCalls, made.Load())
	})
}

// What a person wrote by hand is no link, and stops nothing.
func TestWhatCantBeReadIsNoLink(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		good, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		ends := r.now.Add(time.Hour).UnixMilli()
		for i, text := range []string{"", "x", "ab 1 2", fmt.Sprintf("ab 1 %d - {", ends), fmt.Sprintf("ab 1 %d - {}", ends), fmt.Sprintf("ab 1 %d -", ends)} {
			id := fmt.Sprint("lnk_", i)
			require.NoError(t, r.client.HSet(t.Context(), r.home+":links", id, text).Err())
			require.NoError(t, r.client.ZAdd(t.Context(), r.home+":linked", redis.Z{Score: float64(i + 1), Member: id}).Err())
			_, err := r.Link(t.Context(), id)
			require.ErrorIs(t, err, dispatcher.ErrNoLink, text)
		}
		require.NoError(t, r.client.ZAdd(t.Context(), r.home+":linked", redis.Z{Score: 100, Member: "lnk_none"}).Err())
		require.Equal(t, []string{good.ID}, r.ids(2))
	})
}

func TestARepartitionAndADoctorKeepSessionsAndLinks(t *testing.T) {
	ctx := t.Context()
	o := redisq.Options{URL: redisqtest.PatientURL(redistest.Share(t)), Project: redisqtest.ProjectName(), Partitions: 2, LaneMaxInFlight: 8, Permits: 8}
	before := redisqtest.Open(t, o)
	session, err := before.Access().OpenSession(ctx, "ops")
	require.NoError(t, err)
	link, made, err := before.Access().CreateLink(ctx, dispatcher.Link{Key: "ops", Tenant: "m7", Manage: true}, time.Hour)
	require.NoError(t, err)
	require.NoError(t, before.Close())
	_, err = admin.Repartition(ctx, o, admin.RepartitionOptions{To: 5})
	require.NoError(t, err)

	o.Partitions = 5
	after := redisqtest.Open(t, o)
	_, err = admin.Examine(ctx, after.Queue(), admin.Examination{Fix: true, Still: time.Millisecond, Report: func(f admin.Finding) { t.Errorf("%+v", f) }})
	require.NoError(t, err)
	_, err = after.Access().Session(ctx, session)
	require.NoError(t, err)
	have, err := after.Access().LinkByToken(ctx, link)
	require.NoError(t, err)
	require.Equal(t, made, have)
	require.Equal(t, []string{"lapse", "linked", "links", "session"}, kindsOf(redisqtest.Keys(t, after.Client(), o.Project)))
}

// kindsOf are the keys of this package among those of a project, without what follows.
func kindsOf(names []string) (found []string) {
	for _, name := range names {
		_, name, _ = strings.Cut(name, "}:")
		name, _, _ = strings.Cut(name, ":")
		if slices.Contains([]string{"session", "links", "linked", "lapse"}, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// A link whose token nobody got would count until somebody looked for it.
func TestNoLinkIsHalfMadeWithoutARight(t *testing.T) {
	server := redistest.Start(t)
	may := func(rules ...any) {
		require.NoError(t, server.Client.Do(t.Context(), append([]any{"ACL", "SETUSER", "limited"}, rules...)...).Err())
	}
	may("reset", "on", ">least", "+@all", "~*", "&*")
	r := newAccessRig(t, limited{server})
	for _, command := range []string{"-zadd", "-hset", "-del", "-hlen", "-zrevrange", "-zrangebyscore"} {
		may(command)
		_, _, err := r.CreateLink(t.Context(), dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		may("+" + command[1:])
		require.ErrorIs(t, err, dispatcher.ErrUnavailable, command)
		require.Empty(t, server.Client.HGetAll(t.Context(), r.home+":links").Val(), command)
	}
}

// limited is a server whose URL is of a user that can lose rights.
type limited struct{ redistest.Redis }

func (l limited) URL() string { return strings.Replace(l.Redis.URL(), "://", "://limited:least@", 1) }
