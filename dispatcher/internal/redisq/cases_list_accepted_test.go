package redisq_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// AcceptedCases are about lists of some lanes by the times of acceptance.
var AcceptedCases = []redisqtest.Case{
	{Name: "a query returns all deliveries of lanes once, the newest accepted first", Run: listsByAcceptance},
	{Name: "a query of several partitions returns one list by acceptance", Setup: redisqtest.Setup{Partitions: 4}, Run: listsByAcceptance},
	{Name: "a query by acceptance returns the statuses and times of its filter", Run: func(r *redisqtest.Rig) {
		want := r.Populate()
		of := dispatcher.Filter{Order: dispatcher.OrderAccepted, Lanes: redisqtest.To("lane1", "lane2")}
		all := r.ListAll(of, 100)
		for _, status := range dispatcher.Statuses() {
			f := of
			f.Statuses = []dispatcher.Status{status}
			r.MustList(f, want, func(id dispatcher.DeliveryID, s dispatcher.Status) bool { return id.Lane != "lane0" && s == status })
		}
		for i, d := range all {
			f := of
			f.Since, f.Until = d.Created, all[0].Created
			for _, listed := range r.ListAll(f, 3) {
				require.False(r, listed.Created.Before(d.Created) || !listed.Created.Before(all[0].Created), "%d: %s", i, listed.ID)
			}
			f.Until = d.Created.Add(time.Millisecond)
			require.NotEmpty(r, r.ListAll(f, 1))
			f.Until, f.Limit = time.Time{}, 100
			page, err := r.Queue.List(r.Ctx, f)
			require.NoError(r, err)
			require.Equal(r, len(page.Deliveries), page.LookedAt, "the query reads nothing older")
		}
		require.Empty(r, r.ListAll(dispatcher.Filter{Order: dispatcher.OrderAccepted, Lanes: redisqtest.To("never")}, 1))
	}},
	{Name: "a query finds a failed delivery behind thousands that wait", Run: func(r *redisqtest.Rig) {
		failed := r.TakeNew("a")
		r.MustSettle(redisqtest.One, redisqtest.Failure(failed, time.Hour))
		r.Pass(time.Second)
		var entries []dispatcher.Entry
		for range 2500 {
			entries = append(entries, r.Entry(r.NewID(), redisqtest.To("a")))
		}
		r.Schedule(entries...)
		page, err := r.Queue.List(r.Ctx, dispatcher.Filter{Order: dispatcher.OrderAccepted, Lanes: redisqtest.To("a"), Failed: true, Limit: 5})
		require.NoError(r, err)
		require.Len(r, page.Deliveries, 1)
		require.Equal(r, failed.ID, page.Deliveries[0].ID)
		require.Equal(r, 2501, page.LookedAt)
		require.Empty(r, page.Next)
	}},
	{Name: "a query merges lanes whose deliveries alternate, and returns few matches among many once each", Run: listsAlternating},
	{Name: "a query merges alternating lanes of several partitions", Setup: redisqtest.Setup{Partitions: 4}, Run: listsAlternating},
	{Name: "a query by acceptance refuses a cursor of another filter, but not of other times", Run: func(r *redisqtest.Rig) {
		r.Populate()
		f := dispatcher.Filter{Order: dispatcher.OrderAccepted, Lanes: redisqtest.To("lane1"), Limit: 2}
		page, err := r.Queue.List(r.Ctx, f)
		require.NoError(r, err)
		require.NotEmpty(r, page.Next)
		f.Cursor = page.Next
		for name, change := range map[string]func(*dispatcher.Filter){
			"lanes":    func(f *dispatcher.Filter) { f.Lanes = redisqtest.To("lane2") },
			"statuses": func(f *dispatcher.Filter) { f.Statuses = []dispatcher.Status{dispatcher.StatusDead} },
			"tenants":  func(f *dispatcher.Filter) { f.Tenants = []string{"t"} },
			"order":    func(f *dispatcher.Filter) { f.Order = "" },
			"a letter": func(f *dispatcher.Filter) { f.Cursor = "A" + f.Cursor[1:] + "A" },
			"no seal":  func(f *dispatcher.Filter) { f.Cursor = "bGFuZTEgMA" },
		} {
			other := f
			change(&other)
			_, err := r.Queue.List(r.Ctx, other)
			require.ErrorIs(r, err, dispatcher.ErrCursor, name)
		}
		f.Until = r.Later(time.Hour)
		again, err := r.Open().List(r.Ctx, f)
		require.NoError(r, err, "another instance accepts the cursor")
		require.Len(r, again.Deliveries, 2)
	}},
	{Name: "a tenant's query returns its own deliveries only, in each order", Run: listsOfTenants},
	{Name: "a tenant's query over several partitions returns its own deliveries only", Setup: redisqtest.Setup{Partitions: 4}, Run: listsOfTenants},
	{Name: "a query by acceptance returns each delivery once while all of them move", Run: func(r *redisqtest.Rig) {
		for n := range 40 {
			r.Pass(time.Millisecond)
			r.Schedule(r.Entry(fmt.Sprintf("m%02d", n), redisqtest.To("a"), redisqtest.Delay(time.Duration(n%4)*time.Second)))
		}
		f := dispatcher.Filter{Order: dispatcher.OrderAccepted, Lanes: redisqtest.To("a"), Limit: 3}
		got := map[dispatcher.DeliveryID]int{}
		for more := true; more; more = f.Cursor != "" {
			page, err := r.Queue.List(r.Ctx, f)
			require.NoError(r, err)
			for _, d := range page.Deliveries {
				got[d.ID]++
			}
			f.Cursor = page.Next
			r.Pass(time.Second)
			r.Move()
			for i, c := range r.Claim(redisqtest.One, 6) {
				switch i % 3 {
				case 0:
					r.MustSettle(redisqtest.One, redisqtest.Success(c))
				case 1:
					r.MustSettle(redisqtest.One, redisqtest.Failure(c, 2*time.Second))
				default:
					r.Cancel(c.ID)
				}
			}
			r.Schedule(r.Entry(r.NewID(), redisqtest.To("a")))
		}
		for n := range 40 {
			require.Equal(r, 1, got[redisqtest.Named("a", fmt.Sprintf("m%02d", n))], "m%02d", n)
		}
	}},
}

