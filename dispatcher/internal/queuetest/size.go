package queuetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
)

// sizeCases are about several partitions and about size limits.
var sizeCases = []testCase{
	{name: "a lane always lies in one partition", setup: Setup{Partitions: 4}, run: func(r *rig) {
		used := map[int]bool{}
		for _, lane := range manyLanes(16) {
			used[r.Partition(lane)] = true
			r.publishMany(lane, 2)
		}
		require.Len(r, used, 4, "the lanes are spread")
		require.Len(r, r.claimAll(one), 32)
	}},
	{name: "a fan-out over partitions is one message", setup: Setup{Partitions: 4}, run: func(r *rig) {
		lanes := manyLanes(8)
		got := r.scheduleFor(one, 512, 0, r.entry("m1", lanes))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.ElementsMatch(r, lanes, got[0].Ready)
		require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry("m1", lanes))[0].Result)
		require.Equal(r, dispatcher.Conflict, r.schedule(r.entry("m1", lanes, body("other")))[0].Result)
		rec, err := r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 8)
		require.Len(r, r.claimAll(one), 8)
	}},
	{name: "no more is leased directly over all partitions than asked for", setup: Setup{Partitions: 4}, run: func(r *rig) {
		lanes := manyLanes(8)
		for lease := range 5 {
			batch := []dispatcher.Entry{
				r.entry(fmt.Sprintf("x%d", lease), lanes), r.entry(fmt.Sprintf("y%d", lease), lanes[4:]),
			}
			leased := 0
			for _, s := range r.scheduleFor(one, 512, lease, batch...) {
				leased += len(s.Leased)
			}
			require.LessOrEqual(r, leased, lease)
			for _, id := range r.leases(one) {
				r.mustSettle(one, success(dispatcher.Claimed{ID: id, Attempt: 1}))
			}
			for claimed := r.claimAll(one); len(claimed) > 0; claimed = r.claimAll(one) {
				for _, c := range claimed {
					r.mustSettle(one, success(c))
				}
			}
		}
	}},
	{name: "a claim takes from the partitions it is given, no more than wanted", setup: Setup{Partitions: 4}, run: func(r *rig) {
		byPartition := map[int][]dispatcher.Lane{}
		for _, lane := range manyLanes(16) {
			byPartition[r.Partition(lane)] = append(byPartition[r.Partition(lane)], lane)
			r.publishMany(lane, 2)
		}
		for _, n := range []int{2, 0} {
			got, hints, err := r.Queue.Claim(r.ctx, one, []int{n}, 3, 512)
			require.NoError(r, err)
			require.Len(r, got, 3)
			require.Len(r, hints, 1)
			require.Equal(r, n, hints[0].Partition)
			for _, c := range got {
				require.Contains(r, byPartition[n], c.ID.Lane)
			}
		}
		for _, wanted := range []int{1, 2, 3, 5} {
			got, _, err := r.Queue.Claim(r.ctx, one, []int{3, 2, 1, 0}, wanted, 512)
			require.NoError(r, err)
			require.Len(r, got, wanted)
		}
	}},
	{name: "a fenced instance claims from no partition", setup: Setup{Partitions: 4}, run: func(r *rig) {
		for _, lane := range manyLanes(16) {
			r.publishMany(lane, 1)
		}
		r.reap(one)
		_, _, err := r.Queue.Claim(r.ctx, one, r.all(), 64, 512)
		require.ErrorIs(r, err, dispatcher.ErrFenced)
		require.Empty(r, r.leases(one))
	}},
	{name: "moving, settling, changing, reaping and trimming reach every partition", setup: Setup{Partitions: 4}, run: func(r *rig) {
		lanes := manyLanes(16)
		for _, lane := range lanes {
			r.schedule(r.entry("d-"+string(lane), to(lane), delay(time.Second)))
		}
		r.pass(time.Second)
		hints, err := r.Queue.Move(r.ctx, one, r.all())
		require.NoError(r, err)
		require.Len(r, hints, 4)
		claimed := r.claimAll(one)
		require.Len(r, claimed, 16)
		require.Len(r, r.leases(one), 16)
		require.Equal(r, 16, r.reap(one))
		claimed = r.claimAll(two)
		require.Len(r, claimed, 16)
		var batch []dispatcher.Settlement
		var named []dispatcher.DeliveryID
		for _, c := range claimed {
			batch = append(batch, failure(c, time.Hour))
			named = append(named, c.ID)
		}
		for _, s := range r.settle(two, batch...) {
			require.Equal(r, dispatcher.SettledOK, s)
		}
		require.NotContains(r, r.cancel(named...), false)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusCancelled: 16}, r.stats().Counts)
		require.NotContains(r, r.retry(named...), false)
		r.cancel(named...)
		require.Empty(r, r.claimAll(two))
		require.Equal(r, 16, r.trim(keepNothing).Finished)
		require.Empty(r, r.State().Messages)
	}},
	{name: "the number of partitions is fixed by the first to open", setup: Setup{Partitions: 4}, run: func(r *rig) {
		require.Equal(r, 4, r.Open().Partitions())
	}},
	{name: "a thousand messages are scheduled, claimed and settled in a call each", run: func(r *rig) {
		const n, lanes = 1000, 500
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.entry(fmt.Sprintf("m%04d", i), to(dispatcher.Lane(fmt.Sprintf("l%03d", i%lanes))))
		}
		for _, s := range r.schedule(batch...) {
			require.Equal(r, dispatcher.Accepted, s.Result)
		}
		var settle []dispatcher.Settlement
		for _, c := range r.claimAll(one) {
			settle = append(settle, success(c))
		}
		require.Len(r, settle, n)
		for _, s := range r.settle(one, settle...) {
			require.Equal(r, dispatcher.SettledOK, s)
		}
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDelivered: n}, r.stats().Counts)
	}},
	{name: "several instances and goroutines at once lose nothing and do nothing twice", setup: Setup{Partitions: 2}, run: func(r *rig) {
		r.mustServeAllAtOnce(4, 100)
	}},
	{name: "a thousand are cancelled and retried in a call each", run: func(r *rig) {
		const n = 1000
		batch := make([]dispatcher.Entry, n)
		names := make([]dispatcher.DeliveryID, n)
		for i := range batch {
			id := fmt.Sprintf("m%04d", i)
			batch[i], names[i] = r.entry(id, to("a"), delay(time.Hour)), named("a", id)
		}
		r.schedule(batch...)
		require.NotContains(r, r.cancel(names...), false)
		require.NotContains(r, r.retry(names...), false)
		require.Len(r, r.State().Ready["a"], n)
		require.NotContains(r, r.cancel(names...), false)
		require.Len(r, r.State().Marks, n)
		require.NotContains(r, r.retry(names...), false)
		require.Equal(r, names, r.State().Ready["a"])
	}},
	{name: "many big bodies fit in a call", run: func(r *rig) {
		big := strings.Repeat("0123456789abcdef", 4096) // 64 KiB
		batch := make([]dispatcher.Entry, 40)
		for i := range batch {
			batch[i] = r.entry(fmt.Sprintf("m%02d", i), to("a"), body(big))
		}
		for _, s := range r.schedule(batch...) {
			require.Equal(r, dispatcher.Accepted, s.Result)
		}
		require.Len(r, r.bodyOf(r.mustClaim(one, named("a", "m00"))[0]), len(big))
	}},
	{name: "a message may go to a hundred lanes", run: func(r *rig) {
		lanes := manyLanes(100)
		require.Len(r, r.schedule(r.entry("m1", lanes))[0].Ready, 100)
		for _, c := range r.claimAll(one) {
			r.mustSettle(one, success(c))
		}
		require.Equal(r, int64(100), r.stats().Counts[dispatcher.StatusDelivered])
		r.trim(keepNothing)
		require.Empty(r, r.State().Messages)
	}},
	{name: "ids and lanes at their limits", run: func(r *rig) {
		long := strings.Repeat("Aa0_-", 26)[:128]
		lane := dispatcher.Lane(strings.Repeat("u", dispatcher.MaxLane))
		for _, id := range []string{long, "-", "_", "0", "-1", "a--b"} {
			for _, lane := range []dispatcher.Lane{lane, "x", "u_-_Ab12"} {
				full := id
				if id != long {
					full = id + "-" + string(lane)
				} else {
					full = id[:120] + string(lane[:1])
				}
				r.schedule(r.entry(full, to(lane, "other"), delay(time.Second)))
				r.pass(time.Second)
				r.move()
				for _, c := range r.claim(one, 2) {
					require.Equal(r, full, c.ID.Message)
					r.mustSettle(one, failure(c, time.Hour))
				}
				require.Equal(r, []bool{true, true}, r.retry(named(lane, full), named("other", full)))
				for _, c := range r.claim(one, 2) {
					r.mustSettle(one, success(c))
				}
				r.mustStand(named(lane, full), dispatcher.StatusDelivered)
				require.Len(r, r.listAll(dispatcher.Filter{Lanes: to(lane)}, 1), 1)
				r.trim(keepNothing)
			}
		}
	}},
	{name: "times far ahead are kept to the ms", run: func(r *rig) {
		at := start.Add(366*24*time.Hour + 123*time.Millisecond)
		r.schedule(r.entry("m1", to("a"), deliverAt(at), expires(at.Add(time.Hour))))
		require.Equal(r, at, r.look(named("a", "m1")).Due)
		r.setClock(at.Add(-time.Microsecond))
		r.move()
		r.mustClaimNothing(one)
		r.setClock(at)
		r.move()
		r.mustClaim(one, named("a", "m1"))
	}},
}

