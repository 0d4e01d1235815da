package home_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// accessRig is a store of sessions and links with the raw keys behind it, and its clock.
type accessRig struct {
	*testing.T
	*home.Access
	options redisq.Options
	client  redis.UniversalClient
	home    string
	now     time.Time
	keys    dispatcher.AccessKeys // that are valid now
}

func newAccessRig(t *testing.T, server redisqtest.Server) *accessRig {
	t.Helper()
	r := &accessRig{T: t, now: time.Now().Truncate(time.Millisecond), options: redisq.Options{
		URL: redisqtest.PatientURL(server), Project: redisqtest.ProjectName(), LaneMaxInFlight: 8, Permits: 8, TestClock: true,
	}}
	r.home = "{" + r.options.Project + "}"
	store := redisqtest.Open(t, r.options)
	r.Access, r.client = store.Access(), store.Client()
	r.keys = dispatcher.AccessKeys{testKey("ops"), testKey("shop")}
	r.UseKeys(func() dispatcher.AccessKeys { return r.keys })
	r.pass(0)
	return r
}

// testKey is the key of a name, which is its owner text too.
func testKey(name string) dispatcher.AccessKey {
	return dispatcher.NewAccessKey(name, sha256.Sum256([]byte("key "+name)))
}

// another is the store of another instance.
func (r *accessRig) another() *home.Access {
	r.Helper()
	other := redisqtest.Open(r.T, r.options).Access()
	other.UseKeys(func() dispatcher.AccessKeys { return r.keys })
	return other
}

// pass lets time pass.
func (r *accessRig) pass(d time.Duration) {
	r.Helper()
	r.now = r.now.Add(d)
	require.NoError(r, r.client.Set(r.Context(), r.home+":clock", r.now.UnixMicro(), 0).Err())
}

// raw is all that Redis has of the project, names and values.
func (r *accessRig) raw() string {
	r.Helper()
	var all strings.Builder
	for _, key := range redisqtest.Keys(r.T, r.client, r.options.Project) {
		kind, err := r.client.Type(r.Context(), key).Result()
		require.NoError(r, err)
		if kind == "hash" && key != r.home+":meta" {
			for name, value := range r.client.HGetAll(r.Context(), key).Val() {
				all.WriteString(key + " " + name + " " + value + "\n")
			}
		}
	}
	return all.String()
}

// full has Redis refuse every write that takes memory.
func (r *accessRig) full() {
	r.Helper()
	require.NoError(r, r.client.ConfigSet(r.Context(), "maxmemory", "1").Err())
	r.Cleanup(func() { _ = r.client.ConfigSet(context.Background(), "maxmemory", "0").Err() })
	require.ErrorContains(r, r.client.Set(r.Context(), r.home+":x", "x", 0).Err(), "OOM")
}

func (r *accessRig) create(l dispatcher.Link, lasts time.Duration) (made dispatcher.Link, token string) {
	r.Helper()
	token, made, err := r.CreateLink(r.Context(), l, lasts)
	require.NoError(r, err)
	return made, token
}

// ids are those of all links, page by page.
func (r *accessRig) ids(limit int) (found []string) {
	r.Helper()
	for cursor := ""; ; {
		page, next, err := r.Links(r.Context(), limit, cursor)
		require.NoError(r, err)
		require.LessOrEqual(r, len(page), limit)
		for _, l := range page {
			found = append(found, l.ID)
		}
		if cursor = next; cursor == "" {
			return found
		}
	}
}

// kept is how many entries each of the keys of links has.
func (r *accessRig) kept() [3]int64 {
	r.Helper()
	ctx := r.Context()
	return [3]int64{r.client.HLen(ctx, r.home+":links").Val(), r.client.ZCard(ctx, r.home+":linked").Val(), r.client.ZCard(ctx, r.home+":lapse").Val()}
}

// onBothForAccess runs a test on both stores.
func onBothForAccess(t *testing.T, test func(t *testing.T, r *accessRig)) {
	t.Helper()
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) { test(t, newAccessRig(t, server)) })
}

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
	r := newAccessRig(t, redistest.Share(t))
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
	r := newAccessRig(t, redistest.Share(t))
	_, link := r.create(dispatcher.Link{Tenant: "m7", Key: r.keys[0].Owner}, time.Hour)
	_, found := r.keys.OfLink(link)
	require.False(t, found, "the hash of the key alone does not show that it made the token")
	_, err := r.LinkByToken(t.Context(), link)
	require.NoError(t, err)
}

// A record that was changed in any byte is none.
func FuzzSessionRecords(f *testing.F) {
	key, hash := testKey("ops"), dispatcher.HashToken("token")
	good := home.SessionText(key, hash, time.UnixMilli(1_000), time.UnixMilli(2_000))
	for _, seed := range append(flips(good), good, "  ", "1 2 3", "-1 9999999999999999999 x") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		began, until, ok := home.DecodeSession(key, hash, text)
		if ok != (text == good) {
			t.Fatalf("%q: %v", text, ok)
		}
		if ok && (began.UnixMilli() != 1_000 || until.UnixMilli() != 2_000) {
			t.Fatalf("%q: %s to %s", text, began, until)
		}
	})
}

// What a link allows has one MAC. Only the calls of the last hour may differ.
func FuzzLinkRecords(f *testing.F) {
	key := testKey("ops")
	want := dispatcher.Link{ID: "lnk_1", Tenant: "m7", Endpoint: "ep_1", Manage: true, Name: "Anna", By: "key:ops", Key: "ops", CreatedAt: time.UnixMilli(1_000), ExpiresAt: time.UnixMilli(2_000)}
	good, err := home.EncodeLink(key, "0f", want)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range append(flips(good), good, "     ", `0f 1 2 - x {"Tenant":"m7","Key":"gone"}`, strings.Replace(good, " - ", " 1,2 ", 1)) {
		f.Add(seed)
	}
	same := func(text string) bool { // but for the calls
		have, rest := strings.SplitN(text, " ", 5), strings.SplitN(good, " ", 5)
		return len(have) == 5 && strings.Join(have[:3], " ") == strings.Join(rest[:3], " ") && have[4] == rest[4]
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, hash, ok := home.DecodeLink(dispatcher.AccessKeys{key}, want.ID, text)
		if opens := ok && l.Ended == ""; opens != same(text) {
			t.Fatalf("%q: %v", text, opens)
		}
		if ok && l.Ended == "" && (hash != "0f" || l.Tenant != want.Tenant || l.ExpiresAt.UnixMilli() != 2_000) {
			t.Fatalf("%q: %+v", text, l)
		}
	})
}
