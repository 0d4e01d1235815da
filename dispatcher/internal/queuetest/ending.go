package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// ending is a way to end a lane, and the effect on its deliveries.
type ending struct {
	name   string
	held   dispatcher.Held
	place  Place
	status dispatcher.Status
	reason dispatcher.DeadReason
	err    error  // the error of a retry
	told   string // the verdict in the stream
}

var (
	disabled = ending{"disabled", dispatcher.HeldDisabled, PlaceDead, dispatcher.StatusDead, dispatcher.ReasonDisabled, dispatcher.ErrDisabled, "dead disabled"}
	deleted  = ending{"deleted", dispatcher.HeldDeleted, PlaceCancelled, dispatcher.StatusCancelled, "", dispatcher.ErrDeleted, "cancelled -"}
)

// endingCases are about lanes of disabled and of deleted endpoints. Each rule
// holds for both.
var endingCases = func() []testCase {
	var cases []testCase
	for _, e := range []ending{disabled, deleted} {
		for _, c := range []struct {
			name string
			run  func(r *rig, e ending)
		}{
			{"what comes ends at once", endsWhatComes},
			{"what is due ends when its time comes", endsWhatIsDue},
			{"what waits for its rung keeps its history", endsRungs},
			{"the ready list is ended by whoever moves", endsReady},
			{"a long ready list is ended in batches", endsLongLists},
			{"what is in flight ends with its attempt", endsFlights},
			{"what a dead instance held ends", endsTakeovers},
			{"marks are carried out first", endsMarked},
			{"what was lost is dropped", dropsLost},
			{"nothing is retried, and nothing changes", refusesRetries},
			{"what waits can be cancelled", cancelsInEndingLane},
			{"a set ends to its last", endsSets},
			{"a set longer than one script ends is ended by the mover", endsLongSets},
			{"those behind one in flight end after it", endsBehindFlights},
			{"a sweep ends what waits for a time", sweeps},
			{"a sweep goes through long lists and leaves other lanes alone", sweepsPages},
			{"it weighs nothing and is no work to claim", weighsNothing},
			{"an ordered lane ends whole", endsOrderedLane},
		} {
			cases = append(cases, testCase{
				name: e.name + ": " + c.name, run: func(r *rig) { c.run(r, e) },
			})
		}
	}
	return append(cases, enablingCases...)
}()

// end disables or deletes the endpoint.
func (r *rig) end(e ending) dispatcher.LaneCount {
	r.Helper()
	return r.limit(epOne, held(e.held))
}

// mustEnd fails the case unless these deliveries have ended as the lane did,
// after so many attempts.
func (r *rig) mustEnd(e ending, attempts int, messages ...string) {
	r.Helper()
	r.mustLie(e.place, epOne, messages...)
	told := r.State().Told
	for _, id := range ids(epOne, messages...) {
		d := r.mustStand(id, e.status)
		require.Equal(r, e.reason, d.Reason, "%s", id)
		require.Equal(r, attempts, d.Attempts, "%s", id)
		require.Len(r, d.History, attempts, "%s", id)
		require.False(r, d.Ended.IsZero(), "%s", id)
		require.Empty(r, d.WaitingFor, "%s", id)
		require.Equal(r, []string{e.told}, told[id], "%s", id)
	}
}

func endsWhatComes(r *rig, e ending) {
	r.end(e)
	got := r.scheduleFor(one, 512, 64, r.entry("m1", to(epOne)), r.entry("m2", to(epOne), delay(time.Hour)),
		r.entry("m3", to(epOne), keyed("k")), fan(r.entry("m4", to(epOne, "a"))))
	for _, s := range got {
		require.Equal(r, dispatcher.Accepted, s.Result)
		require.Equal(r, r.now, s.Ended)
		require.NotContains(r, append(append(s.Ready, s.Leased...), s.Behind...), epOne)
		if e.held == dispatcher.HeldDeleted {
			require.Equal(r, to(epOne), s.Cancelled)
			require.Empty(r, s.Dead)
		} else {
			require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{epOne: dispatcher.ReasonDisabled}, s.Dead)
			require.Empty(r, s.Cancelled)
		}
	}
	r.mustEnd(e, 0, "m1", "m2", "m3", "m4")
	require.Equal(r, to("a"), got[3].Leased)
	require.Equal(r, int64(4), r.stats().Counts[e.status])
	require.Equal(r, r.now, r.look(named(epOne, "m1")).Ended)
	r.mustChangeNothing(func() { require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry("m1", to(epOne)))[0].Result) })
}

func endsWhatIsDue(r *rig, e ending) {
	r.limit(epOne)
	r.schedule(r.entry("m1", to(epOne), delay(time.Minute)), r.entry("m2", to(epOne, "a"), delay(time.Minute)))
	r.end(e)
	r.pass(time.Minute)
	r.move()
	r.mustEnd(e, 0, "m1", "m2")
	r.mustClaim(one, named("a", "m2"))
	require.Empty(r, r.State().Ready[epOne])
}

