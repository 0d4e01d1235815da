package home_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/signer"
)

// rawTexts reads everything that a project keeps: names, fields and values.
func rawTexts(t testing.TB, client redis.UniversalClient, project string) string {
	t.Helper()
	var out strings.Builder
	for _, key := range rawKeys(t, client, project) {
		kind := client.Type(t.Context(), key).Val()
		fmt.Fprintln(&out, key)
		switch kind {
		case "hash":
			all, err := client.HGetAll(t.Context(), key).Result()
			require.NoError(t, err)
			for field, value := range all {
				fmt.Fprintln(&out, field, value)
			}
		case "zset":
			all, err := client.ZRange(t.Context(), key, 0, -1).Result()
			require.NoError(t, err)
			fmt.Fprintln(&out, all)
		case "list":
			all, err := client.LRange(t.Context(), key, 0, -1).Result()
			require.NoError(t, err)
			fmt.Fprintln(&out, all)
		case "stream":
			all, err := client.XRange(t.Context(), key, "-", "+").Result()
			require.NoError(t, err)
			fmt.Fprintln(&out, all)
		default:
			require.Fail(t, "a key of a kind that is not read here", "%s: %s", key, kind)
		}
	}
	return out.String()
}

// hiddenTexts are all the ways in which an endpoint's secrets and header values
// might be told.
func hiddenTexts(e *dispatcher.Endpoint) []string {
	var out []string
	for _, s := range e.Secrets {
		text := s.Secret.Reveal()
		_, key, _ := strings.Cut(text, "_") // the key itself may have more of them
		out = append(out, text, key)
	}
	for _, h := range e.Headers {
		out = append(out, h.Value)
	}
	for _, text := range out {
		out = append(out, hex.EncodeToString([]byte(text)), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(text)), "="))
	}
	return out
}

// secretive has secrets of two kinds and header values.
func secretive(id string) *dispatcher.Endpoint {
	e := testEndpoint(id)
	e.Secrets = append(e.Secrets, dispatcher.EndpointSecret{Secret: signer.NewSecret(), Until: e.CreatedAt})
	e.Headers = append(e.Headers, dispatcher.Header{Name: "Authorization", Value: "Bearer latin-\xe9-" + id})
	return e
}

func TestNoKeyOfRedisTellsWhatIsSealed(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	options := endpointOptions(server, newTestBox(t))
	store := openTestStore(t, options)
	stripe := secretive("ep_stripe")
	stripe.Signature = signer.Stripe
	stripe.Secrets = []dispatcher.EndpointSecret{{Secret: signer.Stripe.NewSecret()}}
	all := []*dispatcher.Endpoint{secretive("ep_a"), stripe}
	mustCreate(t, store, all...)
	for i, e := range all {
		all[i] = nextVersion(e)
		require.NoError(t, store.ChangeEndpoint(ctx, all[i]))
	}

	stored := rawTexts(t, store.Client(), options.Project)
	for _, e := range all {
		require.Contains(t, stored, e.URL)
		for _, text := range hiddenTexts(e) {
			require.NotContains(t, stored, text)
		}
		require.Equal(t, e, mustRead(t, store, e.ID))
	}

	// The same look finds them where there is no key: it can fail.
	options = endpointOptions(server, nil)
	plain := openTestStore(t, options)
	e := testEndpoint("ep_plain")
	mustCreate(t, plain, e)
	stored = rawTexts(t, plain.Client(), options.Project)
	require.Contains(t, stored, e.Secrets[0].Secret.Reveal())
	require.Contains(t, stored, e.Headers[0].Value)
}

