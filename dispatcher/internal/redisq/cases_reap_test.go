package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ReapCases are about beats, and about takeovers from dead instances.
var ReapCases = []redisqtest.Case{
	{Name: "a beat returns the numbers of all instances", Run: func(r *redisqtest.Rig) {
		fresh, all, err := r.Queue.Beat(r.Ctx, redisqtest.One, 7)
		require.NoError(r, err)
		require.False(r, fresh)
		require.Equal(r, map[string]int64{redisqtest.One: 7, redisqtest.Two: 1}, all)
		fresh, all, err = r.Queue.Beat(r.Ctx, "three", 1<<40)
		require.NoError(r, err)
		require.True(r, fresh)
		require.Equal(r, map[string]int64{redisqtest.One: 7, redisqtest.Two: 1, "three": 1 << 40}, all)
	}},
	{Name: "the next beat of an instance reports that it was declared dead", Run: func(r *redisqtest.Rig) {
		r.Reap(redisqtest.One)
		_, all, err := r.Queue.Beat(r.Ctx, redisqtest.Two, 2)
		require.NoError(r, err)
		require.Equal(r, map[string]int64{redisqtest.Two: 2}, all)
		fresh, _, err := r.Queue.Beat(r.Ctx, redisqtest.One, 2)
		require.NoError(r, err)
		require.True(r, fresh)
	}},
	{Name: "an instance that leaves is deleted and not fenced", Run: func(r *redisqtest.Rig) {
		require.NoError(r, r.Queue.Leave(r.Ctx, redisqtest.One))
		_, all, err := r.Queue.Beat(r.Ctx, redisqtest.Two, 2)
		require.NoError(r, err)
		require.Equal(r, map[string]int64{redisqtest.Two: 2}, all)
		require.Empty(r, r.State().Fenced)
		require.NoError(r, r.Queue.Leave(r.Ctx, redisqtest.One))
	}},
	{Name: "a query returns the gone instances that still have leases", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		strays := func() []string {
			names, err := r.Queue.Orphans(r.Ctx)
			require.NoError(r, err)
			return names
		}
		r.Publish("a", "m1")
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		require.Empty(r, strays(), "an instance that beats is no orphan")
		r.Publish("b", "m2")
		require.NoError(r, r.Queue.Leave(r.Ctx, redisqtest.Two))
		require.Empty(r, strays(), "an instance without leases is no orphan")
		require.Len(r, r.Claim(redisqtest.Two, 64), 1) // as if a node that takes over had lost the record of the leases
		require.Equal(r, []string{redisqtest.Two}, strays())
		require.Equal(r, 1, r.Reap(redisqtest.Two))
		require.Empty(r, strays())
		require.Len(r, r.Claim("three", 64), 1)
		require.NoError(r, r.Queue.Leave(r.Ctx, redisqtest.One))
		require.Equal(r, []string{redisqtest.One}, strays())
		for n := range 1000 { // the store drops the names before these
			require.NoError(r, r.Queue.Leave(r.Ctx, fmt.Sprint("later", n)))
		}
		require.Empty(r, strays())
	}},
	{Name: "a takeover returns the leases of a dead instance to the front, in the old order", Run: func(r *redisqtest.Rig) {
		for range 4 {
			r.Succeed("a")
		}
		r.Publish("a", "m3", "m1", "m2", "m4", "m5")
		for range 3 {
			r.Claim(redisqtest.One, 1)
			r.Pass(time.Millisecond)
		}
		require.Equal(r, 3, r.Reap(redisqtest.One))
		require.Equal(r, redisqtest.IDs("a", "m3", "m1", "m2", "m4", "m5"), r.State().Ready["a"])
		require.Empty(r, r.Leases(redisqtest.One))
		c := r.Claim(redisqtest.Two, 1)[0]
		require.Equal(r, redisqtest.Named("a", "m3"), c.ID)
		require.Equal(r, 1, c.Attempt, "an attempt whose holder died is not counted")
	}},
	{Name: "deliveries that were claimed at once are returned in the order of their ids", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.Claim(redisqtest.One, 64)
		r.Reap(redisqtest.One)
		require.Equal(r, redisqtest.IDs("a", "m1", "m2", "m3"), r.State().Ready["a"])
	}},
	{Name: "a takeover includes direct leases", Run: func(r *redisqtest.Rig) {
		r.ScheduleFor(redisqtest.One, 512, 1, r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, 1, r.Reap(redisqtest.One))
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))
	}},
	{Name: "a second takeover changes nothing", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Claim(redisqtest.One, 64)
		require.Equal(r, 1, r.Reap(redisqtest.One))
		before := r.State()
		require.Zero(r, r.Reap(redisqtest.One))
		after := r.State()
		require.Equal(r, before.String(), after.String())
	}},
	{Name: "a takeover leaves the leases of running instances alone", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Publish("b", "m2")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.MustClaim(redisqtest.Two, redisqtest.Named("b", "m2"))
		require.Equal(r, 1, r.Reap(redisqtest.One))
		require.Equal(r, redisqtest.IDs("b", "m2"), r.Leases(redisqtest.Two))
	}},
	{Name: "an instance without leases, or an unknown one, is only fenced", Run: func(r *redisqtest.Rig) {
		require.Zero(r, r.Reap("nobody"))
		require.Equal(r, []string{"nobody"}, r.State().Fenced)
	}},
	{Name: "one takeover processes more than one batch", Run: func(r *redisqtest.Rig) {
		const lanes = 300
		for i := range lanes {
			r.PublishMany(dispatcher.Lane(fmt.Sprintf("l%03d", i)), 2)
		}
		leased := 0
		for {
			n := len(r.Claim(redisqtest.One, 64))
			if n == 0 {
				break
			}
			leased += n
		}
		require.Equal(r, 2*lanes, leased)
		require.Equal(r, leased, r.Reap(redisqtest.One))
		require.Empty(r, r.Leases(redisqtest.One))
	}},
	{Name: "a delivery that was cancelled meanwhile ends", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Claim(redisqtest.One, 1)
		r.Cancel(redisqtest.Named("a", "m1"))
		r.Reap(redisqtest.One)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Empty(r, r.State().Marks)
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a delivery that another instance delivered meanwhile ends", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.MustClaim(redisqtest.One, c.ID)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.Two, redisqtest.Success(c)))
		r.Reap(redisqtest.One)
		r.MustStand(c.ID, dispatcher.StatusDelivered)
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a delivery dies with its third holder, which had begun its attempt", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		for n := 1; n <= 3; n++ {
			victim := fmt.Sprintf("victim%d", n)
			c := r.MustClaim(victim, redisqtest.Named("a", "m1"))[0]
			require.Equal(r, n == 3, c.Suspect)
			if c.Suspect {
				r.MustBegin(victim, c)
			}
			_, hints, err := r.Queue.Reap(r.Ctx, redisqtest.Two, victim)
			require.NoError(r, err)
			require.Len(r, hints, 1)
			if n == 3 {
				require.Equal(r, []dispatcher.Death{{ID: redisqtest.Named("a", "m1"), Reason: dispatcher.ReasonPoison, Attempts: 3}}, hints[0].Dead)
			} else {
				require.Empty(r, hints[0].Dead)
				r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
			}
		}
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonPoison, d.Reason)
		require.Equal(r, 3, d.Attempts, "each of them may have called the receiver")
		require.Equal(r, "the last 3 instances that held it died before they had an answer", d.LastError)
		require.Zero(r, d.LastStatus)
		require.Equal(r, r.Now, d.Ended)
		require.Equal(r, int64(1), r.Stats().Dead[dispatcher.ReasonPoison])
		line := r.MustLog(dispatcher.LogFilter{}, "dead")[0]
		require.Equal(r, []any{dispatcher.ReasonPoison, 3}, []any{line.Reason, line.Attempt.Number}, "the archive learns of it by the log alone")
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a settled attempt between two deaths begins a new count", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.DieWith("victim1", redisqtest.Named("a", "m1"))
		r.DieWith("victim2", redisqtest.Named("a", "m1"))
		r.MustSettle(redisqtest.Two, redisqtest.Failure(r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		r.DieWith("victim3", redisqtest.Named("a", "m1"))
		r.DieWith("victim4", redisqtest.Named("a", "m1"))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
		r.DieWith("victim5", redisqtest.Named("a", "m1"))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
	}},
	{Name: "a retried poison delivery may kill three holders again", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		for n := range 5 {
			if n == 3 {
				r.Retry(redisqtest.Named("a", "m1"))
			}
			r.DieWith(fmt.Sprintf("victim%d", n), redisqtest.Named("a", "m1"))
		}
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
	}},
	{Name: "a suspect whose attempt had not begun survives any number of holders", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		for n := range 5 {
			victim := fmt.Sprintf("victim%d", n)
			require.Equal(r, n >= 2, r.MustClaim(victim, redisqtest.Named("a", "m1"))[0].Suspect)
			r.Reap(victim)
		}
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustBegin(redisqtest.One, c)
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		r.MustClaim("victim", c.ID)
		r.Reap("victim")
		r.MustStand(c.ID, dispatcher.StatusReady)
	}},
	{Name: "a suspect that began beside others dies only with a holder that attempted it alone", Run: func(r *redisqtest.Rig) {
		suspects(r, 1)
		begin := func(victim string, alone, beside bool) dispatcher.Claimed {
			c := r.MustClaim(victim, redisqtest.Named("a", "m0"))[0]
			require.Equal(r, alone, c.Alone)
			ok, err := r.Queue.Begin(r.Ctx, victim, dispatcher.Lease{ID: c.ID, At: c.Leased}, beside)
			require.NoError(r, err)
			require.True(r, ok)
			return c
		}
		r.MustSettle(redisqtest.One, redisqtest.HandBack(begin(redisqtest.One, false, true)))
		for n, alone := range []bool{false, true, true} {
			begin(fmt.Sprint("crowded", n), alone, true)
			r.Reap(fmt.Sprint("crowded", n))
			r.MustStand(redisqtest.Named("a", "m0"), dispatcher.StatusReady)
		}
		r.MustClaim("waited", redisqtest.Named("a", "m0"))
		r.Reap("waited")
		r.MustSettle(redisqtest.One, redisqtest.HandBack(begin(redisqtest.One, true, false)))
		begin("alone", true, false)
		r.Reap("alone")
		d := r.MustStand(redisqtest.Named("a", "m0"), dispatcher.StatusDead)
		require.Equal(r, []any{dispatcher.ReasonPoison, 4}, []any{d.Reason, d.Attempts})
	}},
	{Name: "an attempt at a suspect begins by its own lease only", Run: func(r *redisqtest.Rig) {
		suspects(r, 1)
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m0"))[0]
		other := dispatcher.Lease{ID: c.ID, At: c.Leased.Add(-time.Millisecond)}
		for by, l := range map[string]dispatcher.Lease{redisqtest.One: other, redisqtest.Two: {ID: c.ID, At: c.Leased}} {
			ok, err := r.Queue.Begin(r.Ctx, by, l, false)
			require.NoError(r, err)
			require.False(r, ok)
		}
		r.Reap(redisqtest.One)
		r.MustStand(c.ID, dispatcher.StatusReady)
	}},
	{Name: "an attempt that begins after another one's success leaves its end alone", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.Two, redisqtest.Success(c)))
		r.MustBegin(redisqtest.One, c)
		r.Settle(redisqtest.One, redisqtest.HandBack(c))
		r.MustLie(redisqtest.PlaceDone, "a", "m1")
		require.Equal(r, 1, r.Inspect(c.ID).Attempts)
	}},
	{Name: "a claim returns one suspect of a lane, and the other deliveries beside it", Run: func(r *redisqtest.Rig) {
		for range 8 {
			r.Succeed("a")
		}
		suspects(r, 3)
		r.Publish("a", "other")
		require.Equal(r, redisqtest.IDs("a", "m0", "other"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 8)))
		r.MustClaimNothing(redisqtest.Two)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusScheduled)
		r.Pass(4 * time.Second)
		r.Move()
		got, _, err := r.Queue.ClaimBeside(r.Ctx, redisqtest.One, r.All(), dispatcher.Claim{Wanted: 8, Free: 512, Suspects: []dispatcher.Lane{"a"}})
		require.NoError(r, err)
		require.Empty(r, got)
		r.Pass(4 * time.Second)
		r.Move()
		require.Len(r, r.Claim(redisqtest.Two, 8), 1)
	}},
	{Name: "a suspect that has to wait uses no turn of its lane's rate", Run: func(r *redisqtest.Rig) {
		suspects(r, 1)
		r.Pass(time.Hour)
		r.Limit("a", redisqtest.Every(time.Hour))
		got, _, err := r.Queue.ClaimBeside(r.Ctx, redisqtest.One, r.All(), dispatcher.Claim{Wanted: 8, Free: 512, Suspects: []dispatcher.Lane{"a"}})
		require.NoError(r, err)
		require.Empty(r, got)
		r.MustStand(redisqtest.Named("a", "m0"), dispatcher.StatusScheduled)
		r.Publish("a", "other")
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "other"))
	}},
	{Name: "a claim returns suspects of at most 32 lanes", Run: func(r *redisqtest.Rig) {
		for n := range 40 {
			r.Publish(dispatcher.Lane(fmt.Sprintf("l%02d", n)), fmt.Sprint("m", n))
		}
		for _, victim := range []string{"victim1", "victim2"} {
			require.Len(r, r.Claim(victim, 64), 40)
			r.Reap(victim)
		}
		require.Len(r, r.Claim(redisqtest.One, 64), dispatcher.SuspectLanes)
		require.Empty(r, r.Claim(redisqtest.Two, 64), "the others wait")
		r.Pass(4 * time.Second)
		r.Move()
		require.Len(r, r.Claim(redisqtest.Two, 64), 8)
	}},
	{Name: "a take returns one suspect at a time to a handler's instance, and any number to a taker", Run: func(r *redisqtest.Rig) {
		r.Publish("q_q", "m0", "m1", "m2")
		take := func(by string, ask dispatcher.Take) []dispatcher.DeliveryID {
			ask.Lanes, ask.Most, ask.Bytes = []dispatcher.Lane{"q_q"}, 8, 1<<20
			taken, _, err := r.Queue.Take(r.Ctx, by, ask)
			require.NoError(r, err)
			return redisqtest.ClaimedIDs(taken.Claimed)
		}
		for _, victim := range []string{"victim1", "victim2"} {
			require.Len(r, take(victim, dispatcher.Take{}), 3)
			r.Reap(victim)
		}
		r.Publish("q_q", "other")
		require.Equal(r, redisqtest.IDs("q_q", "m0", "other"), take(redisqtest.One, dispatcher.Take{Suspects: 1}))
		r.Pass(4 * time.Second)
		r.Move()
		require.Empty(r, take(redisqtest.One, dispatcher.Take{}))
		r.Pass(4 * time.Second)
		r.Move()
		require.Len(r, take(redisqtest.Two, dispatcher.Take{For: time.Minute, Token: "t", Owner: "o"}), 2)
	}},
	{Name: "a requested retry survives the death of its holder", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Retry(redisqtest.Named("a", "m1"))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Reap(redisqtest.One)
		require.True(r, r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))[0].Asked)
	}},
	{Name: "the next claim drops a delivery whose record was deleted by hand", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Lose("m1")
		r.Reap(redisqtest.One)
		r.MustClaimNothing(redisqtest.Two)
	}},
}

// suspects publishes n messages m0, m1, ... to lane a, and lets two of their holders die.
func suspects(r *redisqtest.Rig, n int) {
	r.Helper()
	for i := range n {
		r.Publish("a", fmt.Sprint("m", i))
	}
	for _, victim := range []string{"victim1", "victim2"} {
		require.Len(r, r.Claim(victim, n), n)
		r.Reap(victim)
	}
}
