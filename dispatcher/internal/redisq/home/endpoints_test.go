package home_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpointtest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/signer"
)

func TestEndpoints(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) { endpointtest.Run(t, newTestEndpoints(redistest.Share(t), nil)) })
	t.Run("redis, sealed", func(t *testing.T) { endpointtest.Run(t, newTestEndpoints(redistest.Share(t), newTestBox(t))) })
	t.Run("miniredis", func(t *testing.T) {
		redistest.Long(t)
		endpointtest.Run(t, newTestEndpoints(redistest.StartMini(t), nil))
	})
}

// newTestEndpoints makes stores on one server.
func newTestEndpoints(server redisqtest.Server, box *seal.Box) endpointtest.OpenFunc {
	return func(t testing.TB) endpointtest.Fixture {
		t.Helper()
		options := endpointOptions(server, box)
		store := openTestStore(t, options)
		client := store.Client()
		t.Cleanup(func() {
			if keys := rawKeys(t, client, options.Project); len(keys) > 0 {
				require.NoError(t, client.Del(context.Background(), keys...).Err())
			}
		})
		return endpointtest.Fixture{
			Store: store,
			Open:  func() dispatcher.EndpointStore { return openTestStore(t, options) },
			Watch: store.Watch,
		}
	}
}

// endpointOptions are those of a project of its own.
func endpointOptions(server redisqtest.Server, box *seal.Box) redisq.Options {
	return redisq.Options{
		URL: redisqtest.PatientURL(server), Project: redisqtest.ProjectName(), LaneMaxInFlight: 128, Permits: 1024,
		Seal: box, Log: slog.New(slog.DiscardHandler),
	}
}

func newTestKey() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func newTestBox(t testing.TB, keys ...string) *seal.Box {
	t.Helper()
	if len(keys) == 0 {
		keys = []string{newTestKey()}
	}
	box, err := seal.ParseKeys(strings.Join(keys, " "))
	require.NoError(t, err)
	return box
}

func mustRead(t testing.TB, store *redisqtest.Whole, id string) *dispatcher.Endpoint {
	t.Helper()
	got, err := store.Endpoints(t.Context(), []string{id})
	require.NoError(t, err)
	require.NotNil(t, got[0])
	return got[0]
}

// When memory is full no endpoint is taken, but one that must be paused,
// disabled or deleted can be.
func TestEndpointsCanBeChangedWhenFull(t *testing.T) {
	ctx := t.Context()
	store := openTestStore(t, endpointOptions(redistest.Start(t), nil))
	a, b := testEndpoint("ep_a"), testEndpoint("ep_b")
	mustCreate(t, store, a)
	require.NoError(t, store.Client().ConfigSet(ctx, "maxmemory", "1").Err())

	_, err := store.CreateEndpoint(ctx, b)
	require.ErrorIs(t, err, dispatcher.ErrFull)
	_, err = store.EndpointID(ctx, b.UID)
	require.ErrorIs(t, err, dispatcher.ErrNoEndpoint)
	all, err := store.TenantEndpoints(ctx, "shop")
	require.NoError(t, err)
	require.Equal(t, []*dispatcher.Endpoint{a}, all)

	a = nextVersion(a)
	a.Disabled, a.Description = true, strings.Repeat("because ", 100)
	require.NoError(t, store.ChangeEndpoint(ctx, a))
	require.Equal(t, a, mustRead(t, store, a.ID))
	mustDelete(t, store, a.ID)

	require.NoError(t, store.Client().ConfigSet(ctx, "maxmemory", "0").Err())
	mustCreate(t, store, b)
}

func TestEndpointsOutliveTheirServer(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	store := openTestStore(t, endpointOptions(server, nil))
	e := testEndpoint("ep_a")
	mustCreate(t, store, e)

	server.Stop()
	_, err := store.CreateEndpoint(ctx, e)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	require.ErrorIs(t, store.ChangeEndpoint(ctx, nextVersion(e)), dispatcher.ErrUnavailable)
	_, err = store.DeleteEndpoint(ctx, e.ID)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	_, err = store.Endpoints(ctx, []string{e.ID})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	_, err = store.EndpointID(ctx, e.UID)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	_, err = store.TenantEndpoints(ctx, "shop")
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	_, _, err = store.ListEndpoints(ctx, dispatcher.EndpointFilter{})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)

	// It comes back without the scripts, and with all that was stored.
	server.Restart()
	require.Equal(t, e, mustRead(t, store, e.ID))
	e = nextVersion(e)
	require.NoError(t, store.ChangeEndpoint(ctx, e))
	require.Equal(t, e, mustRead(t, store, e.ID))
}

