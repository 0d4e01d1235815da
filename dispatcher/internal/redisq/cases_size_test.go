package redisq_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// SizeCases are about several partitions and about size limits.
var SizeCases = []redisqtest.Case{
	{Name: "a lane is always in one partition", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		used := map[int]bool{}
		for _, lane := range redisqtest.ManyLanes(16) {
			used[r.Partition(lane)] = true
			r.PublishMany(lane, 2)
		}
		require.Len(r, used, 4, "the lanes are spread over all partitions")
		require.Len(r, r.ClaimAll(redisqtest.One), 32)
	}},
	{Name: "a fan-out over partitions is one message", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		got := r.ScheduleFor(redisqtest.One, 512, 0, r.Entry("m1", lanes))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.ElementsMatch(r, lanes, redisqtest.Ready(got[0]))
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry("m1", lanes))[0].Result)
		require.Equal(r, dispatcher.Conflict, r.Schedule(r.Entry("m1", lanes, redisqtest.Body("other")))[0].Result)
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 8)
		require.Len(r, r.ClaimAll(redisqtest.One), 8)
	}},
	{Name: "the direct leases of all partitions are at most the requested number", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		for lease := range 5 {
			batch := []dispatcher.Entry{
				r.Entry(fmt.Sprintf("x%d", lease), lanes), r.Entry(fmt.Sprintf("y%d", lease), lanes[4:]),
			}
			leased := 0
			for _, s := range r.ScheduleFor(redisqtest.One, 512, lease, batch...) {
				leased += len(redisqtest.Leased(s))
			}
			require.LessOrEqual(r, leased, lease)
			for _, id := range r.Leases(redisqtest.One) {
				r.MustSettle(redisqtest.One, redisqtest.Success(dispatcher.Claimed{ID: id, Attempt: 1}))
			}
			for claimed := r.ClaimAll(redisqtest.One); len(claimed) > 0; claimed = r.ClaimAll(redisqtest.One) {
				for _, c := range claimed {
					r.MustSettle(redisqtest.One, redisqtest.Success(c))
				}
			}
		}
	}},
	{Name: "a claim returns at most the wanted number from its partitions", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		byPartition := map[int][]dispatcher.Lane{}
		for _, lane := range redisqtest.ManyLanes(16) {
			byPartition[r.Partition(lane)] = append(byPartition[r.Partition(lane)], lane)
			r.PublishMany(lane, 2)
		}
		for _, n := range []int{2, 0} {
			got, hints, err := r.Queue.Claim(r.Ctx, redisqtest.One, []int{n}, 3, 512)
			require.NoError(r, err)
			require.Len(r, got, 3)
			require.Len(r, hints, 1)
			require.Equal(r, n, hints[0].Partition)
			for _, c := range got {
				require.Contains(r, byPartition[n], c.ID.Lane)
			}
		}
		for _, wanted := range []int{1, 2, 3, 5} {
			got, _, err := r.Queue.Claim(r.Ctx, redisqtest.One, []int{3, 2, 1, 0}, wanted, 512)
			require.NoError(r, err)
			require.Len(r, got, wanted)
		}
	}},
	{Name: "a fenced instance claims from no partition", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		for _, lane := range redisqtest.ManyLanes(16) {
			r.PublishMany(lane, 1)
		}
		r.Reap(redisqtest.One)
		_, _, err := r.Queue.Claim(r.Ctx, redisqtest.One, r.All(), 64, 512)
		require.ErrorIs(r, err, dispatcher.ErrFenced)
		require.Empty(r, r.Leases(redisqtest.One))
	}},
	{Name: "moving, settling, changing, reaping and trimming reach every partition", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(16)
		for _, lane := range lanes {
			r.Schedule(r.Entry("d-"+string(lane), redisqtest.To(lane), redisqtest.Delay(time.Second)))
		}
		r.Pass(time.Second)
		_, hints, err := r.Queue.Move(r.Ctx, redisqtest.One, r.All())
		require.NoError(r, err)
		require.Len(r, hints, 4)
		claimed := r.ClaimAll(redisqtest.One)
		require.Len(r, claimed, 16)
		require.Len(r, r.Leases(redisqtest.One), 16)
		require.Equal(r, 16, r.Reap(redisqtest.One))
		claimed = r.ClaimAll(redisqtest.Two)
		require.Len(r, claimed, 16)
		var batch []dispatcher.Settlement
		var named []dispatcher.DeliveryID
		for _, c := range claimed {
			batch = append(batch, redisqtest.Failure(c, time.Hour))
			named = append(named, c.ID)
		}
		for _, s := range r.Settle(redisqtest.Two, batch...) {
			require.Equal(r, dispatcher.SettledOK, s)
		}
		require.NotContains(r, r.Cancel(named...), false)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusCancelled: 16}, r.Stats().Counts)
		require.NotContains(r, r.Retry(named...), false)
		r.Cancel(named...)
		require.Empty(r, r.ClaimAll(redisqtest.Two))
		require.Equal(r, 16, r.Trim(redisqtest.KeepNothing).Finished)
		require.Empty(r, r.State().Messages)
	}},
	{Name: "the first instance that opens the store fixes the number of partitions", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		require.Equal(r, 4, r.Open().Partitions())
	}},
	{Name: "a thousand messages are scheduled, claimed and settled in a call each", Run: func(r *redisqtest.Rig) {
		const n, lanes = 1000, 500
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.Entry(fmt.Sprintf("m%04d", i), redisqtest.To(dispatcher.Lane(fmt.Sprintf("l%03d", i%lanes))))
		}
		for _, s := range r.Schedule(batch...) {
			require.Equal(r, dispatcher.Accepted, s.Result)
		}
		var settle []dispatcher.Settlement
		for _, c := range r.ClaimAll(redisqtest.One) {
			settle = append(settle, redisqtest.Success(c))
		}
		require.Len(r, settle, n)
		for _, s := range r.Settle(redisqtest.One, settle...) {
			require.Equal(r, dispatcher.SettledOK, s)
		}
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDelivered: n}, r.Stats().Counts)
	}},
	{Name: "concurrent instances and goroutines lose nothing and do nothing twice", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		mustServeAllAtOnce(r, 4, 100)
	}},
	{Name: "a thousand are cancelled and retried in a call each", Run: func(r *redisqtest.Rig) {
		const n = 1000
		batch := make([]dispatcher.Entry, n)
		names := make([]dispatcher.DeliveryID, n)
		for i := range batch {
			id := fmt.Sprintf("m%04d", i)
			batch[i], names[i] = r.Entry(id, redisqtest.To("a"), redisqtest.Delay(time.Hour)), redisqtest.Named("a", id)
		}
		r.Schedule(batch...)
		require.NotContains(r, r.Cancel(names...), false)
		require.NotContains(r, r.Retry(names...), false)
		require.Len(r, r.State().Ready["a"], n)
		require.NotContains(r, r.Cancel(names...), false)
		require.Empty(r, r.State().Ready["a"])
		require.Empty(r, r.State().Marks)
		require.NotContains(r, r.Retry(names...), false)
		require.Equal(r, names, r.State().Ready["a"])
	}},
	{Name: "many big bodies fit in a call", Run: func(r *redisqtest.Rig) {
		big := strings.Repeat("0123456789abcdef", 4096) // 64 KiB
		batch := make([]dispatcher.Entry, 40)
		for i := range batch {
			batch[i] = r.Entry(fmt.Sprintf("m%02d", i), redisqtest.To("a"), redisqtest.Body(big))
		}
		for _, s := range r.Schedule(batch...) {
			require.Equal(r, dispatcher.Accepted, s.Result)
		}
		require.Len(r, r.BodyOf(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m00"))[0]), len(big))
	}},
	{Name: "a message may go to a hundred lanes", Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(100)
		require.Len(r, redisqtest.Ready(r.Schedule(r.Entry("m1", lanes))[0]), 100)
		for _, c := range r.ClaimAll(redisqtest.One) {
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
		}
		require.Equal(r, int64(100), r.Stats().Counts[dispatcher.StatusDelivered])
		r.Trim(redisqtest.KeepNothing)
		require.Empty(r, r.State().Messages)
	}},
	{Name: "ids and lanes may have their maximum length and all characters", Run: func(r *redisqtest.Rig) {
		long := strings.Repeat("Aa0_-", 26)[:128]
		lane := dispatcher.Lane(strings.Repeat("u", dispatcher.MaxLane))
		for _, id := range []string{long, "-", "_", "0", "-1", "a--b"} {
			for _, lane := range []dispatcher.Lane{lane, "x", "u_-_Ab12"} {
				var full string
				if id != long {
					full = id + "-" + string(lane)
				} else {
					full = id[:120] + string(lane[:1])
				}
				r.Schedule(r.Entry(full, redisqtest.To(lane, "other"), redisqtest.Delay(time.Second)))
				r.Pass(time.Second)
				r.Move()
				for _, c := range r.Claim(redisqtest.One, 2) {
					require.Equal(r, full, c.ID.Message)
					r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
				}
				require.Equal(r, []bool{true, true}, r.Retry(redisqtest.Named(lane, full), redisqtest.Named("other", full)))
				for _, c := range r.Claim(redisqtest.One, 2) {
					r.MustSettle(redisqtest.One, redisqtest.Success(c))
				}
				r.MustStand(redisqtest.Named(lane, full), dispatcher.StatusDelivered)
				require.Len(r, r.ListAll(dispatcher.Filter{Lanes: redisqtest.To(lane)}, 1), 1)
				r.Trim(redisqtest.KeepNothing)
			}
		}
	}},
	{Name: "times far ahead are kept to the ms", Run: func(r *redisqtest.Rig) {
		at := redisqtest.Start.Add(366*24*time.Hour + 123*time.Millisecond)
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.DeliverAt(at), redisqtest.Expires(at.Add(time.Hour))))
		require.Equal(r, at, r.Inspect(redisqtest.Named("a", "m1")).Due)
		r.SetNow(at.Add(-time.Microsecond))
		r.Move()
		r.MustClaimNothing(redisqtest.One)
		r.SetNow(at)
		r.Move()
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
}

