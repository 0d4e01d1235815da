package lanes

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// ending is a way to end a lane, and the effect on its deliveries.
type ending struct {
	name     string
	mode     dispatcher.LaneMode
	place    stored.Place
	status   dispatcher.Status
	reason   dispatcher.DeadReason
	err      error  // the error that a retry returns
	reported string // the verdict in the stream
}

var (
	disabled = ending{"disabled", dispatcher.LaneDisabled, stored.PlaceDead, dispatcher.StatusDead, dispatcher.ReasonDisabled, dispatcher.ErrDisabled, "dead disabled"}
	deleted  = ending{"deleted", dispatcher.LaneDeleted, stored.PlaceCancelled, dispatcher.StatusCancelled, "", dispatcher.ErrDeleted, "cancelled -"}
)

// EndingCases are about lanes of disabled and of deleted endpoints. Each rule
// holds for both.
var EndingCases = func() []rig.Case {
	var cases []rig.Case
	for _, e := range []ending{disabled, deleted} {
		for _, c := range []struct {
			name string
			run  func(r *rig.Rig, e ending)
		}{
			{"a new delivery ends at once", endsWhatComes},
			{"a scheduled delivery ends when it is due", endsWhatIsDue},
			{"a delivery that waits for a retry keeps its history", endsRungs},
			{"any mover ends the ready list", endsReady},
			{"a long ready list is ended in batches", endsLongLists},
			{"a delivery in flight ends with its attempt", endsFlights},
			{"the leased deliveries of a dead instance end", endsTakeovers},
			{"marks are carried out first", endsMarked},
			{"a lost delivery is dropped", dropsLost},
			{"nothing is retried, and nothing changes", refusesRetries},
			{"a waiting delivery can be cancelled", cancelsInEndingLane},
			{"all deliveries of a set end", endsSets},
			{"the mover ends a set that is too long for one script", endsLongSets},
			{"deliveries behind one in flight end after it", endsBehindFlights},
			{"a sweep ends the deliveries that wait for a time", sweeps},
			{"a sweep goes through long lists and leaves other lanes alone", sweepsPages},
			{"the lane has no weight and no work to claim", weighsNothing},
			{"an ordered lane ends whole", endsOrderedLane},
		} {
			cases = append(cases, rig.Case{
				Name: e.name + ": " + c.name, Run: func(r *rig.Rig) { c.run(r, e) },
			})
		}
	}
	return append(cases, enablingCases...)
}()

// end disables or deletes the endpoint.
func end(r *rig.Rig, e ending) dispatcher.LaneCount {
	r.Helper()
	return r.Limit(rig.EpOne, rig.Mode(e.mode))
}

// mustEnd fails the case unless these deliveries have ended as the lane did,
// after this number of attempts.
func mustEnd(r *rig.Rig, e ending, attempts int, messages ...string) {
	r.Helper()
	r.MustLie(e.place, rig.EpOne, messages...)
	reported := r.State().Reported
	for _, id := range rig.IDs(rig.EpOne, messages...) {
		d := r.MustStand(id, e.status)
		require.Equal(r, e.reason, d.Reason, "%s", id)
		require.Equal(r, attempts, d.Attempts, "%s", id)
		require.Len(r, d.History, attempts, "%s", id)
		require.False(r, d.Ended.IsZero(), "%s", id)
		require.Empty(r, d.WaitingFor, "%s", id)
		require.Equal(r, []string{e.reported}, reported[id], "%s", id)
	}
}

