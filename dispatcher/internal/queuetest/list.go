package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var listCases = []testCase{
	{name: "an empty store lists nothing", run: func(r *rig) {
		page, err := r.Queue.List(r.ctx, dispatcher.Filter{Limit: 10})
		require.NoError(r, err)
		require.Empty(r, page.Deliveries)
		require.Empty(r, page.Next)
	}},
	{name: "every delivery is listed once, whatever the page's size", run: func(r *rig) {
		want := r.populate()
		for _, limit := range []int{1, 2, 7, 500} {
			requireStatuses(r, want, r.listAll(dispatcher.Filter{}, limit))
		}
	}},
	{name: "several partitions make one list", setup: Setup{Partitions: 4}, run: func(r *rig) {
		want := r.populate()
		for _, limit := range []int{1, 7, 500} {
			requireStatuses(r, want, r.listAll(dispatcher.Filter{}, limit))
		}
	}},
	{name: "a filter for statuses lists these and no other", run: func(r *rig) {
		want := r.populate()
		filters := [][]dispatcher.Status{{dispatcher.StatusDead, dispatcher.StatusReady}}
		for _, status := range dispatcher.Statuses {
			filters = append(filters, []dispatcher.Status{status})
		}
		for _, statuses := range filters {
			r.mustList(dispatcher.Filter{Statuses: statuses}, want, func(_ dispatcher.DeliveryID, s dispatcher.Status) bool {
				return slices.Contains(statuses, s)
			})
		}
	}},
	{name: "a filter for lanes lists these and no other", run: func(r *rig) {
		want := r.populate()
		lanes := []dispatcher.Lane{"lane0", "lane2", "never"}
		r.mustList(dispatcher.Filter{Lanes: lanes}, want, func(id dispatcher.DeliveryID, _ dispatcher.Status) bool {
			return slices.Contains(lanes, id.Lane)
		})
	}},
	{name: "filters for lane and status hold together", run: func(r *rig) {
		want := r.populate()
		f := dispatcher.Filter{Lanes: to("lane1"), Statuses: []dispatcher.Status{dispatcher.StatusReady, dispatcher.StatusScheduled}}
		r.mustList(f, want, func(id dispatcher.DeliveryID, s dispatcher.Status) bool {
			return id.Lane == "lane1" && slices.Contains(f.Statuses, s)
		})
	}},
	{name: "filters for topic and tenant", run: func(r *rig) {
		about := func(topic, tenant string) func(*dispatcher.Message) {
			return func(m *dispatcher.Message) { m.Topic, m.Tenant = topic, tenant }
		}
		r.schedule(
			r.entry("m1", to("a"), about("payment.paid", "t1")),
			r.entry("m2", to("a"), about("payment.refunded", "t1"), delay(time.Hour)),
			r.entry("m3", to("a"), about("payment.paid", "t2"), delay(time.Hour)),
			r.entry("m4", to("b"), about("account.closed", "")),
		)
		for _, c := range []struct {
			f    dispatcher.Filter
			want []string
		}{
			{dispatcher.Filter{Topics: []string{"payment.paid"}}, []string{"m1", "m3"}},
			{dispatcher.Filter{Topics: []string{"payment.refunded", "account.closed"}}, []string{"m2", "m4"}},
			{dispatcher.Filter{Tenants: []string{"t1"}}, []string{"m1", "m2"}},
			{dispatcher.Filter{Tenants: []string{"t1", "t2"}, Topics: []string{"payment.paid"}}, []string{"m1", "m3"}},
			{dispatcher.Filter{Topics: []string{"payment"}}, nil},
		} {
			for _, limit := range []int{1, 100} {
				var got []string
				for _, d := range r.listAll(c.f, limit) {
					got = append(got, d.ID.Message)
				}
				slices.Sort(got)
				require.Equal(r, c.want, got, "%+v", c.f)
			}
		}
	}},
	{name: "a filter for the reason lists the dead of it", run: func(r *rig) {
		reasons := []dispatcher.DeadReason{dispatcher.ReasonGone, dispatcher.ReasonExhausted, dispatcher.ReasonRefused}
		want := map[dispatcher.DeadReason]dispatcher.DeliveryID{}
		for _, reason := range reasons {
			c := r.takeNew("a")
			r.mustSettle(one, death(c, reason))
			want[reason] = c.ID
		}
		r.endOne("a")
		for reason, id := range want {
			got := r.listAll(dispatcher.Filter{Reasons: []dispatcher.DeadReason{reason}}, 10)
			require.Len(r, got, 1)
			require.Equal(r, id, got[0].ID)
			require.Equal(r, reason, got[0].Reason)
		}
		require.Len(r, r.listAll(dispatcher.Filter{Reasons: reasons[:2]}, 10), 2)
	}},
	{name: "since is inclusive and until is not, of the end or of the next attempt", run: func(r *rig) {
		var ended []dispatcher.DeliveryID
		for range 4 {
			ended = append(ended, r.endOne("a"))
			r.pass(time.Second)
		}
		for n := range 4 {
			r.schedule(r.entry(fmt.Sprintf("due%d", n), to("a"), deliverAt(start.Add(time.Duration(n)*time.Hour+time.Hour))))
		}
		between := func(since, until time.Time) []dispatcher.DeliveryID {
			var got []dispatcher.DeliveryID
			for _, d := range r.listAll(dispatcher.Filter{Since: since, Until: until}, 2) {
				got = append(got, d.ID)
			}
			return got
		}
		require.Equal(r, []dispatcher.DeliveryID{ended[2], ended[1]}, between(start.Add(time.Second), start.Add(3*time.Second)))
		require.Equal(r, ids("a", "due2", "due1"), between(start.Add(2*time.Hour), start.Add(4*time.Hour)))
		require.Len(r, between(start.Add(time.Second), time.Time{}), 7)
		require.Len(r, between(time.Time{}, start.Add(time.Second)), 1)
	}},
	{name: "since and until are of the claim while an attempt is under way", run: func(r *rig) {
		var held []dispatcher.DeliveryID
		for _, lane := range to("a", "b", "c") {
			held = append(held, r.takeNew(lane).ID)
			r.pass(time.Second)
		}
		for _, c := range []struct {
			since, until time.Duration
			want         []dispatcher.DeliveryID
		}{
			{0, time.Hour, []dispatcher.DeliveryID{held[2], held[1], held[0]}},
			{time.Second, 2 * time.Second, held[1:2]},
			{2 * time.Second, time.Hour, held[2:]},
			{3 * time.Second, time.Hour, nil},
		} {
			f := dispatcher.Filter{
				Statuses: []dispatcher.Status{dispatcher.StatusInFlight}, Since: start.Add(c.since), Until: start.Add(c.until),
			}
			var got []dispatcher.DeliveryID
			for _, d := range r.listAll(f, 1) {
				got = append(got, d.ID)
				require.Zero(r, d.Due, "no attempt is coming")
			}
			require.Equal(r, c.want, got, "%s to %s", c.since, c.until)
		}
	}},
	{name: "of one status the newest is first", run: func(r *rig) {
		r.populate()
		for _, status := range []dispatcher.Status{dispatcher.StatusDelivered, dispatcher.StatusDead, dispatcher.StatusScheduled} {
			got := r.listAll(dispatcher.Filter{Statuses: []dispatcher.Status{status}}, 2)
			require.NotEmpty(r, got)
			for i := 1; i < len(got); i++ {
				require.False(r, got[i].Ended.After(got[i-1].Ended), "%s", status)
				require.False(r, got[i].Due.After(got[i-1].Due), "%s", status)
			}
		}
	}},
	{name: "many that ended in one ms are listed once each", run: func(r *rig) {
		r.succeedMany("a", 300)
		r.succeedMany("b", 300)
		for _, limit := range []int{97, 256, 299} {
			require.Len(r, r.listAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}}, limit), 600)
		}
	}},
	{name: "a long lane is listed whole", run: func(r *rig) {
		r.publishMany("a", 600)
		r.publishMany("b", 3)
		for _, limit := range []int{97, 256, 500} {
			require.Len(r, r.listAll(dispatcher.Filter{}, limit), 603)
		}
	}},
	{name: "a delivery that ends or is forgotten between two pages does not hide another", run: func(r *rig) {
		r.succeedMany("a", 20)
		f := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}, Limit: 5}
		page, err := r.Queue.List(r.ctx, f)
		require.NoError(r, err)
		require.Len(r, page.Deliveries, 5)
		r.pass(time.Second)
		r.endOne("a")
		last := page.Deliveries[4].ID
		require.Equal(r, []bool{true}, r.retry(last))
		got := map[dispatcher.DeliveryID]bool{}
		for f.Cursor = page.Next; f.Cursor != ""; f.Cursor = page.Next {
			page, err = r.Queue.List(r.ctx, f)
			require.NoError(r, err)
			for _, d := range page.Deliveries {
				require.False(r, got[d.ID], "%s twice", d.ID)
				got[d.ID] = true
			}
		}
		require.Len(r, got, 15)
	}},
	{name: "a listed delivery tells the same as a look, except its history", run: func(r *rig) {
		r.populate()
		for _, d := range r.listAll(dispatcher.Filter{}, 50) {
			want := r.look(d.ID)
			want.History = nil
			if d.Status == dispatcher.StatusReady {
				want.Due = d.Due // a look does not search the ready list
			}
			require.Equal(r, want, d)
		}
	}},
	{name: "a cancelled delivery that is still in its ready list is listed as cancelled", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.cancel(named("a", "m1"))
		ready := r.listAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}}, 10)
		require.Len(r, ready, 1)
		require.Equal(r, named("a", "m2"), ready[0].ID)
		cancelled := r.listAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusCancelled}}, 10)
		require.Len(r, cancelled, 1)
		require.Equal(r, named("a", "m1"), cancelled[0].ID)
	}},
	{name: "a delivery that is cancelled under way is listed as cancelled only", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.mustClaim(one, named("a", "m1"))
		r.cancel(named("a", "m1"), named("a", "m3"))
		for limit := 1; limit < 4; limit++ {
			for status, want := range map[dispatcher.Status][]dispatcher.DeliveryID{
				dispatcher.StatusCancelled: ids("a", "m1", "m3"),
				dispatcher.StatusReady:     ids("a", "m2"),
				dispatcher.StatusInFlight:  nil,
				dispatcher.StatusDelivered: nil,
			} {
				var got []dispatcher.DeliveryID
				for _, d := range r.listAll(dispatcher.Filter{Statuses: []dispatcher.Status{status}}, limit) {
					got = append(got, d.ID)
				}
				require.ElementsMatch(r, want, got, "%s", status)
			}
			require.Len(r, r.listAll(dispatcher.Filter{}, limit), 3)
			both := []dispatcher.Status{dispatcher.StatusCancelled, dispatcher.StatusReady, dispatcher.StatusInFlight}
			require.Len(r, r.listAll(dispatcher.Filter{Statuses: both}, limit), 3)
		}
	}},
	{name: "a page says how many it looked at", run: func(r *rig) {
		r.succeedMany("a", 20)
		f := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}, Topics: []string{"never"}, Limit: 5}
		page, err := r.Queue.List(r.ctx, f)
		require.NoError(r, err)
		require.Empty(r, page.Deliveries)
		require.Equal(r, 20, page.LookedAt)
	}},
	{name: "a delivery whose record was deleted by hand does not end a list", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.Lose("m1")
		got := r.listAll(dispatcher.Filter{}, 1)
		require.Len(r, got, 1)
		require.Equal(r, named("a", "m2"), got[0].ID)
		require.Equal(r, ids("a", "m2"), claimedIDs(r.claim(one, 64)))
	}},
	{name: "a cursor of another list is refused", run: func(r *rig) {
		for _, cursor := range []string{"x", "!", "bm9wZQ", "ZHVlIGEgYiBj"} {
			_, err := r.Queue.List(r.ctx, dispatcher.Filter{Cursor: cursor, Limit: 10})
			require.ErrorIs(r, err, dispatcher.ErrCursor, cursor)
		}
	}},
}

