package redisq_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// DeadCases are about the counts of dead deliveries by destination and reason.
var DeadCases = []redisqtest.Case{
	{Name: "an empty store reports no dead", Run: func(r *redisqtest.Rig) {
		require.Empty(r, dead(r, dispatcher.DeadFilter{}))
		require.Empty(r, dead(r, dispatcher.DeadFilter{Lanes: redisqtest.To("a")}))
	}},
	{Name: "a query counts the dead by destination and reason, the largest group first", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		die(r, "a", dispatcher.ReasonGone, 2)
		die(r, "a", dispatcher.ReasonExhausted, 3)
		die(r, "b", dispatcher.ReasonGone, 1)
		r.EndOne("c")
		for _, limit := range []int{1, 2, 50} {
			got := dead(r, dispatcher.DeadFilter{Limit: limit})
			require.Equal(r, []string{"a exhausted 3", "a gone 2", "b gone 1"}, summaries(got))
			require.Equal(r, "https://example.com", got[0].URL)
			require.Equal(r, "t1", got[0].Tenant)
		}
		ids := r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead}, Lanes: redisqtest.To("b")}, 10)
		r.Retry(ids[0].ID)
		require.Equal(r, []string{"a exhausted 3", "a gone 2"}, summaries(dead(r, dispatcher.DeadFilter{})))
	}},
	{Name: "a query applies filters for destination, reason and tenant together", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		r.Limit("ep_1")
		die(r, "a", dispatcher.ReasonGone, 2)
		die(r, "b", dispatcher.ReasonGone, 1)
		die(r, "b", dispatcher.ReasonRefused, 3)
		die(r, "ep_1", dispatcher.ReasonGone, 5)
		other := r.Entry("other", redisqtest.To("z"), func(m *dispatcher.Message) { m.Tenant = "t2" })
		r.Schedule(other)
		r.MustSettle(redisqtest.One, redisqtest.Death(r.ClaimAll(redisqtest.One)[0], dispatcher.ReasonGone))
		gone := []dispatcher.DeadReason{dispatcher.ReasonGone}
		for _, c := range []struct {
			f    dispatcher.DeadFilter
			want []string
		}{
			{dispatcher.DeadFilter{Lanes: redisqtest.To("b", "never", "b")}, []string{"b refused 3", "b gone 1"}},
			{dispatcher.DeadFilter{Lanes: redisqtest.To("a", "b"), Reasons: gone}, []string{"a gone 2", "b gone 1"}},
			{dispatcher.DeadFilter{Reasons: gone}, []string{"ep_1 gone 5", "a gone 2", "b gone 1", "z gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t1"}}, []string{"b refused 3", "a gone 2", "b gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t1"}, Owned: redisqtest.To("ep_1"), Reasons: gone}, []string{"ep_1 gone 5", "a gone 2", "b gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t2", "t3"}}, []string{"z gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t2"}, Lanes: redisqtest.To("a")}, []string{}},
		} {
			for _, limit := range []int{1, 50} {
				c.f.Limit = limit
				require.Equal(r, c.want, summaries(dead(r, c.f)), "%+v", c.f)
			}
		}
	}},
	{Name: "each group reports its newest, even if others died later", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		die(r, "a", dispatcher.ReasonGone, 2)
		first := r.Now
		r.Pass(time.Minute)
		die(r, "a", dispatcher.ReasonExhausted, 300) // more than one call reads
		die(r, "b", dispatcher.ReasonGone, 300)
		got := dead(r, dispatcher.DeadFilter{})
		require.Equal(r, []string{"a exhausted 300", "b gone 300", "a gone 2"}, summaries(got))
		require.Equal(r, []time.Time{r.Now, r.Now, first}, []time.Time{got[0].Newest, got[1].Newest, got[2].Newest})
		for _, g := range got {
			require.Equal(r, 410, g.LastStatus)
			require.NotEmpty(r, g.LastError)
		}
	}},
	{Name: "a query returns the URL of a lane whose state was trimmed", Run: func(r *redisqtest.Rig) {
		die(r, "a", dispatcher.ReasonGone, 1)
		r.Pass(2 * time.Hour)
		r.Trim(redisqtest.KeepAll)
		require.False(r, r.State().Lanes["a"].Known)
		for _, f := range []dispatcher.DeadFilter{{}, {Tenants: []string{"t1"}}} {
			got := dead(r, f)
			require.Equal(r, []string{"a gone 1"}, summaries(got))
			require.Equal(r, "https://example.com", got[0].URL)
		}
		require.Empty(r, dead(r, dispatcher.DeadFilter{Tenants: []string{"t2"}}))
	}},
	{Name: "a query refuses a cursor of another filter or of another list", Run: func(r *redisqtest.Rig) {
		die(r, "a", dispatcher.ReasonGone, 2)
		die(r, "b", dispatcher.ReasonGone, 1)
		page, err := r.Queue.Dead(r.Ctx, dispatcher.DeadFilter{Limit: 1})
		require.NoError(r, err)
		for _, f := range []dispatcher.DeadFilter{{Cursor: "x"}, {Cursor: "ZGVhZA"}, {Lanes: redisqtest.To("a"), Cursor: page.Next}} {
			_, err = r.Queue.Dead(r.Ctx, f)
			require.ErrorIs(r, err, dispatcher.ErrCursor)
		}
		_, err = r.Queue.List(r.Ctx, dispatcher.Filter{Cursor: page.Next})
		require.ErrorIs(r, err, dispatcher.ErrCursor)
	}},
}