func endsRungs(r *rig, e ending) {
	r.limit(epOne)
	r.publish(epOne, "m1")
	r.mustSettle(one, failure(r.mustClaim(one, named(epOne, "m1"))[0], time.Minute))
	r.end(e)
	r.pass(time.Minute)
	r.move()
	r.mustEnd(e, 1, "m1")
}

func endsReady(r *rig, e ending) {
	r.limit(epOne)
	r.publish(epOne, "m1", "m2")
	w := r.watch(two)
	before, hints, err := r.Queue.Limit(r.ctx, one, epOne, r.newLimits(epOne, held(e.held)), false)
	require.NoError(r, err)
	require.Equal(r, dispatcher.LaneCount{Waiting: 2}, before)
	require.False(r, hints[0].Due.IsZero() || hints[0].Due.After(r.now), "there is something to move now")
	require.Equal(r, -1, hints[0].Weight)
	require.False(r, w.next().Due.After(r.now), "whoever crashes")
	r.mustClaimNothing(one)
	got, err := r.Queue.Move(r.ctx, two, r.all())
	require.NoError(r, err)
	require.Zero(r, got[0].Due)
	r.mustEnd(e, 0, "m1", "m2")
	require.Equal(r, int64(2), r.stats().Counts[e.status])
	if e.reason != "" {
		require.Equal(r, int64(2), r.stats().Dead[e.reason])
	}
}

func endsLongLists(r *rig, e ending) {
	r.limit(epOne)
	r.publishMany(epOne, 300)
	r.end(e)
	for _, left := range []int{172, 44, 0} {
		h := r.move()
		require.Len(r, r.State().Ready[epOne], left)
		require.Equal(r, left == 0, h.Due.IsZero())
	}
	require.Equal(r, int64(300), r.stats().Counts[e.status])
}

func endsFlights(r *rig, e ending) {
	r.limit(epOne)
	for range 3 {
		r.succeed(epOne)
	}
	for range 2 {
		r.succeed(epOne)
	}
	r.publish(epOne, "m1", "m2", "m3", "m4", "m5", "m6", "m7")
	c := r.claim(one, 7)
	r.cancel(c[5].ID, c[6].ID)
	r.end(e)
	r.mustStand(c[0].ID, dispatcher.StatusInFlight)
	got := r.settle(one, success(c[0]), failure(c[1], time.Minute), silence(c[2], 0),
		death(c[3], dispatcher.ReasonGone), handBack(c[4]), failure(c[5], time.Minute), handBack(c[6]))
	require.Equal(r, []dispatcher.Settled{
		dispatcher.SettledOK, dispatcher.SettledEnd, dispatcher.SettledEnd, dispatcher.SettledOK, dispatcher.SettledEnd,
		dispatcher.SettledEnd, dispatcher.SettledEnd,
	}, got)
	r.mustLie(PlaceCancelled, epOne, "m6", "m7")
	r.mustStand(c[0].ID, dispatcher.StatusDelivered)
	r.mustEnd(e, 1, "m2", "m3")
	require.Equal(r, dispatcher.ReasonGone, r.mustStand(c[3].ID, dispatcher.StatusDead).Reason)
	r.mustEnd(e, 0, "m5")
	require.Zero(r, r.State().Lanes[epOne].Waiting)
}

func endsTakeovers(r *rig, e ending) {
	r.limit(epOne)
	r.publish(epOne, "m1", "m2")
	c := r.claim(one, 2)
	r.cancel(c[1].ID)
	r.end(e)
	require.Equal(r, 2, r.reap(one))
	r.mustEnd(e, 0, "m1")
	r.mustStand(c[1].ID, dispatcher.StatusCancelled)
	require.Empty(r, r.State().Ready[epOne])

	r.limit(epOne)
	r.publish(epOne, "m3")
	for _, victim := range []string{"victim1", "victim2", "victim3"} {
		r.mustClaim(victim, named(epOne, "m3"))
		if victim == "victim3" {
			r.end(e)
		}
		r.reap(victim)
	}
	require.Equal(r, dispatcher.ReasonPoison, r.mustStand(named(epOne, "m3"), dispatcher.StatusDead).Reason)
}

func endsMarked(r *rig, e ending) {
	r.limit(epOne)
	late := r.takeOver(epOne, "m1")
	r.publish(epOne, "m2", "m3")
	r.cancel(named(epOne, "m2"))
	r.settle(one, success(late))
	r.end(e)
	r.move()
	r.mustLie(PlaceDone, epOne, "m1")
	r.mustLie(PlaceCancelled, epOne, "m2")
	r.mustEnd(e, 0, "m3")
	require.Empty(r, r.State().Marks)
}

