package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// TrimCases are about trimming ended work.
var TrimCases = []redisqtest.Case{
	{Name: "a trim keeps young and few deliveries", Run: func(r *redisqtest.Rig) {
		r.EndOne("a")
		r.Publish("a", "m1")
		r.Pass(24*time.Hour - time.Millisecond)
		r.Trim(redisqtest.KeepAll) // checks the lane's state, which is still in use
		r.MustChangeNothing(func() {
			require.Equal(r, redisqtest.Trimmed{}, r.TrimOnce(redisqtest.KeepAll, false))
		})
	}},
	{Name: "an unfinished delivery is never trimmed", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		m1 := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Schedule(r.Entry("m4", redisqtest.To("a"), redisqtest.Delay(365*24*time.Hour)))
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))[0], 365*24*time.Hour))
		r.Cancel(m1.ID) // in flight: a mark
		r.Pass(300 * 24 * time.Hour)
		before := r.State()
		r.Trim(redisqtest.KeepNothing)
		r.TrimOnce(redisqtest.KeepNothing, true)
		require.Equal(r, before.Found, r.State().Found)
		require.Equal(r, before.Messages, r.State().Messages)
	}},
	{Name: "a trim deletes a finished delivery at its age, with its id", Run: func(r *redisqtest.Rig) {
		id := r.EndOne("a")
		r.Pass(24 * time.Hour)
		got := r.Trim(redisqtest.KeepAll)
		require.Equal(r, 1, got.Finished)
		require.Zero(r, got.Seen)
		mustBeForgotten(r, id)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry(id.Message, redisqtest.To("a"), redisqtest.Body("other")))[0].Result)
	}},
	{Name: "a trim deletes cancelled deliveries at their age too", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Cancel(redisqtest.Named("a", "m1"))
		r.Pass(24*time.Hour - time.Millisecond)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Finished)
		r.Pass(time.Millisecond)
		require.Equal(r, 1, r.Trim(redisqtest.KeepAll).Finished)
		mustBeForgotten(r, redisqtest.Named("a", "m1"))
	}},
	{Name: "a trim cuts too many finished deliveries to their digest, the oldest first", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepAll
		keep.FinishedMax = 2
		var ended []dispatcher.DeliveryID
		for range 5 {
			r.Pass(time.Second)
			ended = append(ended, r.EndOne("a"))
		}
		require.Equal(r, 3, r.Trim(keep).Finished)
		for n, id := range ended {
			same := r.Schedule(r.Entry(id.Message, redisqtest.To("a", "b")))[0]
			other := r.Schedule(r.Entry(id.Message, redisqtest.To("a"), redisqtest.Body("other")))[0]
			require.Equal(r, dispatcher.Conflict, other.Result)
			if n >= 3 {
				r.Inspect(id)
				continue
			}
			require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate, Placed: []dispatcher.Placed{{Lane: "a"}, {Lane: "b"}}}, same, "its deliveries are not created again")
			mustBeForgotten(r, id)
		}
	}},
	{Name: "cancelled deliveries count as finished and are cut too", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepAll
		keep.FinishedMax = 2
		for range 2 {
			r.Schedule(r.Entry("c", redisqtest.To("a"), redisqtest.Delay(time.Hour)), r.Entry("d", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
			r.Cancel(redisqtest.Named("a", "c"), redisqtest.Named("a", "d"))
			r.Pass(time.Second)
			r.EndOne("a")
			r.EndOne("a")
		}
		require.Equal(r, 4, r.Trim(keep).Finished)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDelivered: 2}, r.State().Counts)
		require.Equal(r, dispatcher.Conflict, r.Schedule(r.Entry("c", redisqtest.To("a"), redisqtest.Body("other")))[0].Result)
	}},
	{Name: "an id is kept until its age", Run: func(r *redisqtest.Rig) {
		id := r.EndOne("a")
		r.Trim(redisqtest.KeepDigests)
		r.Pass(24*time.Hour - time.Millisecond)
		require.Zero(r, r.Trim(redisqtest.KeepDigests).Seen)
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry(id.Message, redisqtest.To("a")))[0].Result)
		r.Pass(time.Millisecond)
		require.Equal(r, 1, r.Trim(redisqtest.KeepDigests).Seen)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry(id.Message, redisqtest.To("a")))[0].Result)
	}},
	{Name: "a trim deletes the oldest of too many ids", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepDigests
		keep.SeenMax = 2
		var ended []dispatcher.DeliveryID
		for range 5 {
			r.Pass(time.Second)
			ended = append(ended, r.EndOne("a"))
			r.Trim(keep)
		}
		require.Len(r, r.State().Seen, 2)
		for n, id := range ended {
			want := dispatcher.Accepted
			if n >= 3 {
				want = dispatcher.Duplicate
			}
			require.Equal(r, want, r.Schedule(r.Entry(id.Message, redisqtest.To("a")))[0].Result, "%d", n)
		}
	}},
	{Name: "a trim of many ids is done in batches", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepDigests
		succeedMany(r, "a", 70)
		r.Trim(keep)
		keep.SeenMax = 0
		got := r.TrimOnce(keep, false)
		require.Equal(r, 64, got.Seen)
		require.True(r, got.More)
		require.Equal(r, 6, r.TrimOnce(keep, false).Seen)
	}},
	{Name: "a trim deletes dead deliveries at their own, longer age", Run: func(r *redisqtest.Rig) {
		id := r.DieOne("a")
		r.Pass(720*time.Hour - time.Millisecond)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Dead)
		r.MustStand(id, dispatcher.StatusDead)
		r.Pass(time.Millisecond)
		got := r.Trim(redisqtest.KeepAll)
		require.Equal(r, 1, got.Dead)
		require.Zero(r, got.DeadCut)
		mustBeForgotten(r, id)
		require.Empty(r, r.Stats().Dead)
	}},
	{Name: "a trim deletes the oldest of too many dead deliveries and reports their count", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepAll
		keep.DeadMax = 2
		var dead []dispatcher.DeliveryID
		for range 5 {
			r.Pass(time.Second)
			dead = append(dead, r.DieOne("a"))
		}
		got := r.Trim(keep)
		require.Equal(r, 3, got.Dead)
		require.Equal(r, 3, got.DeadCut)
		for _, id := range dead[:3] {
			mustBeForgotten(r, id)
		}
		for _, id := range dead[3:] {
			r.MustStand(id, dispatcher.StatusDead)
		}
	}},
	{Name: "a trim deletes dead deliveries that are too old and others that are too many", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepAll
		keep.DeadMax = 2
		old := r.DieOne("a")
		r.Pass(720 * time.Hour)
		for range 4 {
			r.DieOne("a")
		}
		got := r.Trim(keep)
		require.Equal(r, 3, got.Dead)
		require.Equal(r, 2, got.DeadCut)
		mustBeForgotten(r, old)
		require.Equal(r, int64(2), r.Stats().Counts[dispatcher.StatusDead])
	}},
	{Name: "a message is kept until its last lane is trimmed", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a", "b", "c")))
		for _, c := range r.Claim(redisqtest.One, 3) {
			switch c.ID.Lane {
			case "a":
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			case "b":
				r.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone))
			}
		}
		r.Trim(redisqtest.KeepDigests)
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		r.Trim(redisqtest.KeepNothing)
		rec, err = r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 1)
		require.Equal(r, redisqtest.Named("c", "m1"), rec.Deliveries[0].ID)
		require.Equal(r, dispatcher.StatusInFlight, rec.Deliveries[0].Status)

		leased := dispatcher.Claimed{ID: redisqtest.Named("c", "m1"), Attempt: 1}
		r.MustSettle(redisqtest.One, redisqtest.Success(leased))
		r.Trim(redisqtest.KeepDigests)
		_, err = r.Queue.Read(r.Ctx, "m1")
		require.ErrorIs(r, err, dispatcher.ErrNotFound)
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry("m1", redisqtest.To("a", "b", "c")))[0].Result)
	}},
	{Name: "one call trims a batch and reports that there is more", Run: func(r *redisqtest.Rig) {
		const n = 500
		for range n / 50 {
			succeedMany(r, "a", 50)
		}
		require.Equal(r, int64(n), r.Stats().Counts[dispatcher.StatusDelivered])
		total := 0
		for {
			got := r.TrimOnce(redisqtest.KeepNothing, false)
			total += got.Finished
			if !got.More {
				break
			}
			require.Positive(r, got.Finished+got.Seen)
		}
		require.Equal(r, n, total)
		require.Empty(r, r.State().Messages)
	}},
	{Name: "a trim deletes the state of a lane that nothing used for an hour", Run: func(r *redisqtest.Rig) {
		for range 4 {
			r.Succeed("a")
		}
		r.Publish("b", "m1")
		r.Pass(time.Hour - time.Millisecond)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
		require.Equal(r, 6, r.State().Lanes["a"].Window)
		r.Pass(time.Millisecond)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
		state := r.State()
		require.False(r, state.Lanes["a"].Known)
		require.Contains(r, state.Lanes, dispatcher.Lane("b"), "a delivery waits in the lane")
		r.PublishMany("a", 5)
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m1"))
		require.Len(r, r.Claim(redisqtest.One, 64), 2, "the lane has the window of an unknown lane")
	}},
	{Name: "a lane that is in use at a check is checked again an hour later", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Pass(time.Hour)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		r.Pass(time.Hour - time.Millisecond)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
		r.Pass(time.Millisecond)
		require.Equal(r, 1, r.Trim(redisqtest.KeepNothing).Lanes)
	}},
	{Name: "a trim deletes a delivery's history with it", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		require.Len(r, r.State().History, 1)
		r.Trim(redisqtest.KeepDigests)
		state := r.State()
		require.Empty(r, state.History)
		require.Empty(r, state.Progress)
	}},
	{Name: "a trim reports the least age of deliveries that were cut because they were too many", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepAll
		keep.FinishedMax = 2
		for range 5 {
			r.Pass(time.Second)
			r.EndOne("a")
		}
		require.Equal(r, 2*time.Second, r.TrimOnce(keep, false).CutAge, "the third delivery has this age")
		require.Zero(r, r.TrimOnce(keep, false).CutAge)
		r.EndOne("a")
		r.Pass(redisqtest.RoomLeaves)
		require.Equal(r, time.Second+redisqtest.RoomLeaves, r.TrimOnce(keep, true).CutAge, "deliveries that are trimmed for room do not count")
		r.Pass(24 * time.Hour)
		require.Zero(r, r.TrimOnce(keep, false).CutAge, "deliveries that were trimmed at their age do not count either")
		keep.FinishedMax = 0
		r.EndOne("a")
		require.Equal(r, time.Millisecond, r.TrimOnce(keep, false).CutAge, "a delivery that ended in this ms counts as 1 ms old")
	}},
	{Name: "each of many partitions keeps the whole limit if the limit is small", Setup: redisqtest.Setup{Partitions: 128}, Run: func(r *redisqtest.Rig) {
		keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 5, SeenMax: 3, Dead: time.Hour, DeadMax: 2}
		for range 10 {
			r.Pass(time.Second)
			r.EndOne("a")
			r.DieOne("a")
		}
		got := r.Trim(keep)
		require.Equal(r, redisqtest.Trimmed{Trimmed: dispatcher.Trimmed{Finished: 5, Seen: 2, Dead: 8, DeadCut: 8}}, got)
		require.Equal(r, int64(5), r.State().Counts[dispatcher.StatusDelivered])
		require.Equal(r, int64(2), r.State().Counts[dispatcher.StatusDead])
		require.Len(r, r.State().Seen, 3)
	}},
	{Name: "a trim of an empty store does nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() {
			require.Equal(r, redisqtest.Trimmed{}, r.TrimOnce(redisqtest.KeepNothing, false))
			require.Equal(r, redisqtest.Trimmed{}, r.TrimOnce(redisqtest.KeepNothing, true))
		})
	}},
}

