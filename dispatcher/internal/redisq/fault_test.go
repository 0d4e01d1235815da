package redisq_test

import (
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// faultStore is a store on a Redis of its own, with the clock of Redis.
func faultStore(t *testing.T, server redistest.Redis) *redisqtest.Raw {
	t.Helper()
	return openTestStore(t, redisq.Options{
		URL: server.URL(), Project: "fault", Partitions: 2, LaneMaxInFlight: 128, Permits: 1024,
		Log: slog.New(slog.DiscardHandler),
	})
}

func TestStoreOutlivesItsServer(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	store := faultStore(t, server)
	_, _, err := store.Schedule(ctx, "one", 0, 0, faultEntries(8, 0))
	require.NoError(t, err)

	server.Stop()
	require.ErrorIs(t, store.Ping(ctx), dispatcher.ErrUnavailable)
	got, _, err := store.Schedule(ctx, "one", 0, 0, faultEntries(1, time.Hour))
	require.NoError(t, err)
	require.ErrorIs(t, got[0].Err, dispatcher.ErrUnavailable)
	_, _, err = store.Claim(ctx, "one", []int{0, 1}, 8, 512)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	_, _, err = store.Beat(ctx, "one", 1)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)

	// It comes back without the scripts, and with all stored data.
	server.Restart()
	claimed, _, err := store.Claim(ctx, "one", []int{0, 1}, 8, 512)
	require.NoError(t, err)
	require.NotEmpty(t, claimed)
	st, err := store.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(8), st.Counts[dispatcher.StatusReady]+st.Counts[dispatcher.StatusInFlight])
}

// When memory is full no message is accepted, but all that frees memory must
// work: delivering, settling, taking over, cancelling, trimming. So must the
// beat, without which an instance claims nothing.
func TestStoreGoesOnWhenFull(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	store := faultStore(t, server)
	all := []int{0, 1}
	for _, name := range []string{"one", "two"} {
		_, _, err := store.Beat(ctx, name, 1)
		require.NoError(t, err)
	}
	_, _, err := store.Schedule(ctx, "one", 0, 0, append(faultEntries(12, 0), faultEntries(3, time.Millisecond)...))
	require.NoError(t, err)
	_, _, err = store.Schedule(ctx, "one", 0, 0, faultEntries(2, time.Hour))
	require.NoError(t, err)
	require.NoError(t, store.Client().ConfigSet(ctx, "maxmemory", "1").Err())

	got, _, err := store.Schedule(ctx, "one", 0, 0, faultEntries(1, 2*time.Hour))
	require.NoError(t, err)
	require.ErrorIs(t, got[0].Err, dispatcher.ErrFull)

	_, numbers, err := store.Beat(ctx, "one", 2)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"one": 2, "two": 1}, numbers)
	_, _, err = store.Move(ctx, "one", all)
	require.NoError(t, err)

	settleFour(t, store)
	scheduled := faultEntries(2, time.Hour)
	ids := []dispatcher.DeliveryID{
		{Lane: laneOf(0), Message: scheduled[0].Message.ID}, {Lane: laneOf(1), Message: scheduled[1].Message.ID},
	}
	changes, _, err := store.Cancel(ctx, "one", ids)
	require.NoError(t, err)
	require.True(t, changes[0].Changed && changes[1].Changed)
	changes, _, err = store.Retry(ctx, "one", ids[:1], true)
	require.NoError(t, err)
	require.True(t, changes[0].Changed)

	taken, _, err := store.Reap(ctx, "two", "one")
	require.NoError(t, err)
	require.Equal(t, 4, taken)
	keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 100, SeenMax: 100, Dead: time.Hour, DeadMax: 100}
	makeRoom := func() (finished int) {
		for more := true; more; {
			trimmed, err := store.Trim(ctx, "two", all, keep, true)
			require.NoError(t, err)
			finished, more = finished+trimmed.Finished, trimmed.More
		}
		return finished
	}
	require.Zero(t, makeRoom(), "what was published a moment ago is known still")
	age(t, store, 15*time.Second)
	require.Equal(t, 2, makeRoom(), "one delivered, one cancelled")

	require.NoError(t, store.Client().ConfigSet(ctx, "maxmemory", "0").Err())
	got, _, err = store.Schedule(ctx, "two", 0, 0, faultEntries(1, 2*time.Hour))
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	require.Equal(t, dispatcher.Accepted, got[0].Result)
}

