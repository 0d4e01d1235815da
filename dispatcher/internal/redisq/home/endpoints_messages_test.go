package home_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// published is a message with a header whose value is a secret.
func published(id string) dispatcher.Entry {
	m := &dispatcher.Message{
		ID: id, Topic: "a.b", URL: "https://shop.example/hooks", Body: []byte("{}"), ContentType: "application/json", CreatedAt: time.Now(),
		Headers: []dispatcher.Header{{Name: "X-Token", Value: "hunter2-of-" + id}},
	}
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{"a"}}
}

// mustClaim claims one delivery.
func mustClaim(t testing.TB, store *redisqtest.Whole, by string) dispatcher.Claimed {
	t.Helper()
	ctx := t.Context()
	_, _, err := store.Beat(ctx, by, 1)
	require.NoError(t, err)
	_, err = store.Poll(ctx, true)
	require.NoError(t, err)
	got, err := store.Claim(ctx, by, dispatcher.Claim{Wanted: 1, Free: 64})
	require.NoError(t, err)
	require.Len(t, got, 1)
	return got[0]
}

func TestNoKeyOfRedisTellsTheHeadersOfAMessage(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	key, next := newTestKey(), newTestKey()
	options := endpointOptions(server, newTestBox(t, key))
	options.Permits, options.LaneMaxInFlight = 64, 64
	store := openTestStore(t, options)
	schedule := func(s *redisqtest.Whole, id string) {
		out, err := s.Schedule(ctx, "one", 64, 0, []dispatcher.Entry{published(id)})
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
	}
	tells := func() string { return rawTexts(t, store.Client(), options.Project) }
	schedule(store, "m1")
	require.Contains(t, tells(), "X-Token")
	require.NotContains(t, tells(), "hunter2")
	view, err := store.Read(ctx, "m1")
	require.NoError(t, err)
	require.Equal(t, []dispatcher.Header{{Name: "X-Token"}}, view.Message.Headers)

	c := mustClaim(t, store, "one")
	require.Equal(t, []dispatcher.Header{{Name: "X-Token", Value: "hunter2-of-m1"}}, c.Message.Headers)
	require.Empty(t, c.Message.Sealed)
	back := dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased}
	store.Settle(ctx, "one", []dispatcher.Settlement{back})

	// An instance without the key has to leave it to the others.
	var log bytes.Buffer
	stranger := options
	stranger.Seal, stranger.Log = newTestBox(t, next), slog.New(slog.NewTextHandler(&log, nil))
	other := openTestStore(t, stranger)
	c = mustClaim(t, other, "two")
	require.NotEmpty(t, c.Message.Sealed)
	require.Equal(t, []dispatcher.Header{{Name: "X-Token"}}, c.Message.Headers)
	require.Equal(t, 1, strings.Count(log.String(), "deliveries wait for a message whose headers this instance can't open"))
	failed := 0
	sealed, err := admin.SealMessages(ctx, other.Bare(), func(error) { failed++ })
	require.NoError(t, err)
	require.Zero(t, sealed)
	require.Equal(t, 1, failed)
	requireUnopened(t, other, "1 messages, m1 among them")
	requireUnopened(t, store)
	store.Settle(ctx, "two", []dispatcher.Settlement{{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased}})

	// doctor --seal, with the new key before the old one, and what was stored without one.
	plain := options
	plain.Seal = nil
	schedule(openTestStore(t, plain), "m2")
	require.Contains(t, tells(), "hunter2", "the same look finds it: it can fail")
	stranger.Seal = newTestBox(t, next, key)
	sealed, err = admin.SealMessages(ctx, openTestStore(t, stranger).Bare(), func(err error) { require.NoError(t, err) })
	require.NoError(t, err)
	require.Equal(t, 2, sealed)
	require.NotContains(t, tells(), "hunter2")
	for _, id := range []string{"m1", "m2"} {
		c = mustClaim(t, other, "two")
		require.Equal(t, "hunter2-of-"+id, c.Message.Headers[0].Value, "the old key is not needed any more")
	}
}

// requireUnopened requires that a start and doctor find the messages whose headers no key opens.
func requireUnopened(t testing.TB, s *redisqtest.Whole, want ...string) {
	t.Helper()
	read, unopened, err := admin.SampleHeaders(t.Context(), s.Bare(), 100)
	require.NoError(t, err)
	require.Equal(t, []int{1, len(want)}, []int{read, unopened})
	var found []string
	_, err = admin.Examine(t.Context(), s.Bare(), admin.Examination{Report: func(f admin.Finding) {
		if f.Kind == "unopened_headers" {
			_, detail, _ := strings.Cut(f.What, ": ")
			found = append(found, detail)
		}
	}})
	require.NoError(t, err)
	require.Equal(t, want, found)
}
