package access_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	words "github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// open begins a session, and answers the name of its record too.
func (r *rig) open(key string) (token, record string) {
	r.Helper()
	token, err := r.OpenSession(r.Context(), key)
	require.NoError(r, err)
	names, err := r.client.Keys(r.Context(), r.home+":session:*").Result()
	require.NoError(r, err)
	require.Len(r, names, 1)
	return token, names[0]
}

// session is that of a token, at an instance that has not seen it yet.
func (r *rig) session(token string) (words.Session, error) {
	r.Helper()
	return r.Session(r.Context(), token)
}

func TestASessionLastsUntilItIsClosed(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		token, _ := r.open("0123abcd")
		require.Len(t, token, 43, "32 bytes")
		have, err := r.session(token)
		require.NoError(t, err)
		require.Equal(t, words.Session{Key: "0123abcd", Until: r.now.Add(words.SessionFor).UTC()}, have)
		elsewhere, err := r.another().Session(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, have, elsewhere, "every instance knows it")
		for _, other := range []string{"", "x", token[1:], token + "="} {
			_, err := r.session(other)
			require.ErrorIs(t, err, words.ErrNoSession, "%q", other)
		}
		require.NoError(t, r.CloseSession(t.Context(), "x"), "there is none")
		require.NoError(t, r.CloseSession(t.Context(), token))
		_, err = r.another().Session(t.Context(), token)
		require.ErrorIs(t, err, words.ErrNoSession)
	})
}

// Its end counts, whatever became of the TTL; and what was evicted is no session.
func TestATTLOnlyTidiesASession(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		token, record := r.open("0123abcd")
		require.InDelta(t, words.SessionFor, r.client.PTTL(t.Context(), record).Val(), float64(time.Minute))
		require.NoError(t, r.client.Persist(t.Context(), record).Err())
		r.pass(words.SessionFor - time.Millisecond)
		_, err := r.another().Session(t.Context(), "x")
		require.ErrorIs(t, err, words.ErrNoSession)
		r.pass(time.Millisecond)
		_, err = r.session(token)
		require.ErrorIs(t, err, words.ErrNoSession, "it has ended")

		require.NoError(t, r.client.Del(t.Context(), record).Err())
		token, record = r.open("0123abcd")
		require.NoError(t, r.client.Del(t.Context(), record).Err())
		_, err = r.session(token)
		require.ErrorIs(t, err, words.ErrNoSession, "it was evicted")
	})
}

func TestASessionThatIsUsedLastsAnew(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		began := r.now
		token, record := r.open("0123abcd")
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

		// A master whose clock was ahead made it last longer.
		require.NoError(t, r.client.HSet(t.Context(), record, "until", began.Add(1000*time.Hour).UnixMilli()).Err())
		at(18*time.Hour, 30*time.Hour)
	})
}

func TestNothingInRedisOpensASessionOrALink(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		session, _ := r.open("0123abcd")
		_, link := r.create(words.Link{Tenant: "m7"}, time.Hour)
		require.Contains(t, r.raw(), "0123abcd")
		require.Contains(t, r.raw(), "m7")
		for _, token := range []string{session, link} {
			require.NotContains(t, r.raw(), token)
			require.NotContains(t, r.raw(), token[:12])
		}
		other, _ := r.create(words.Link{Tenant: "m7"}, time.Hour)
		_, err := r.session(other.ID)
		require.ErrorIs(t, err, words.ErrNoSession)
		_, err = r.session(link)
		require.ErrorIs(t, err, words.ErrNoSession, "a link is no session")
		_, err = r.LinkByToken(t.Context(), session)
		require.ErrorIs(t, err, words.ErrNoLink, "a session is no link")
	})
}

func TestALookUpIsOneRoundTrip(t *testing.T) {
	r := newRig(t, redistest.StartMini(t))
	session, _ := r.open("0123abcd")
	_, link := r.create(words.Link{Tenant: "m7"}, time.Hour)
	look := func() {
		_, err := r.Session(t.Context(), session)
		require.NoError(t, err)
		_, err = r.LinkByToken(t.Context(), link)
		require.NoError(t, err)
	}
	look() // the scripts are loaded
	gauge := redisqtest.Measure(r.client, nil)
	look()
	trips := map[int]bool{}
	for _, sent := range gauge.Of("") {
		trips[sent.Trip] = true
	}
	require.Len(t, trips, 2)
}

func TestPeopleGetInAndAreKeptOutWhileMemoryIsFull(t *testing.T) {
	r := newRig(t, redistest.Start(t))
	before, _ := r.create(words.Link{Tenant: "m7"}, time.Hour)
	r.full()
	token, _ := r.open("0123abcd")
	r.client.ConfigSet(t.Context(), "maxmemory", "0")
	r.pass(7 * time.Hour)
	before, _ = r.create(words.Link{Tenant: "m8"}, time.Hour)
	r.full()
	have, err := r.session(token)
	require.NoError(t, err)
	require.Equal(t, r.now.Add(words.SessionFor).UTC(), have.Until, "it lasts anew")
	require.NoError(t, r.CloseSession(t.Context(), token))
	_, err = r.session(token)
	require.ErrorIs(t, err, words.ErrNoSession)

	made, opens := r.create(words.Link{Tenant: "m7"}, time.Hour)
	require.Equal(t, []string{made.ID, before.ID}, r.ids(10), "the expired one was removed")
	wait, err := r.SpendLink(t.Context(), made.ID)
	require.NoError(t, err)
	require.Zero(t, wait)
	require.NoError(t, r.RevokeLink(t.Context(), made.ID))
	_, err = r.LinkByToken(t.Context(), opens)
	require.ErrorIs(t, err, words.ErrNoLink)
}

// A store that is away says nothing of a token.
func TestAStoreThatIsAwayIsNotTakenForNobody(t *testing.T) {
	server := redistest.Start(t)
	r := newRig(t, server)
	session, _ := r.open("0123abcd")
	l, link := r.create(words.Link{Tenant: "m7"}, time.Hour)
	server.Stop()
	ctx := t.Context()
	_, session1 := r.Session(ctx, session)
	_, link1 := r.LinkByToken(ctx, link)
	_, link2 := r.Link(ctx, l.ID)
	_, open := r.OpenSession(ctx, "0123abcd")
	_, create := r.CreateLink(ctx, words.NewToken(), words.Link{Tenant: "m7"}, time.Hour)
	_, _, list := r.Links(ctx, 10, "")
	_, spend := r.SpendLink(ctx, l.ID)
	for name, err := range map[string]error{
		"session": session1, "link by token": link1, "link": link2, "open": open, "create": create, "list": list, "spend": spend,
		"revoke": r.RevokeLink(ctx, l.ID), "close": r.CloseSession(ctx, session),
	} {
		require.ErrorIs(t, err, dispatcher.ErrUnavailable, name)
		require.NotErrorIs(t, err, words.ErrNoSession, name)
		require.NotErrorIs(t, err, words.ErrNoLink, name)
	}
}
