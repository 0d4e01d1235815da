package redisq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// patient is how long a test waits for an event that always comes. It only ends
// a test that hangs. A failover takes 3 to 5 s in a cluster and 10 s with
// sentinels, and several times that on a busy machine.
const patient = 3 * time.Minute

// clusterStore is a store on a cluster, by Redis' own clock.
func clusterStore(t *testing.T, cluster *redistest.Cluster, partitions int) *redisqtest.Raw {
	t.Helper()
	return openTestStore(t, redisq.Options{
		URL: cluster.URL(), Project: "cluster", Partitions: partitions, LaneMaxInFlight: 10_000, Permits: 10_000,
		Log: slog.New(slog.DiscardHandler),
	})
}

// upTo are the numbers of so many partitions.
func upTo(partitions int) []int {
	all := make([]int, partitions)
	for n := range all {
		all[n] = n
	}
	return all
}

// clusterTag is the key that all scripts of a partition declare.
func clusterTag(n int) string { return fmt.Sprintf("{cluster:%d}", n) }

// laneIn is a lane of a partition.
func laneIn(partition, partitions int) dispatcher.Lane {
	for i := 0; ; i++ {
		if lane := laneOf(i); int(crc16(string(lane)))%partitions == partition {
			return lane
		}
	}
}

// entryIn is a message to a lane of a partition.
func entryIn(id string, partition, partitions int) dispatcher.Entry {
	m := &dispatcher.Message{ID: id, Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: time.Now()}
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{laneIn(partition, partitions)}}
}

// eventually repeats do until it reports success.
func eventually(t *testing.T, what string, do func(ctx context.Context) error) (took time.Duration) {
	t.Helper()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := do(ctx)
		cancel()
		if err == nil {
			return time.Since(began)
		}
		require.Less(t, time.Since(began), patient, "%s: %v", what, err)
	}
}

// schedule stores entries and answers the first error of any of them.
func schedule(ctx context.Context, store *redisqtest.Raw, batch ...dispatcher.Entry) error {
	got, _, err := store.Schedule(ctx, "one", 0, 0, batch)
	for _, s := range got {
		err = errors.Join(err, s.Err)
	}
	return err
}

func TestTheMastersOfAnEmptyClusterGetEqualShares(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := clusterStore(t, cluster, 0)
	n := store.Partitions()
	require.GreaterOrEqual(t, n, 12)
	require.Less(t, n, 128)
	masters := cluster.Masters()
	has := make([]int, len(masters))
	for partition := range n {
		has[slices.Index(masters, cluster.MasterOf(tagOf("cluster", partition)))]++
	}
	require.LessOrEqual(t, 12*slices.Max(has), 5*n, "at most a quarter more than a third: %v", has)

	again := clusterStore(t, cluster, n)
	require.Equal(t, n, again.Partitions())
	_, err := redisqtest.OpenRaw(t.Context(), redisq.Options{URL: cluster.URL(), Project: "cluster", Partitions: 64})
	require.ErrorContains(t, err, fmt.Sprintf("PARTITIONS=64, but project cluster was made with %d", n))

	one := cluster.Nodes()[0].Server
	_, err = redisqtest.OpenRaw(t.Context(), redisq.Options{URL: one.URL(), Mode: conn.ModeSingle, Project: "cluster"})
	require.ErrorContains(t, err, "REDIS_MODE=single, but the server is a node of a cluster")
	found, err := redisqtest.OpenRaw(t.Context(), redisq.Options{URL: one.URL(), Project: "cluster"})
	require.NoError(t, err, "one node leads to all")
	require.Equal(t, n, found.Partitions())
	require.NoError(t, schedule(t.Context(), found, entryIn("m1", 0, n), entryIn("m2", 1, n), entryIn("m3", 2, n)))
	require.NoError(t, found.Close())
}

func TestAFailoverIsMetByItself(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	const partitions = 16
	store := clusterStore(t, cluster, partitions)
	ctx := t.Context()
	var kept int
	for n := range partitions {
		require.NoError(t, schedule(ctx, store, entryIn("before", n, partitions)))
		kept++
	}
	masters := cluster.Masters()
	for _, node := range cluster.Nodes() {
		if !slices.Contains(masters, node) {
			node.InStep() // a failover loses all that its replica does not have
		}
	}
	heard := make(chan struct{}, 100)
	var watch sync.WaitGroup
	defer watch.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watch.Go(func() {
		// Its channel lies at another master, so that the failover does not end
		// it.
		require.NoError(t, store.Queue().Watch(watching, "one", dispatcher.Subscriber{OnGap: func() { heard <- struct{}{} }}))
	})
	<-heard
	away := slices.IndexFunc(upTo(partitions), func(n int) bool {
		return cluster.MasterOf(clusterTag(n)) != cluster.MasterOf("{cluster}")
	})
	cluster.KillMasterOf(clusterTag(away))

	took := eventually(t, "accepting in each partition", func(ctx context.Context) error {
		var batch []dispatcher.Entry
		for n := range partitions {
			batch = append(batch, entryIn("after", n, partitions))
		}
		return schedule(ctx, store, batch...)
	})
	t.Logf("accepted everywhere %s after the kill", took.Round(time.Millisecond))
	select {
	case <-heard: // the new master may lack the last writes
	case <-time.After(patient):
		t.Error("nobody was told of the takeover")
	}
	kept += partitions
	for met := map[string]bool{}; len(met) < kept; {
		claimed, _, err := store.Claim(ctx, "one", upTo(partitions), 10_000, 10_000)
		require.NoError(t, err)
		require.NotEmpty(t, claimed, "%d of %d", len(met), kept)
		for _, c := range claimed {
			require.False(t, met[c.ID.String()], "%s twice", c.ID)
			met[c.ID.String()] = true
		}
	}
}