// die lets n deliveries of a lane die.
func die(r *redisqtest.Rig, lane dispatcher.Lane, reason dispatcher.DeadReason, n int) {
	r.Helper()
	for range n {
		r.MustSettle(redisqtest.One, redisqtest.Death(r.TakeNew(lane), reason))
	}
}

// dead returns the groups of all pages.
func dead(r *redisqtest.Rig, f dispatcher.DeadFilter) (all []dispatcher.DeadGroup) {
	r.Helper()
	for pages := 0; ; pages++ {
		page, err := r.Queue.Dead(r.Ctx, f)
		require.NoError(r, err)
		all = slices.Concat(all, page.Groups)
		if page.Next == "" {
			return all
		}
		require.Less(r, pages, 100)
		f.Cursor = page.Next
	}
}

func summaries(groups []dispatcher.DeadGroup) []string {
	list := []string{}
	for _, g := range groups {
		list = append(list, fmt.Sprint(g.Lane, " ", g.Reason, " ", g.Count))
	}
	return list
}

// EndCases are about the deaths that calls report, and about the counts of ends.
// The store keeps these counts for ever.
var EndCases = []redisqtest.Case{
	{Name: "a settle reports the death that it caused", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"), redisqtest.Named("a", "m3"))
		mustReportDeaths(r)
		r.Settle(redisqtest.One, redisqtest.Death(c[0], dispatcher.ReasonGone), redisqtest.Success(c[1]))
		mustReportDeaths(r, dispatcher.Death{ID: c[0].ID, Reason: dispatcher.ReasonGone, Attempts: 1})
		r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonExhausted))
		mustReportDeaths(r, dispatcher.Death{ID: redisqtest.Named("a", "m1"), Reason: dispatcher.ReasonExhausted, Attempts: 2})
	}},
	{Name: "a settle reports no death of a delivery that was cancelled meanwhile", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Cancel(c.ID)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone)))
		mustReportDeaths(r)
		require.Empty(r, r.Stats().EverDead)
		require.Equal(r, int64(1), r.Stats().Cancelled)
	}},
	{Name: "a settle reports the reason disabled if the lane was disabled meanwhile", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0]
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, redisqtest.Failure(c, time.Hour)))
		mustReportDeaths(r, dispatcher.Death{ID: c.ID, Reason: dispatcher.ReasonDisabled, Attempts: 1})
	}},
	{Name: "a claim that finds an expired delivery reports its death", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(redisqtest.Start.Add(time.Minute))))
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		r.Pass(time.Hour)
		mustReportDeaths(r)
		r.MustClaimNothing(redisqtest.One)
		mustReportDeaths(r, dispatcher.Death{ID: redisqtest.Named("a", "m1"), Reason: dispatcher.ReasonExpired, Attempts: 1})
	}},
	{Name: "any call that ends a delivery of a disabled endpoint reports its death", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Schedule(
			r.Entry("later", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)), r.Entry("soon", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Minute)),
			r.Entry("ready", redisqtest.To(redisqtest.EpOne)), r.Entry("held", redisqtest.To(redisqtest.EpOne)),
		)
		r.MustClaim(redisqtest.Two, redisqtest.Named(redisqtest.EpOne, "ready"))
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		disabled := func(message string) dispatcher.Death {
			return dispatcher.Death{ID: redisqtest.Named(redisqtest.EpOne, message), Reason: dispatcher.ReasonDisabled}
		}
		r.Publish(redisqtest.EpOne, "new")
		mustReportDeaths(r, disabled("new"))
		r.Move()
		mustReportDeaths(r, disabled("held"))
		r.Reap(redisqtest.Two)
		mustReportDeaths(r, disabled("ready"))
		r.Pass(time.Minute)
		r.Move()
		mustReportDeaths(r, disabled("soon"))
		_, _, hints, err := r.Queue.Sweep(r.Ctx, redisqtest.One, redisqtest.EpOne, "")
		require.NoError(r, err)
		r.MustBeCurrent(hints)
		mustReportDeaths(r, disabled("later"))
	}},
	{Name: "deliveries behind a cancelled one die with their lane and are reported", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.PublishKeyed(redisqtest.EpOne, "k", "m1", "m2", "m3")
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Cancel(redisqtest.Named(redisqtest.EpOne, "m2"))
		mustReportDeaths(r)
		r.Move()
		mustReportDeaths(r,
			dispatcher.Death{ID: redisqtest.Named(redisqtest.EpOne, "m1"), Reason: dispatcher.ReasonDisabled},
			dispatcher.Death{ID: redisqtest.Named(redisqtest.EpOne, "m3"), Reason: dispatcher.ReasonDisabled},
		)
	}},
	{Name: "a cancel of the first delivery of a line reports the deaths behind it", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour), redisqtest.Keyed("k")), r.Entry("m2", redisqtest.To(redisqtest.EpOne), redisqtest.Keyed("k")))
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Cancel(redisqtest.Named(redisqtest.EpOne, "m1"))
		mustReportDeaths(r, dispatcher.Death{ID: redisqtest.Named(redisqtest.EpOne, "m2"), Reason: dispatcher.ReasonDisabled})
	}},
	{Name: "a delivery to a full lane dies and is reported", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		e := r.Entry("m2", redisqtest.To("a", "b"))
		e.Fan = true
		r.Schedule(e)
		mustReportDeaths(r, dispatcher.Death{ID: redisqtest.Named("a", "m2"), Reason: dispatcher.ReasonOverflow})
	}},
	{Name: "a delivery that killed its holders has one attempt for each holder", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		for n := range 3 {
			mustReportDeaths(r)
			r.DieWith(fmt.Sprint("victim", n), redisqtest.Named("a", "m1"))
		}
		mustReportDeaths(r, dispatcher.Death{ID: redisqtest.Named("a", "m1"), Reason: dispatcher.ReasonPoison, Attempts: 4})
	}},
	{Name: "a death is reported once, even if its outcome is settled twice", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		s := redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonRefused)
		r.MustSettle(redisqtest.One, s)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledBefore}, r.Settle(redisqtest.One, s))
		mustReportDeaths(r, dispatcher.Death{ID: s.ID, Reason: dispatcher.ReasonRefused, Attempts: 1})
		require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonRefused: 1}, r.Stats().EverDead)
		r.Pass(time.Millisecond)
		r.Reap(redisqtest.One)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledBefore}, r.Settle(redisqtest.One, s), "the outcome was settled before the instance was declared dead")
	}},
	{Name: "a death that the next holder reported is late for the holder before", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"), redisqtest.Named("a", "m2"))
		r.Reap(redisqtest.One)
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"), redisqtest.Named("a", "m2"))
		r.Settle(redisqtest.Two, redisqtest.Death(c[0], dispatcher.ReasonGone), redisqtest.Success(c[1]))
		late := []dispatcher.SettleResult{dispatcher.SettledLate, dispatcher.SettledLate}
		require.Equal(r, late, r.Settle(redisqtest.One, redisqtest.Death(c[0], dispatcher.ReasonGone), redisqtest.Death(c[1], dispatcher.ReasonGone)))
	}},
	{Name: "a repeated death of a cancelled delivery is late", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		s := redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonGone)
		r.Cancel(s.ID)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, s))
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, s))
	}},
	{Name: "an end stays counted, even after a retry", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		for i, lane := range redisqtest.ManyLanes(12) {
			r.Publish(lane, fmt.Sprint("m", i))
		}
		var batch []dispatcher.Settlement
		for _, c := range r.Claim(redisqtest.One, 64) {
			batch = append(batch, redisqtest.Death(c, dispatcher.ReasonGone))
		}
		require.Len(r, batch, 12)
		r.Cancel(batch[11].ID)
		r.Settle(redisqtest.One, batch...)
		mustReport := func() {
			require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonGone: 11}, r.Stats().EverDead)
			require.Equal(r, int64(1), r.Stats().Cancelled)
		}
		mustReport()
		r.Retry(batch[0].ID, batch[11].ID)
		require.Equal(r, int64(10), r.Stats().Dead[dispatcher.ReasonGone])
		mustReport()
		r.Pass(time.Hour)
		r.Trim(redisqtest.KeepNothing)
		require.Empty(r, r.Stats().Dead)
		mustReport()
	}},
}

// mustReportDeaths fails the case unless the calls after its last one reported
// exactly these deaths, in any order.
func mustReportDeaths(r *redisqtest.Rig, want ...dispatcher.Death) {
	r.Helper()
	require.ElementsMatch(r, want, r.Died)
	r.Died = nil
}
