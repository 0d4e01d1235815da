package home_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// flips are a text with each of its bytes changed, and with one byte more or less.
func flips(text string) (all []string) {
	for i := range text {
		all = append(all, text[:i]+string(rune(text[i]^1))+text[i+1:])
	}
	return append(all, text[1:], text[:len(text)-1], text+" ", text+"0", "")
}

func TestASessionThatIsChangedInRedisIsNone(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		token, record := r.open("ops")
		hash := dispatcher.HashToken(token)
		good := r.client.HGet(t.Context(), record, hash).Val()
		for _, bad := range flips(good) {
			require.NoError(t, r.client.HSet(t.Context(), record, hash, bad).Err())
			_, err := r.session(token)
			require.ErrorIs(t, err, dispatcher.ErrNoSession, "%q", bad)
		}
		// One that is true stays true for its own token and its own key alone.
		require.NoError(t, r.client.HSet(t.Context(), record, hash, good).Err())
		shop, theirs := r.open("shop")
		require.NoError(t, r.client.HSet(t.Context(), theirs, dispatcher.HashToken(shop), good).Err())
		_, err := r.session(shop)
		require.ErrorIs(t, err, dispatcher.ErrNoSession)
		_, err = r.session(token)
		require.NoError(t, err)
	})
}

// spent is the part of a link's record that no MAC covers: the calls of the last hour.
func spent(record string) (from, to int) {
	parts := strings.SplitN(record, " ", 5)
	from = len(strings.Join(parts[:3], " ")) + 1
	return from, from + len(parts[3])
}

func TestALinkThatIsChangedInRedisIsNone(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		made, token := r.create(dispatcher.Link{Key: "ops", Tenant: "m7", By: "key:ops"}, time.Hour)
		good := r.client.HGet(t.Context(), r.home+":links", made.ID).Val()
		put := func(id, record string) {
			t.Helper()
			require.NoError(t, r.client.HSet(t.Context(), r.home+":links", id, record).Err())
		}
		changed := flips(good)
		for _, text := range [][2]string{
			{`"m7"`, `"m8"`}, {`"m7"`, `"m7","Manage":true`}, {`"m7"`, `"m7","Endpoint":"ep_1"`}, {`"key:ops"`, `"key:boss"`},
			{`"Key":"ops"`, `"Key":"shop"`}, {`"Key":"ops"`, `"Key":"gone"`},
			{fmt.Sprint(made.ExpiresAt.UnixMilli()), fmt.Sprint(made.ExpiresAt.UnixMilli() + 1)},
		} {
			require.Contains(t, good, text[0])
			changed = append(changed, strings.Replace(good, text[0], text[1], 1))
		}
		from, to := spent(good)
		for i, bad := range changed {
			if i >= from && i < to || bad == good+" " { // JSON takes a space for none, and the MAC does not
				continue
			}
			put(made.ID, bad)
			_, err := r.LinkByToken(t.Context(), token)
			require.ErrorIs(t, err, dispatcher.ErrNoLink, "%q", bad)
		}
		put(made.ID, good+" ")
		_, err := r.LinkByToken(t.Context(), token)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)

		put(made.ID, good)
		other, theirs := r.create(dispatcher.Link{Key: "ops", Tenant: "m8"}, time.Hour)
		put(other.ID, good)
		_, err = r.LinkByToken(t.Context(), theirs)
		require.ErrorIs(t, err, dispatcher.ErrNoLink, "a record is of one link")
		_, err = r.LinkByToken(t.Context(), token)
		require.NoError(t, err)
	})
}

