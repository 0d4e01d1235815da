package home_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// open begins a session, and answers the name of its record too.
func (r *accessRig) open(key string) (token, record string) {
	r.Helper()
	token, err := r.OpenSession(r.Context(), key)
	require.NoError(r, err)
	return token, r.home + ":session:" + key
}

// session is that of a token, at an instance that has not seen it yet.
func (r *accessRig) session(token string) (dispatcher.Session, error) {
	r.Helper()
	return r.Session(r.Context(), token)
}

func TestASessionLastsUntilItIsClosed(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		token, _ := r.open("ops")
		require.Len(t, token, 43, "32 bytes")
		have, err := r.session(token)
		require.NoError(t, err)
		require.Equal(t, dispatcher.Session{Key: "ops", Until: r.now.Add(dispatcher.SessionFor).UTC()}, have)
		elsewhere, err := r.another().Session(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, have, elsewhere, "every instance knows it")
		for _, other := range []string{"", "x", token[1:], token + "="} {
			_, err := r.session(other)
			require.ErrorIs(t, err, dispatcher.ErrNoSession, "%q", other)
		}
		require.ErrorIs(t, r.CloseSession(t.Context(), "x"), dispatcher.ErrNoSession)
		require.NoError(t, r.CloseSession(t.Context(), token))
		require.NoError(t, r.CloseSession(t.Context(), token), "it is closed already")
		_, err = r.another().Session(t.Context(), token)
		require.ErrorIs(t, err, dispatcher.ErrNoSession)
	})
}

// Its end counts, whatever became of the TTL; and what was evicted is no session.
func TestATTLOnlyTidiesASession(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		token, record := r.open("ops")
		require.InDelta(t, dispatcher.SessionFor, r.client.PTTL(t.Context(), record).Val(), float64(time.Minute))
		require.NoError(t, r.client.Persist(t.Context(), record).Err())
		r.pass(dispatcher.SessionFor - time.Millisecond)
		_, err := r.another().Session(t.Context(), "x")
		require.ErrorIs(t, err, dispatcher.ErrNoSession)
		r.pass(time.Millisecond)
		_, err = r.session(token)
		require.ErrorIs(t, err, dispatcher.ErrNoSession, "it has ended")

		require.NoError(t, r.client.Del(t.Context(), record).Err())
		token, record = r.open("ops")
		require.NoError(t, r.client.Del(t.Context(), record).Err())
		_, err = r.session(token)
		require.ErrorIs(t, err, dispatcher.ErrNoSession, "it was evicted")
	})
}

func TestASessionThatIsUsedLastsAnew(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		began := r.now
		token, record := r.open("ops")
		at := func(d, want time.Duration) {
			t.Helper()
			r.pass(d - r.now.Sub(began))
			have, err := r.session(token)
			require.NoError(t, err)
			require.Equal(t, began.Add(want).UTC(), have.Until)
		}
		at(6*time.Hour, 12*time.Hour) // half is left: nothing is written
		at(6*time.Hour+time.Millisecond, 18*time.Hour+time.Millisecond)
		require.InDelta(t, 18*time.Hour, r.client.PTTL(t.Context(), record).Val(), float64(time.Minute))
		at(12*time.Hour, 18*time.Hour+time.Millisecond)
		at(18*time.Hour, 30*time.Hour)

		r.now = began.Add(12 * time.Hour) // a master whose clock was ahead made it last longer
		at(12*time.Hour, 24*time.Hour)
	})
}

// A stolen cookie must not open the console for ever.
func TestASessionThatIsUsedAllTheTimeEnds(t *testing.T) {
	r := newAccessRig(t, redistest.StartMini(t))
	began := r.now
	token, _ := r.open("ops")
	step := dispatcher.SessionFor / 3
	for r.now.Sub(began) < dispatcher.SessionMost-step {
		r.pass(step)
		have, err := r.session(token)
		require.NoError(t, err)
		require.False(t, have.Until.After(began.Add(dispatcher.SessionMost)))
	}
	r.pass(step - time.Millisecond)
	_, err := r.session(token)
	require.NoError(t, err)
	r.pass(time.Millisecond)
	_, err = r.session(token)
	require.ErrorIs(t, err, dispatcher.ErrNoSession)
}

