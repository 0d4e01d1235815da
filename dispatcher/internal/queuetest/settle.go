package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var settleCases = []testCase{
	{name: "a success ends it as delivered", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.pass(time.Second)
		r.mustSettle(one, success(c))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, start.Add(time.Second), d.Ended)
		require.Equal(r, 1, d.Attempts)
		require.Equal(r, 200, d.LastStatus)
		require.Empty(r, d.LastError)
		require.Zero(r, d.Due)
		require.Empty(r, d.History, "a first attempt that succeeded leaves none")
		require.Empty(r, r.leases(one))
	}},
	{name: "a success with another status is remembered as such", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, answered(r.mustClaim(one, named("a", "m1"))[0], dispatcher.Delivered, 204))
		require.Equal(r, 204, r.look(named("a", "m1")).LastStatus)
	}},
	{name: "a failure waits for its next rung", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.pass(300 * time.Millisecond)
		r.mustSettle(one, failure(c, 15*time.Second))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusRetrying)
		require.Equal(r, r.later(15*time.Second), d.Due)
		require.Zero(r, d.Ended)
		require.Equal(r, 1, d.Attempts)
		require.Equal(r, 500, d.LastStatus)
		require.Equal(r, "answered 500", d.LastError)
	}},
	{name: "the wait for a rung is never shortened by a fraction of a ms", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.pass(300 * time.Microsecond)
		r.mustSettle(one, failure(c, time.Second-100*time.Microsecond))
		require.Equal(r, start.Add(1001*time.Millisecond), r.look(named("a", "m1")).Due)
	}},
	{name: "a rung of no wait is due at once", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 0))
		r.move()
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "a death is final and says why", run: func(r *rig) {
		reasons := []dispatcher.DeadReason{dispatcher.ReasonGone, dispatcher.ReasonExhausted, dispatcher.ReasonRefused}
		for i, reason := range reasons {
			id := fmt.Sprintf("m%d", i)
			r.publish("a", id)
			r.mustSettle(one, death(r.mustClaim(one, named("a", id))[0], reason))
			d := r.mustStand(named("a", id), dispatcher.StatusDead)
			require.Equal(r, reason, d.Reason)
			require.Equal(r, r.now, d.Ended)
			require.Equal(r, 1, d.Attempts)
			require.Len(r, d.History, 1)
			require.Equal(r, int64(1), r.stats().Dead[reason])
		}
		r.pass(24 * time.Hour)
		r.move()
		r.mustClaimNothing(one)
	}},
	{name: "a death without an attempt counts none", run: func(r *rig) {
		r.publish("a", "m1")
		s := death(r.mustClaim(one, named("a", "m1"))[0], dispatcher.ReasonExpired)
		s.Attempt = dispatcher.Attempt{Class: dispatcher.ClassExpired}
		r.mustSettle(one, s)
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
	}},
	{name: "a delivery that is handed back is first again and has lost nothing", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3", "m4")
		r.pass(time.Second)
		claimed := r.claim(one, 64)
		require.Equal(r, ids("a", "m1", "m2"), claimedIDs(claimed))
		r.pass(time.Second)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledOK, dispatcher.SettledOK},
			r.settle(one, handBack(claimed[0]), handBack(claimed[1])))
		require.Equal(r, ids("a", "m1", "m2", "m3", "m4"), r.State().Ready["a"])
		claimed[0].Leased, claimed[1].Leased = r.now, r.now
		again := r.claim(two, 64)
		require.Equal(r, claimed, again)
	}},
	{name: "a batch is settled in its order, each in its own way", run: func(r *rig) {
		for _, lane := range []dispatcher.Lane{"a", "b", "c", "d"} {
			r.publish(lane, "m-"+string(lane))
		}
		c := map[dispatcher.Lane]dispatcher.Claimed{}
		for _, claimed := range r.claim(one, 64) {
			c[claimed.ID.Lane] = claimed
		}
		unknown := dispatcher.Claimed{ID: named("e", "never"), Attempt: 1}
		got := r.settle(one, failure(c["b"], time.Minute), success(unknown), success(c["a"]),
			handBack(c["d"]), death(c["c"], dispatcher.ReasonGone))
		require.Equal(r, []dispatcher.Settled{
			dispatcher.SettledOK, dispatcher.SettledLate, dispatcher.SettledOK, dispatcher.SettledOK, dispatcher.SettledOK,
		}, got)
		r.mustStand(named("a", "m-a"), dispatcher.StatusDelivered)
		r.mustStand(named("b", "m-b"), dispatcher.StatusRetrying)
		r.mustStand(named("c", "m-c"), dispatcher.StatusDead)
		r.mustStand(named("d", "m-d"), dispatcher.StatusReady)
	}},
	{name: "each lane of a fan-out is settled alone", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a", "b")))
		for _, c := range r.claim(one, 2) {
			if c.ID.Lane == "a" {
				r.mustSettle(one, success(c))
			} else {
				r.mustSettle(one, failure(c, time.Minute))
			}
		}
		rec, err := r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		r.mustStand(named("a", "m1"), dispatcher.StatusDelivered)
		r.mustStand(named("b", "m1"), dispatcher.StatusRetrying)
	}},
	{name: "the history tells each attempt, the oldest first", run: func(r *rig) {
		r.publish("a", "m1")
		var want []dispatcher.Attempt
		for n := 1; n <= 3; n++ {
			c := r.mustClaim(one, named("a", "m1"))[0]
			s := failure(c, time.Duration(n)*time.Second)
			s.Attempt.At = r.now
			s.Attempt.Excerpt = []byte{0, byte(n), ' ', '\n', 0xff}
			s.Attempt.Duration = time.Duration(n) * 7 * time.Millisecond
			if n == 2 {
				s.Attempt.Status, s.Attempt.Class, s.Attempt.Error = 0, dispatcher.ClassTimeout, "no answer within 15s: \"x\" é\x01"
			}
			r.pass(20 * time.Millisecond)
			r.mustSettle(one, s)
			s.Attempt.Next = r.later(s.Wait)
			want = append(want, s.Attempt)
			r.pass(s.Wait)
			r.move()
		}
		c := r.mustClaim(one, named("a", "m1"))[0]
		s := success(c)
		s.Attempt.At = r.now
		r.mustSettle(one, s)
		want = append(want, s.Attempt)
		want[0].Excerpt = nil // only the newest three keep their excerpt
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, want, d.History)
		require.Equal(r, 4, d.Attempts)
		require.Equal(r, 200, d.LastStatus)
		require.Empty(r, d.LastError)
	}},
	{name: "the history keeps the newest 32 attempts, and the answers of three", run: func(r *rig) {
		r.publish("a", "m1")
		for n := 1; n <= 40; n++ {
			s := failure(r.mustClaim(one, named("a", "m1"))[0], 0)
			s.Attempt.Excerpt = []byte(fmt.Sprintf("answer %d", n))
			r.mustSettle(one, s)
			r.move()
		}
		d := r.mustStand(named("a", "m1"), dispatcher.StatusReady)
		require.Equal(r, 40, d.Attempts)
		require.Len(r, d.History, 32)
		for i, a := range d.History {
			require.Equal(r, 9+i, a.Number)
			want := ""
			if i >= 29 {
				want = fmt.Sprintf("answer %d", 9+i)
			}
			require.Equal(r, want, string(a.Excerpt), "attempt %d", a.Number)
		}
	}},
	{name: "a settlement of an unknown delivery changes nothing", run: func(r *rig) {
		r.mustChangeNothing(func() {
			c := dispatcher.Claimed{ID: named("a", "never"), Attempt: 1}
			for _, s := range []dispatcher.Settlement{
				success(c), failure(c, time.Second), death(c, dispatcher.ReasonGone), handBack(c),
			} {
				require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, s))
			}
		})
	}},
	{name: "an empty batch does nothing", run: func(r *rig) {
		r.mustChangeNothing(func() { require.Empty(r, r.settle(one)) })
	}},
}