func listsByAcceptance(r *redisqtest.Rig) {
	want := r.Populate()
	lanes := redisqtest.To("lane0", "lane2", "never")
	f := dispatcher.Filter{Order: dispatcher.OrderAccepted, Lanes: lanes}
	r.MustList(f, want, func(id dispatcher.DeliveryID, _ dispatcher.Status) bool { return id.Lane != "lane1" })
	for _, limit := range []int{1, 3, 100} {
		list := r.ListAll(f, limit)
		for i, d := range list {
			require.False(r, i > 0 && list[i-1].Created.Before(d.Created), "%s is before %s", list[max(i, 1)-1].ID, d.ID)
			read := r.Inspect(d.ID)
			read.History = nil
			require.Equal(r, read, d)
		}
	}
}

func listsAlternating(r *redisqtest.Rig) {
	lanes := redisqtest.To("d", "a", "c", "b", "e")
	about := func(m *dispatcher.Message) { m.Topic = "few.ones" }
	var want, all []string
	put := func(n int, lane dispatcher.Lane, change ...func(*dispatcher.Message)) {
		r.Pass(time.Millisecond)
		id := fmt.Sprintf("m%03d", n)
		r.Schedule(r.Entry(id, redisqtest.To(lane), append(change, redisqtest.Delay(time.Hour))...))
		all = append([]string{id}, all...)
		if len(change) > 0 {
			want = append([]string{id}, want...)
		}
	}
	for n := range 30 {
		put(n, lanes[n*n%5], about)
	}
	for n := range 300 {
		put(100+n, "a")
	}
	put(900, "a", about)
	f := dispatcher.Filter{Order: dispatcher.OrderAccepted, Lanes: lanes, Topics: []string{"few.ones"}}
	for _, limit := range []int{1, 4, 100} {
		var got []string
		for _, d := range r.ListAll(f, limit) {
			got = append(got, d.ID.Message)
		}
		require.Equal(r, want, got)
	}
	f.Topics = nil
	var got []string
	for _, d := range r.ListAll(f, 4) {
		got = append(got, d.ID.Message)
	}
	require.Equal(r, all, got)
}

func listsOfTenants(r *redisqtest.Rig) {
	of := func(tenant string) func(*dispatcher.Message) {
		return func(m *dispatcher.Message) { m.Tenant = tenant }
	}
	for n := range 24 {
		tenant := []string{"t1", "t2", ""}[n%3]
		lanes := redisqtest.To("q_both", dispatcher.Lane("u_"+tenant), dispatcher.Lane("v_"+tenant))
		r.Pass(time.Millisecond)
		r.Schedule(r.Entry(fmt.Sprintf("m%02d", n), lanes[n%2:n%2+1], of(tenant), redisqtest.Delay(time.Duration(n%4)*time.Minute)))
	}
	for i, c := range r.ClaimAll(redisqtest.One) {
		r.Pass(time.Second)
		if i%2 == 0 {
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
		} else {
			r.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone))
		}
	}
	all := r.ListAll(dispatcher.Filter{}, 100)
	for _, of := range []dispatcher.Filter{
		{Order: dispatcher.OrderAccepted}, {Order: dispatcher.OrderAccepted, Statuses: []dispatcher.Status{dispatcher.StatusDead}},
		{Order: dispatcher.OrderEnded, Statuses: dispatcher.EndStatuses()}, {Order: dispatcher.OrderDue},
	} {
		for _, tenants := range [][]string{{"t1"}, {"t2", "t1"}, {"t3"}} {
			for _, lanes := range [][]dispatcher.Lane{nil, redisqtest.To("q_both", "u_t2")} {
				f := of
				f.Tenants, f.Lanes = tenants, lanes
				want := map[dispatcher.DeliveryID]bool{}
				for _, d := range all {
					in := of.Order == dispatcher.OrderAccepted || d.Status.Ended() == (of.Order == dispatcher.OrderEnded)
					if in && f.Matches(&d, d.Created) {
						want[d.ID] = true
					}
				}
				for _, limit := range []int{1, 3, 100} {
					got := map[dispatcher.DeliveryID]bool{}
					list := r.ListAll(f, limit)
					for i, d := range list {
						got[d.ID] = true
						if i > 0 {
							before := list[i-1]
							require.False(r, of.Order == dispatcher.OrderAccepted && before.Created.Before(d.Created))
							require.False(r, of.Order == dispatcher.OrderEnded && before.Ended.Before(d.Ended))
							require.False(r, of.Order == dispatcher.OrderDue && before.Due.After(d.Due))
						}
					}
					require.Equal(r, want, got, "%+v", f)
				}
				page, err := r.Queue.List(r.Ctx, f)
				require.NoError(r, err)
				require.LessOrEqual(r, page.LookedAt, 16, "the query reads no other tenant's deliveries")
			}
		}
	}
}