func TestAKeyHasSoManySessions(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		var tokens []string
		for range dispatcher.MostSessions {
			r.pass(time.Minute / dispatcher.SignIns * 2)
			token, _ := r.open("ops")
			tokens = append(tokens, token)
		}
		other, _ := r.open("shop")
		_, err := r.session(tokens[0])
		require.NoError(t, err)
		one, err := r.another().OpenSession(t.Context(), "ops")
		require.NoError(t, err)
		_, err = r.session(tokens[0])
		require.ErrorIs(t, err, dispatcher.ErrNoSession, "the oldest")
		for _, token := range append(tokens[1:], one, other) {
			_, err := r.session(token)
			require.NoError(t, err)
		}
		require.EqualValues(t, dispatcher.MostSessions+1, r.client.HLen(t.Context(), r.home+":session:ops").Val(), "and the count of sign-ins")

		r.pass(dispatcher.SessionFor)
		r.open("ops")
		require.EqualValues(t, 2, r.client.HLen(t.Context(), r.home+":session:ops").Val(), "what has ended is forgotten")
	})
}

func TestPeopleSignInSoOftenAMinuteWithAKey(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		stores := []*home.Access{r.Access, r.another()}
		for i := range dispatcher.SignIns {
			token, err := stores[i%2].OpenSession(t.Context(), "ops")
			require.NoError(t, err)
			require.NoError(t, r.CloseSession(t.Context(), token), "signing out gives no sign-in back")
		}
		r.pass(20 * time.Second)
		for _, s := range stores {
			_, err := s.OpenSession(t.Context(), "ops")
			var many *dispatcher.SignInsError
			require.ErrorAs(t, err, &many)
			require.Equal(t, 40*time.Second, many.Wait)
		}
		r.open("shop")
		r.pass(40 * time.Second)
		r.open("ops")
	})
}

// Sign-ins must not fill a store that is full.
func TestNobodySignsInWhileMemoryIsFull(t *testing.T) {
	r := newAccessRig(t, redistest.Start(t))
	token, record := r.open("ops")
	r.full()
	before := r.client.HGetAll(t.Context(), record).Val()
	_, err := r.OpenSession(t.Context(), "ops")
	require.ErrorIs(t, err, dispatcher.ErrFull)
	require.Equal(t, before, r.client.HGetAll(t.Context(), record).Val())
	r.client.ConfigSet(t.Context(), "maxmemory", "0")
	r.pass(7 * time.Hour)
	r.full()
	have, err := r.session(token)
	require.NoError(t, err)
	require.Equal(t, r.now.Add(dispatcher.SessionFor).UTC(), have.Until, "it lasts anew")
	require.NoError(t, r.CloseSession(t.Context(), token))
	_, err = r.session(token)
	require.ErrorIs(t, err, dispatcher.ErrNoSession)
}

func TestNothingInRedisOpensASessionOrALink(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		session, _ := r.open("ops")
		_, link := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		require.Contains(t, r.raw(), "ops")
		require.Contains(t, r.raw(), "m7")
		for _, token := range []string{session, link} {
			require.NotContains(t, r.raw(), token)
			require.NotContains(t, r.raw(), token[:12])
		}
		other, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
		_, err := r.session(other.ID)
		require.ErrorIs(t, err, dispatcher.ErrNoSession)
		_, err = r.session(link)
		require.ErrorIs(t, err, dispatcher.ErrNoSession, "a link is no session")
		_, err = r.LinkByToken(t.Context(), session)
		require.ErrorIs(t, err, dispatcher.ErrNoLink, "a session is no link")
	})
}

func TestALookUpIsOneRoundTrip(t *testing.T) {
	r := newAccessRig(t, redistest.StartMini(t))
	session, _ := r.open("ops")
	_, link := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	find := func() {
		_, err := r.Session(t.Context(), session)
		require.NoError(t, err)
		_, err = r.LinkByToken(t.Context(), link)
		require.NoError(t, err)
	}
	find() // the scripts are loaded
	gauge := redisqtest.Measure(r.client, nil)
	find()
	trips := map[int]bool{}
	for _, sent := range gauge.Of("") {
		trips[sent.Trip] = true
	}
	require.Len(t, trips, 2)
}

func TestLinksAreMadeAndRevokedWhileMemoryIsFull(t *testing.T) {
	r := newAccessRig(t, redistest.Start(t))
	r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	r.full()
	r.client.ConfigSet(t.Context(), "maxmemory", "0")
	r.pass(7 * time.Hour)
	before, _ := r.create(dispatcher.Link{Key: "ops", Tenant: "m8"}, time.Hour)
	r.full()
	made, opens := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	require.Equal(t, []string{made.ID, before.ID}, r.ids(10), "the expired one was removed")
	wait, err := r.SpendLink(t.Context(), made.ID)
	require.NoError(t, err)
	require.Zero(t, wait)
	require.NoError(t, r.RevokeLink(t.Context(), made.ID))
	_, err = r.LinkByToken(t.Context(), opens)
	require.ErrorIs(t, err, dispatcher.ErrNoLink)
}