// succeedMany publishes n messages and delivers them all.
func succeedMany(r *redisqtest.Rig, lane dispatcher.Lane, n int) {
	r.Helper()
	r.PublishMany(lane, n)
	for n > 0 {
		var batch []dispatcher.Settlement
		for _, c := range r.Claim(redisqtest.One, 64) {
			batch = append(batch, redisqtest.Success(c))
		}
		require.NotEmpty(r, batch)
		r.Settle(redisqtest.One, batch...)
		n -= len(batch)
	}
}

// mustBeForgotten fails the case if a query returns anything of a delivery's
// message.
func mustBeForgotten(r *redisqtest.Rig, id dispatcher.DeliveryID) {
	r.Helper()
	_, err := r.Queue.Read(r.Ctx, id.Message)
	require.ErrorIs(r, err, dispatcher.ErrNotFound, "%s", id)
	require.Empty(r, r.State().Found[id], fmt.Sprint(id))
}

// RoomCases are about trimming when memory is short.
var RoomCases = []redisqtest.Case{
	{Name: "a trim for room deletes the oldest finished work 15 s after its publish, and keeps its id", Run: func(r *redisqtest.Rig) {
		id := r.EndOne("a")
		r.Pass(redisqtest.RoomLeaves - time.Millisecond)
		r.MustChangeNothing(func() { require.Zero(r, r.TrimOnce(redisqtest.KeepAll, true).Finished) })
		r.Pass(time.Millisecond)
		dead := r.DieOne("a")
		r.Publish("b", "m1")
		require.Equal(r, 1, r.TrimOnce(redisqtest.KeepAll, true).Finished)
		require.Empty(r, r.State().Found[id])
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry(id.Message, redisqtest.To("a")))[0].Result, "the message is not delivered again")
		require.Equal(r, dispatcher.Conflict, r.Schedule(r.Entry(id.Message, redisqtest.To("a"), redisqtest.Body("other")))[0].Result)
		r.MustStand(dead, dispatcher.StatusDead)
		r.MustStand(redisqtest.Named("b", "m1"), dispatcher.StatusReady)
	}},
	{Name: "a trim for room deletes ids too", Run: func(r *redisqtest.Rig) {
		id := r.EndOne("a")
		r.Trim(redisqtest.KeepDigests)
		require.Zero(r, r.TrimOnce(redisqtest.KeepAll, true).Seen, "young")
		r.Pass(redisqtest.RoomLeaves)
		require.Equal(r, 1, r.TrimOnce(redisqtest.KeepAll, true).Seen)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry(id.Message, redisqtest.To("a"), redisqtest.Body("other")))[0].Result)
	}},
	{Name: "a trim for room deletes ids only if nothing else can be deleted", Run: func(r *redisqtest.Rig) {
		id := r.EndOne("a")
		r.Trim(redisqtest.KeepDigests)
		r.EndOne("a")
		r.Pass(redisqtest.RoomLeaves)
		young := r.EndOne("a")
		got := r.TrimOnce(redisqtest.KeepAll, true)
		require.Equal(r, [2]int{1, 0}, [2]int{got.Finished, got.Seen})
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry(id.Message, redisqtest.To("a")))[0].Result)
		got = r.TrimOnce(redisqtest.KeepAll, true)
		require.Equal(r, [2]int{0, 1}, [2]int{got.Finished, got.Seen})
		r.MustStand(young, dispatcher.StatusDelivered)
		require.Zero(r, r.TrimOnce(redisqtest.KeepAll, true))
	}},
	{Name: "a trim for room deletes a just ended delivery of an old message, and keeps young messages", Run: func(r *redisqtest.Rig) {
		r.Publish("b", "old")
		r.Schedule(r.Entry("cancelled", redisqtest.To("b"), redisqtest.Delay(time.Hour)))
		c := r.MustClaim(redisqtest.One, redisqtest.Named("b", "old"))[0]
		r.Pass(redisqtest.RoomLeaves)
		young := r.EndOne("a")
		r.Pass(time.Millisecond)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		require.Equal(r, 1, r.TrimOnce(redisqtest.KeepAll, true).Finished)
		mustBeForgotten(r, redisqtest.Named("b", "old"))
		r.Cancel(redisqtest.Named("b", "cancelled"))
		require.Equal(r, 1, r.TrimOnce(redisqtest.KeepAll, true).Finished, "the cancelled delivery is trimmed although a delivered one ended before")
		r.MustStand(young, dispatcher.StatusDelivered)
	}},
	{Name: "repeated trims for room come to an end", Run: func(r *redisqtest.Rig) {
		succeedMany(r, "a", 40)
		r.DieOne("a")
		r.Pass(redisqtest.RoomLeaves)
		for calls := 1; r.TrimOnce(redisqtest.KeepAll, true).More; calls++ {
			require.Less(r, calls, 100, "it never ends")
		}
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDead: 1}, r.State().Counts)
	}},
}