// A call waits for all its masters. One that hangs may hold it up once, but not
// each time.
func TestAMasterThatHangsHoldsUpTheOthersOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "cluster-require-full-coverage no")
	const partitions = 32
	store := clusterStore(t, cluster, partitions)
	hung := cluster.Other(cluster.MasterOf("{cluster}"))
	var dead, alive []int
	for n := range partitions {
		if cluster.MasterOf(clusterTag(n)) == hung {
			dead = append(dead, n)
		} else {
			alive = append(alive, n)
		}
	}
	all := append(append([]int{}, dead...), alive...)
	hung.Pause()

	eventually(t, "those of the master that hangs fail, and no others", func(context.Context) error {
		_, _, err := store.Move(t.Context(), "one", all)
		require.ErrorIs(t, err, dispatcher.ErrUnavailable)
		if failed := conn.FailedPartitions(err); len(failed) != len(dead) {
			return err // on a busy machine another one may be late at first
		}
		return nil
	})
	for i := range 50 {
		var batch []dispatcher.Entry
		for _, n := range all {
			batch = append(batch, entryIn(fmt.Sprintf("m%d", i), n, partitions))
		}
		got, _, err := store.Schedule(t.Context(), "one", 0, 0, batch)
		require.NoError(t, err)
		for k, n := range all {
			if k < len(dead) {
				require.ErrorContains(t, got[k].Err, "not tried", "partition %d", n)
				require.ErrorIs(t, got[k].Err, dispatcher.ErrUnavailable)
			} else {
				require.NoError(t, got[k].Err, "partition %d", n)
			}
		}
	}
	claimed, _, err := store.Claim(t.Context(), "one", all, 1000, 10_000)
	require.NotEmpty(t, claimed)
	require.ErrorContains(t, err, "not tried")
	hints, err := store.ReadHints(t.Context(), all)
	require.Len(t, hints, len(alive))
	require.Len(t, conn.FailedPartitions(err), len(dead))
	require.NoError(t, store.Ping(t.Context()))
	require.Less(t, len(err.Error()), 500, "one stands for all")
	late := clusterStore(t, cluster, 0) // an instance that starts meanwhile
	require.NoError(t, schedule(t.Context(), late, entryIn("late", alive[0], partitions)))

	hung.Resume()
	took := eventually(t, "the gate opens", func(ctx context.Context) error {
		return schedule(ctx, store, entryIn("later", dead[0], partitions))
	})
	t.Logf("accepted %s after it went on", took.Round(time.Millisecond))
}

// A publish waits until all its masters have made it durable. One that can't
// may hold up the others once, but not each time.
func TestAMasterThatMakesNothingDurableHoldsUpTheOthersOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	const partitions = 16
	store := openTestStore(t, redisq.Options{
		URL: cluster.URL(), Project: "cluster", Partitions: partitions, LaneMaxInFlight: 128, Permits: 1024,
		Durability: dispatcher.Durability{Replicas: 1}, Log: slog.New(slog.DiscardHandler),
	})
	masters := cluster.Masters()
	replica := cluster.Nodes()[slices.IndexFunc(cluster.Nodes(), func(n *redistest.Node) bool { return !slices.Contains(masters, n) })]
	everywhere := func(id string) (batch []dispatcher.Entry) {
		for n := range partitions {
			batch = append(batch, entryIn(id, n, partitions))
		}
		return batch
	}
	eventually(t, "all replicas are there", func(ctx context.Context) error { return schedule(ctx, store, everywhere("m0")...) })

	replica.Pause()
	first, _, err := store.Schedule(t.Context(), "one", 0, 0, everywhere("m1"))
	require.NoError(t, err)
	for i := range 20 {
		got, _, err := store.Schedule(t.Context(), "one", 0, 0, everywhere(fmt.Sprintf("m1-%d", i)))
		require.NoError(t, err)
		for n := range partitions {
			if first[n].Err == nil {
				require.NoError(t, got[n].Err, "partition %d", n)
				continue
			}
			require.ErrorContains(t, first[n].Err, "0 of 1 replicas have it")
			require.ErrorIs(t, first[n].Err, dispatcher.ErrNotDurable)
			require.ErrorContains(t, got[n].Err, "not tried")
			require.ErrorIs(t, got[n].Err, dispatcher.ErrUnavailable)
			require.NotErrorIs(t, got[n].Err, dispatcher.ErrNotDurable, "that would say that it is stored")
		}
	}
	require.True(t, slices.ContainsFunc(first, func(s dispatcher.ScheduleResult) bool { return s.Err != nil }))
	require.True(t, slices.ContainsFunc(first, func(s dispatcher.ScheduleResult) bool { return s.Err == nil }))
	replica.Resume()
	eventually(t, "what is written is durable again", func(ctx context.Context) error {
		return schedule(ctx, store, everywhere("m2")...)
	})
}

