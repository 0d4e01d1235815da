package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ending is a way to end a lane, and the effect on its deliveries.
type ending struct {
	name     string
	mode     dispatcher.LaneMode
	place    redisqtest.Place
	status   dispatcher.Status
	reason   dispatcher.DeadReason
	err      error  // the error that a retry returns
	reported string // the verdict in the stream
}

var (
	disabled = ending{"disabled", dispatcher.LaneDisabled, redisqtest.PlaceDead, dispatcher.StatusDead, dispatcher.ReasonDisabled, dispatcher.ErrDisabled, "dead disabled"}
	deleted  = ending{"deleted", dispatcher.LaneDeleted, redisqtest.PlaceCancelled, dispatcher.StatusCancelled, "", dispatcher.ErrDeleted, "cancelled -"}
)

// EndingCases are about lanes of disabled and of deleted endpoints. Each rule
// holds for both.
var EndingCases = func() []redisqtest.Case {
	var cases []redisqtest.Case
	for _, e := range []ending{disabled, deleted} {
		for _, c := range []struct {
			name string
			run  func(r *redisqtest.Rig, e ending)
		}{
			{"a new delivery ends at once", endsWhatComes},
			{"a scheduled delivery ends when it is due", endsWhatIsDue},
			{"a delivery that waits for a retry keeps its history", endsRungs},
			{"any mover ends the ready list", endsReady},
			{"a long ready list is ended in batches", endsLongLists},
			{"a delivery in flight ends with its attempt", endsFlights},
			{"a delivery that is handed back to wait alone ends with its last status", endsWaitsAlone},
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
			cases = append(cases, redisqtest.Case{
				Name: e.name + ": " + c.name, Run: func(r *redisqtest.Rig) { c.run(r, e) },
			})
		}
	}
	return append(cases, enablingCases...)
}()

// end disables or deletes the endpoint.
func end(r *redisqtest.Rig, e ending) dispatcher.LaneCount {
	r.Helper()
	return r.Limit(redisqtest.EpOne, redisqtest.Mode(e.mode))
}

// mustEndIn fails the case unless these deliveries have ended as the lane did,
// after this number of attempts.
func mustEndIn(r *redisqtest.Rig, e ending, attempts int, messages ...string) {
	r.Helper()
	r.MustLie(e.place, redisqtest.EpOne, messages...)
	reported := r.State().Reported
	for _, id := range redisqtest.IDs(redisqtest.EpOne, messages...) {
		d := r.MustStand(id, e.status)
		require.Equal(r, e.reason, d.Reason, "%s", id)
		require.Equal(r, attempts, d.Attempts, "%s", id)
		require.Len(r, d.History, attempts, "%s", id)
		require.False(r, d.Ended.IsZero(), "%s", id)
		require.Empty(r, d.WaitingFor, "%s", id)
		require.Equal(r, []string{e.reported}, reported[id], "%s", id)
	}
}

func endsWhatComes(r *redisqtest.Rig, e ending) {
	end(r, e)
	got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To(redisqtest.EpOne)), r.Entry("m2", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)),
		r.Entry("m3", redisqtest.To(redisqtest.EpOne), redisqtest.Keyed("k")), redisqtest.Fan(r.Entry("m4", redisqtest.To(redisqtest.EpOne, "a"))))
	for _, s := range got {
		require.Equal(r, dispatcher.Accepted, s.Result)
		require.Equal(r, r.Now, s.Placed[0].At)
		require.NotContains(r, append(append(redisqtest.Ready(s), redisqtest.Leased(s)...), redisqtest.Behind(s)...), redisqtest.EpOne)
		if e.mode == dispatcher.LaneDeleted {
			require.Equal(r, redisqtest.To(redisqtest.EpOne), redisqtest.Cancelled(s))
			require.Empty(r, redisqtest.Dead(s))
		} else {
			require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{redisqtest.EpOne: dispatcher.ReasonDisabled}, redisqtest.Dead(s))
			require.Empty(r, redisqtest.Cancelled(s))
		}
	}
	mustEndIn(r, e, 0, "m1", "m2", "m3", "m4")
	require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[3]))
	require.Equal(r, int64(4), r.Stats().Counts[e.status])
	require.Equal(r, r.Now, r.Inspect(redisqtest.Named(redisqtest.EpOne, "m1")).Ended)
	r.MustChangeNothing(func() {
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne)))[0].Result)
	})
}

func endsWhatIsDue(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Minute)), r.Entry("m2", redisqtest.To(redisqtest.EpOne, "a"), redisqtest.Delay(time.Minute)))
	end(r, e)
	r.Pass(time.Minute)
	r.Move()
	mustEndIn(r, e, 0, "m1", "m2")
	r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	require.Empty(r, r.State().Ready[redisqtest.EpOne])
}

func endsRungs(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Publish(redisqtest.EpOne, "m1")
	r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0], time.Minute))
	end(r, e)
	r.Pass(time.Minute)
	r.Move()
	mustEndIn(r, e, 1, "m1")
}