// What a careless hand left in an index names nothing, and blocks nothing.
func TestEndpointsWithoutARecordAreNotThere(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), nil)
	store := openTestStore(t, options)
	a, b := testEndpoint("ep_a"), testEndpoint("ep_b")
	mustCreate(t, store, a)
	require.NoError(t, store.Client().HDel(ctx, "{"+options.Project+"}:endpoints", a.ID).Err())

	all, err := store.TenantEndpoints(ctx, "shop")
	require.NoError(t, err)
	require.Empty(t, all)
	page, next, err := store.ListEndpoints(ctx, dispatcher.EndpointFilter{})
	require.NoError(t, err)
	require.Empty(t, page)
	require.Empty(t, next)
	b.UID = a.UID
	mustCreate(t, store, b)
	id, err := store.EndpointID(ctx, a.UID)
	require.NoError(t, err)
	require.Equal(t, b.ID, id)
}

// A record that can't be read neither ends what waits for its endpoint, nor
// stops those read with it, nor does it silently get no messages.
func TestABrokenRecordIsToldAndHurtsNobodyElse(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.StartMini(t), nil)
	var log bytes.Buffer
	options.Log = slog.New(slog.NewTextHandler(&log, nil))
	store := openTestStore(t, options)
	good := testEndpoint("ep_good")
	mustCreate(t, store, good)
	serial := 0
	for name, c := range map[string]struct {
		text    string
		version int64
		whole   bool // all but its secrets can be told
	}{
		"empty":                 {"", 0, false},
		"no version":            {`x {"url":"https://a.example","tenant":"shop"}`, 0, false},
		"cut":                   {`3 {"url":"https://a.example","tenant":"sh`, 3, false},
		"no object":             {`3 7`, 3, false},
		"a number as URL":       {`3 {"url":7,"tenant":"shop"}`, 3, false},
		"a table as tenant":     {`3 {"url":"https://a.example","tenant":{},"uid":[]}`, 3, false},
		"a rate that is none":   {`3 {"url":"https://a.example","tenant":"shop","rate":"fast"}`, 3, false},
		"a ladder that is none": {`3 {"url":"https://a.example","tenant":"shop","ladder":"up"}`, 3, false},
		"a success that is not": {`3 {"url":"https://a.example","tenant":"shop","success":"{}{"}`, 3, false},
		"a secret that is none": {`3 {"url":"https://a.example","tenant":"shop","secrets":[{"p":"whsec_hunter2hunter2"}]}`, 3, true},
		"one of two secrets": {`3 {"url":"https://a.example","tenant":"shop","headers":[{"n":"X-A","p":"hunter2"}],"secrets":[` +
			`{"p":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},{"p":"whsec_hunter2hunter2"}]}`, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			serial++
			bad := testEndpoint(fmt.Sprintf("ep_bad%03d", serial)) // one that was deleted is not made again
			mustCreate(t, store, bad)
			require.NoError(t, store.Client().HSet(ctx, "{"+options.Project+"}:endpoints", bad.ID, c.text).Err())

			got, err := store.Endpoints(ctx, []string{bad.ID, good.ID})
			require.NoError(t, err)
			require.Equal(t, good, got[1])
			require.Equal(t, bad.ID, got[0].ID)
			require.Equal(t, c.version, got[0].Version)
			require.Empty(t, got[0].Secrets, "what says that it can't be used")
			for _, h := range got[0].Headers {
				require.Empty(t, h.Value)
			}
			require.Contains(t, log.String(), "endpoint="+bad.ID)
			require.NotContains(t, log.String(), "hunter2")
			mustRead(t, store, bad.ID)
			require.Equal(t, 1, strings.Count(log.String(), "endpoint="+bad.ID), "once while it stays so")

			all, err := store.TenantEndpoints(ctx, "shop")
			if c.whole {
				require.NoError(t, err)
				require.Len(t, all, 2)
			} else {
				require.ErrorContains(t, err, bad.ID)
			}
			require.ErrorIs(t, store.ChangeEndpoint(ctx, nextVersion(got[0])), dispatcher.ErrSealed)
			mustDelete(t, store, bad.ID)
			all, err = store.TenantEndpoints(ctx, "shop")
			require.NoError(t, err)
			require.Equal(t, []*dispatcher.Endpoint{good}, all)
		})
	}
}