// A token that is made by hand, with a record to it.
func TestATokenThatNoKeyMadeOpensNothingAndAsksNothing(t *testing.T) {
	r := newAccessRig(t, redistest.Start(t))
	stranger := testKey("stranger")
	forged := dispatcher.NewAccessKey("ops", [32]byte{}) // its owner text is in Redis
	link, session := forged.NewLink(), forged.NewSession()
	hash := dispatcher.HashToken(session)
	ends := r.now.Add(time.Hour).UnixMilli()
	require.NoError(t, r.client.HSet(t.Context(), r.home+":session:ops", hash, fmt.Sprintf("1 %d %s", ends, forged.SignSession(hash, "1", fmt.Sprint(ends)))).Err())
	id, allows := dispatcher.LinkID(link), `{"Tenant":"m7","Manage":true,"Key":"ops"}`
	mac := forged.SignLink(id, dispatcher.HashToken(link), "1", fmt.Sprint(ends), allows)
	require.NoError(t, r.client.HSet(t.Context(), r.home+":links", id, fmt.Sprintf("%s 1 %d - %s %s", dispatcher.HashToken(link), ends, mac, allows)).Err())
	require.NoError(t, r.client.ZAdd(t.Context(), r.home+":linked", redis.Z{Score: 1, Member: id}).Err())
	require.Empty(t, r.ids(10))

	_, ownLink := r.create(dispatcher.Link{Tenant: "m7", Key: r.keys[0].Owner}, time.Hour)
	ownSession, err := r.OpenSession(t.Context(), r.keys[0].Owner)
	require.NoError(t, err)
	gauge := redisqtest.Measure(r.client, nil)
	for _, token := range []string{session, link, stranger.NewSession(), stranger.NewLink(), "", "x", ownLink, r.keys[0].NewSession()} {
		_, err := r.session(token)
		require.ErrorIs(t, err, dispatcher.ErrNoSession)
		require.ErrorIs(t, r.CloseSession(t.Context(), token), dispatcher.ErrNoSession)
	}
	for _, token := range []string{session, link, stranger.NewSession(), stranger.NewLink(), "", "x", ownSession, r.keys[0].NewLink()} {
		_, err := r.LinkByToken(t.Context(), token)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
	}
	require.Empty(t, gauge.Of(""), "Redis was not asked")
}

func TestALinkEndsWithItsKey(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		ours, token := r.create(dispatcher.Link{Key: "ops", Tenant: "m7", By: "key:ops"}, time.Hour)
		theirs, other := r.create(dispatcher.Link{Key: "shop", Tenant: "m7", By: "key:shop"}, time.Hour)
		session, _ := r.open("shop")
		all := r.keys
		r.keys = all[:1] // shop was taken away
		_, err := r.LinkByToken(t.Context(), other)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
		_, err = r.session(session)
		require.ErrorIs(t, err, dispatcher.ErrNoSession)
		_, err = r.OpenSession(t.Context(), "shop")
		require.ErrorIs(t, err, dispatcher.ErrNoKey)
		_, err = r.LinkByToken(t.Context(), token)
		require.NoError(t, err)
		page, _, err := r.Links(t.Context(), 10, "")
		require.NoError(t, err)
		theirs.Ended = dispatcher.EndedKey
		require.Equal(t, []dispatcher.Link{theirs, ours}, page)
		n, err := r.CountLinks(t.Context(), []string{"shop", "more"})
		require.NoError(t, err)
		require.Equal(t, 1, n)

		r.keys = all
		_, err = r.LinkByToken(t.Context(), other)
		require.NoError(t, err, "the key came back")
		require.NoError(t, r.RevokeLink(t.Context(), theirs.ID))
	})
}

// Without API keys only this host may call. A key of the store stands in for them.
func TestWithoutAPIKeysAKeyOfTheStoreSigns(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		all := r.keys
		r.keys = nil
		made, token := r.create(dispatcher.Link{Tenant: "m7", By: "local"}, time.Hour)
		session, err := r.OpenSession(t.Context(), "local")
		require.NoError(t, err)
		for _, s := range []interface {
			LinkByToken(ctx context.Context, token string) (dispatcher.Link, error)
			Session(ctx context.Context, token string) (dispatcher.Session, error)
		}{r.Access, r.another()} {
			have, err := s.LinkByToken(t.Context(), token)
			require.NoError(t, err)
			require.Equal(t, made, have)
			_, err = s.Session(t.Context(), session)
			require.NoError(t, err)
		}
		r.keys = all // from now on there are some
		_, err = r.LinkByToken(t.Context(), token)
		require.ErrorIs(t, err, dispatcher.ErrNoLink)
		_, err = r.session(session)
		require.ErrorIs(t, err, dispatcher.ErrNoSession)
	})
}

// A merchant has a token. It must not serve to try API keys, which people may have thought of.
func TestATokenDoesNotHelpToTryKeys(t *testing.T) {
	r := newAccessRig(t, redistest.Start(t))
	_, link := r.create(dispatcher.Link{Tenant: "m7", Key: r.keys[0].Owner}, time.Hour)
	_, found := r.keys.OfLink(link)
	require.False(t, found, "the hash of the key alone does not show that it made the token")
	_, err := r.LinkByToken(t.Context(), link)
	require.NoError(t, err)
}