// listAll follows the cursor to the end. No page may be too long, and no
// delivery may come twice.
func (r *rig) listAll(f dispatcher.Filter, limit int) []dispatcher.Delivery {
	r.Helper()
	f.Limit = limit
	var all []dispatcher.Delivery
	seen := map[dispatcher.DeliveryID]bool{}
	for range 10_000 {
		page, err := r.Queue.List(r.ctx, f)
		require.NoError(r, err)
		require.LessOrEqual(r, len(page.Deliveries), limit)
		for _, d := range page.Deliveries {
			require.False(r, seen[d.ID], "%s is listed twice", d.ID)
			seen[d.ID] = true
			all = append(all, d)
		}
		if page.Next == "" {
			return all
		}
		f.Cursor = page.Next
	}
	r.Fatal("the list never ends")
	return nil
}

// mustList fails the case unless the list equals the deliveries of all that
// keep chooses.
func (r *rig) mustList(f dispatcher.Filter, all map[dispatcher.DeliveryID]dispatcher.Status,
	keep func(dispatcher.DeliveryID, dispatcher.Status) bool) {
	r.Helper()
	want := map[dispatcher.DeliveryID]dispatcher.Status{}
	for id, status := range all {
		if keep(id, status) {
			want[id] = status
		}
	}
	require.NotEmpty(r, want)
	for _, limit := range []int{1, 3, 100} {
		requireStatuses(r, want, r.listAll(f, limit))
	}
}

func requireStatuses(r *rig, want map[dispatcher.DeliveryID]dispatcher.Status, got []dispatcher.Delivery) {
	r.Helper()
	statuses := map[dispatcher.DeliveryID]dispatcher.Status{}
	for _, d := range got {
		statuses[d.ID] = d.Status
	}
	require.Equal(r, want, statuses)
}