// walkAll queries the list of all deliveries, one a page. After a page with a delivery it calls the
// function of its message, once. It returns the number of times that it got each message.
func walkAll(r *redisqtest.Rig, after map[string]func()) map[string]int {
	r.Helper()
	shown := map[string]int{}
	f := dispatcher.Filter{Limit: 1}
	for range 100 {
		page, err := r.Queue.List(r.Ctx, f)
		require.NoError(r, err)
		for _, d := range page.Deliveries {
			shown[d.ID.Message]++
			if act := after[d.ID.Message]; act != nil && shown[d.ID.Message] == 1 {
				act()
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return shown
		}
	}
	r.Fatal("the list never ends")
	return nil
}

// MovedCases are about lists of all deliveries that move meanwhile.
var MovedCases = []redisqtest.Case{
	{Name: "a query of all returns each delivery once if nothing moves", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		want := map[string]int{}
		for id := range r.Populate() {
			want[id.Message] = 1
		}
		r.Pass(2 * time.Second)
		require.Equal(r, want, walkAll(r, nil))
	}},
	{Name: "a query of all returns deliveries that move past its page", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		lanes := []string{"a", "c", "d"} // each has a message of its name
		for _, lane := range lanes {
			r.Publish(dispatcher.Lane(lane), lane)
		}
		r.Schedule(r.Entry("near", redisqtest.To("b"), redisqtest.Delay(time.Hour)), r.Entry("far", redisqtest.To("b"), redisqtest.Delay(2*time.Hour)))
		r.Pass(time.Second)
		after := map[string]func(){}
		var taken []dispatcher.Claimed
		for _, lane := range lanes {
			after[lane] = func() { // the list has read the leases by now
				if taken == nil {
					taken = slices.DeleteFunc(r.ClaimAll(redisqtest.One), func(c dispatcher.Claimed) bool { return c.ID.Message == lane })
				}
			}
		}
		after["near"] = func() { // it has read the ready deliveries, and those that are due earlier
			require.Len(r, taken, 2)
			r.MustSettle(redisqtest.One, redisqtest.HandBack(taken[0]))
			r.MustSettle(redisqtest.One, redisqtest.Failure(taken[1], time.Minute))
		}
		shown := walkAll(r, after)
		for _, id := range append(lanes, "near", "far") {
			require.Positive(r, shown[id], "%s: %v", id, shown)
		}
		require.Equal(r, []int{1, 1}, []int{shown["near"], shown["far"]})
	}},
	{Name: "a query of all returns deliveries that are taken over from a dead instance", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		r.Beat(redisqtest.One, "dead")
		r.Publish("a", "a")
		r.Publish("c", "c")
		r.Schedule(r.Entry("near", redisqtest.To("b"), redisqtest.Delay(time.Hour)))
		r.Pass(time.Second)
		claim := sync.OnceFunc(func() { r.ClaimAll("dead") })
		shown := walkAll(r, map[string]func(){"a": claim, "c": claim, "near": func() { r.Reap("dead") }})
		require.Positive(r, shown["a"], "%v", shown)
		require.Positive(r, shown["c"], "%v", shown)
	}},
	{Name: "a query of all returns a delivery that ended after its page of ends", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		ended := r.EndOne("z")
		r.Publish("a", "forward")
		r.Schedule(r.Entry("waits", redisqtest.To("b"), redisqtest.Delay(time.Hour)))
		r.Pass(time.Second)
		shown := walkAll(r, map[string]func(){ended.Message: func() {
			r.MustSettle(redisqtest.One, redisqtest.Success(r.ClaimAll(redisqtest.One)[0]))
		}})
		require.Equal(r, map[string]int{ended.Message: 1, "forward": 1, "waits": 1}, shown)
	}},
}