// A store that is away says nothing of a token.
func TestAStoreThatIsAwayIsNotTakenForNobody(t *testing.T) {
	server := redistest.Start(t)
	r := newAccessRig(t, server)
	session, _ := r.open("ops")
	l, link := r.create(dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	server.Stop()
	ctx := t.Context()
	_, session1 := r.Session(ctx, session)
	_, link1 := r.LinkByToken(ctx, link)
	_, link2 := r.Link(ctx, l.ID)
	_, open := r.OpenSession(ctx, "ops")
	_, _, create := r.CreateLink(ctx, dispatcher.Link{Key: "ops", Tenant: "m7"}, time.Hour)
	_, _, list := r.Links(ctx, 10, "")
	_, spend := r.SpendLink(ctx, l.ID)
	for name, err := range map[string]error{
		"session": session1, "link by token": link1, "link": link2, "open": open, "create": create, "list": list, "spend": spend,
		"revoke": r.RevokeLink(ctx, l.ID), "close": r.CloseSession(ctx, session),
	} {
		require.ErrorIs(t, err, dispatcher.ErrUnavailable, name)
		require.NotErrorIs(t, err, dispatcher.ErrNoSession, name)
		require.NotErrorIs(t, err, dispatcher.ErrNoLink, name)
	}
}

func TestAPageIsShownToItsOwnerForAMinute(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		page := []byte("<h1>whsec_SECRET</h1>")
		id, err := r.PutShown(t.Context(), "session:a", page)
		require.NoError(t, err)
		require.Len(t, id, 43, "32 bytes")
		require.NotContains(t, r.raw(), id)
		require.NotContains(t, r.raw(), "SECRET", "the id seals it")
		for range 2 {
			got, err := r.another().Shown(t.Context(), "session:a", id)
			require.NoError(t, err)
			require.Equal(t, page, got)
		}
		for owner, of := range map[string]string{"session:b": id, "link:a": id, "local": id, "": id, "session:a": strings.Repeat("A", 43)} {
			_, err := r.Shown(t.Context(), owner, of)
			require.ErrorIs(t, err, dispatcher.ErrNotShown, owner)
		}
		r.pass(dispatcher.ShownFor - time.Millisecond)
		_, err = r.Shown(t.Context(), "session:a", id)
		require.NoError(t, err)
		r.pass(time.Millisecond)
		_, err = r.Shown(t.Context(), "session:a", id)
		require.ErrorIs(t, err, dispatcher.ErrNotShown, "whatever the TTL is")
	})
}

// Somebody with write access to Redis could move the record to a session of their own.
func TestAPageThatWasMovedIsShownToNobody(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		id, err := r.PutShown(t.Context(), "session:a", []byte("secret"))
		require.NoError(t, err)
		from, to := r.home+":shown:"+dispatcher.HashToken("session:a"), r.home+":shown:"+dispatcher.HashToken("session:b")
		require.NoError(t, r.client.Rename(t.Context(), from, to).Err())
		_, err = r.Shown(t.Context(), "session:b", id)
		require.ErrorIs(t, err, dispatcher.ErrNotShown)
		require.NoError(t, r.client.HSet(t.Context(), to, dispatcher.HashToken(id), "no record").Err())
		_, err = r.Shown(t.Context(), "session:b", id)
		require.ErrorIs(t, err, dispatcher.ErrNotShown)
	})
}

func TestPagesAreFewAndSmall(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		var ids []string
		for i := range 10 {
			id, err := r.PutShown(t.Context(), "link:a", fmt.Append(nil, "page ", i))
			require.NoError(t, err)
			ids = append(ids, id)
			r.pass(time.Second)
		}
		shown := r.home + ":shown:" + dispatcher.HashToken("link:a")
		require.EqualValues(t, 8, r.client.HLen(t.Context(), shown).Val())
		for i, id := range ids {
			_, err := r.Shown(t.Context(), "link:a", id)
			require.Equal(t, i < 2, err != nil, "page %d", i)
		}
		require.Positive(t, r.client.PTTL(t.Context(), shown).Val(), "it goes by itself")
		r.pass(dispatcher.ShownFor - 2*time.Second)
		_, err := r.PutShown(t.Context(), "link:a", []byte("the last"))
		require.NoError(t, err)
		require.EqualValues(t, 2, r.client.HLen(t.Context(), shown).Val(), "those that ended are gone")

		noise := make([]byte, 65<<10)
		_, _ = rand.Read(noise)
		_, err = r.PutShown(t.Context(), "link:a", noise)
		require.ErrorContains(t, err, "compressed")
		_, err = r.PutShown(t.Context(), "link:a", bytes.Repeat([]byte("a"), 1<<20+1))
		require.ErrorContains(t, err, "compressed")
	})
}