// age makes all messages older.
func age(t *testing.T, store *redisqtest.Raw, by time.Duration) {
	t.Helper()
	ctx, client := t.Context(), store.Client()
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
	for n := range store.Partitions() {
		key := store.Conn().Tag(n) + ":messages"
		for id, record := range client.HGetAll(ctx, key).Val() {
			const at = dispatcher.DigestSize // of created, 6 bytes of ms
			created := conn.RecordCreated([]byte(record)).Add(-by).UnixMilli()
			var whole [8]byte
			binary.BigEndian.PutUint64(whole[:], uint64(created))
			require.NoError(t, client.HSet(ctx, key, id, record[:at]+string(whole[2:])+record[at+6:]).Err())
		}
	}
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
}

// settleFour claims eight ready deliveries and settles four of them, each in
// another way.
func settleFour(t *testing.T, store *redisqtest.Raw) {
	t.Helper()
	ctx := t.Context()
	claimed, _, err := store.Claim(ctx, "one", []int{0, 1}, 8, 512)
	require.NoError(t, err)
	require.Len(t, claimed, 8)
	verdicts := []dispatcher.Verdict{dispatcher.Delivered, dispatcher.Retry, dispatcher.Dead, dispatcher.Back}
	var batch []dispatcher.Settlement
	for i, c := range claimed[:4] {
		batch = append(batch, dispatcher.Settlement{
			ID: c.ID, Verdict: verdicts[i], Wait: time.Hour, Reason: dispatcher.ReasonGone, Due: c.Due,
			Attempt: dispatcher.Attempt{Number: 1, Status: 500, Verdict: verdicts[i], At: c.Due},
		})
	}
	settled, _, err := store.Settle(ctx, "one", batch)
	require.NoError(t, err)
	require.Equal(t, []dispatcher.SettleResult{1, 1, 1, 1}, settled)
}

// Pausing, disabling or deleting a lane must work when memory is full too, and
// so must the next delivery of a line. That is when people want them.
func TestLanesChangeWhenFull(t *testing.T) {
	ctx := t.Context()
	store := faultStore(t, redistest.Start(t))
	all := []int{0, 1}
	line := faultEntries(4, 0)
	for i := range line {
		m := line[i].Message
		m.OrderingKey, line[i].Lanes = "k", []dispatcher.Lane{"ep_line"}
		m.CreatedAt = m.CreatedAt.Add(-time.Second) // it is due a fraction of a ms later, which has passed then
	}
	limit := func(version int64, mode dispatcher.LaneMode) {
		t.Helper()
		_, _, err := store.Limit(ctx, "one", "ep_line", dispatcher.LaneLimits{Version: version, Mode: mode}, true)
		require.NoError(t, err)
	}
	limit(1, dispatcher.LaneNormal)
	got, _, err := store.Schedule(ctx, "one", 0, 0, line)
	require.NoError(t, err)
	require.Equal(t, []dispatcher.Lane{"ep_line"}, redisqtest.Behind(got[3]))
	require.NoError(t, store.Client().ConfigSet(ctx, "maxmemory", "1").Err())

	for _, entry := range line[:2] {
		claimed, _, err := store.Claim(ctx, "one", all, 8, 512)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		require.Equal(t, entry.Message.ID, claimed[0].ID.Message)
		settled, _, err := store.Settle(ctx, "one", []dispatcher.Settlement{{
			ID: claimed[0].ID, Verdict: dispatcher.Dead, Reason: dispatcher.ReasonGone, Blame: true, Pause: time.Millisecond,
			Attempt: dispatcher.Attempt{Number: 1, Status: 500, Verdict: dispatcher.Dead, At: claimed[0].Due},
		}})
		require.NoError(t, err)
		require.Equal(t, []dispatcher.SettleResult{dispatcher.SettledOK}, settled)
		limit(1, dispatcher.LaneNormal) // as new as the stored limits, but it forgets the pause
	}
	for _, mode := range []dispatcher.LaneMode{dispatcher.LanePaused, dispatcher.LaneNormal} {
		_, _, err := store.Limit(ctx, "one", dispatcher.AllLanes, dispatcher.LaneLimits{Mode: mode}, false)
		require.NoError(t, err)
	}
	limit(2, dispatcher.LaneDeleted)
	_, _, err = store.Move(ctx, "one", all)
	require.NoError(t, err)
	_, _, _, err = store.Sweep(ctx, "one", "ep_line", "")
	require.NoError(t, err)
	st, err := store.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, map[dispatcher.Status]int64{dispatcher.StatusDead: 2, dispatcher.StatusCancelled: 2}, st.Counts)
}