func endsWhatComes(r *rig.Rig, e ending) {
	end(r, e)
	got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To(rig.EpOne)), r.Entry("m2", rig.To(rig.EpOne), rig.Delay(time.Hour)),
		r.Entry("m3", rig.To(rig.EpOne), rig.Keyed("k")), rig.Fan(r.Entry("m4", rig.To(rig.EpOne, "a"))))
	for _, s := range got {
		require.Equal(r, dispatcher.Accepted, s.Result)
		require.Equal(r, r.Now, s.Placed[0].At)
		require.NotContains(r, append(append(rig.Ready(s), rig.Leased(s)...), rig.Behind(s)...), rig.EpOne)
		if e.mode == dispatcher.LaneDeleted {
			require.Equal(r, rig.To(rig.EpOne), rig.Cancelled(s))
			require.Empty(r, rig.Dead(s))
		} else {
			require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{rig.EpOne: dispatcher.ReasonDisabled}, rig.Dead(s))
			require.Empty(r, rig.Cancelled(s))
		}
	}
	mustEnd(r, e, 0, "m1", "m2", "m3", "m4")
	require.Equal(r, rig.To("a"), rig.Leased(got[3]))
	require.Equal(r, int64(4), r.Stats().Counts[e.status])
	require.Equal(r, r.Now, r.Inspect(rig.Named(rig.EpOne, "m1")).Ended)
	r.MustChangeNothing(func() { require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry("m1", rig.To(rig.EpOne)))[0].Result) })
}

func endsWhatIsDue(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Schedule(r.Entry("m1", rig.To(rig.EpOne), rig.Delay(time.Minute)), r.Entry("m2", rig.To(rig.EpOne, "a"), rig.Delay(time.Minute)))
	end(r, e)
	r.Pass(time.Minute)
	r.Move()
	mustEnd(r, e, 0, "m1", "m2")
	r.MustClaim(rig.One, rig.Named("a", "m2"))
	require.Empty(r, r.State().Ready[rig.EpOne])
}

func endsRungs(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Publish(rig.EpOne, "m1")
	r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))[0], time.Minute))
	end(r, e)
	r.Pass(time.Minute)
	r.Move()
	mustEnd(r, e, 1, "m1")
}

func endsReady(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Publish(rig.EpOne, "m1", "m2")
	w := r.Watch(rig.Two)
	before, hints, err := r.Queue.Limit(r.Ctx, rig.One, rig.EpOne, r.NewLimits(rig.EpOne, rig.Mode(e.mode)), false)
	require.NoError(r, err)
	require.Equal(r, dispatcher.LaneCount{Waiting: 2}, before)
	require.False(r, hints[0].Due.IsZero() || hints[0].Due.After(r.Now), "a move is due now")
	require.Equal(r, -1, hints[0].Weight)
	require.False(r, w.Next().Due.After(r.Now), "the next move ends the rest, also after a crash")
	r.MustClaimNothing(rig.One)
	_, got, err := r.Queue.Move(r.Ctx, rig.Two, r.All())
	require.NoError(r, err)
	require.Zero(r, got[0].Due)
	mustEnd(r, e, 0, "m1", "m2")
	require.Equal(r, int64(2), r.Stats().Counts[e.status])
	if e.reason != "" {
		require.Equal(r, int64(2), r.Stats().Dead[e.reason])
	}
}

func endsLongLists(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.PublishMany(rig.EpOne, 300)
	end(r, e)
	for _, left := range []int{172, 44, 0} {
		h := r.Move()
		require.Len(r, r.State().Ready[rig.EpOne], left)
		require.Equal(r, left == 0, h.Due.IsZero())
	}
	require.Equal(r, int64(300), r.Stats().Counts[e.status])
}