// The scripts make the names of the keys, keys.go repeats them.
func TestEndpointScriptsAndGoNameTheKeysAlike(t *testing.T) {
	list := regexp.MustCompile(`(?m)^local ([A-Z, ]+) = ((?:tag \.\. '[^']+'(?:, )?)+)$`)
	quoted := regexp.MustCompile(`tag \.\. '([^']+)'`)
	inGo, seen := map[string]string{}, map[string]string{}
	for _, k := range keys.HomeKinds {
		if k.Of == keys.OfEndpoint {
			inGo[k.Lua] = k.Name
		}
	}
	for script, text := range home.EndpointScripts {
		if script != "common" {
			require.NotContains(t, text, "tag ..", "%s makes a name elsewhere", script)
			continue
		}
		found := list.FindStringSubmatch(text)
		require.NotNil(t, found, script)
		names, values := strings.Split(found[1], ", "), quoted.FindAllStringSubmatch(found[2], -1)
		require.Len(t, values, len(names), script)
		require.Equal(t, len(values), strings.Count(text, "tag .."), "%s makes a name elsewhere", script)
		for i, name := range names {
			require.Equal(t, inGo[name], values[i][1], script)
			seen[name] = values[i][1]
		}
	}
	require.Equal(t, inGo, seen)
}

// Every key of the endpoints has the project's own hash tag, so that a script
// finds them all on one node.
func TestEndpointsLieInOneSlot(t *testing.T) {
	options := endpointOptions(redistest.StartMini(t), nil)
	store := openTestStore(t, options)
	public := testEndpoint("ep_b")
	public.UID, public.Signature = "", signer.StandardEd25519
	public.Secrets = []dispatcher.EndpointSecret{{Secret: signer.StandardEd25519.NewSecret()}}
	mustCreate(t, store, testEndpoint("ep_a"), public)
	keys := slices.DeleteFunc(rawKeys(t, store.Client(), options.Project), func(key string) bool { return strings.HasSuffix(key, ":0}:limits") })
	require.Len(t, keys, 7, "those six, and :meta, but the epoch of a partition")
	for _, key := range keys {
		require.True(t, strings.HasPrefix(key, "{"+options.Project+"}:"), key)
	}
}

func TestADeletedEndpointLeavesNothing(t *testing.T) {
	options := endpointOptions(redistest.StartMini(t), nil)
	store := openTestStore(t, options)
	a, b := testEndpoint("ep_a"), testEndpoint("ep_b")
	b.UID, b.Tenant = "", ""
	b.Signature, b.Secrets = signer.StandardEd25519, []dispatcher.EndpointSecret{{Secret: signer.StandardEd25519.NewSecret()}}
	before := rawKeys(t, store.Client(), options.Project)
	mustCreate(t, store, a, b)
	require.NotEqual(t, before, rawKeys(t, store.Client(), options.Project))
	mustDelete(t, store, a.ID)
	mustDelete(t, store, b.ID)
	for _, id := range []string{a.ID, b.ID} {
		require.NoError(t, store.ForgetDeleted(t.Context(), id))
	}
	require.Equal(t, before, rawKeys(t, store.Client(), options.Project))
}

