package deliveries

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// DeadCases are about the counts of dead deliveries by destination and reason.
var DeadCases = []rig.Case{
	{Name: "an empty store reports no dead", Run: func(r *rig.Rig) {
		require.Empty(r, dead(r, dispatcher.DeadFilter{}))
		require.Empty(r, dead(r, dispatcher.DeadFilter{Lanes: rig.To("a")}))
	}},
	{Name: "a query counts the dead by destination and reason, the largest group first", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		die(r, "a", dispatcher.ReasonGone, 2)
		die(r, "a", dispatcher.ReasonExhausted, 3)
		die(r, "b", dispatcher.ReasonGone, 1)
		r.EndOne("c")
		for _, limit := range []int{1, 2, 50} {
			got := dead(r, dispatcher.DeadFilter{Limit: limit})
			require.Equal(r, []string{"a exhausted 3", "a gone 2", "b gone 1"}, told(got))
			require.Equal(r, "https://example.com", got[0].URL)
			require.Equal(r, "t1", got[0].Tenant)
		}
		ids := r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead}, Lanes: rig.To("b")}, 10)
		r.Retry(ids[0].ID)
		require.Equal(r, []string{"a exhausted 3", "a gone 2"}, told(dead(r, dispatcher.DeadFilter{})))
	}},
	{Name: "a query applies filters for destination, reason and tenant together", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		r.Limit("ep_1")
		die(r, "a", dispatcher.ReasonGone, 2)
		die(r, "b", dispatcher.ReasonGone, 1)
		die(r, "b", dispatcher.ReasonRefused, 3)
		die(r, "ep_1", dispatcher.ReasonGone, 5)
		other := r.Entry("other", rig.To("z"), func(m *dispatcher.Message) { m.Tenant = "t2" })
		r.Schedule(other)
		r.MustSettle(rig.One, rig.Death(r.ClaimAll(rig.One)[0], dispatcher.ReasonGone))
		gone := []dispatcher.DeadReason{dispatcher.ReasonGone}
		for _, c := range []struct {
			f    dispatcher.DeadFilter
			want []string
		}{
			{dispatcher.DeadFilter{Lanes: rig.To("b", "never", "b")}, []string{"b refused 3", "b gone 1"}},
			{dispatcher.DeadFilter{Lanes: rig.To("a", "b"), Reasons: gone}, []string{"a gone 2", "b gone 1"}},
			{dispatcher.DeadFilter{Reasons: gone}, []string{"ep_1 gone 5", "a gone 2", "b gone 1", "z gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t1"}}, []string{"b refused 3", "a gone 2", "b gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t1"}, Owned: rig.To("ep_1"), Reasons: gone}, []string{"ep_1 gone 5", "a gone 2", "b gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t2", "t3"}}, []string{"z gone 1"}},
			{dispatcher.DeadFilter{Tenants: []string{"t2"}, Lanes: rig.To("a")}, []string{}},
		} {
			for _, limit := range []int{1, 50} {
				c.f.Limit = limit
				require.Equal(r, c.want, told(dead(r, c.f)), "%+v", c.f)
			}
		}
	}},
	{Name: "each group reports its newest, even if others died later", Setup: stored.Setup{Partitions: 2}, Run: func(r *rig.Rig) {
		die(r, "a", dispatcher.ReasonGone, 2)
		first := r.Now
		r.Pass(time.Minute)
		die(r, "a", dispatcher.ReasonExhausted, 300) // more than one call reads
		die(r, "b", dispatcher.ReasonGone, 300)
		got := dead(r, dispatcher.DeadFilter{})
		require.Equal(r, []string{"a exhausted 300", "b gone 300", "a gone 2"}, told(got))
		require.Equal(r, []time.Time{r.Now, r.Now, first}, []time.Time{got[0].Newest, got[1].Newest, got[2].Newest})
		for _, g := range got {
			require.Equal(r, 410, g.LastStatus)
			require.NotEmpty(r, g.LastError)
		}
	}},
	{Name: "a query returns the URL of a lane whose state was trimmed", Run: func(r *rig.Rig) {
		die(r, "a", dispatcher.ReasonGone, 1)
		r.Pass(2 * time.Hour)
		r.Trim(rig.KeepAll)
		require.False(r, r.State().Lanes["a"].Known)
		for _, f := range []dispatcher.DeadFilter{{}, {Tenants: []string{"t1"}}} {
			got := dead(r, f)
			require.Equal(r, []string{"a gone 1"}, told(got))
			require.Equal(r, "https://example.com", got[0].URL)
		}
		require.Empty(r, dead(r, dispatcher.DeadFilter{Tenants: []string{"t2"}}))
	}},
	{Name: "a query refuses a cursor of another filter or of another list", Run: func(r *rig.Rig) {
		die(r, "a", dispatcher.ReasonGone, 2)
		die(r, "b", dispatcher.ReasonGone, 1)
		page, err := r.Queue.Dead(r.Ctx, dispatcher.DeadFilter{Limit: 1})
		require.NoError(r, err)
		for _, f := range []dispatcher.DeadFilter{{Cursor: "x"}, {Cursor: "ZGVhZA"}, {Lanes: rig.To("a"), Cursor: page.Next}} {
			_, err = r.Queue.Dead(r.Ctx, f)
			require.ErrorIs(r, err, dispatcher.ErrCursor)
		}
		_, err = r.Queue.List(r.Ctx, dispatcher.Filter{Cursor: page.Next})
		require.ErrorIs(r, err, dispatcher.ErrCursor)
	}},
}

// die lets n deliveries of a lane die.
func die(r *rig.Rig, lane dispatcher.Lane, reason dispatcher.DeadReason, n int) {
	r.Helper()
	for range n {
		r.MustSettle(rig.One, rig.Death(r.TakeNew(lane), reason))
	}
}

// dead returns the groups of all pages.
func dead(r *rig.Rig, f dispatcher.DeadFilter) (all []dispatcher.DeadGroup) {
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

func told(groups []dispatcher.DeadGroup) []string {
	list := []string{}
	for _, g := range groups {
		list = append(list, fmt.Sprint(g.Lane, " ", g.Reason, " ", g.Count))
	}
	return list
}