// mustServeAllAtOnce publishes n messages from each of so many goroutines,
// every message twice. As many goroutines claim and settle meanwhile. Each
// delivery must be claimed once.
func (r *rig) mustServeAllAtOnce(goroutines, n int) {
	r.Helper()
	lanes := manyLanes(10)
	claims := make(chan dispatcher.DeliveryID, 2*goroutines*n)
	var publishers, senders errgroup.Group
	publish := func(g int) error {
		for i := range n {
			e := r.entry(fmt.Sprintf("m%d-%d", g, i), to(lanes[i%len(lanes)]))
			for range 2 {
				got, _, err := r.Queue.Schedule(r.ctx, one, 0, 0, []dispatcher.Entry{e})
				if err := errors.Join(err, got[0].Err); err != nil {
					return err
				}
			}
		}
		return nil
	}
	send := func(by string) error {
		for served := 0; len(claims) < goroutines*n; {
			got, _, err := r.Queue.Claim(r.ctx, by, r.all(), 8, r.setup.Permits/2)
			if err != nil {
				return err
			}
			var batch []dispatcher.Settlement
			for _, c := range got {
				claims <- c.ID
				batch = append(batch, success(c))
			}
			if _, _, err := r.Queue.Settle(r.ctx, by, batch); err != nil {
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
		senders.Go(func() error { return send([]string{one, two}[g%2]) })
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
	require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDelivered: int64(goroutines * n)}, r.stats().Counts)
}

// manyLanes are the names of n lanes.
func manyLanes(n int) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, n)
	for i := range lanes {
		lanes[i] = dispatcher.Lane(fmt.Sprintf("lane%03d", i))
	}
	return lanes
}

// claimAll claims until there is nothing to claim.
func (r *rig) claimAll(by string) []dispatcher.Claimed {
	r.Helper()
	var all []dispatcher.Claimed
	for {
		got := r.claimWith(by, 64*r.setup.Partitions, r.setup.Permits/2)
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
	}
}