func TestAnEndpointIsReadWithoutItsKeyButNotChanged(t *testing.T) {
	ctx := t.Context()
	server := redistest.StartMini(t)
	options := endpointOptions(server, newTestBox(t))
	store := openTestStore(t, options)
	e := secretive("ep_a")
	mustCreate(t, store, e)
	before := endpointValue(t, store.Client(), options.Project, e.ID)

	for name, keys := range map[string][]string{"no key": nil, "another key": {newTestKey()}, "two others": {newTestKey(), newTestKey()}} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			stranger := options
			stranger.Seal, stranger.Log = nil, slog.New(slog.NewTextHandler(&log, nil))
			if keys != nil {
				stranger.Seal = newTestBox(t, keys...)
			}
			other := openTestStore(t, stranger)
			got := mustRead(t, other, e.ID)
			want := *e
			want.Secrets = nil
			want.Headers = []dispatcher.Header{{Name: "X-Token"}, {Name: "Authorization"}}
			require.Equal(t, &want, got)

			all, err := other.TenantEndpoints(ctx, "shop")
			require.NoError(t, err)
			require.Equal(t, []*dispatcher.Endpoint{&want}, all)
			page, _, err := other.ListEndpoints(ctx, dispatcher.EndpointFilter{})
			require.NoError(t, err)
			require.Equal(t, []*dispatcher.Endpoint{&want}, page)

			err = other.ChangeEndpoint(ctx, nextVersion(got))
			require.ErrorIs(t, err, dispatcher.ErrSealed)
			require.Equal(t, before, endpointValue(t, store.Client(), options.Project, e.ID), "nothing was lost")
			again := secretive("ep_b")
			again.UID = e.UID
			taken, err := other.CreateEndpoint(ctx, again)
			require.ErrorIs(t, err, dispatcher.ErrTaken)
			require.Equal(t, &want, taken)

			require.Contains(t, log.String(), "endpoint=ep_a")
			for _, text := range append(hiddenTexts(e), hiddenTexts(again)...) {
				require.NotContains(t, log.String(), text)
			}
		})
	}
	require.Equal(t, e, mustRead(t, store, e.ID))
}

// Without its key an endpoint can still be deleted, or get new secrets.
func TestAnEndpointWhoseKeyIsLostCanBeSavedOrDeleted(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), newTestBox(t))
	lost := openTestStore(t, options)
	mustCreate(t, lost, secretive("ep_a"), secretive("ep_b"))
	options.Seal = newTestBox(t)
	store := openTestStore(t, options)

	saved := nextVersion(mustRead(t, store, "ep_a"))
	saved.Secrets = []dispatcher.EndpointSecret{{Secret: signer.NewSecret()}}
	saved.Headers = []dispatcher.Header{{Name: "X-Token", Value: "new"}}
	require.NoError(t, store.ChangeEndpoint(ctx, saved))
	require.Equal(t, saved, mustRead(t, store, "ep_a"))
	mustDelete(t, store, "ep_b")
}

func TestAPlainEndpointIsRefusedOnceThereIsAKeyUntilAPersonHasItSealed(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), nil)
	plain := openTestStore(t, options)
	e := testEndpoint("ep_a")
	mustCreate(t, plain, e)

	var log bytes.Buffer
	options.Seal, options.Log = newTestBox(t), slog.New(slog.NewTextHandler(&log, nil))
	store := openTestStore(t, options)
	require.Empty(t, mustRead(t, store, e.ID).Secrets)
	require.Contains(t, log.String(), "hookladder doctor --seal")
	require.ErrorIs(t, store.ChangeEndpoint(ctx, nextVersion(mustRead(t, store, e.ID))), dispatcher.ErrSealed)

	require.Equal(t, []string{"ep_a <nil>"}, sealed(t, store))
	e.Version = 2
	require.Equal(t, e, mustRead(t, store, e.ID))
	stored := endpointValue(t, store.Client(), options.Project, e.ID)
	for _, text := range hiddenTexts(e) {
		require.NotContains(t, stored, text)
	}
	require.Empty(t, mustRead(t, plain, e.ID).Secrets)
	require.Empty(t, sealed(t, store), "once")
	require.ErrorIs(t, admin.SealEndpoints(ctx, plain.Bare(), nil), seal.ErrNoKey)
}

// sealed are the endpoints that were sealed anew.
func sealed(t testing.TB, store *redisqtest.Whole) (all []string) {
	t.Helper()
	require.NoError(t, admin.SealEndpoints(t.Context(), store.Bare(), func(id string, err error) { all = append(all, fmt.Sprint(id, " ", err)) }))
	return all
}