// A slot moves back and forth while all kinds of work go on in it. Nothing may
// be lost or done twice.
func TestASlotThatMovesLosesNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := clusterStore(t, cluster, 1)
	slot := cluster.Slot(clusterTag(0))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var mu sync.Mutex // guards the two
	accepted, delivered := map[string]bool{}, map[string]int{}
	var accept, deliver sync.WaitGroup
	accept.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			var batch []dispatcher.Entry
			for k := range 8 {
				batch = append(batch, entryIn(fmt.Sprintf("m%d-%d", i, k), 0, 1))
			}
			if schedule(context.WithoutCancel(ctx), store, batch...) != nil {
				i-- // told to repeat it
				continue
			}
			mu.Lock()
			for _, e := range batch {
				accepted[e.Message.ID] = true
			}
			mu.Unlock()
		}
	})
	over, end := context.WithCancel(t.Context())
	defer end()
	deliver.Go(func() { deliverAll(over, t, store, &mu, delivered) })

	for range 2 {
		from := cluster.MasterOf(clusterTag(0))
		cluster.MoveSlot(slot, from, cluster.Other(from), func(int) {
			mustBeAsked(t, store, 20*time.Millisecond) // as the calls of others do meanwhile
		})
		eventually(t, "going on at the other master", func(ctx context.Context) error {
			_, _, err := store.Move(ctx, "one", []int{0})
			return err
		})
	}
	stop()
	accept.Wait()
	end()
	deliver.Wait()
	require.NotEmpty(t, accepted)
	for id := range accepted {
		require.Equal(t, 1, delivered[id], id)
	}
	t.Logf("%d messages", len(accepted))
}

// mustBeAsked fails the test if a script begins though its keys may be missing.
// A call ends within the given time, or within twice the time if that was too
// short for any answer.
func mustBeAsked(t *testing.T, store *redisqtest.Raw, within time.Duration) {
	t.Helper()
	for {
		call, cancel := context.WithTimeout(t.Context(), within)
		_, _, err := store.Move(call, "two", []int{0})
		cancel()
		require.Error(t, err, "it began")
		if strings.Contains(err.Error(), "ASK") {
			return
		}
		within *= 2
		require.Less(t, within, patient, "%v", err)
	}
}

// deliverAll claims and settles until ctx ends and nothing is left.
func deliverAll(ctx context.Context, t *testing.T, store *redisqtest.Raw, mu *sync.Mutex, delivered map[string]int) {
	call := context.WithoutCancel(ctx)
	for {
		ended := ctx.Err() != nil // checked first: all was accepted before
		claimed, _, err := store.Claim(call, "one", []int{0}, 64, 10_000)
		if !onlyUnavailable(t, err) {
			return
		}
		var batch []dispatcher.Settlement
		for _, c := range claimed {
			batch = append(batch, dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Delivered, First: true,
				Attempt: dispatcher.Attempt{Number: 1, Status: 200, Verdict: dispatcher.Delivered}})
		}
		for len(batch) > 0 {
			settled, _, err := store.Settle(call, "one", batch)
			if !onlyUnavailable(t, err) {
				return
			}
			if err == nil {
				for i := range batch {
					mu.Lock()
					delivered[batch[i].ID.Message]++
					mu.Unlock()
					if settled[i] != dispatcher.SettledOK {
						t.Errorf("%s settled %d", batch[i].ID, settled[i])
					}
				}
				batch = nil
			}
		}
		if ended && len(claimed) == 0 && err == nil {
			return // nothing is ready any more
		}
	}
}

// onlyUnavailable fails a test whose store answers any other error.
func onlyUnavailable(t *testing.T, err error) bool {
	if err == nil || errors.Is(err, dispatcher.ErrUnavailable) {
		return true
	}
	t.Errorf("unexpected: %v", err)
	return false
}
