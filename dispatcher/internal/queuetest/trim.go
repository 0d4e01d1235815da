package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// What cases ask trim to keep.
var (
	keepAll = dispatcher.Keep{
		Finished: 24 * time.Hour, FinishedMax: 100_000, SeenMax: 1_000_000, Dead: 720 * time.Hour, DeadMax: 250_000,
	}
	// keepDigests forgets the messages, but knows their ids.
	keepDigests = dispatcher.Keep{
		Finished: 24 * time.Hour, FinishedMax: 0, SeenMax: 1_000_000, Dead: 720 * time.Hour, DeadMax: 250_000,
	}
	// keepNothing forgets all work that has ended.
	keepNothing = dispatcher.Keep{}
)

var trimCases = []testCase{
	{name: "young and few deliveries stay", run: func(r *rig) {
		r.endOne("a")
		r.publish("a", "m1")
		r.pass(24*time.Hour - time.Millisecond)
		r.trim(keepAll) // looks at the lane's state, which is still in use
		r.mustChangeNothing(func() {
			require.Equal(r, Trimmed{}, r.trimOnce(keepAll, false))
		})
	}},
	{name: "an unfinished delivery is never trimmed", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.mustClaim(one, named("a", "m1"))
		r.schedule(r.entry("m4", to("a"), delay(365*24*time.Hour)))
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m2"))[0], 365*24*time.Hour))
		r.cancel(named("a", "m3"))
		r.pass(300 * 24 * time.Hour)
		before := r.State()
		r.trim(keepNothing)
		r.trimOnce(keepNothing, true)
		require.Equal(r, before.Found, r.State().Found)
		require.Equal(r, before.Messages, r.State().Messages)
	}},
	{name: "a finished delivery goes at its age, with its id", run: func(r *rig) {
		id := r.endOne("a")
		r.pass(24 * time.Hour)
		got := r.trim(keepAll)
		require.Equal(r, 1, got.Finished)
		require.Zero(r, got.Seen)
		r.mustBeForgotten(id)
		require.Equal(r, dispatcher.Accepted, r.schedule(r.entry(id.Message, to("a"), body("other")))[0].Result)
	}},
	{name: "cancelled ones go at their age too", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		r.cancel(named("a", "m1"))
		r.pass(24*time.Hour - time.Millisecond)
		require.Zero(r, r.trim(keepAll).Finished)
		r.pass(time.Millisecond)
		require.Equal(r, 1, r.trim(keepAll).Finished)
		r.mustBeForgotten(named("a", "m1"))
	}},
	{name: "too many finished ones are cut to their digest, the oldest first", run: func(r *rig) {
		keep := keepAll
		keep.FinishedMax = 2
		var ended []dispatcher.DeliveryID
		for range 5 {
			r.pass(time.Second)
			ended = append(ended, r.endOne("a"))
		}
		require.Equal(r, 3, r.trim(keep).Finished)
		for n, id := range ended {
			same := r.schedule(r.entry(id.Message, to("a", "b")))[0]
			other := r.schedule(r.entry(id.Message, to("a"), body("other")))[0]
			require.Equal(r, dispatcher.Conflict, other.Result)
			if n >= 3 {
				r.look(id)
				continue
			}
			require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate}, same, "its lanes are not made again")
			r.mustBeForgotten(id)
		}
	}},
	{name: "cancelled ones count among the finished, and are cut too", run: func(r *rig) {
		keep := keepAll
		keep.FinishedMax = 2
		for range 2 {
			r.schedule(r.entry("c", to("a"), delay(time.Hour)), r.entry("d", to("a"), delay(time.Hour)))
			r.cancel(named("a", "c"), named("a", "d"))
			r.pass(time.Second)
			r.endOne("a")
			r.endOne("a")
		}
		require.Equal(r, 4, r.trim(keep).Finished)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDelivered: 2}, r.State().Counts)
		require.Equal(r, dispatcher.Conflict, r.schedule(r.entry("c", to("a"), body("other")))[0].Result)
	}},
	{name: "an id is known until its age", run: func(r *rig) {
		id := r.endOne("a")
		r.trim(keepDigests)
		r.pass(24*time.Hour - time.Millisecond)
		require.Zero(r, r.trim(keepDigests).Seen)
		require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry(id.Message, to("a")))[0].Result)
		r.pass(time.Millisecond)
		require.Equal(r, 1, r.trim(keepDigests).Seen)
		require.Equal(r, dispatcher.Accepted, r.schedule(r.entry(id.Message, to("a")))[0].Result)
	}},
	{name: "of too many ids the oldest go", run: func(r *rig) {
		keep := keepDigests
		keep.SeenMax = 2
		var ended []dispatcher.DeliveryID
		for range 5 {
			r.pass(time.Second)
			ended = append(ended, r.endOne("a"))
			r.trim(keep)
		}
		require.Len(r, r.State().Seen, 2)
		for n, id := range ended {
			want := dispatcher.Accepted
			if n >= 3 {
				want = dispatcher.Duplicate
			}
			require.Equal(r, want, r.schedule(r.entry(id.Message, to("a")))[0].Result, "%d", n)
		}
	}},
	{name: "the dead stay longer, and go at their own age", run: func(r *rig) {
		id := r.dieOne("a")
		r.pass(720*time.Hour - time.Millisecond)
		require.Zero(r, r.trim(keepAll).Dead)
		r.mustStand(id, dispatcher.StatusDead)
		r.pass(time.Millisecond)
		got := r.trim(keepAll)
		require.Equal(r, 1, got.Dead)
		require.Zero(r, got.DeadCut)
		r.mustBeForgotten(id)
		require.Empty(r, r.stats().Dead)
	}},
	{name: "of too many dead the oldest go, and are counted", run: func(r *rig) {
		keep := keepAll
		keep.DeadMax = 2
		var dead []dispatcher.DeliveryID
		for range 5 {
			r.pass(time.Second)
			dead = append(dead, r.dieOne("a"))
		}
		got := r.trim(keep)
		require.Equal(r, 3, got.Dead)
		require.Equal(r, 3, got.DeadCut)
		for _, id := range dead[:3] {
			r.mustBeForgotten(id)
		}
		for _, id := range dead[3:] {
			r.mustStand(id, dispatcher.StatusDead)
		}
	}},
	{name: "some of the dead may be too old while the rest are too many", run: func(r *rig) {
		keep := keepAll
		keep.DeadMax = 2
		old := r.dieOne("a")
		r.pass(720 * time.Hour)
		for range 4 {
			r.dieOne("a")
		}
		got := r.trim(keep)
		require.Equal(r, 3, got.Dead)
		require.Equal(r, 2, got.DeadCut)
		r.mustBeForgotten(old)
		require.Equal(r, int64(2), r.stats().Counts[dispatcher.StatusDead])
	}},
	{name: "a message stays until its last lane is gone", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a", "b", "c")))
		for _, c := range r.claim(one, 3) {
			switch c.ID.Lane {
			case "a":
				r.mustSettle(one, success(c))
			case "b":
				r.mustSettle(one, death(c, dispatcher.ReasonGone))
			}
		}
		r.trim(keepDigests)
		rec, err := r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		r.trim(keepNothing)
		rec, err = r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 1)
		require.Equal(r, named("c", "m1"), rec.Deliveries[0].ID)
		require.Equal(r, dispatcher.StatusInFlight, rec.Deliveries[0].Status)

		leased := dispatcher.Claimed{ID: named("c", "m1"), Attempt: 1}
		r.mustSettle(one, success(leased))
		r.trim(keepDigests)
		_, err = r.Queue.Read(r.ctx, "m1")
		require.ErrorIs(r, err, dispatcher.ErrNotFound)
		require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry("m1", to("a", "b", "c")))[0].Result)
	}},
	{name: "one call forgets a batch, and says that there is more", run: func(r *rig) {
		const n = 500
		for range n / 50 {
			r.succeedMany("a", 50)
		}
		require.Equal(r, int64(n), r.stats().Counts[dispatcher.StatusDelivered])
		total := 0
		for {
			got := r.trimOnce(keepNothing, false)
			total += got.Finished
			if !got.More {
				break
			}
			require.Positive(r, got.Finished+got.Seen)
		}
		require.Equal(r, n, total)
		require.Empty(r, r.State().Messages)
	}},
	{name: "the state of a lane that nothing used for an hour is forgotten", run: func(r *rig) {
		for range 4 {
			r.succeed("a")
		}
		r.publish("b", "m1")
		r.pass(time.Hour - time.Millisecond)
		require.Zero(r, r.trim(keepAll).Lanes)
		require.Equal(r, 6, r.State().Lanes["a"].Window)
		r.pass(time.Millisecond)
		require.Equal(r, 1, r.trim(keepAll).Lanes)
		state := r.State()
		require.NotContains(r, state.Lanes, dispatcher.Lane("a"))
		require.Contains(r, state.Lanes, dispatcher.Lane("b"), "something waits there")
		r.publishMany("a", 5)
		r.mustClaim(one, named("b", "m1"))
		require.Len(r, r.claim(one, 64), 2, "it is as unknown as any other")
	}},
	{name: "a lane that was in use when it was looked at is looked at again an hour later", run: func(r *rig) {
		r.publish("a", "m1")
		r.pass(time.Hour)
		require.Zero(r, r.trim(keepAll).Lanes)
		r.mustSettle(one, success(r.mustClaim(one, named("a", "m1"))[0]))
		r.pass(time.Hour - time.Millisecond)
		require.Zero(r, r.trim(keepAll).Lanes)
		r.pass(time.Millisecond)
		require.Equal(r, 1, r.trim(keepAll).Lanes)
	}},
	{name: "a trimmed delivery takes its history with it", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 0))
		r.move()
		r.mustSettle(one, success(r.mustClaim(one, named("a", "m1"))[0]))
		require.Len(r, r.State().History, 1)
		r.trim(keepDigests)
		state := r.State()
		require.Empty(r, state.History)
		require.Empty(r, state.Progress)
	}},
	{name: "a trim tells the least age of those that were cut because they were too many", run: func(r *rig) {
		keep := keepAll
		keep.FinishedMax = 2
		for range 5 {
			r.pass(time.Second)
			r.endOne("a")
		}
		require.Equal(r, 2*time.Second, r.trimOnce(keep, false).CutAge, "the third one's")
		require.Zero(r, r.trimOnce(keep, false).CutAge)
		r.endOne("a")
		r.pass(roomLeaves)
		require.Equal(r, time.Second+roomLeaves, r.trimOnce(keep, true).CutAge, "what room takes besides says nothing")
		r.pass(24 * time.Hour)
		require.Zero(r, r.trimOnce(keep, false).CutAge, "what went at its age neither")
		keep.FinishedMax = 0
		r.endOne("a")
		require.Equal(r, time.Millisecond, r.trimOnce(keep, false).CutAge, "it was none at all")
	}},
	{name: "each of many partitions keeps as much as all were asked for, if that is little", setup: Setup{Partitions: 128}, run: func(r *rig) {
		keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 5, SeenMax: 3, Dead: time.Hour, DeadMax: 2}
		for range 10 {
			r.pass(time.Second)
			r.endOne("a")
			r.dieOne("a")
		}
		got := r.trim(keep)
		require.Equal(r, Trimmed{Trimmed: dispatcher.Trimmed{Finished: 5, Seen: 2, Dead: 8, DeadCut: 8}}, got)
		require.Equal(r, int64(5), r.State().Counts[dispatcher.StatusDelivered])
		require.Equal(r, int64(2), r.State().Counts[dispatcher.StatusDead])
		require.Len(r, r.State().Seen, 3)
	}},
	{name: "trimming an empty store does nothing", run: func(r *rig) {
		r.mustChangeNothing(func() {
			require.Equal(r, Trimmed{}, r.trimOnce(keepNothing, false))
			require.Equal(r, Trimmed{}, r.trimOnce(keepNothing, true))
		})
	}},
}

