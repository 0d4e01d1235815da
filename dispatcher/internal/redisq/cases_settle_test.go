package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// SettleCases are about recording outcomes.
var SettleCases = []redisqtest.Case{
	{Name: "a success ends the delivery as delivered", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Pass(time.Second)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, redisqtest.Start.Add(time.Second), d.Ended)
		require.Equal(r, 1, d.Attempts)
		require.Equal(r, 200, d.LastStatus)
		require.Empty(r, d.LastError)
		require.Zero(r, d.Due)
		require.Empty(r, r.State().History, "a successful first attempt has no history, because the log has its proof")
		require.Empty(r, r.Leases(redisqtest.One))
	}},
	{Name: "a query returns the status of a success", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Answered(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.Delivered, 204))
		require.Equal(r, 204, r.Inspect(redisqtest.Named("a", "m1")).LastStatus)
	}},
	{Name: "a failure waits for its next rung", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Pass(300 * time.Millisecond)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, 15*time.Second))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusRetrying)
		require.Equal(r, r.Later(15*time.Second), d.Due)
		require.Zero(r, d.Ended)
		require.Equal(r, 1, d.Attempts)
		require.Equal(r, 500, d.LastStatus)
		require.Equal(r, "answered 500", d.LastError)
	}},
	{Name: "the wait for a rung is never shortened by a fraction of a ms", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Pass(300 * time.Microsecond)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Second-100*time.Microsecond))
		require.Equal(r, redisqtest.Start.Add(1001*time.Millisecond), r.Inspect(redisqtest.Named("a", "m1")).Due)
	}},
	{Name: "a retry without a wait is due at once", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "a death is final and reports its reason", Run: func(r *redisqtest.Rig) {
		reasons := []dispatcher.DeadReason{dispatcher.ReasonGone, dispatcher.ReasonExhausted, dispatcher.ReasonRefused}
		for i, reason := range reasons {
			id := fmt.Sprintf("m%d", i)
			r.Publish("a", id)
			r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", id))[0], reason))
			d := r.MustStand(redisqtest.Named("a", id), dispatcher.StatusDead)
			require.Equal(r, reason, d.Reason)
			require.Equal(r, r.Now, d.Ended)
			require.Equal(r, 1, d.Attempts)
			require.Len(r, d.History, 1)
			require.Equal(r, int64(1), r.Stats().Dead[reason])
		}
		r.Pass(24 * time.Hour)
		r.Move()
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a death without an attempt counts none", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		s := redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonExpired)
		s.Attempt = dispatcher.Attempt{Class: dispatcher.ClassExpired}
		r.MustSettle(redisqtest.One, s)
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
	}},
	{Name: "a hand-back returns a delivery unchanged to the front of its lane", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3", "m4")
		r.Pass(time.Second)
		claimed := r.Claim(redisqtest.One, 64)
		require.Equal(r, redisqtest.IDs("a", "m1", "m2"), redisqtest.ClaimedIDs(claimed))
		r.Pass(time.Second)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledOK, dispatcher.SettledOK},
			r.Settle(redisqtest.One, redisqtest.HandBack(claimed[0]), redisqtest.HandBack(claimed[1])))
		require.Equal(r, redisqtest.IDs("a", "m1", "m2", "m3", "m4"), r.State().Ready["a"])
		claimed[0].Leased, claimed[1].Leased = r.Now, r.Now
		again := r.Claim(redisqtest.Two, 64)
		require.Equal(r, claimed, again)
	}},
	{Name: "a batch is settled in its order, with an outcome for each delivery", Run: func(r *redisqtest.Rig) {
		for _, lane := range []dispatcher.Lane{"a", "b", "c", "d"} {
			r.Publish(lane, "m-"+string(lane))
		}
		c := map[dispatcher.Lane]dispatcher.Claimed{}
		for _, claimed := range r.Claim(redisqtest.One, 64) {
			c[claimed.ID.Lane] = claimed
		}
		unknown := dispatcher.Claimed{ID: redisqtest.Named("e", "never"), Attempt: 1}
		got := r.Settle(redisqtest.One, redisqtest.Failure(c["b"], time.Minute), redisqtest.Success(unknown), redisqtest.Success(c["a"]),
			redisqtest.HandBack(c["d"]), redisqtest.Death(c["c"], dispatcher.ReasonGone))
		require.Equal(r, []dispatcher.SettleResult{
			dispatcher.SettledOK, dispatcher.SettledLate, dispatcher.SettledOK, dispatcher.SettledOK, dispatcher.SettledOK,
		}, got)
		r.MustStand(redisqtest.Named("a", "m-a"), dispatcher.StatusDelivered)
		r.MustStand(redisqtest.Named("b", "m-b"), dispatcher.StatusRetrying)
		r.MustStand(redisqtest.Named("c", "m-c"), dispatcher.StatusDead)
		r.MustStand(redisqtest.Named("d", "m-d"), dispatcher.StatusReady)
	}},
	{Name: "each lane of a fan-out is settled alone", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
		for _, c := range r.Claim(redisqtest.One, 2) {
			if c.ID.Lane == "a" {
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			} else {
				r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
			}
		}
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDelivered)
		r.MustStand(redisqtest.Named("b", "m1"), dispatcher.StatusRetrying)
	}},
	{Name: "the history returns each attempt, the oldest first", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		var want []dispatcher.Attempt
		for n := 1; n <= 3; n++ {
			c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
			s := redisqtest.Failure(c, time.Duration(n)*time.Second)
			s.Attempt.At = r.Now
			s.Attempt.Excerpt = []byte{0, byte(n), ' ', '\n', 0xff}
			s.Attempt.Duration = time.Duration(n) * 7 * time.Millisecond
			if n == 2 {
				s.Attempt.Status, s.Attempt.Class, s.Attempt.Error = 0, dispatcher.ClassTimeout, "no answer within 15s: \"x\" é\x01"
			}
			r.Pass(20 * time.Millisecond)
			r.MustSettle(redisqtest.One, s)
			s.Attempt.Next = r.Later(s.Wait)
			want = append(want, s.Attempt)
			r.Pass(s.Wait)
			r.Move()
		}
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		s := redisqtest.Success(c)
		s.Attempt.At = r.Now
		r.MustSettle(redisqtest.One, s)
		want = append(want, s.Attempt)
		want[0].Excerpt = nil // only the newest three keep their excerpt
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, want, d.History)
		require.Equal(r, 4, d.Attempts)
		require.Equal(r, 200, d.LastStatus)
		require.Empty(r, d.LastError)
	}},
	{Name: "the history keeps the newest 32 attempts, and the responses of three", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		for n := 1; n <= 40; n++ {
			s := redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0)
			s.Attempt.Excerpt = []byte(fmt.Sprintf("answer %d", n))
			r.MustSettle(redisqtest.One, s)
			r.Move()
		}
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
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
	{Name: "a settlement of an unknown delivery changes nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() {
			c := dispatcher.Claimed{ID: redisqtest.Named("a", "never"), Attempt: 1}
			for _, s := range []dispatcher.Settlement{
				redisqtest.Success(c), redisqtest.Failure(c, time.Second), redisqtest.Death(c, dispatcher.ReasonGone), redisqtest.HandBack(c),
			} {
				require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, s))
			}
		})
	}},
	{Name: "an empty batch does nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() { require.Empty(r, r.Settle(redisqtest.One)) })
	}},
}

