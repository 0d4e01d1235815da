package redisq_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// Where pub/sub may not be used, nothing is published. A script would be
// refused at its PUBLISH, after its writes.
func TestWithoutPubSubNobodyIsTold(t *testing.T) {
	server := redistest.Start(t)
	for name, rules := range map[string]string{
		"no pubsub":     "-@pubsub",
		"no publish":    "-publish",
		"no subscribe":  "-subscribe",
		"other channel": "resetchannels &elsewhere",
	} {
		t.Run(name, func(t *testing.T) {
			setUser(t, server, "poller", append([]string{"+@all"}, strings.Fields(rules)...)...)
			var log bytes.Buffer
			store := openTestStore(t, redisq.Options{
				URL: strings.Replace(server.URL(), "redis://", "redis://poller:secret@", 1), Project: strings.ReplaceAll(name, " ", ""),
				LaneMaxInFlight: 128, Permits: 1024, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.True(t, store.Polls())
			require.Equal(t, 1, strings.Count(log.String(), "\n"), "told once: %s", log.String())
			mustDeliver(t, store)
			mustChangeEndpoints(t, store)
		})
	}
}

func TestPubSubIsNotUsedWhereItIsNotWanted(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	store := openTestStore(t, redisq.Options{URL: redisqtest.PatientURL(server), Project: "quiet", LaneMaxInFlight: 128, Permits: 1024, Poll: true})
	require.True(t, store.Polls())
	require.NoError(t, store.Client().ConfigResetStat(ctx).Err())
	mustDeliver(t, store)
	mustChangeEndpoints(t, store)
	stats, err := store.Client().Info(ctx, "commandstats").Result()
	require.NoError(t, err)
	require.Contains(t, stats, "cmdstat_evalsha:")
	require.NotContains(t, stats, "cmdstat_publish:")
	require.NotContains(t, stats, "cmdstat_subscribe:")

	reported := openTestStore(t, redisq.Options{URL: redisqtest.PatientURL(server), Project: "told", LaneMaxInFlight: 128, Permits: 1024})
	require.False(t, reported.Polls())
	mustDeliver(t, reported)
	stats, err = store.Client().Info(ctx, "commandstats").Result()
	require.NoError(t, err)
	require.Contains(t, stats, "cmdstat_publish:")
}

// mustDeliver delivers a message through the store.
func mustDeliver(t *testing.T, store *redisqtest.Raw) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, schedule(ctx, store, faultEntries(1, 0)...))
	claimed, _, err := store.Claim(ctx, "one", []int{0}, 1, 1024)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	settled, _, err := store.Settle(ctx, "one", []dispatcher.Settlement{{ID: claimed[0].ID, Verdict: dispatcher.Delivered, First: true,
		Attempt: dispatcher.Attempt{Number: 1, Status: 200, Verdict: dispatcher.Delivered}}})
	require.NoError(t, err)
	require.Equal(t, []dispatcher.SettleResult{dispatcher.SettledOK}, settled)
}

// mustChangeEndpoints creates an endpoint, changes and deletes it.
func mustChangeEndpoints(t *testing.T, store *redisqtest.Raw) {
	t.Helper()
	e := testEndpoint("ep_000000001")
	mustCreate(t, store, e)
	require.NoError(t, store.ChangeEndpoint(t.Context(), nextVersion(e)))
	mustDelete(t, store, e.ID)
}