func endsFlights(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	for range 3 {
		r.Succeed(rig.EpOne)
	}
	for range 2 {
		r.Succeed(rig.EpOne)
	}
	r.Publish(rig.EpOne, "m1", "m2", "m3", "m4", "m5", "m6", "m7")
	c := r.Claim(rig.One, 7)
	r.Cancel(c[5].ID, c[6].ID)
	end(r, e)
	r.MustStand(c[0].ID, dispatcher.StatusInFlight)
	got := r.Settle(rig.One, rig.Success(c[0]), rig.Failure(c[1], time.Minute), rig.Silence(c[2], 0),
		rig.Death(c[3], dispatcher.ReasonGone), rig.HandBack(c[4]), rig.Failure(c[5], time.Minute), rig.HandBack(c[6]))
	require.Equal(r, []dispatcher.SettleResult{
		dispatcher.SettledOK, dispatcher.SettledEnd, dispatcher.SettledEnd, dispatcher.SettledOK, dispatcher.SettledEnd,
		dispatcher.SettledEnd, dispatcher.SettledEnd,
	}, got)
	r.MustLie(stored.PlaceCancelled, rig.EpOne, "m6", "m7")
	r.MustStand(c[0].ID, dispatcher.StatusDelivered)
	mustEnd(r, e, 1, "m2", "m3")
	require.Equal(r, dispatcher.ReasonGone, r.MustStand(c[3].ID, dispatcher.StatusDead).Reason)
	mustEnd(r, e, 0, "m5")
	require.Zero(r, r.State().Lanes[rig.EpOne].Waiting)
}

func endsTakeovers(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Publish(rig.EpOne, "m1", "m2")
	c := r.Claim(rig.One, 2)
	r.Cancel(c[1].ID)
	end(r, e)
	require.Equal(r, 2, r.Reap(rig.One))
	mustEnd(r, e, 0, "m1")
	r.MustStand(c[1].ID, dispatcher.StatusCancelled)
	require.Empty(r, r.State().Ready[rig.EpOne])

	r.Limit(rig.EpOne)
	r.Publish(rig.EpOne, "m3")
	for _, victim := range []string{"victim1", "victim2", "victim3"} {
		c := r.MustClaim(victim, rig.Named(rig.EpOne, "m3"))[0]
		if victim == "victim3" {
			r.MustBegin(victim, c)
			end(r, e)
		}
		r.Reap(victim)
	}
	require.Equal(r, dispatcher.ReasonPoison, r.MustStand(rig.Named(rig.EpOne, "m3"), dispatcher.StatusDead).Reason)
}

func endsMarked(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	late := r.TakeOver(rig.EpOne, "m1")
	r.Publish(rig.EpOne, "m2", "m3")
	r.Cancel(rig.Named(rig.EpOne, "m2"))
	r.Settle(rig.One, rig.Success(late))
	end(r, e)
	r.Move()
	r.MustLie(stored.PlaceDone, rig.EpOne, "m1")
	r.MustLie(stored.PlaceCancelled, rig.EpOne, "m2")
	mustEnd(r, e, 0, "m3")
	require.Empty(r, r.State().Marks)
}

func dropsLost(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Publish(rig.EpOne, "m1")
	r.PublishKeyed(rig.EpOne, "k", "m3", "m4", "m5")
	end(r, e)
	for _, lost := range []string{"m1", "m4"} {
		r.Lose(lost)
	}
	r.Move()
	mustEnd(r, e, 0, "m3", "m5")
	require.Len(r, r.State().Found, 2)

	r.Limit(rig.EpOne)
	r.Schedule(r.Entry("d1", rig.To(rig.EpOne), rig.Delay(time.Minute)), r.Entry("d2", rig.To(rig.EpOne), rig.Delay(time.Hour)))
	end(r, e)
	r.Lose("d1")
	r.Lose("d2")
	r.Pass(time.Minute)
	r.Move()
	sweep(r, rig.EpOne)
	require.Len(r, r.State().Found, 2)
	require.Zero(r, r.State().Lanes[rig.EpOne].Waiting)
}

func refusesRetries(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Schedule(r.Entry("m1", rig.To(rig.EpOne), rig.Delay(time.Hour)))
	r.Publish(rig.EpOne, "m2", "m3")
	r.MustClaim(rig.One, rig.Named(rig.EpOne, "m2"))
	r.PublishKeyed(rig.EpOne, "k", "m4", "m5")
	r.MustSettle(rig.One, rig.Death(r.MustClaim(rig.One, rig.Named(rig.EpOne, "m3"))[0], dispatcher.ReasonGone))
	end(r, e)
	r.Schedule(r.Entry("m6", rig.To(rig.EpOne)))
	r.MustChangeNothing(func() {
		for _, c := range r.Change(r.Resend, rig.IDs(rig.EpOne, "m1", "m2", "m3", "m4", "m5", "m6")...) {
			require.False(r, c.Changed, "%s", c.ID)
			require.ErrorIs(r, c.Err, e.err, "%s", c.ID)
		}
		require.ErrorIs(r, r.Change(r.Resend, rig.Named(rig.EpOne, "never"))[0].Err, dispatcher.ErrNotFound)
	})
}

