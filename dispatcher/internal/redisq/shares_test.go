package redisq_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// newShareStore opens a store for an instance with so many permits.
func newShareStore(t *testing.T, server redistest.Redis, name string, permits int) *redisqtest.Raw {
	s := openTestStore(t, redisq.Options{
		URL: redisqtest.PatientURL(server), Project: "shares", Partitions: 1, LaneMaxInFlight: 128, Permits: permits, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, s.Join(t.Context(), name, dispatcher.Instance{Permits: permits, Version: "1.0", StartedAt: time.Now()}))
	beatAs(t, s, name, 1)
	return s
}

func beatAs(t *testing.T, s *redisqtest.Raw, name string, number int64) {
	t.Helper()
	_, _, err := s.Beat(t.Context(), name, number)
	require.NoError(t, err)
}

// publishTo makes n messages ready in a lane.
func publishTo(t *testing.T, s *redisqtest.Raw, lane dispatcher.Lane, ids ...string) {
	t.Helper()
	for _, id := range ids {
		m := &dispatcher.Message{ID: id, Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: time.Now()}
		e := dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{lane}}
		got, _, err := s.Schedule(t.Context(), "publisher", 0, 0, []dispatcher.Entry{e})
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
	}
}

func claimOne(t *testing.T, s *redisqtest.Raw, by string, free int) []dispatcher.Claimed {
	t.Helper()
	got, _, err := s.Claim(t.Context(), by, []int{0}, 1, free)
	require.NoError(t, err)
	return got
}

func settleAs(t *testing.T, s *redisqtest.Raw, by string, as dispatcher.Attempt, claimed []dispatcher.Claimed) {
	t.Helper()
	require.Len(t, claimed, 1)
	wait := time.Hour
	if as.Verdict == dispatcher.Back {
		wait = 0 // it is ready again
	}
	got, _, err := s.Settle(t.Context(), by, []dispatcher.Settlement{{
		ID: claimed[0].ID, Verdict: as.Verdict, Wait: wait, First: true,
		Attempt: dispatcher.Attempt{Number: 1, At: time.Now(), Status: as.Status},
	}})
	require.NoError(t, err)
	require.Equal(t, []dispatcher.SettleResult{dispatcher.SettledOK}, got)
}

// An order of lanes that a small instance wrote is good for a large one too.
func TestInstancesWithOtherPermitsHideNoLaneFromEachOther(t *testing.T) {
	server := redistest.Start(t)
	small, big := newShareStore(t, server, "small", 16), newShareStore(t, server, "big", 1024)
	beatAs(t, small, "small", 2) // and learns of the other

	publishTo(t, small, "u_hung", "h1")
	settleAs(t, small, "small", dispatcher.Attempt{Verdict: dispatcher.Retry}, claimOne(t, small, "small", 16))
	publishTo(t, big, "u_good", "g1", "g2", "g3")
	settleAs(t, big, "big", dispatcher.Attempt{Verdict: dispatcher.Delivered, Status: 200}, claimOne(t, big, "big", 1024))
	require.Len(t, claimOne(t, big, "big", 1024), 1)
	require.Len(t, claimOne(t, big, "big", 1023), 1)
	publishTo(t, small, "u_good", "g4") // the small one places it
	publishTo(t, big, "u_hung", "h2")

	got := claimOne(t, big, "big", 50)
	require.Len(t, got, 1)
	require.Equal(t, dispatcher.Lane("u_good"), got[0].ID.Lane)
}

// A lane is placed anew also when memory is full.
func TestAClaimPlacesLanesAnewInAFullStore(t *testing.T) {
	server := redistest.Start(t)
	one, two := newShareStore(t, server, "one", 64), newShareStore(t, server, "two", 960)
	beatAs(t, one, "one", 2)
	publishTo(t, one, "u_a", "m1", "m2", "m3")
	require.Len(t, claimOne(t, one, "one", 64), 1)
	require.NoError(t, two.Leave(t.Context(), "two"))
	beatAs(t, one, "one", 3)
	require.NoError(t, one.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	got, hints, err := one.Claim(t.Context(), "one", []int{0}, 1, 2)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, 1, hints[0].Placed)
}

func weightsOf(t *testing.T, s *redisqtest.Raw) int {
	t.Helper()
	hints, err := s.ReadHints(t.Context(), []int{0})
	require.NoError(t, err)
	return hints[0].Weight
}

// A new lane with one delivery in flight weighs its part of all permits that
// the store knew of when it placed the lane.
func TestAStoreKnowsThePermitsOfAllInstances(t *testing.T) {
	server := redistest.Start(t)
	one := newShareStore(t, server, "one", 128)
	publishTo(t, one, "u_a", "m1", "m2", "m3")
	require.Len(t, claimOne(t, one, "one", 128), 1)
	require.Equal(t, 2048*(1+8)/128, weightsOf(t, one))
	again := func() int { // it is placed anew
		c := claimOne(t, one, "one", 1000)
		settleAs(t, one, "one", dispatcher.Attempt{Verdict: dispatcher.Back}, c)
		return weightsOf(t, one)
	}
	require.Equal(t, 2048*(1+8)/128, again())

	two := newShareStore(t, server, "two", 384)
	require.Equal(t, 2048*(1+8)/128, again(), "it hears of others when it beats")
	beatAs(t, one, "one", 2)
	require.Equal(t, 2048*(1+32)/512, again())

	client := one.Client()
	for _, text := range []string{"", "garbage", "-5 0 1.0", "99999999999999999999 0 1.0", "1048577 0 1.0"} {
		require.NoError(t, client.HSet(t.Context(), "{shares}:about", "odd", text).Err())
		require.NoError(t, client.HSet(t.Context(), "{shares}:instances", "odd", 1).Err())
		beatAs(t, one, "one", 3)
		require.Equal(t, 2048*(1+32)/512, again(), "%q counts for nothing", text)
		require.NoError(t, one.Leave(t.Context(), "odd"))
		beatAs(t, one, "one", 4)
	}

	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.NoError(t, two.Join(t.Context(), "three", dispatcher.Instance{Permits: 512, Version: "1.0", StartedAt: time.Now()}))
	beatAs(t, two, "three", 1)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	beatAs(t, one, "one", 5)
	require.Equal(t, 2048*(1+64)/1024, again(), "one that begins while memory is full is known too")

	taken, _, err := one.Reap(t.Context(), "one", "three")
	require.NoError(t, err)
	require.Zero(t, taken)
	beatAs(t, one, "one", 6)
	require.Equal(t, 2048*(1+32)/512, again())
	names, err := client.HKeys(t.Context(), "{shares}:about").Result()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"one", "two"}, names)

	tool := openTestStore(t, redisq.Options{URL: redisqtest.PatientURL(server), Project: "shares", Log: slog.New(slog.DiscardHandler)})
	publishTo(t, tool, "u_b", "m4")
	require.Equal(t, 2048*12/512, weightsOf(t, tool), "a process that never beats knows them too")
}