func BenchmarkEndpoints64(b *testing.B) {
	for name, box := range map[string]*seal.Box{"plain": nil, "sealed": newTestBox(b)} {
		b.Run(name, func(b *testing.B) {
			store := openTestStore(b, endpointOptions(redistest.Start(b), box))
			var ids []string
			for n := range 64 {
				e := testEndpoint(fmt.Sprintf("ep_%09d", n))
				mustCreate(b, store, e)
				ids = append(ids, e.ID)
			}
			for b.Loop() {
				if _, err := store.Endpoints(b.Context(), ids); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEndpoint(b *testing.B) {
	for name, box := range map[string]*seal.Box{"plain": nil, "sealed": newTestBox(b)} {
		b.Run(name, func(b *testing.B) {
			record, err := home.EncodeEndpoint(testEndpoint("ep_a"), box)
			require.NoError(b, err)
			stored := "1 " + string(record)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := home.DecodeEndpoint("ep_a", stored, box); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// endpointValue reads what is stored of an endpoint.
func endpointValue(t testing.TB, client redis.UniversalClient, project, id string) string {
	t.Helper()
	text, err := client.HGet(t.Context(), "{"+project+"}:endpoints", id).Result()
	require.NoError(t, err)
	return text
}

var (
	rawKeys      = redisqtest.Keys
	testEndpoint = redisqtest.Endpoint
	mustCreate   = redisqtest.MustCreate
	mustDelete   = redisqtest.MustDelete
	nextVersion  = redisqtest.NextVersion
)

// openTestStore opens a store that is closed with the test. Beside the endpoints
// it has the queue, with which a store of endpoints always goes.
func openTestStore(t testing.TB, options redisq.Options) *redisqtest.Whole {
	t.Helper()
	store, err := redisq.Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return redisqtest.WholeOf(store)
}

func measured(s *redisqtest.Whole) *redisqtest.Gauge { return redisqtest.Measure(s.Client(), nil) }

func TestEndpointsAreReadAMiBAtATime(t *testing.T) {
	store := openTestStore(t, endpointOptions(redistest.Share(t), nil))
	var ids []string
	for i := range 300 {
		e := testEndpoint(fmt.Sprintf("ep_%09d", i))
		e.UID = ""
		if i%3 == 0 { // as large as they come, among small ones
			e.Description = strings.Repeat("x", 20<<10)
		}
		mustCreate(t, store, e)
		ids = append(ids, e.ID)
	}
	ids = append(ids, "ep_unknown00")
	g := measured(store)
	got, err := store.Endpoints(t.Context(), ids)
	require.NoError(t, err)
	require.Len(t, got, len(ids))
	for i, id := range ids[:300] {
		require.Equal(t, id, got[i].ID)
		require.Equal(t, i%3 == 0, len(got[i].Description) > 1<<10)
	}
	require.Nil(t, got[300])
	calls := g.Of("hmget")
	require.Len(t, calls, 3)
	for _, c := range calls {
		require.LessOrEqual(t, c.Bytes, 1<<20)
	}
	_, err = store.Endpoints(t.Context(), ids[:20])
	require.NoError(t, err)
	require.Empty(t, g.Of("hstrlen"), "of so few nothing is asked first")
}

func TestATenantsEndpointsAreReadAPageAtATime(t *testing.T) {
	const page = 16384
	server := redistest.Start(t)
	for name, times := range map[string]func(i int) int{
		"each in its own ms":        func(i int) int { return i },
		"a page and more in one ms": func(i int) int { return max(i-page-100, 0) },
		"pages that end in a ms":    func(i int) int { return i / 3 },
		"all in one ms":             func(i int) int { return 5 },
	} {
		t.Run(name, func(t *testing.T) {
			options := endpointOptions(server, nil)
			store := openTestStore(t, options)
			var list []redis.Z
			var want []string
			for i := range 2*page + 10 {
				want = append(want, fmt.Sprintf("ep_%09d", i))
				list = append(list, redis.Z{Score: float64(times(i)), Member: want[i]})
			}
			require.NoError(t, store.Client().ZAdd(t.Context(), "{"+options.Project+"}:tenant:t1", list...).Err())
			g := measured(store)
			ids, err := store.TenantIDs(t.Context(), "t1")
			require.NoError(t, err)
			require.Equal(t, want, ids)
			if name != "all in one ms" {
				for _, c := range g.Of("zrangebyscore") {
					require.LessOrEqual(t, c.Size, page+200)
				}
			}
		})
	}
}

func TestAProjectKeepsAMillionEndpoints(t *testing.T) {
	store := openTestStore(t, endpointOptions(redistest.Start(t), nil))
	e := testEndpoint("ep_000000001")
	mustCreate(t, store, e)
	before := home.SetMostEndpoints(1)
	t.Cleanup(func() { home.SetMostEndpoints(before) })
	require.Equal(t, 1_000_000, before)
	more := testEndpoint("ep_000000002")
	more.UID = "more"
	_, err := store.CheckEndpoint(t.Context(), more)
	require.ErrorIs(t, err, dispatcher.ErrEndpoints)
	_, err = store.CreateEndpoint(t.Context(), more)
	require.ErrorIs(t, err, dispatcher.ErrEndpoints)
	found, err := store.Endpoints(t.Context(), []string{more.ID})
	require.NoError(t, err)
	require.Nil(t, found[0])
	_, err = store.EndpointID(t.Context(), "more")
	require.ErrorIs(t, err, dispatcher.ErrNoEndpoint, "nothing was stored")

	again := testEndpoint("ep_000000003")
	again.UID = e.UID
	taken, err := store.CreateEndpoint(t.Context(), again)
	require.ErrorIs(t, err, dispatcher.ErrTaken, "what is there already is told as ever")
	require.Equal(t, e.ID, taken.ID)
	e.Version++
	require.NoError(t, store.ChangeEndpoint(t.Context(), e))
	mustDelete(t, store, e.ID)
	mustCreate(t, store, more)
}
