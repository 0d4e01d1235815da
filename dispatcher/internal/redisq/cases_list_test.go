package redisq_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ListCases are about lists of deliveries.
var ListCases = []redisqtest.Case{
	{Name: "a query of an empty store returns nothing", Run: func(r *redisqtest.Rig) {
		page, err := r.Queue.List(r.Ctx, dispatcher.Filter{Limit: 10})
		require.NoError(r, err)
		require.Empty(r, page.Deliveries)
		require.Empty(r, page.Next)
	}},
	{Name: "a query returns every delivery once, at any page size", Run: func(r *redisqtest.Rig) {
		want := r.Populate()
		for _, limit := range []int{1, 2, 7, 500} {
			redisqtest.RequireStatuses(r, want, r.ListAll(dispatcher.Filter{}, limit))
		}
	}},
	{Name: "a query of several partitions returns one list", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		want := r.Populate()
		for _, limit := range []int{1, 7, 500} {
			redisqtest.RequireStatuses(r, want, r.ListAll(dispatcher.Filter{}, limit))
		}
	}},
	{Name: "a query by status returns these statuses only", Run: func(r *redisqtest.Rig) {
		want := r.Populate()
		filters := [][]dispatcher.Status{{dispatcher.StatusDead, dispatcher.StatusReady}}
		for _, status := range dispatcher.Statuses() {
			filters = append(filters, []dispatcher.Status{status})
		}
		for _, statuses := range filters {
			r.MustList(dispatcher.Filter{Statuses: statuses}, want, func(_ dispatcher.DeliveryID, s dispatcher.Status) bool {
				return slices.Contains(statuses, s)
			})
		}
	}},
	{Name: "a query by lane returns these lanes only", Run: func(r *redisqtest.Rig) {
		want := r.Populate()
		lanes := []dispatcher.Lane{"lane0", "lane2", "never"}
		r.MustList(dispatcher.Filter{Lanes: lanes}, want, func(id dispatcher.DeliveryID, _ dispatcher.Status) bool {
			return slices.Contains(lanes, id.Lane)
		})
	}},
	{Name: "a query applies filters for lane and status together", Run: func(r *redisqtest.Rig) {
		want := r.Populate()
		f := dispatcher.Filter{Lanes: redisqtest.To("lane1"), Statuses: []dispatcher.Status{dispatcher.StatusReady, dispatcher.StatusScheduled}}
		r.MustList(f, want, func(id dispatcher.DeliveryID, s dispatcher.Status) bool {
			return id.Lane == "lane1" && slices.Contains(f.Statuses, s)
		})
	}},
	{Name: "a query applies filters for topic and tenant", Run: func(r *redisqtest.Rig) {
		about := func(topic, tenant string) func(*dispatcher.Message) {
			return func(m *dispatcher.Message) { m.Topic, m.Tenant = topic, tenant }
		}
		r.Schedule(
			r.Entry("m1", redisqtest.To("a"), about("payment.paid", "t1")),
			r.Entry("m2", redisqtest.To("a"), about("payment.refunded", "t1"), redisqtest.Delay(time.Hour)),
			r.Entry("m3", redisqtest.To("c"), about("payment.paid", "t2"), redisqtest.Delay(time.Hour)),
			r.Entry("m4", redisqtest.To("b"), about("account.closed", "")),
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
				for _, d := range r.ListAll(c.f, limit) {
					got = append(got, d.ID.Message)
				}
				slices.Sort(got)
				require.Equal(r, c.want, got, "%+v", c.f)
			}
		}
	}},
	{Name: "a query by topic matches patterns, and a query by subject the whole text", Run: func(r *redisqtest.Rig) {
		about := func(topic, subject string) func(*dispatcher.Message) {
			return func(m *dispatcher.Message) { m.Topic, m.Subject = topic, subject }
		}
		r.Schedule(
			r.Entry("m1", redisqtest.To("a"), about("payment.paid", "order 17")),
			r.Entry("m2", redisqtest.To("a"), about("payment.card.paid", "order 18")),
			r.Entry("m3", redisqtest.To("b"), about("payment", "Bestellung №7")),
			r.Entry("m4", redisqtest.To("b"), about("account.closed", "")),
		)
		for _, c := range []struct {
			f    dispatcher.Filter
			want []string
		}{
			{dispatcher.Filter{Topics: []string{"payment.*"}}, []string{"m1", "m2"}},
			{dispatcher.Filter{Topics: []string{"payment.card.*", "payment"}}, []string{"m2", "m3"}},
			{dispatcher.Filter{Topics: []string{"*"}}, []string{"m1", "m2", "m3", "m4"}},
			{dispatcher.Filter{Subjects: []string{"order 17", "Bestellung №7"}}, []string{"m1", "m3"}},
			{dispatcher.Filter{Subjects: []string{"order"}}, nil},
			{dispatcher.Filter{Subjects: []string{"order 17"}, Topics: []string{"account.*"}}, nil},
		} {
			var got []string
			for _, d := range r.ListAll(c.f, 2) {
				got = append(got, d.ID.Message)
			}
			slices.Sort(got)
			require.Equal(r, c.want, got, "%+v", c.f)
		}
		require.Equal(r, "order 18", r.ListAll(dispatcher.Filter{Subjects: []string{"order 18"}}, 1)[0].Subject)
	}},
	{Name: "a query for failures returns unfinished deliveries with a failed attempt", Run: func(r *redisqtest.Rig) {
		for _, lane := range redisqtest.To("a", "b", "c", "d", "e") {
			r.Schedule(r.Entry("m"+string(lane), []dispatcher.Lane{lane}))
		}
		for _, c := range r.ClaimAll(redisqtest.One) {
			switch c.ID.Lane {
			case "a", "b", "c":
				r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
			case "d":
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
		}
		r.Retry(redisqtest.Named("b", "mb"))  // ready, and it failed once
		r.Cancel(redisqtest.Named("c", "mc")) // finished
		var got []string
		for _, d := range r.ListAll(dispatcher.Filter{Failed: true}, 1) {
			got = append(got, d.ID.Message)
		}
		slices.Sort(got)
		require.Equal(r, []string{"ma", "mb"}, got)
		require.Empty(r, r.ListAll(dispatcher.Filter{Failed: true, Statuses: []dispatcher.Status{dispatcher.StatusDelivered}}, 10))
		r.Change(r.Resend, redisqtest.Named("d", "md"))
		require.Len(r, r.ListAll(dispatcher.Filter{Failed: true}, 10), 2, "a delivered delivery that is sent again did not fail")
	}},
	{Name: "a query by reason returns the deliveries that died of it", Run: func(r *redisqtest.Rig) {
		reasons := []dispatcher.DeadReason{dispatcher.ReasonGone, dispatcher.ReasonExhausted, dispatcher.ReasonRefused}
		want := map[dispatcher.DeadReason]dispatcher.DeliveryID{}
		for _, reason := range reasons {
			c := r.TakeNew("a")
			r.MustSettle(redisqtest.One, redisqtest.Death(c, reason))
			want[reason] = c.ID
		}
		r.EndOne("a")
		for reason, id := range want {
			got := r.ListAll(dispatcher.Filter{Reasons: []dispatcher.DeadReason{reason}}, 10)
			require.Len(r, got, 1)
			require.Equal(r, id, got[0].ID)
			require.Equal(r, reason, got[0].Reason)
		}
		require.Len(r, r.ListAll(dispatcher.Filter{Reasons: reasons[:2]}, 10), 2)
	}},
	{Name: "since includes its time and until does not, for the end or the next attempt", Run: func(r *redisqtest.Rig) {
		var ended []dispatcher.DeliveryID
		for range 4 {
			ended = append(ended, r.EndOne("a"))
			r.Pass(time.Second)
		}
		for n := range 4 {
			r.Schedule(r.Entry(fmt.Sprintf("due%d", n), redisqtest.To("a"), redisqtest.DeliverAt(redisqtest.Start.Add(time.Duration(n)*time.Hour+time.Hour))))
		}
		between := func(since, until time.Time) []dispatcher.DeliveryID {
			var got []dispatcher.DeliveryID
			for _, d := range r.ListAll(dispatcher.Filter{Since: since, Until: until}, 2) {
				got = append(got, d.ID)
			}
			return got
		}
		require.Equal(r, []dispatcher.DeliveryID{ended[2], ended[1]}, between(redisqtest.Start.Add(time.Second), redisqtest.Start.Add(3*time.Second)))
		require.Equal(r, redisqtest.IDs("a", "due1", "due2"), between(redisqtest.Start.Add(2*time.Hour), redisqtest.Start.Add(4*time.Hour)))
		require.Len(r, between(redisqtest.Start.Add(time.Second), time.Time{}), 7)
		require.Len(r, between(time.Time{}, redisqtest.Start.Add(time.Second)), 1)
	}},
	{Name: "since and until apply to the time of the claim during an attempt", Run: func(r *redisqtest.Rig) {
		var leased []dispatcher.DeliveryID
		for _, lane := range redisqtest.To("a", "b", "c") {
			leased = append(leased, r.TakeNew(lane).ID)
			r.Pass(time.Second)
		}
		for _, c := range []struct {
			since, until time.Duration
			want         []dispatcher.DeliveryID
		}{
			{0, time.Hour, []dispatcher.DeliveryID{leased[2], leased[1], leased[0]}},
			{time.Second, 2 * time.Second, leased[1:2]},
			{2 * time.Second, time.Hour, leased[2:]},
			{3 * time.Second, time.Hour, nil},
		} {
			f := dispatcher.Filter{
				Statuses: []dispatcher.Status{dispatcher.StatusInFlight}, Since: redisqtest.Start.Add(c.since), Until: redisqtest.Start.Add(c.until),
			}
			var got []dispatcher.DeliveryID
			for _, d := range r.ListAll(f, 1) {
				got = append(got, d.ID)
				require.Zero(r, d.Due, "no attempt is coming")
			}
			require.Equal(r, c.want, got, "%s to %s", c.since, c.until)
		}
	}},
	{Name: "a query returns the ended newest first, then deliveries in flight, ready and waiting, earliest first", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		r.Populate()
		place := map[dispatcher.Status]int{dispatcher.StatusInFlight: 1, dispatcher.StatusReady: 2, dispatcher.StatusScheduled: 3, dispatcher.StatusRetrying: 3}
		got := r.ListAll(dispatcher.Filter{}, 2)
		for i := 1; i < len(got); i++ {
			a, b := got[i-1], got[i]
			require.LessOrEqual(r, place[a.Status], place[b.Status])
			if place[a.Status] == place[b.Status] {
				require.False(r, b.Ended.After(a.Ended), "%s after %s", b.ID, a.ID)
				require.False(r, b.Status != dispatcher.StatusReady && b.Due.Before(a.Due), "%s after %s", b.ID, a.ID)
			}
		}
		var ended, waits []dispatcher.Delivery
		for _, d := range got {
			switch {
			case d.Status.Ended():
				ended = append(ended, d)
			case place[d.Status] == 3:
				waits = append(waits, d)
			}
		}
		for _, limit := range []int{1, 3, 100} {
			require.Equal(r, ended, r.ListAll(dispatcher.Filter{Order: dispatcher.OrderEnded, Statuses: dispatcher.EndStatuses()}, limit))
			require.Equal(r, waits, r.ListAll(dispatcher.Filter{Order: dispatcher.OrderDue}, limit))
		}
		for _, d := range waits {
			f := dispatcher.Filter{Order: dispatcher.OrderDue, Since: d.Due}
			require.Equal(r, waits[slices.IndexFunc(waits, func(w dispatcher.Delivery) bool { return w.Due.Equal(d.Due) }):], r.ListAll(f, 2))
		}
	}},
	{Name: "a query returns deliveries that ended in one ms once each", Run: func(r *redisqtest.Rig) {
		succeedMany(r, "a", 300)
		succeedMany(r, "b", 300)
		for _, limit := range []int{97, 256, 299} {
			require.Len(r, r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}}, limit), 600)
		}
	}},
	{Name: "a query returns all deliveries of a long lane", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 600)
		r.PublishMany("b", 3)
		for _, limit := range []int{97, 256, 500} {
			require.Len(r, r.ListAll(dispatcher.Filter{}, limit), 603)
		}
	}},
	{Name: "a delivery that ends or is deleted between two pages does not hide another", Run: func(r *redisqtest.Rig) {
		succeedMany(r, "a", 20)
		f := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}, Limit: 5}
		page, err := r.Queue.List(r.Ctx, f)
		require.NoError(r, err)
		require.Len(r, page.Deliveries, 5)
		r.Pass(time.Second)
		r.EndOne("a")
		last := page.Deliveries[4].ID
		require.Equal(r, []bool{true}, r.Retry(last))
		got := map[dispatcher.DeliveryID]bool{}
		for f.Cursor = page.Next; f.Cursor != ""; f.Cursor = page.Next {
			page, err = r.Queue.List(r.Ctx, f)
			require.NoError(r, err)
			for _, d := range page.Deliveries {
				require.False(r, got[d.ID], "%s twice", d.ID)
				got[d.ID] = true
			}
		}
		require.Len(r, got, 15)
	}},
	{Name: "a listed delivery has the fields that Read returns, except its history", Run: func(r *redisqtest.Rig) {
		r.Populate()
		for _, d := range r.ListAll(dispatcher.Filter{}, 50) {
			want := r.Inspect(d.ID)
			want.History = nil
			if d.Status == dispatcher.StatusReady {
				want.Due = d.Due // Read does not search the ready list
			}
			require.Equal(r, want, d)
		}
	}},
	{Name: "a query reports a cancelled delivery as cancelled while it is still in its ready list", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Cancel(redisqtest.Named("a", "m1"))
		ready := r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}}, 10)
		require.Len(r, ready, 1)
		require.Equal(r, redisqtest.Named("a", "m2"), ready[0].ID)
		cancelled := r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusCancelled}}, 10)
		require.Len(r, cancelled, 1)
		require.Equal(r, redisqtest.Named("a", "m1"), cancelled[0].ID)
	}},
	{Name: "a query reports a delivery that is cancelled in flight as cancelled only", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Cancel(redisqtest.Named("a", "m1"), redisqtest.Named("a", "m3"))
		for limit := 1; limit < 4; limit++ {
			for status, want := range map[dispatcher.Status][]dispatcher.DeliveryID{
				dispatcher.StatusCancelled: redisqtest.IDs("a", "m1", "m3"),
				dispatcher.StatusReady:     redisqtest.IDs("a", "m2"),
				dispatcher.StatusInFlight:  nil,
				dispatcher.StatusDelivered: nil,
			} {
				var got []dispatcher.DeliveryID
				for _, d := range r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{status}}, limit) {
					got = append(got, d.ID)
				}
				require.ElementsMatch(r, want, got, "%s", status)
			}
			require.Len(r, r.ListAll(dispatcher.Filter{}, limit), 3)
			both := []dispatcher.Status{dispatcher.StatusCancelled, dispatcher.StatusReady, dispatcher.StatusInFlight}
			require.Len(r, r.ListAll(dispatcher.Filter{Statuses: both}, limit), 3)
		}
	}},
	{Name: "a page reports the number of deliveries that it read", Run: func(r *redisqtest.Rig) {
		succeedMany(r, "a", 20)
		f := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}, Topics: []string{"never"}, Limit: 5}
		page, err := r.Queue.List(r.Ctx, f)
		require.NoError(r, err)
		require.Empty(r, page.Deliveries)
		require.Equal(r, 20, page.LookedAt)
	}},
	{Name: "a query continues after a delivery whose record was deleted by hand", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Lose("m1")
		got := r.ListAll(dispatcher.Filter{}, 1)
		require.Len(r, got, 1)
		require.Equal(r, redisqtest.Named("a", "m2"), got[0].ID)
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "a cursor of another list is refused", Run: func(r *redisqtest.Rig) {
		for _, cursor := range []string{"x", "!", "bm9wZQ", "ZHVlIGEgYiBj"} {
			_, err := r.Queue.List(r.Ctx, dispatcher.Filter{Cursor: cursor, Limit: 10})
			require.ErrorIs(r, err, dispatcher.ErrCursor, cursor)
		}
	}},
	{Name: "a query refuses a cursor of another filter", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("a")), r.Entry("m3", redisqtest.To("a")))
		list := func(f dispatcher.Filter, limit int, cursor string) (dispatcher.Page, error) {
			f.Limit, f.Cursor = limit, cursor
			return r.Queue.List(r.Ctx, f)
		}
		of := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}, Since: redisqtest.Start}
		page, err := list(of, 1, "")
		require.NoError(r, err)
		require.NotEmpty(r, page.Next)
		rest, err := list(of, 2, page.Next)
		require.NoError(r, err, "the limit may change")
		require.Len(r, rest.Deliveries, 2)
		of.Since = of.Since.Add(-time.Hour)
		_, err = list(of, 2, page.Next)
		require.NoError(r, err, "the times may change")
		for _, other := range []dispatcher.Filter{
			{}, {Statuses: of.Statuses, Order: dispatcher.OrderDue}, {Statuses: []dispatcher.Status{dispatcher.StatusRetrying}, Since: redisqtest.Start},
			{Statuses: of.Statuses, Since: redisqtest.Start, Tenants: []string{"t"}}, {Statuses: of.Statuses, Since: redisqtest.Start, Failed: true},
		} {
			_, err := list(other, 1, page.Next)
			require.ErrorIs(r, err, dispatcher.ErrCursor, "%+v", other)
		}
	}},
	{Name: "the two parts make the whole list, and the ended part may start at any place", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		r.Populate()
		for _, limit := range []int{1, 2, 100} {
			want := r.ListAll(dispatcher.Filter{}, limit)
			unfinished := r.ListAll(dispatcher.Filter{Part: dispatcher.PartUnfinished}, limit)
			for _, d := range unfinished {
				require.Zero(r, d.Ended)
			}
			var got []dispatcher.Delivery
			f := dispatcher.Filter{Part: dispatcher.PartEnded, Limit: limit}
			for range want {
				page, err := r.Queue.List(r.Ctx, f)
				require.NoError(r, err)
				for _, d := range page.Deliveries {
					require.NotZero(r, d.Ended)
				}
				got = append(got, page.Deliveries...)
				if f.From = page.Reached; f.From == nil {
					break
				}
				last := page.Deliveries[len(page.Deliveries)-1]
				require.Equal(r, dispatcher.EndPlace{At: last.Ended, ID: last.ID.String()}, *f.From)
			}
			require.Equal(r, want[:len(got)], got)
			require.ElementsMatch(r, want[len(got):], unfinished)
		}
		ends := r.ListAll(dispatcher.Filter{Statuses: dispatcher.EndStatuses()}, 100)
		page, err := r.Queue.List(r.Ctx, dispatcher.Filter{Part: dispatcher.PartEnded, Limit: 100, From: &dispatcher.EndPlace{At: ends[4].Ended}})
		require.NoError(r, err)
		require.True(r, page.Deliveries[0].Ended.Before(ends[4].Ended), "a time without a name comes after all names of its ms")
	}},
}