func TestEachOutcomeIsAnsweredForItself(t *testing.T) {
	ctx := t.Context()
	store := faultStore(t, redistest.Start(t))
	_, _, err := store.Schedule(ctx, "one", 0, 0, faultEntries(2, 0))
	require.NoError(t, err)
	claimed, _, err := store.Claim(ctx, "one", []int{0, 1}, 2, 512)
	require.NoError(t, err)
	require.Len(t, claimed, 2)
	var batch []dispatcher.Settlement
	for _, c := range claimed {
		batch = append(batch, dispatcher.Settlement{
			ID: c.ID, Verdict: dispatcher.Dead, Reason: dispatcher.ReasonGone,
			Attempt: dispatcher.Attempt{Number: 1, Status: 410, Verdict: dispatcher.Dead, At: c.Due},
		})
	}
	broken := store.Conn().Tag(1) + ":leases:one"
	require.NoError(t, store.Client().Rename(ctx, broken, "kept").Err())
	require.NoError(t, store.Client().Set(ctx, broken, "no set", 0).Err())

	got := store.Queue().Settle(ctx, "one", batch)
	at := slices.IndexFunc(got, func(s dispatcher.Settled) bool { return s.Err == nil })
	require.GreaterOrEqual(t, at, 0)
	good, bad := got[at], got[1-at]
	require.Equal(t, dispatcher.Settled{
		Result: dispatcher.SettledOK, Died: &dispatcher.Death{ID: claimed[at].ID, Reason: dispatcher.ReasonGone, Attempts: 1},
	}, good)
	require.Zero(t, bad.Result)
	require.Nil(t, bad.Died)
	require.ErrorContains(t, bad.Err, "WRONGTYPE")
	require.NoError(t, store.Client().Rename(ctx, "kept", broken).Err())

	again := store.Queue().Settle(ctx, "one", []dispatcher.Settlement{batch[1-at]})
	require.NoError(t, again[0].Err)
	require.Equal(t, dispatcher.SettledOK, again[0].Result)
}

// A partition that does not reply is polled, because nobody may have been told of its deliveries.
func TestEachCallThatFailsHasItsPartitionPolled(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	store := faultStore(t, server).Queue()
	unseen := 0
	store.Notify(dispatcher.Events{Unseen: func() { unseen++ }})
	_, err := store.Schedule(ctx, "one", 0, 0, faultEntries(1, 0))
	require.NoError(t, err)
	claimed, err := store.Claim(ctx, "one", dispatcher.Claim{Wanted: 1, Free: 512})
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	held := dispatcher.Lease{ID: claimed[0].ID, At: claimed[0].Leased}
	server.Stop()
	for name, call := range map[string]func() error{
		"begin":  func() error { _, err := store.Begin(ctx, "one", held, false); return err },
		"leases": func() error { _, err := store.Leases(ctx, "one"); return err },
		"reap":   func() error { _, err := store.Reap(ctx, "one", "two"); return err },
		"settle": func() error {
			return store.Settle(ctx, "one", []dispatcher.Settlement{{ID: held.ID, Verdict: dispatcher.Delivered, Leased: held.At}})[0].Err
		},
		"end waits": func() error { return store.EndWaits(ctx, "one", []dispatcher.Lane{held.ID.Lane}) },
		"schedule": func() error {
			got, err := store.Schedule(ctx, "one", 0, 0, faultEntries(1, 0))
			require.NoError(t, err)
			return got[0].Err
		},
	} {
		before := unseen
		require.ErrorIs(t, call(), dispatcher.ErrUnavailable, name)
		require.Greater(t, unseen, before, name)
	}
}

// Some services forbid MEMORY. Then the size of the log is estimated from its newest entries.
func TestTheLogIsBoundedWhereItsMemoryIsNotTold(t *testing.T) {
	ctx := t.Context()
	store := faultStore(t, redistest.Start(t))
	all := []int{0, 1}
	_, _, err := store.Schedule(ctx, "one", 0, 0, faultEntries(64, 0))
	require.NoError(t, err)
	claimed, _, err := store.Claim(ctx, "one", all, 64, 512)
	require.NoError(t, err)
	require.Greater(t, len(claimed), 20)
	for _, c := range claimed {
		s := redisqtest.Failure(c, time.Hour)
		s.Attempt.Error = strings.Repeat("x", 4<<10)
		_, _, err := store.Settle(ctx, "one", []dispatcher.Settlement{s})
		require.NoError(t, err)
	}
	entries := func() (n int64) {
		for _, partition := range all {
			n += store.Client().XLen(ctx, store.Conn().Tag(partition)+keys.Attempts).Val()
		}
		return n
	}
	before := entries()
	require.NoError(t, store.Client().Do(ctx, "ACL", "SETUSER", "default", "-memory").Err())
	_, err = store.Trim(ctx, "one", all, dispatcher.Keep{Finished: time.Hour, Dead: time.Hour, LogBytes: 4 << 10}, false)
	require.NoError(t, err)
	require.Less(t, entries(), before)
	require.Positive(t, entries())
}
