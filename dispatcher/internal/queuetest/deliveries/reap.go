package deliveries

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// ReapCases are about beats, and about takeovers from dead instances.
var ReapCases = []rig.Case{
	{Name: "a beat returns the numbers of all instances", Run: func(r *rig.Rig) {
		fresh, all, err := r.Queue.Beat(r.Ctx, rig.One, 7)
		require.NoError(r, err)
		require.False(r, fresh)
		require.Equal(r, map[string]int64{rig.One: 7, rig.Two: 1}, all)
		fresh, all, err = r.Queue.Beat(r.Ctx, "three", 1<<40)
		require.NoError(r, err)
		require.True(r, fresh)
		require.Equal(r, map[string]int64{rig.One: 7, rig.Two: 1, "three": 1 << 40}, all)
	}},
	{Name: "the next beat of an instance reports that it was declared dead", Run: func(r *rig.Rig) {
		r.Reap(rig.One)
		_, all, err := r.Queue.Beat(r.Ctx, rig.Two, 2)
		require.NoError(r, err)
		require.Equal(r, map[string]int64{rig.Two: 2}, all)
		fresh, _, err := r.Queue.Beat(r.Ctx, rig.One, 2)
		require.NoError(r, err)
		require.True(r, fresh)
	}},
	{Name: "an instance that leaves is deleted and not fenced", Run: func(r *rig.Rig) {
		require.NoError(r, r.Queue.Leave(r.Ctx, rig.One))
		_, all, err := r.Queue.Beat(r.Ctx, rig.Two, 2)
		require.NoError(r, err)
		require.Equal(r, map[string]int64{rig.Two: 2}, all)
		require.Empty(r, r.State().Fenced)
		require.NoError(r, r.Queue.Leave(r.Ctx, rig.One))
	}},
	{Name: "a query returns the gone instances that still have leases", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		strays := func() []string {
			names, err := r.Queue.Orphans(r.Ctx)
			require.NoError(r, err)
			return names
		}
		r.Publish("a", "m1")
		require.Len(r, r.Claim(rig.One, 64), 1)
		require.Empty(r, strays(), "an instance that beats is no orphan")
		r.Publish("b", "m2")
		require.NoError(r, r.Queue.Leave(r.Ctx, rig.Two))
		require.Empty(r, strays(), "an instance without leases is no orphan")
		require.Len(r, r.Claim(rig.Two, 64), 1) // as if a node that takes over had lost the record of the leases
		require.Equal(r, []string{rig.Two}, strays())
		require.Equal(r, 1, r.Reap(rig.Two))
		require.Empty(r, strays())
		require.Len(r, r.Claim("three", 64), 1)
		require.NoError(r, r.Queue.Leave(r.Ctx, rig.One))
		require.Equal(r, []string{rig.One}, strays())
		for n := range 1000 { // the store drops the names before these
			require.NoError(r, r.Queue.Leave(r.Ctx, fmt.Sprint("later", n)))
		}
		require.Empty(r, strays())
	}},
	{Name: "a takeover returns the leases of a dead instance to the front, in the old order", Run: func(r *rig.Rig) {
		for range 4 {
			r.Succeed("a")
		}
		r.Publish("a", "m3", "m1", "m2", "m4", "m5")
		for range 3 {
			r.Claim(rig.One, 1)
			r.Pass(time.Millisecond)
		}
		require.Equal(r, 3, r.Reap(rig.One))
		require.Equal(r, rig.IDs("a", "m3", "m1", "m2", "m4", "m5"), r.State().Ready["a"])
		require.Empty(r, r.Leases(rig.One))
		c := r.Claim(rig.Two, 1)[0]
		require.Equal(r, rig.Named("a", "m3"), c.ID)
		require.Equal(r, 1, c.Attempt, "an attempt whose holder died is not counted")
	}},
	{Name: "deliveries that were claimed at once are returned in the order of their ids", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.Claim(rig.One, 64)
		r.Reap(rig.One)
		require.Equal(r, rig.IDs("a", "m1", "m2", "m3"), r.State().Ready["a"])
	}},
	{Name: "a takeover includes direct leases", Run: func(r *rig.Rig) {
		r.ScheduleFor(rig.One, 512, 1, r.Entry("m1", rig.To("a")))
		require.Equal(r, 1, r.Reap(rig.One))
		r.MustClaim(rig.Two, rig.Named("a", "m1"))
	}},
	{Name: "a second takeover changes nothing", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.Claim(rig.One, 64)
		require.Equal(r, 1, r.Reap(rig.One))
		before := r.State()
		require.Zero(r, r.Reap(rig.One))
		after := r.State()
		require.Equal(r, before.String(), after.String())
	}},
	{Name: "a takeover leaves the leases of running instances alone", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.Publish("b", "m2")
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.MustClaim(rig.Two, rig.Named("b", "m2"))
		require.Equal(r, 1, r.Reap(rig.One))
		require.Equal(r, rig.IDs("b", "m2"), r.Leases(rig.Two))
	}},
	{Name: "an instance without leases, or an unknown one, is only fenced", Run: func(r *rig.Rig) {
		require.Zero(r, r.Reap("nobody"))
		require.Equal(r, []string{"nobody"}, r.State().Fenced)
	}},
	{Name: "one takeover processes more than one batch", Run: func(r *rig.Rig) {
		const lanes = 300
		for i := range lanes {
			r.PublishMany(dispatcher.Lane(fmt.Sprintf("l%03d", i)), 2)
		}
		leased := 0
		for {
			n := len(r.Claim(rig.One, 64))
			if n == 0 {
				break
			}
			leased += n
		}
		require.Equal(r, 2*lanes, leased)
		require.Equal(r, leased, r.Reap(rig.One))
		require.Empty(r, r.Leases(rig.One))
	}},
	{Name: "a delivery that was cancelled meanwhile ends", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.Claim(rig.One, 1)
		r.Cancel(rig.Named("a", "m1"))
		r.Reap(rig.One)
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Empty(r, r.State().Marks)
		r.MustClaimNothing(rig.Two)
	}},
	{Name: "a delivery that another instance delivered meanwhile ends", Run: func(r *rig.Rig) {
		c := r.TakeOver("a", "m1")
		r.MustClaim(rig.One, c.ID)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(rig.Two, rig.Success(c)))
		r.Reap(rig.One)
		r.MustStand(c.ID, dispatcher.StatusDelivered)
		r.MustClaimNothing(rig.Two)
	}},
	{Name: "a delivery dies with its third holder, which had begun its attempt", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		for n := 1; n <= 3; n++ {
			victim := fmt.Sprintf("victim%d", n)
			c := r.MustClaim(victim, rig.Named("a", "m1"))[0]
			require.Equal(r, n == 3, c.Suspect)
			if c.Suspect {
				r.MustBegin(victim, c)
			}
			_, hints, err := r.Queue.Reap(r.Ctx, rig.Two, victim)
			require.NoError(r, err)
			require.Len(r, hints, 1)
			if n == 3 {
				require.Equal(r, []dispatcher.Death{{ID: rig.Named("a", "m1"), Reason: dispatcher.ReasonPoison, Attempts: 3}}, hints[0].Dead)
			} else {
				require.Empty(r, hints[0].Dead)
				r.MustStand(rig.Named("a", "m1"), dispatcher.StatusReady)
			}
		}
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonPoison, d.Reason)
		require.Equal(r, 3, d.Attempts, "each of them may have called the receiver")
		require.Equal(r, "the last 3 instances that held it died before they had an answer", d.LastError)
		require.Zero(r, d.LastStatus)
		require.Equal(r, r.Now, d.Ended)
		require.Equal(r, int64(1), r.Stats().Dead[dispatcher.ReasonPoison])
		r.MustClaimNothing(rig.Two)
	}},
	{Name: "a settled attempt between two deaths begins a new count", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.DieWith("victim1", rig.Named("a", "m1"))
		r.DieWith("victim2", rig.Named("a", "m1"))
		r.MustSettle(rig.Two, rig.Failure(r.MustClaim(rig.Two, rig.Named("a", "m1"))[0], 0))
		r.Move()
		r.DieWith("victim3", rig.Named("a", "m1"))
		r.DieWith("victim4", rig.Named("a", "m1"))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusReady)
		r.DieWith("victim5", rig.Named("a", "m1"))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusDead)
	}},
	{Name: "a retried poison delivery may kill three holders again", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		for n := range 5 {
			if n == 3 {
				r.Retry(rig.Named("a", "m1"))
			}
			r.DieWith(fmt.Sprintf("victim%d", n), rig.Named("a", "m1"))
		}
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusReady)
	}},
	{Name: "a suspect whose attempt had not begun survives any number of holders", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		for n := range 5 {
			victim := fmt.Sprintf("victim%d", n)
			require.Equal(r, n >= 2, r.MustClaim(victim, rig.Named("a", "m1"))[0].Suspect)
			r.Reap(victim)
		}
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		r.MustBegin(rig.One, c)
		r.MustSettle(rig.One, rig.HandBack(c))
		r.MustClaim("victim", c.ID)
		r.Reap("victim")
		r.MustStand(c.ID, dispatcher.StatusReady)
	}},
	{Name: "a suspect that began beside others dies only with a holder that attempted it alone", Run: func(r *rig.Rig) {
		suspects(r, 1)
		begin := func(victim string, alone, beside bool) dispatcher.Claimed {
			c := r.MustClaim(victim, rig.Named("a", "m0"))[0]
			require.Equal(r, alone, c.Alone)
			ok, err := r.Queue.Begin(r.Ctx, victim, dispatcher.Lease{ID: c.ID, At: c.Leased}, beside)
			require.NoError(r, err)
			require.True(r, ok)
			return c
		}
		r.MustSettle(rig.One, rig.HandBack(begin(rig.One, false, true)))
		for n, alone := range []bool{false, true, true} {
			begin(fmt.Sprint("crowded", n), alone, true)
			r.Reap(fmt.Sprint("crowded", n))
			r.MustStand(rig.Named("a", "m0"), dispatcher.StatusReady)
		}
		r.MustClaim("waited", rig.Named("a", "m0"))
		r.Reap("waited")
		r.MustSettle(rig.One, rig.HandBack(begin(rig.One, true, false)))
		begin("alone", true, false)
		r.Reap("alone")
		d := r.MustStand(rig.Named("a", "m0"), dispatcher.StatusDead)
		require.Equal(r, []any{dispatcher.ReasonPoison, 4}, []any{d.Reason, d.Attempts})
	}},
	{Name: "an attempt at a suspect begins by its own lease only", Run: func(r *rig.Rig) {
		suspects(r, 1)
		c := r.MustClaim(rig.One, rig.Named("a", "m0"))[0]
		other := dispatcher.Lease{ID: c.ID, At: c.Leased.Add(-time.Millisecond)}
		for by, l := range map[string]dispatcher.Lease{rig.One: other, rig.Two: {ID: c.ID, At: c.Leased}} {
			ok, err := r.Queue.Begin(r.Ctx, by, l, false)
			require.NoError(r, err)
			require.False(r, ok)
		}
		r.Reap(rig.One)
		r.MustStand(c.ID, dispatcher.StatusReady)
	}},
	{Name: "an attempt that begins after another one's success leaves its end alone", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(rig.Two, rig.Success(c)))
		r.MustBegin(rig.One, c)
		r.Settle(rig.One, rig.HandBack(c))
		r.MustLie(stored.PlaceDone, "a", "m1")
		require.Equal(r, 1, r.Inspect(c.ID).Attempts)
	}},
	{Name: "a claim returns one suspect of a lane, and the other deliveries beside it", Run: func(r *rig.Rig) {
		for range 8 {
			r.Succeed("a")
		}
		suspects(r, 3)
		r.Publish("a", "other")
		require.Equal(r, rig.IDs("a", "m0", "other"), rig.ClaimedIDs(r.Claim(rig.One, 8)))
		r.MustClaimNothing(rig.Two)
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusScheduled)
		r.Pass(4 * time.Second)
		r.Move()
		got, _, err := r.Queue.ClaimBeside(r.Ctx, rig.One, r.All(), dispatcher.Claim{Wanted: 8, Free: 512, Suspects: []dispatcher.Lane{"a"}})
		require.NoError(r, err)
		require.Empty(r, got)
		r.Pass(4 * time.Second)
		r.Move()
		require.Len(r, r.Claim(rig.Two, 8), 1)
	}},
	{Name: "a suspect that has to wait uses no turn of its lane's rate", Run: func(r *rig.Rig) {
		suspects(r, 1)
		r.Pass(time.Hour)
		r.Limit("a", rig.Every(time.Hour))
		got, _, err := r.Queue.ClaimBeside(r.Ctx, rig.One, r.All(), dispatcher.Claim{Wanted: 8, Free: 512, Suspects: []dispatcher.Lane{"a"}})
		require.NoError(r, err)
		require.Empty(r, got)
		r.MustStand(rig.Named("a", "m0"), dispatcher.StatusScheduled)
		r.Publish("a", "other")
		r.MustClaim(rig.Two, rig.Named("a", "other"))
	}},
	{Name: "a claim returns suspects of at most 32 lanes", Run: func(r *rig.Rig) {
		for n := range 40 {
			r.Publish(dispatcher.Lane(fmt.Sprintf("l%02d", n)), fmt.Sprint("m", n))
		}
		for _, victim := range []string{"victim1", "victim2"} {
			require.Len(r, r.Claim(victim, 64), 40)
			r.Reap(victim)
		}
		require.Len(r, r.Claim(rig.One, 64), dispatcher.SuspectLanes)
		require.Empty(r, r.Claim(rig.Two, 64), "the others wait")
		r.Pass(4 * time.Second)
		r.Move()
		require.Len(r, r.Claim(rig.Two, 64), 8)
	}},
	{Name: "a take returns one suspect at a time to a handler's instance, and any number to a taker", Run: func(r *rig.Rig) {
		r.Publish("q_q", "m0", "m1", "m2")
		take := func(by string, ask dispatcher.Take) []dispatcher.DeliveryID {
			ask.Lanes, ask.Most, ask.Bytes = []dispatcher.Lane{"q_q"}, 8, 1<<20
			taken, _, err := r.Queue.Take(r.Ctx, by, ask)
			require.NoError(r, err)
			return rig.ClaimedIDs(taken.Claimed)
		}
		for _, victim := range []string{"victim1", "victim2"} {
			require.Len(r, take(victim, dispatcher.Take{}), 3)
			r.Reap(victim)
		}
		r.Publish("q_q", "other")
		require.Equal(r, rig.IDs("q_q", "m0", "other"), take(rig.One, dispatcher.Take{Suspects: 1}))
		r.Pass(4 * time.Second)
		r.Move()
		require.Empty(r, take(rig.One, dispatcher.Take{}))
		r.Pass(4 * time.Second)
		r.Move()
		require.Len(r, take(rig.Two, dispatcher.Take{For: time.Minute, Token: "t", Owner: "o"}), 2)
	}},
	{Name: "a requested retry survives the death of its holder", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Hour)))
		r.Retry(rig.Named("a", "m1"))
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.Reap(rig.One)
		require.True(r, r.MustClaim(rig.Two, rig.Named("a", "m1"))[0].Asked)
	}},
	{Name: "the next claim drops a delivery whose record was deleted by hand", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.Lose("m1")
		r.Reap(rig.One)
		r.MustClaimNothing(rig.Two)
	}},
}

// suspects publishes n messages m0, m1, ... to lane a, and lets two of their holders die.
func suspects(r *rig.Rig, n int) {
	r.Helper()
	for i := range n {
		r.Publish("a", fmt.Sprint("m", i))
	}
	for _, victim := range []string{"victim1", "victim2"} {
		require.Len(r, r.Claim(victim, n), n)
		r.Reap(victim)
	}
}