// LateCases are about settlements of instances that have lost the lease.
var LateCases = []redisqtest.Case{
	{Name: "a late failure changes nothing", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		check := func() {
			r.MustChangeNothing(func() {
				for _, s := range []dispatcher.Settlement{
					redisqtest.Failure(c, time.Second), redisqtest.Silence(c, time.Second), redisqtest.Death(c, dispatcher.ReasonGone), redisqtest.HandBack(c),
				} {
					require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, s))
				}
			})
		}
		check() // ready
		again := r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))[0]
		check() // leased elsewhere
		r.MustSettle(redisqtest.Two, redisqtest.Failure(again, time.Minute))
		check() // due
	}},
	{Name: "a late success of a delivery that is ready again prevents the next attempt", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.Publish("a", "m2")
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, 1, d.Attempts)
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(r.Claim(redisqtest.Two, 64)))
		r.Pass(time.Hour)
		d = r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, redisqtest.Start, d.Ended)
		require.Equal(r, 200, d.LastStatus)
	}},
	{Name: "a late success of a ready delivery ends it at once, also in a paused lane, so counts and lists agree", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.PublishMany("a", 3000)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusReady: 3000, dispatcher.StatusDelivered: 1}, r.Stats().Counts)
		require.Equal(r, 3000, r.LaneState("a").Waiting)
		require.Empty(r, r.State().Marks)
	}},
	{Name: "late successes of all ready deliveries of a lane in one call leave it empty", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		got := r.Claim(redisqtest.One, 2)
		r.Reap(redisqtest.One)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone, dispatcher.SettledDone},
			r.Settle(redisqtest.Two, redisqtest.Success(got[0]), redisqtest.Success(got[1])))
		r.MustBeSound()
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a delivery that is handed back beside a late success of the only ready one can be claimed", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		first := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		second := r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m2"))[0]
		r.Reap(redisqtest.One)
		r.Settle(redisqtest.Two, redisqtest.Success(first), redisqtest.HandBack(second))
		r.MustStand(first.ID, dispatcher.StatusDelivered)
		r.MustClaim(redisqtest.Two, second.ID)
	}},
	{Name: "a late success of the first of a key lets the next one follow, also in a paused lane", Run: func(r *redisqtest.Rig) {
		r.Beat("victim")
		r.PublishKeyed("a", "k", "m1", "m2")
		c := r.ClaimWith("victim", 1, r.Setup.Permits)[0]
		r.Reap("victim")
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		require.Equal(r, redisqtest.IDs("a", "m2"), r.State().Ready["a"])
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusReady: 1, dispatcher.StatusDelivered: 1}, r.Stats().Counts)
	}},
	{Name: "a late success of a ready delivery deep in a long list only marks it, and it is delivered even if its endpoint is disabled then", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		c := r.TakeOver(redisqtest.EpOne, "m1")
		again := r.MustClaim(redisqtest.Two, c.ID)[0]
		r.PublishMany(redisqtest.EpOne, 1200)
		r.MustSettle(redisqtest.Two, redisqtest.Failure(again, 0))
		r.Move()
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		require.Len(r, r.State().Marks, 1)
		r.MustStand(c.ID, dispatcher.StatusDelivered)
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		for range 100 {
			r.Move()
		}
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDead: 1200, dispatcher.StatusDelivered: 1}, r.Stats().Counts)
		require.Empty(r, r.State().Marks)
	}},
	{Name: "a late success wins over the attempt of the next holder", Run: func(r *redisqtest.Rig) {
		others := map[string]func(dispatcher.Claimed) dispatcher.Settlement{
			"a": redisqtest.Success,
			"b": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Failure(c, time.Minute) },
			"c": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Death(c, dispatcher.ReasonGone) },
			"d": redisqtest.HandBack,
			"e": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Silence(c, time.Minute) },
		}
		for _, name := range redisqtest.SortedKeys(others) {
			lane, other := dispatcher.Lane(name), others[name]
			c := r.TakeOver(lane, "m1-"+string(lane))
			again := r.MustClaim(redisqtest.Two, c.ID)[0]
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
			r.MustStand(c.ID, dispatcher.StatusDelivered)
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Success(c)), "it is repeated")
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.Two, other(again)), "%s", lane)
			r.MustStand(c.ID, dispatcher.StatusDelivered)
			require.Empty(r, r.State().Marks)
		}
		r.Pass(time.Hour)
		r.Move()
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a late success ends a delivery that waits for its rung", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.MustSettle(redisqtest.Two, redisqtest.Failure(r.MustClaim(redisqtest.Two, c.ID)[0], time.Minute))
		r.Pass(time.Second)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		d := r.MustStand(c.ID, dispatcher.StatusDelivered)
		require.Equal(r, r.Now, d.Ended)
		r.Pass(time.Hour)
		r.Move()
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a late success of the first attempt leaves the later attempts counted", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		for n := range 2 {
			again := r.MustClaim(redisqtest.Two, c.ID)[0]
			require.Equal(r, n+1, again.Attempt)
			r.MustSettle(redisqtest.Two, redisqtest.Failure(again, time.Minute))
			r.Pass(time.Minute)
			r.Move()
		}
		require.Equal(r, 1, c.Attempt)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		require.Equal(r, 2, r.MustStand(c.ID, dispatcher.StatusDelivered).Attempts)
	}},
	{Name: "a late success of an ended delivery changes nothing", Run: func(r *redisqtest.Rig) {
		dead := r.TakeOver("a", "m1")
		r.MustSettle(redisqtest.Two, redisqtest.Death(r.MustClaim(redisqtest.Two, dead.ID)[0], dispatcher.ReasonGone))
		done := r.TakeOver("b", "m2")
		r.MustSettle(redisqtest.Two, redisqtest.Success(r.MustClaim(redisqtest.Two, done.ID)[0]))
		cancelled := r.TakeOver("c", "m3")
		r.MustSettle(redisqtest.Two, redisqtest.Failure(r.MustClaim(redisqtest.Two, cancelled.ID)[0], time.Minute))
		r.Cancel(cancelled.ID)
		r.Pass(time.Second)
		r.MustChangeNothing(func() {
			for _, c := range []dispatcher.Claimed{dead, done, cancelled} {
				require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Success(c)))
			}
		})
	}},
	{Name: "a late success of a trimmed delivery changes nothing", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.MustSettle(redisqtest.Two, redisqtest.Success(r.MustClaim(redisqtest.Two, c.ID)[0]))
		r.Trim(redisqtest.KeepDigests)
		r.MustChangeNothing(func() {
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		})
		r.Trim(redisqtest.KeepNothing)
		r.MustChangeNothing(func() {
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		})
	}},
	{Name: "a late success of a trimmed delivery does not change its message's other lane", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
		var a dispatcher.Claimed
		for _, c := range r.Claim(redisqtest.One, 2) {
			if c.ID.Lane == "a" {
				a = c
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
		}
		r.Trim(redisqtest.KeepNothing)
		r.MustChangeNothing(func() {
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Success(a)))
		})
	}},
	{Name: "a late success overrides a cancel of a delivery in flight elsewhere, but not of a ready one", Run: func(r *redisqtest.Rig) {
		ready := r.TakeOver("a", "m1")
		r.Cancel(ready.ID)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Success(ready)))
		r.MustStand(ready.ID, dispatcher.StatusCancelled)
		c := r.TakeOver("b", "m2")
		r.MustClaim(redisqtest.Two, c.ID)
		r.Cancel(c.ID)
		r.MustStand(c.ID, dispatcher.StatusCancelled)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "a second settlement of the same lease is late", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		got := r.Settle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone), redisqtest.Failure(c, time.Second))
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledOK, dispatcher.SettledLate}, got)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		r.MustStand(c.ID, dispatcher.StatusDead)
	}},
	{Name: "a repeated older settlement does not settle the next attempt", Run: func(r *redisqtest.Rig) {
		// The reply to the first settlement was lost. Meanwhile the same instance has
		// claimed the delivery again.
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, 0))
		r.Move()
		again := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustChangeNothing(func() {
			for _, s := range []dispatcher.Settlement{
				redisqtest.Failure(c, 0), redisqtest.Silence(c, time.Minute), redisqtest.Death(c, dispatcher.ReasonExhausted),
			} {
				require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, s))
			}
		})
		r.MustSettle(redisqtest.One, redisqtest.Success(again))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "a repeated settlement does not settle a later retry on request", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonExhausted))
		r.Retry(c.ID)
		again := r.MustClaim(redisqtest.One, c.ID)[0]
		r.MustChangeNothing(func() {
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonExhausted)))
		})
		r.MustSettle(redisqtest.One, redisqtest.Success(again))
	}},
	{Name: "a failure and a success of the same lease in one batch do no harm", Run: func(r *redisqtest.Rig) {
		outcomes := map[string]func(dispatcher.Claimed) dispatcher.Settlement{
			"m1": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Failure(c, time.Minute) },
			"m2": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Death(c, dispatcher.ReasonGone) },
			"m3": redisqtest.HandBack,
		}
		for _, id := range redisqtest.SortedKeys(outcomes) {
			r.Publish("a", id)
			c := r.MustClaim(redisqtest.One, redisqtest.Named("a", id))[0]
			got := r.Settle(redisqtest.One, outcomes[id](c), redisqtest.Success(c))
			require.Equal(r, dispatcher.SettledOK, got[0], id)
			require.NotEqual(r, dispatcher.SettledOK, got[1], id)
			r.MustBeSound()
			if got[1] == dispatcher.SettledDone {
				r.MustStand(c.ID, dispatcher.StatusDelivered)
			}
			r.Cancel(c.ID)
			r.Claim(redisqtest.One, 64)
		}
	}},
	{Name: "the same late success twice in one batch does no harm", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.MustSettle(redisqtest.Two, redisqtest.Failure(r.MustClaim(redisqtest.Two, c.ID)[0], time.Minute))
		got := r.Settle(redisqtest.One, redisqtest.Success(c), redisqtest.Success(c))
		require.Equal(r, dispatcher.SettledDone, got[0])
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
}