func TestSealingAnewLetsAnOldKeyGo(t *testing.T) {
	first, second := newTestKey(), newTestKey()
	options := endpointOptions(redistest.StartMini(t), newTestBox(t, first))
	e, changed := secretive("ep_a"), secretive("ep_b")
	mustCreate(t, openTestStore(t, options), e, changed)
	options.Seal = newTestBox(t, second, first)
	both := openTestStore(t, options)
	require.NoError(t, both.ChangeEndpoint(t.Context(), nextVersion(changed)))
	require.Equal(t, []string{"ep_a <nil>"}, sealed(t, both))
	options.Seal = newTestBox(t, second)
	only := openTestStore(t, options)
	for _, id := range []string{"ep_a", "ep_b"} {
		require.Len(t, mustRead(t, only, id).Secrets, 2)
	}
}

// A proved record can't be changed by writing to Redis only. Sealing anew does
// not take a changed one either.
func TestNoPartOfAProvedRecordCanBeChanged(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), newTestBox(t))
	store := openTestStore(t, options)
	e, other := secretive("ep_a"), secretive("ep_b")
	e.Linked, e.HeadersFor = true, map[string]string{"x-token": "https://before.example/"}
	e.TopicsAllowed, e.TopicsGiven = []string{"allowed.*"}, []string{"given.*"}
	mustCreate(t, store, e, other)
	old := endpointValue(t, store.Client(), options.Project, e.ID)
	changed := nextVersion(e)
	require.NoError(t, store.ChangeEndpoint(ctx, changed))
	value := endpointValue(t, store.Client(), options.Project, e.ID)
	at := strings.LastIndex(value, `,"mac":"`)
	require.Positive(t, at)
	_, oldRecord, _ := strings.Cut(old, " ")
	for name, forged := range map[string]string{
		"its URL":              strings.Replace(value, "https://example.com/", "https://attacker.example/", 1),
		"who set its URL":      strings.Replace(value, `"linked":true,`, "", 1),
		"the URL of headers":   strings.Replace(value, "https://before.example/", "https://example.com/", 1),
		"that headers wait":    strings.Replace(value, `"held_for":{"x-token":"https://before.example/"},"headers_for":"https://before.example/",`, "", 1),
		"topics of links":      strings.Replace(value, "allowed.*", "*", 1),
		"topics given":         strings.Replace(value, "given.*", "*", 1),
		"its tenant":           strings.Replace(value, `"tenant":"shop"`, `"tenant":"evil"`, 1),
		"its version":          strings.Replace(value, "2 ", "3 ", 1),
		"an old record":        "2 " + oldRecord,
		"without its proof":    value[:at] + "}",
		"a proof of nothing":   value[:at] + `,"mac":""}`,
		"another's":            endpointValue(t, store.Client(), options.Project, other.ID),
		"something behind it":  value[:len(value)-1] + `,"url":"https://attacker.example/"}`,
		"the end of a secret":  strings.Replace(value, `"until":`, `"other":`, 1),
		"a secret of its own":  `2 {"url":"https://attacker.example/","tenant":"shop","sig":"standard","secrets":[{"p":"` + signer.NewSecret().Reveal() + `"}],"created":1,"updated":1}`,
		"a space in the JSON":  strings.Replace(value, `{"uid"`, `{ "uid"`, 1),
		"a switch of its lane": strings.Replace(value, `,"created"`, `,"disabled":true,"created"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, value, forged)
			require.NoError(t, store.Client().HSet(ctx, "{"+options.Project+"}:endpoints", e.ID, forged).Err())
			require.Empty(t, mustRead(t, store, e.ID).Secrets)
			for _, h := range mustRead(t, store, e.ID).Headers {
				require.Empty(t, h.Value)
			}
		})
	}
	require.NoError(t, store.Client().HSet(ctx, "{"+options.Project+"}:endpoints", e.ID, value).Err())
	require.Equal(t, changed, mustRead(t, store, e.ID))
}

func TestAnIndexThatWasForgedBringsNoEndpointToAnotherTenant(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), newTestBox(t))
	store := openTestStore(t, options)
	mustCreate(t, store, secretive("ep_a"))
	require.NoError(t, store.Client().ZAdd(ctx, "{"+options.Project+"}:tenant:evil", redis.Z{Score: 1, Member: "ep_a"}).Err())
	all, err := store.TenantEndpoints(ctx, "evil")
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestEncryptionKeysCanBeRotated(t *testing.T) {
	ctx := t.Context()
	first, second := newTestKey(), newTestKey()
	options := endpointOptions(redistest.StartMini(t), newTestBox(t, first))
	open := func(keys ...string) *redisqtest.Whole {
		o := options
		o.Seal = newTestBox(t, keys...)
		return openTestStore(t, o)
	}
	e := secretive("ep_a")
	mustCreate(t, open(first), e)
	both := open(second, first)
	require.Equal(t, e, mustRead(t, both, e.ID))
	require.Empty(t, mustRead(t, open(second), e.ID).Secrets)

	e = nextVersion(e)
	require.NoError(t, both.ChangeEndpoint(ctx, e))
	require.Equal(t, e, mustRead(t, open(second), e.ID))
	require.Empty(t, mustRead(t, open(first), e.ID).Secrets)
}

// Without a key, writing to Redis can't make one endpoint sign with another's
// secret, nor send a header's value under another name.
func TestASealedValueCannotBeMoved(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), newTestBox(t))
	store := openTestStore(t, options)
	mustCreate(t, store, secretive("ep_a"), secretive("ep_b"))
	key := "{" + options.Project + "}:endpoints"
	a := endpointValue(t, store.Client(), options.Project, "ep_a")
	require.NoError(t, store.Client().HSet(ctx, key, "ep_b", a).Err())
	require.Empty(t, mustRead(t, store, "ep_b").Secrets)

	renamed := strings.Replace(a, "X-Token", "X-Other", 1)
	require.NotEqual(t, a, renamed)
	require.NoError(t, store.Client().HSet(ctx, key, "ep_a", renamed).Err())
	got := mustRead(t, store, "ep_a")
	require.Empty(t, got.Secrets)
	require.Empty(t, got.Headers[0].Value)
	require.Empty(t, got.Headers[1].Value)

	require.NoError(t, store.Client().HSet(ctx, key, "ep_a", a).Err())
	require.Len(t, mustRead(t, store, "ep_a").Secrets, 2)

	bare := testEndpoint("ep_bare")
	bare.Headers = nil
	mustCreate(t, store, bare)
	stored := endpointValue(t, store.Client(), options.Project, bare.ID)
	require.NoError(t, store.Client().HSet(ctx, key, "ep_b", stored).Err())
	require.Empty(t, mustRead(t, store, "ep_b").Secrets)
	require.Len(t, mustRead(t, store, bare.ID).Secrets, 1)
}

func TestErrorsOfEndpointsTellNoSecret(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), newTestBox(t))
	store := openTestStore(t, options)
	e := secretive("ep_a")
	mustCreate(t, store, e)
	other := secretive("ep_b")
	other.UID = e.UID
	odd := secretive("ep_c")
	odd.Description = "\xff"
	gone := secretive("ep_d")

	_, taken := store.CreateEndpoint(ctx, other)
	_, broken := store.CreateEndpoint(ctx, odd)
	_, none := store.DeleteEndpoint(ctx, gone.ID)
	for _, err := range []error{taken, broken, store.ChangeEndpoint(ctx, e), store.ChangeEndpoint(ctx, gone), none} {
		require.Error(t, err)
		for _, hidden := range [][]string{hiddenTexts(e), hiddenTexts(other), hiddenTexts(odd), hiddenTexts(gone)} {
			for _, text := range hidden {
				require.NotContains(t, err.Error(), text)
			}
		}
	}
}

// mustLocked tells what a store with some keys can't open.
func mustLocked(t *testing.T, options redisq.Options, keys ...string) home.LockedEndpoint {
	t.Helper()
	options.Seal = nil
	if len(keys) > 0 {
		options.Seal = newTestBox(t, keys...)
	}
	l, err := openTestStore(t, options).LockedEndpoints(t.Context())
	require.NoError(t, err)
	return l
}

func TestAStoreTellsWhichOfItsEndpointsNoKeyOpens(t *testing.T) {
	for name, server := range map[string]redistest.Redis{"miniredis": redistest.StartMini(t), "redis": redistest.Start(t)} {
		t.Run(name, func(t *testing.T) {
			ctx, first, second := t.Context(), newTestKey(), newTestKey()
			options := endpointOptions(server, nil)
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options))
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, first))

			options.Seal = newTestBox(t, first)
			old := openTestStore(t, options)
			changed, dropped, kept := testEndpoint("ep_a"), testEndpoint("ep_b"), testEndpoint("ep_c")
			mustCreate(t, old, changed, dropped, kept)
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, first))
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, second, first))
			l := mustLocked(t, options)
			require.Equal(t, 3, l.Endpoints)
			require.Len(t, l.Keys, 1)
			require.False(t, l.Least)
			require.Equal(t, l, mustLocked(t, options, second))

			rotated := options
			rotated.Seal = newTestBox(t, second, first)
			store := openTestStore(t, rotated)
			require.NoError(t, store.ChangeEndpoint(ctx, nextVersion(changed)))
			mustDelete(t, old, dropped.ID)
			counted := func(want ...string) {
				require.ElementsMatch(t, want, store.Client().HVals(ctx, "{"+options.Project+"}:sealed").Val(), "else the records would be looked at")
			}
			counted("1", "1")
			require.Equal(t, 1, mustLocked(t, options, first).Endpoints)
			require.Equal(t, 1, mustLocked(t, options, second).Endpoints)
			require.Len(t, mustLocked(t, options).Keys, 2)
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, first, second))
			require.NoError(t, admin.SealEndpoints(ctx, store.Bare(), func(_ string, err error) { require.NoError(t, err) }))
			counted("2")
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, second))
			require.Equal(t, 2, mustLocked(t, options, first).Endpoints)

			plain := options
			plain.Seal = nil
			mustCreate(t, openTestStore(t, plain), testEndpoint("ep_d"))
			require.Equal(t, home.LockedEndpoint{Plain: 1}, mustLocked(t, options, second))
			require.Equal(t, 2, mustLocked(t, options).Endpoints)
		})
	}
}

// The counts are believed where they are whole. Else the records tell, of so
// many endpoints some of them: a start does not wait for a million.
func TestWhereTheCountsByKeyAreNotWholeSomeRecordsAreLookedAt(t *testing.T) {
	ctx, server := t.Context(), redistest.Start(t)
	options := endpointOptions(server, newTestBox(t))
	store := openTestStore(t, options)
	e := testEndpoint("ep_a")
	mustCreate(t, store, e)
	client := store.Client()
	home := "{" + options.Project + "}:"
	record := client.HGet(ctx, home+"endpoints", e.ID).Val()
	whole := mustLocked(t, options)
	require.Equal(t, 1, whole.Endpoints)
	for _, wrong := range [][]any{{"DEL"}, {"HSET", "-", 5}, {"HSET", "0a1b2c3d", "x"}} {
		require.NoError(t, client.Do(ctx, append([]any{wrong[0], home + "sealed"}, wrong[1:]...)...).Err())
		require.Equal(t, whole, mustLocked(t, options), "%v", wrong)
	}

	const many = 5000
	pipe := client.Pipeline()
	for n := range many {
		pipe.HSet(ctx, home+"endpoints", fmt.Sprintf("ep_%09d", n), record)
	}
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	l := mustLocked(t, options)
	require.True(t, l.Least)
	require.Equal(t, whole.Keys, l.Keys)
	require.GreaterOrEqual(t, l.Endpoints, 1024)
	require.Less(t, l.Endpoints, many)

	require.NoError(t, client.Del(ctx, home+"sealed").Err())
	require.NoError(t, client.HSet(ctx, home+"sealed", whole.Keys[0], many+1).Err())
	store = openTestStore(t, options)
	g := measured(store)
	l, err = store.LockedEndpoints(ctx)
	require.NoError(t, err)
	require.Zero(t, l)
	require.Empty(t, g.Of("hscan"), "no record is read")
}

// A key of another kind, written by hand, does not stop changes of endpoints.
func TestCountsByKeyOfAnotherTypeStopNothing(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.Share(t), newTestBox(t))
	store := openTestStore(t, options)
	key := "{" + options.Project + "}:sealed"
	spoil := func() {
		require.NoError(t, store.Client().Del(ctx, key).Err())
		require.NoError(t, store.Client().ZAdd(ctx, key, redis.Z{Member: "x"}).Err())
	}
	spoil()
	e := testEndpoint("ep_a")
	mustCreate(t, store, e)
	require.NoError(t, store.ChangeEndpoint(ctx, nextVersion(e)))
	require.Equal(t, 1, mustLocked(t, options).Endpoints)
	spoil()
	mustDelete(t, store, e.ID)
	there, err := store.Endpoints(ctx, []string{e.ID})
	require.NoError(t, err)
	require.Nil(t, there[0])
}