func cancelsInEndingLane(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Schedule(r.Entry("m1", rig.To(rig.EpOne), rig.Delay(time.Hour)))
	r.Publish(rig.EpOne, "m2")
	r.PublishKeyed(rig.EpOne, "k", "m3", "m4")
	end(r, e)
	require.Equal(r, []bool{true, true, true}, r.Cancel(rig.IDs(rig.EpOne, "m1", "m2", "m4")...))
	r.Move()
	for _, id := range rig.IDs(rig.EpOne, "m1", "m2", "m4") {
		r.MustStand(id, dispatcher.StatusCancelled)
	}
	mustEnd(r, e, 0, "m3")
}

func endsSets(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Schedule(r.Entry("m1", rig.To(rig.EpOne), rig.Keyed("k"), rig.Delay(time.Minute)))
	r.PublishKeyed(rig.EpOne, "k", "m2", "m3", "m4")
	r.PublishKeyed(rig.EpOne, "other", "n1", "n2")
	end(r, e)
	r.Move()
	mustEnd(r, e, 0, "n1", "n2")
	r.MustLie(stored.PlaceBehind, rig.EpOne, "m2", "m3", "m4")
	r.Pass(time.Minute)
	r.Move()
	mustEnd(r, e, 0, "m1", "m2", "m3", "m4")
	require.Empty(r, r.State().Behind)
	require.Equal(r, int64(6), r.Stats().Counts[e.status])
}

func endsLongSets(r *rig.Rig, e ending) {
	const n = 200
	r.Limit(rig.EpOne)
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		batch[i] = r.Entry(fmt.Sprintf("m%03d", i), rig.To(rig.EpOne), rig.Keyed("k"))
	}
	r.Schedule(batch...)
	end(r, e)
	for calls := 1; !r.Move().Due.IsZero(); calls++ {
		require.Less(r, calls, n, "more deliveries end")
		r.MustBeSound()
		r.Pass(time.Millisecond)
	}
	require.Equal(r, int64(n), r.Stats().Counts[e.status])
	require.Empty(r, r.State().Behind)
}

func endsBehindFlights(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.PublishKeyed(rig.EpOne, "k", "m1", "m2", "m3")
	c := r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))[0]
	end(r, e)
	r.Move()
	r.MustLie(stored.PlaceBehind, rig.EpOne, "m2", "m3")
	r.MustSettle(rig.One, rig.Success(c))
	r.MustStand(c.ID, dispatcher.StatusDelivered)
	mustEnd(r, e, 0, "m2", "m3")
}

func weighsNothing(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.PublishMany(rig.EpOne, 3)
	end(r, e)
	require.Equal(r, -1, r.Move().Weight)
	_, hints, err := r.Queue.Schedule(r.Ctx, rig.One, 512, 64, []dispatcher.Entry{r.Entry("m1", rig.To(rig.EpOne))})
	require.NoError(r, err)
	require.Equal(r, -1, hints[0].Weight)
	state := r.LaneState(rig.EpOne)
	require.Equal(r, dispatcher.StateDisabled, state.State())
}

func endsOrderedLane(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne, rig.Ordered)
	r.Publish(rig.EpOne, "m1", "m2", "m3")
	r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))[0], time.Hour))
	r.Limit(rig.EpOne, rig.Ordered, rig.Mode(e.mode))
	sweep(r, rig.EpOne)
	r.Move()
	mustEnd(r, e, 1, "m1")
	mustEnd(r, e, 0, "m2", "m3")
	require.Empty(r, r.State().Behind)
}