func endsReady(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Publish(redisqtest.EpOne, "m1", "m2")
	w := r.Watch(redisqtest.Two)
	before, hints, err := r.Queue.Limit(r.Ctx, redisqtest.One, redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Mode(e.mode)), false)
	require.NoError(r, err)
	require.Equal(r, dispatcher.LaneCount{Waiting: 2}, before)
	require.False(r, hints[0].Due.IsZero() || hints[0].Due.After(r.Now), "a move is due now")
	require.Equal(r, -1, hints[0].Weight)
	require.False(r, w.Next().Due.After(r.Now), "the next move ends the rest, also after a crash")
	r.MustClaimNothing(redisqtest.One)
	_, got, err := r.Queue.Move(r.Ctx, redisqtest.Two, r.All())
	require.NoError(r, err)
	require.Zero(r, got[0].Due)
	mustEndIn(r, e, 0, "m1", "m2")
	require.Equal(r, int64(2), r.Stats().Counts[e.status])
	if e.reason != "" {
		require.Equal(r, int64(2), r.Stats().Dead[e.reason])
	}
}

func endsLongLists(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.PublishMany(redisqtest.EpOne, 300)
	end(r, e)
	for _, left := range []int{172, 44, 0} {
		h := r.Move()
		require.Len(r, r.State().Ready[redisqtest.EpOne], left)
		require.Equal(r, left == 0, h.Due.IsZero())
	}
	require.Equal(r, int64(300), r.Stats().Counts[e.status])
}

func endsFlights(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	for range 3 {
		r.Succeed(redisqtest.EpOne)
	}
	for range 2 {
		r.Succeed(redisqtest.EpOne)
	}
	r.Publish(redisqtest.EpOne, "m1", "m2", "m3", "m4", "m5", "m6", "m7")
	c := r.Claim(redisqtest.One, 7)
	r.Cancel(c[5].ID, c[6].ID)
	end(r, e)
	r.MustStand(c[0].ID, dispatcher.StatusInFlight)
	got := r.Settle(redisqtest.One, redisqtest.Success(c[0]), redisqtest.Failure(c[1], time.Minute), redisqtest.Silence(c[2], 0),
		redisqtest.Death(c[3], dispatcher.ReasonGone), redisqtest.HandBack(c[4]), redisqtest.Failure(c[5], time.Minute), redisqtest.HandBack(c[6]))
	require.Equal(r, []dispatcher.SettleResult{
		dispatcher.SettledOK, dispatcher.SettledEnd, dispatcher.SettledEnd, dispatcher.SettledOK, dispatcher.SettledEnd,
		dispatcher.SettledEnd, dispatcher.SettledEnd,
	}, got)
	r.MustLie(redisqtest.PlaceCancelled, redisqtest.EpOne, "m6", "m7")
	r.MustStand(c[0].ID, dispatcher.StatusDelivered)
	mustEndIn(r, e, 1, "m2", "m3")
	require.Equal(r, dispatcher.ReasonGone, r.MustStand(c[3].ID, dispatcher.StatusDead).Reason)
	mustEndIn(r, e, 0, "m5")
	require.Zero(r, r.State().Lanes[redisqtest.EpOne].Waiting)
}

func endsWaitsAlone(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Publish(redisqtest.EpOne, "m1")
	m1 := redisqtest.Named(redisqtest.EpOne, "m1")
	r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, m1)[0], time.Minute))
	r.Pass(time.Minute)
	r.Move()
	alone := redisqtest.HandBack(r.MustClaim(redisqtest.One, m1)[0])
	alone.Wait = time.Second
	end(r, e)
	require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, alone))
	mustEndIn(r, e, 1, "m1")
	require.Equal(r, 500, r.Inspect(m1).LastStatus)
}

func endsTakeovers(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Publish(redisqtest.EpOne, "m1", "m2")
	c := r.Claim(redisqtest.One, 2)
	r.Cancel(c[1].ID)
	end(r, e)
	require.Equal(r, 2, r.Reap(redisqtest.One))
	mustEndIn(r, e, 0, "m1")
	r.MustStand(c[1].ID, dispatcher.StatusCancelled)
	require.Empty(r, r.State().Ready[redisqtest.EpOne])

	r.Limit(redisqtest.EpOne)
	r.Publish(redisqtest.EpOne, "m3")
	for _, victim := range []string{"victim1", "victim2", "victim3"} {
		c := r.MustClaim(victim, redisqtest.Named(redisqtest.EpOne, "m3"))[0]
		if victim == "victim3" {
			r.MustBegin(victim, c)
			end(r, e)
		}
		r.Reap(victim)
	}
	require.Equal(r, dispatcher.ReasonPoison, r.MustStand(redisqtest.Named(redisqtest.EpOne, "m3"), dispatcher.StatusDead).Reason)
}

func endsMarked(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	late := r.TakeOver(redisqtest.EpOne, "m1")
	r.Publish(redisqtest.EpOne, "m2", "m3")
	r.Cancel(redisqtest.Named(redisqtest.EpOne, "m2"))
	r.Settle(redisqtest.One, redisqtest.Success(late))
	end(r, e)
	r.Move()
	r.MustLie(redisqtest.PlaceDone, redisqtest.EpOne, "m1")
	r.MustLie(redisqtest.PlaceCancelled, redisqtest.EpOne, "m2")
	mustEndIn(r, e, 0, "m3")
	require.Empty(r, r.State().Marks)
}