func dropsLost(r *rig, e ending) {
	r.limit(epOne)
	r.publish(epOne, "m1", "m2")
	r.publishKeyed(epOne, "k", "m3", "m4", "m5")
	r.cancel(named(epOne, "m2"))
	r.end(e)
	for _, lost := range []string{"m1", "m2", "m4"} {
		r.Lose(lost)
	}
	r.move()
	r.mustEnd(e, 0, "m3", "m5")
	require.Len(r, r.State().Found, 2)

	r.limit(epOne)
	r.schedule(r.entry("d1", to(epOne), delay(time.Minute)), r.entry("d2", to(epOne), delay(time.Hour)))
	r.end(e)
	r.Lose("d1")
	r.Lose("d2")
	r.pass(time.Minute)
	r.move()
	r.sweep(epOne)
	require.Len(r, r.State().Found, 2)
	require.Zero(r, r.State().Lanes[epOne].Waiting)
}

func refusesRetries(r *rig, e ending) {
	r.limit(epOne)
	r.schedule(r.entry("m1", to(epOne), delay(time.Hour)))
	r.publish(epOne, "m2", "m3")
	r.mustClaim(one, named(epOne, "m2"))
	r.publishKeyed(epOne, "k", "m4", "m5")
	r.mustSettle(one, death(r.mustClaim(one, named(epOne, "m3"))[0], dispatcher.ReasonGone))
	r.end(e)
	r.schedule(r.entry("m6", to(epOne)))
	r.mustChangeNothing(func() {
		for _, c := range r.change(r.resend, ids(epOne, "m1", "m2", "m3", "m4", "m5", "m6")...) {
			require.False(r, c.Changed, "%s", c.ID)
			require.ErrorIs(r, c.Err, e.err, "%s", c.ID)
		}
		require.ErrorIs(r, r.change(r.resend, named(epOne, "never"))[0].Err, dispatcher.ErrNotFound)
	})
}

func cancelsInEndingLane(r *rig, e ending) {
	r.limit(epOne)
	r.schedule(r.entry("m1", to(epOne), delay(time.Hour)))
	r.publish(epOne, "m2")
	r.publishKeyed(epOne, "k", "m3", "m4")
	r.end(e)
	require.Equal(r, []bool{true, true, true}, r.cancel(ids(epOne, "m1", "m2", "m4")...))
	r.move()
	for _, id := range ids(epOne, "m1", "m2", "m4") {
		r.mustStand(id, dispatcher.StatusCancelled)
	}
	r.mustEnd(e, 0, "m3")
}

func endsSets(r *rig, e ending) {
	r.limit(epOne)
	r.schedule(r.entry("m1", to(epOne), keyed("k"), delay(time.Minute)))
	r.publishKeyed(epOne, "k", "m2", "m3", "m4")
	r.publishKeyed(epOne, "other", "n1", "n2")
	r.end(e)
	r.move()
	r.mustEnd(e, 0, "n1", "n2")
	r.mustLie(PlaceBehind, epOne, "m2", "m3", "m4")
	r.pass(time.Minute)
	r.move()
	r.mustEnd(e, 0, "m1", "m2", "m3", "m4")
	require.Empty(r, r.State().Behind)
	require.Equal(r, int64(6), r.stats().Counts[e.status])
}

func endsLongSets(r *rig, e ending) {
	const n = 200
	r.limit(epOne)
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		batch[i] = r.entry(fmt.Sprintf("m%03d", i), to(epOne), keyed("k"))
	}
	r.schedule(batch...)
	r.end(e)
	for calls := 1; !r.move().Due.IsZero(); calls++ {
		require.Less(r, calls, n, "it goes on ending")
		r.mustBeSound()
		r.pass(time.Millisecond)
	}
	require.Equal(r, int64(n), r.stats().Counts[e.status])
	require.Empty(r, r.State().Behind)
}

func endsBehindFlights(r *rig, e ending) {
	r.limit(epOne)
	r.publishKeyed(epOne, "k", "m1", "m2", "m3")
	c := r.mustClaim(one, named(epOne, "m1"))[0]
	r.end(e)
	r.move()
	r.mustLie(PlaceBehind, epOne, "m2", "m3")
	r.mustSettle(one, success(c))
	r.mustStand(c.ID, dispatcher.StatusDelivered)
	r.mustEnd(e, 0, "m2", "m3")
}

func weighsNothing(r *rig, e ending) {
	r.limit(epOne)
	r.publishMany(epOne, 3)
	r.end(e)
	require.Equal(r, -1, r.move().Weight)
	_, hints, err := r.Queue.Schedule(r.ctx, one, 512, 64, []dispatcher.Entry{r.entry("m1", to(epOne))})
	require.NoError(r, err)
	require.Equal(r, -1, hints[0].Weight)
	state := r.laneState(epOne)
	require.Equal(r, dispatcher.StateDisabled, state.State())
}

func endsOrderedLane(r *rig, e ending) {
	r.limit(epOne, ordered)
	r.publish(epOne, "m1", "m2", "m3")
	r.mustSettle(one, failure(r.mustClaim(one, named(epOne, "m1"))[0], time.Hour))
	r.limit(epOne, ordered, held(e.held))
	r.sweep(epOne)
	r.move()
	r.mustEnd(e, 1, "m1")
	r.mustEnd(e, 0, "m2", "m3")
	require.Empty(r, r.State().Behind)
}