// trimOnce trims one batch of every partition.
func (r *rig) trimOnce(keep dispatcher.Keep, room bool) Trimmed {
	r.Helper()
	got, err := r.Queue.Trim(r.ctx, one, r.all(), keep, room)
	require.NoError(r, err)
	return got
}

// trim trims until there is no more and answers the sum.
func (r *rig) trim(keep dispatcher.Keep) Trimmed {
	r.Helper()
	var sum Trimmed
	for range 1000 {
		got := r.trimOnce(keep, false)
		sum.Finished += got.Finished
		sum.Seen += got.Seen
		sum.Dead += got.Dead
		sum.DeadCut += got.DeadCut
		sum.Lanes += got.Lanes
		sum.Looked = append(sum.Looked, got.Looked...)
		sum.Hints = append(sum.Hints, got.Hints...)
		if !got.More {
			return sum
		}
	}
	r.Fatal("trim never ends")
	return sum
}

// endOne publishes a message and delivers it.
func (r *rig) endOne(lane dispatcher.Lane) dispatcher.DeliveryID {
	r.Helper()
	c := r.takeNew(lane)
	r.mustSettle(one, success(c))
	return c.ID
}

// dieOne publishes a message whose first attempt is answered with 410.
func (r *rig) dieOne(lane dispatcher.Lane) dispatcher.DeliveryID {
	r.Helper()
	c := r.takeNew(lane)
	r.mustSettle(one, death(c, dispatcher.ReasonGone))
	return c.ID
}

// succeedMany publishes n messages and delivers them all.
func (r *rig) succeedMany(lane dispatcher.Lane, n int) {
	r.Helper()
	r.publishMany(lane, n)
	for n > 0 {
		var batch []dispatcher.Settlement
		for _, c := range r.claim(one, 64) {
			batch = append(batch, success(c))
		}
		require.NotEmpty(r, batch)
		r.settle(one, batch...)
		n -= len(batch)
	}
}

// mustBeForgotten fails the case if a reader can see anything of a delivery's
// message.
func (r *rig) mustBeForgotten(id dispatcher.DeliveryID) {
	r.Helper()
	_, err := r.Queue.Read(r.ctx, id.Message)
	require.ErrorIs(r, err, dispatcher.ErrNotFound, "%s", id)
	require.Empty(r, r.State().Found[id], fmt.Sprint(id))
}