// mustServeAllAtOnce publishes n messages from each goroutine, every message twice. The same
// number of goroutines claim and settle at the same time. Each delivery must be claimed once.
func mustServeAllAtOnce(r *redisqtest.Rig, goroutines, n int) {
	r.Helper()
	lanes := redisqtest.ManyLanes(10)
	claims := make(chan dispatcher.DeliveryID, 2*goroutines*n)
	var publishers, senders errgroup.Group
	publish := func(g int) error {
		for i := range n {
			e := r.Entry(fmt.Sprintf("m%d-%d", g, i), redisqtest.To(lanes[i%len(lanes)]))
			for range 2 {
				got, _, err := r.Queue.Schedule(r.Ctx, redisqtest.One, 0, 0, []dispatcher.Entry{e})
				if err := errors.Join(err, got[0].Err); err != nil {
					return err
				}
			}
		}
		return nil
	}
	send := func(by string) error {
		for served := 0; len(claims) < goroutines*n; {
			got, _, err := r.Queue.Claim(r.Ctx, by, r.All(), 8, r.Setup.Permits/2)
			if err != nil {
				return err
			}
			var batch []dispatcher.Settlement
			for _, c := range got {
				claims <- c.ID
				batch = append(batch, redisqtest.Success(c))
			}
			if _, _, err := r.Queue.Settle(r.Ctx, by, batch); err != nil {
				return err
			}
			if served += len(got); served > goroutines*n {
				return fmt.Errorf("%s claimed more than there is", by)
			}
		}
		return nil
	}
	for g := range goroutines {
		publishers.Go(func() error { return publish(g) })
		senders.Go(func() error { return send([]string{redisqtest.One, redisqtest.Two}[g%2]) })
	}
	require.NoError(r, publishers.Wait())
	require.NoError(r, senders.Wait())
	close(claims)
	seen := map[dispatcher.DeliveryID]bool{}
	for id := range claims {
		require.False(r, seen[id], "%s was claimed twice", id)
		seen[id] = true
	}
	require.Len(r, seen, goroutines*n)
	require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDelivered: int64(goroutines * n)}, r.Stats().Counts)
}