// lateCases are about settlements of instances that have lost the lease.
var lateCases = []testCase{
	{name: "a late failure changes nothing", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		check := func() {
			r.mustChangeNothing(func() {
				for _, s := range []dispatcher.Settlement{
					failure(c, time.Second), silence(c, time.Second), death(c, dispatcher.ReasonGone), handBack(c),
				} {
					require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, s))
				}
			})
		}
		check() // ready
		again := r.mustClaim(two, named("a", "m1"))[0]
		check() // leased elsewhere
		r.mustSettle(two, failure(again, time.Minute))
		check() // due
	}},
	{name: "a late success of a delivery that is ready again prevents the next attempt", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.publish("a", "m2")
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c)))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, 1, d.Attempts)
		require.Equal(r, ids("a", "m2"), claimedIDs(r.claim(two, 64)))
		r.pass(time.Hour)
		d = r.mustStand(named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, start, d.Ended)
		require.Equal(r, 200, d.LastStatus)
	}},
	{name: "a late success wins over the attempt of the next holder", run: func(r *rig) {
		others := map[string]func(dispatcher.Claimed) dispatcher.Settlement{
			"a": success,
			"b": func(c dispatcher.Claimed) dispatcher.Settlement { return failure(c, time.Minute) },
			"c": func(c dispatcher.Claimed) dispatcher.Settlement { return death(c, dispatcher.ReasonGone) },
			"d": handBack,
			"e": func(c dispatcher.Claimed) dispatcher.Settlement { return silence(c, time.Minute) },
		}
		for _, name := range sortedKeys(others) {
			lane, other := dispatcher.Lane(name), others[name]
			c := r.takeOver(lane, "m1-"+string(lane))
			again := r.mustClaim(two, c.ID)[0]
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c)))
			r.mustStand(c.ID, dispatcher.StatusDelivered)
			got := r.settle(two, other(again))[0]
			if lane == "a" {
				require.Contains(r, []dispatcher.Settled{dispatcher.SettledOK, dispatcher.SettledEnd}, got)
			} else {
				require.Equal(r, dispatcher.SettledEnd, got, "%s", lane)
			}
			r.mustStand(c.ID, dispatcher.StatusDelivered)
			require.Empty(r, r.State().Marks)
		}
		r.pass(time.Hour)
		r.move()
		r.mustClaimNothing(two)
	}},
	{name: "a late success ends a delivery that waits for its rung", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.mustSettle(two, failure(r.mustClaim(two, c.ID)[0], time.Minute))
		r.pass(time.Second)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c)))
		d := r.mustStand(c.ID, dispatcher.StatusDelivered)
		require.Equal(r, r.now, d.Ended)
		r.pass(time.Hour)
		r.move()
		r.mustClaimNothing(two)
	}},
	{name: "a late success of an ended delivery changes nothing", run: func(r *rig) {
		dead := r.takeOver("a", "m1")
		r.mustSettle(two, death(r.mustClaim(two, dead.ID)[0], dispatcher.ReasonGone))
		done := r.takeOver("b", "m2")
		r.mustSettle(two, success(r.mustClaim(two, done.ID)[0]))
		cancelled := r.takeOver("c", "m3")
		r.mustSettle(two, failure(r.mustClaim(two, cancelled.ID)[0], time.Minute))
		r.cancel(cancelled.ID)
		r.pass(time.Second)
		r.mustChangeNothing(func() {
			for _, c := range []dispatcher.Claimed{dead, done, cancelled} {
				require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, success(c)))
			}
		})
	}},
	{name: "a late success of a forgotten delivery changes nothing", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.mustSettle(two, success(r.mustClaim(two, c.ID)[0]))
		r.trim(keepDigests)
		r.mustChangeNothing(func() {
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, success(c)))
		})
		r.trim(keepNothing)
		r.mustChangeNothing(func() {
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, success(c)))
		})
	}},
	{name: "a late success of one lane that is forgotten leaves the other alone", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a", "b")))
		var a dispatcher.Claimed
		for _, c := range r.claim(one, 2) {
			if c.ID.Lane == "a" {
				a = c
				r.mustSettle(one, success(c))
			}
		}
		r.trim(keepNothing)
		r.mustChangeNothing(func() {
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, success(a)))
		})
	}},
	{name: "a late success wins over a cancel", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.cancel(c.ID)
		r.mustStand(c.ID, dispatcher.StatusCancelled)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c)))
		r.mustStand(c.ID, dispatcher.StatusDelivered)
		r.mustClaimNothing(two)
		r.mustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{name: "a second settlement of the same lease is late", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		got := r.settle(one, death(c, dispatcher.ReasonGone), failure(c, time.Second))
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledOK, dispatcher.SettledLate}, got)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, success(c)))
		r.mustStand(c.ID, dispatcher.StatusDead)
	}},
	{name: "an older settlement that is repeated does not settle the next attempt", run: func(r *rig) {
		// The answer to the first was lost. Meanwhile the same instance has
		// claimed the delivery again.
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.mustSettle(one, failure(c, 0))
		r.move()
		again := r.mustClaim(one, named("a", "m1"))[0]
		r.mustChangeNothing(func() {
			for _, s := range []dispatcher.Settlement{
				failure(c, 0), silence(c, time.Minute), death(c, dispatcher.ReasonExhausted),
			} {
				require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, s))
			}
		})
		r.mustSettle(one, success(again))
		r.mustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{name: "a repeated settlement does not settle an attempt that a person asked for since", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.mustSettle(one, death(c, dispatcher.ReasonExhausted))
		r.retry(c.ID)
		again := r.mustClaim(one, c.ID)[0]
		r.mustChangeNothing(func() {
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, death(c, dispatcher.ReasonExhausted)))
		})
		r.mustSettle(one, success(again))
	}},
	{name: "a failure and a success of the same lease in one batch do no harm", run: func(r *rig) {
		outcomes := map[string]func(dispatcher.Claimed) dispatcher.Settlement{
			"m1": func(c dispatcher.Claimed) dispatcher.Settlement { return failure(c, time.Minute) },
			"m2": func(c dispatcher.Claimed) dispatcher.Settlement { return death(c, dispatcher.ReasonGone) },
			"m3": handBack,
		}
		for _, id := range sortedKeys(outcomes) {
			r.publish("a", id)
			c := r.mustClaim(one, named("a", id))[0]
			got := r.settle(one, outcomes[id](c), success(c))
			require.Equal(r, dispatcher.SettledOK, got[0], id)
			require.NotEqual(r, dispatcher.SettledOK, got[1], id)
			r.mustBeSound()
			if got[1] == dispatcher.SettledDone {
				r.mustStand(c.ID, dispatcher.StatusDelivered)
			}
			r.cancel(c.ID)
			r.claim(one, 64)
		}
	}},
	{name: "the same late success twice in one batch does no harm", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.mustSettle(two, failure(r.mustClaim(two, c.ID)[0], time.Minute))
		got := r.settle(one, success(c), success(c))
		require.Equal(r, dispatcher.SettledDone, got[0])
		r.mustStand(c.ID, dispatcher.StatusDelivered)
	}},
}

// takeOver publishes a message and lets an instance claim it. It declares that
// instance dead, and answers the claim that the instance still believes to
// hold. The delivery is ready.
func (r *rig) takeOver(lane dispatcher.Lane, id string) dispatcher.Claimed {
	r.Helper()
	// A fenced instance claims nothing, so each takeover has an instance of its
	// own. The store does not care which instance settles late.
	victim := "victim-" + r.newID()
	r.beat(victim)
	r.publish(lane, id)
	got := r.claimWith(victim, 1, r.setup.Permits)
	require.Equal(r, ids(lane, id), claimedIDs(got))
	taken, _, err := r.Queue.Reap(r.ctx, two, victim)
	require.NoError(r, err)
	require.Equal(r, 1, taken)
	return got[0]
}