func dropsLost(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Publish(redisqtest.EpOne, "m1")
	r.PublishKeyed(redisqtest.EpOne, "k", "m3", "m4", "m5")
	end(r, e)
	for _, lost := range []string{"m1", "m4"} {
		r.Lose(lost)
	}
	r.Move()
	mustEndIn(r, e, 0, "m3", "m5")
	require.Len(r, r.State().Found, 2)

	r.Limit(redisqtest.EpOne)
	r.Schedule(r.Entry("d1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Minute)), r.Entry("d2", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)))
	end(r, e)
	r.Lose("d1")
	r.Lose("d2")
	r.Pass(time.Minute)
	r.Move()
	sweep(r, redisqtest.EpOne)
	require.Len(r, r.State().Found, 2)
	require.Zero(r, r.State().Lanes[redisqtest.EpOne].Waiting)
}

func refusesRetries(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)))
	r.Publish(redisqtest.EpOne, "m2", "m3")
	r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m2"))
	r.PublishKeyed(redisqtest.EpOne, "k", "m4", "m5")
	r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m3"))[0], dispatcher.ReasonGone))
	end(r, e)
	r.Schedule(r.Entry("m6", redisqtest.To(redisqtest.EpOne)))
	r.MustChangeNothing(func() {
		for _, c := range r.Change(r.Resend, redisqtest.IDs(redisqtest.EpOne, "m1", "m2", "m3", "m4", "m5", "m6")...) {
			require.False(r, c.Changed, "%s", c.ID)
			require.ErrorIs(r, c.Err, e.err, "%s", c.ID)
		}
		require.ErrorIs(r, r.Change(r.Resend, redisqtest.Named(redisqtest.EpOne, "never"))[0].Err, dispatcher.ErrNotFound)
	})
}

func cancelsInEndingLane(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)))
	r.Publish(redisqtest.EpOne, "m2")
	r.PublishKeyed(redisqtest.EpOne, "k", "m3", "m4")
	end(r, e)
	require.Equal(r, []bool{true, true, true}, r.Cancel(redisqtest.IDs(redisqtest.EpOne, "m1", "m2", "m4")...))
	r.Move()
	for _, id := range redisqtest.IDs(redisqtest.EpOne, "m1", "m2", "m4") {
		r.MustStand(id, dispatcher.StatusCancelled)
	}
	mustEndIn(r, e, 0, "m3")
}

func endsSets(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Keyed("k"), redisqtest.Delay(time.Minute)))
	r.PublishKeyed(redisqtest.EpOne, "k", "m2", "m3", "m4")
	r.PublishKeyed(redisqtest.EpOne, "other", "n1", "n2")
	end(r, e)
	r.Move()
	mustEndIn(r, e, 0, "n1", "n2")
	r.MustLie(redisqtest.PlaceBehind, redisqtest.EpOne, "m2", "m3", "m4")
	r.Pass(time.Minute)
	r.Move()
	mustEndIn(r, e, 0, "m1", "m2", "m3", "m4")
	require.Empty(r, r.State().Behind)
	require.Equal(r, int64(6), r.Stats().Counts[e.status])
}

func endsLongSets(r *redisqtest.Rig, e ending) {
	const n = 200
	r.Limit(redisqtest.EpOne)
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		batch[i] = r.Entry(fmt.Sprintf("m%03d", i), redisqtest.To(redisqtest.EpOne), redisqtest.Keyed("k"))
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

func endsBehindFlights(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.PublishKeyed(redisqtest.EpOne, "k", "m1", "m2", "m3")
	c := r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0]
	end(r, e)
	r.Move()
	r.MustLie(redisqtest.PlaceBehind, redisqtest.EpOne, "m2", "m3")
	r.MustSettle(redisqtest.One, redisqtest.Success(c))
	r.MustStand(c.ID, dispatcher.StatusDelivered)
	mustEndIn(r, e, 0, "m2", "m3")
}

func weighsNothing(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.PublishMany(redisqtest.EpOne, 3)
	end(r, e)
	require.Equal(r, -1, r.Move().Weight)
	_, hints, err := r.Queue.Schedule(r.Ctx, redisqtest.One, 512, 64, []dispatcher.Entry{r.Entry("m1", redisqtest.To(redisqtest.EpOne))})
	require.NoError(r, err)
	require.Equal(r, -1, hints[0].Weight)
	state := r.LaneState(redisqtest.EpOne)
	require.Equal(r, dispatcher.StateDisabled, state.State())
}

func endsOrderedLane(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne, redisqtest.Ordered)
	r.Publish(redisqtest.EpOne, "m1", "m2", "m3")
	r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0], time.Hour))
	r.Limit(redisqtest.EpOne, redisqtest.Ordered, redisqtest.Mode(e.mode))
	sweep(r, redisqtest.EpOne)
	r.Move()
	mustEndIn(r, e, 1, "m1")
	mustEndIn(r, e, 0, "m2", "m3")
	require.Empty(r, r.State().Behind)
}
