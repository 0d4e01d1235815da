package redisq_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// LogCases are about the log of attempts and ends of deliveries, newest first.
var LogCases = []redisqtest.Case{
	{Name: "the log returns each attempt with its evidence, the newest first", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		failed := redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Minute)
		failed.Attempt.Address = "192.0.2.1:443"
		failed.Attempt.Excerpt = []byte("no")
		r.MustSettle(redisqtest.One, failed)
		r.Pass(time.Minute)
		r.Move()
		good := proven(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0])
		good.Attempt.Resend, good.Attempt.ShortHello = true, true
		r.MustSettle(redisqtest.One, good)

		lines := r.MustLog(dispatcher.LogFilter{}, "delivered", "retry")
		require.Equal(r, good.Attempt.At.UTC(), lines[0].Attempt.At.UTC())
		require.Equal(r, redisqtest.Named("a", "m1"), lines[0].ID)
		require.Equal(r, dispatcher.Attempt{
			Number: 2, At: lines[0].Attempt.At, Duration: good.Attempt.Duration, Status: 200, Verdict: dispatcher.Delivered,
			URL: "https://example.com/m1", Address: "192.0.2.1:443", Excerpt: []byte("thanks"), Resend: true, ShortHello: true,
		}, lines[0].Attempt)
		require.Equal(r, "payment.paid", lines[0].Topic)
		require.Equal(r, 1, lines[1].Attempt.Number)
		require.Equal(r, dispatcher.ClassStatus, lines[1].Attempt.Class)
		require.Equal(r, "answered 500", lines[1].Attempt.Error)
		require.Equal(r, "192.0.2.1:443", lines[1].Attempt.Address)
		require.Equal(r, "no", string(lines[1].Attempt.Excerpt))
		require.WithinDuration(r, redisqtest.Start.Add(time.Minute), lines[1].Attempt.Next, 5*time.Millisecond)
	}},
	{Name: "the log stores a repeated response once, and returns it with each attempt", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		r.Succeed("a")
		r.Publish("a", "m1", "m2", "m3")
		r.Publish("b", "m4")
		var batch []dispatcher.Settlement
		for i, c := range r.ClaimAll(redisqtest.One) {
			s := proven(c)
			s.Attempt.Excerpt = []byte([]string{"one", "one", "two", "one"}[i])
			batch = append(batch, s)
		}
		r.Settle(redisqtest.One, batch...)
		reported := map[string]string{}
		require.Len(r, batch, 4)
		for _, l := range r.ReadLog(dispatcher.LogFilter{Messages: []string{"m1", "m2", "m3", "m4"}}, 10) {
			require.Equal(r, "192.0.2.1:443", l.Attempt.Address)
			reported[l.ID.Message] = string(l.Attempt.Excerpt)
		}
		require.Len(r, reported, 4)
		for i := range batch {
			require.Equal(r, string(batch[i].Attempt.Excerpt), reported[batch[i].ID.Message])
		}
	}},
	{Name: "the log has the failed attempt of a delivery that was cancelled meanwhile, and the cancel as its end", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Cancel(c.ID)
		r.Settle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone))
		lines := r.MustLog(dispatcher.LogFilter{}, "cancelled", "retry")
		require.Zero(r, lines[1].Attempt.Next)
	}},
	{Name: "the log has an attempt in a lane that was disabled meanwhile, and the end with its reason", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0]
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Settle(redisqtest.One, redisqtest.Failure(c, time.Hour))
		require.Equal(r, dispatcher.ReasonDisabled, r.MustLog(dispatcher.LogFilter{}, "dead", "retry")[0].Reason)
	}},
	{Name: "a death is logged once, even if its outcome is settled twice", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"), redisqtest.Named("a", "m2"))
		r.MustSettle(redisqtest.One, redisqtest.Death(c[0], dispatcher.ReasonGone))
		r.Settle(redisqtest.One, redisqtest.Death(c[0], dispatcher.ReasonGone), proven(c[1]))
		r.MustLog(dispatcher.LogFilter{}, "delivered", "dead")
	}},
	{Name: "a hand-back is logged as a hand-back", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.HandBack(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		r.MustLog(dispatcher.LogFilter{}, "back")
	}},
	{Name: "a page of the log continues after the page before, within an entry too, over all partitions", Setup: redisqtest.Setup{Partitions: 3}, Run: func(r *redisqtest.Rig) {
		for round := range 4 {
			for lane := range 5 {
				r.Publish(dispatcher.Lane(fmt.Sprintf("lane%d", lane)), fmt.Sprintf("m%d-%d", round, lane))
			}
			var batch []dispatcher.Settlement
			for _, c := range r.ClaimAll(redisqtest.One) {
				batch = append(batch, proven(c))
			}
			require.Len(r, batch, 5)
			r.Settle(redisqtest.One, batch...)
			r.Pass(time.Millisecond)
		}
		all := r.ReadLog(dispatcher.LogFilter{}, 100)
		require.Len(r, all, 20)
		for i := range all[1:] {
			require.Positive(r, all[i].Place.Compare(all[i+1].Place), "newest first")
		}
		for _, limit := range []int{1, 2, 3, 7, 20} {
			require.Equal(r, all, r.ReadLog(dispatcher.LogFilter{}, limit), "pages of %d", limit)
		}
	}},
	{Name: "the log has the end of a ready delivery that was cancelled", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Cancel(redisqtest.Named("a", "m1"))
		r.MustLog(dispatcher.LogFilter{}, "cancelled")
	}},
	{Name: "a query of the log returns the lines that match its filter", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		r.Schedule(
			r.Entry("m1", redisqtest.To("a"), func(m *dispatcher.Message) { m.Tenant, m.Topic, m.Subject = "acme", "payment.failed", "order 7" }),
			r.Entry("m2", redisqtest.To("b"), func(m *dispatcher.Message) { m.Tenant, m.Topic, m.Subject = "other", "payment.paid", "order 8" }),
		)
		for _, c := range r.ClaimAll(redisqtest.One) {
			if c.ID.Lane == "a" {
				r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
			} else {
				r.MustSettle(redisqtest.One, proven(c))
			}
		}
		r.Pass(time.Second)
		r.Cancel(redisqtest.Named("a", "m1"))
		r.MustLog(dispatcher.LogFilter{Lanes: []dispatcher.Lane{"a"}}, "cancelled", "retry")
		r.MustLog(dispatcher.LogFilter{Tenants: []string{"other"}}, "delivered")
		r.MustLog(dispatcher.LogFilter{Topics: []string{"payment.failed"}}, "cancelled", "retry")
		require.Len(r, r.ReadLog(dispatcher.LogFilter{Topics: []string{"payment.*", "other"}}, 10), 3)
		r.MustLog(dispatcher.LogFilter{Topics: []string{"payment"}})
		r.MustLog(dispatcher.LogFilter{Subjects: []string{"order 8", "order 9"}}, "delivered")
		r.MustLog(dispatcher.LogFilter{Subjects: []string{"order 8"}, Tenants: []string{"acme"}})
		r.MustLog(dispatcher.LogFilter{Statuses: []int{200}}, "delivered")
		r.MustLog(dispatcher.LogFilter{Statuses: []int{500, 404}}, "retry")
		r.MustLog(dispatcher.LogFilter{Messages: []string{"m1"}}, "cancelled", "retry")
		r.MustLog(dispatcher.LogFilter{Messages: []string{"m1", "unknown"}}, "cancelled", "retry")
		r.MustLog(dispatcher.LogFilter{Happenings: []dispatcher.Happening{dispatcher.HappenedRetry, dispatcher.HappenedDelivered}, Lanes: []dispatcher.Lane{"a", "c"}}, "retry")
		r.MustLog(dispatcher.LogFilter{Since: redisqtest.Start.Add(time.Second)}, "cancelled")
		require.Len(r, r.ReadLog(dispatcher.LogFilter{Until: redisqtest.Start.Add(time.Second)}, 10), 2)
		r.MustLog(dispatcher.LogFilter{Lanes: []dispatcher.Lane{"c"}})
	}},
	{Name: "a query refuses an invalid cursor or a cursor of another filter", Run: func(r *redisqtest.Rig) {
		for _, cursor := range []string{"x", "1-2", "1-2-3-x", "-1-2-3", "1-2-3-4-5", strings.Repeat("9", 400) + "-0-0-0"} {
			_, err := r.Queue.ReadLog(r.Ctx, dispatcher.LogFilter{}, 10, cursor)
			require.ErrorIs(r, err, dispatcher.ErrCursor, cursor)
		}
		r.EndOne("a")
		r.EndOne("a")
		page, err := r.Queue.ReadLog(r.Ctx, dispatcher.LogFilter{}, 1, "")
		require.NoError(r, err)
		_, err = r.Queue.ReadLog(r.Ctx, dispatcher.LogFilter{Tenants: []string{"t1"}}, 1, page.Next)
		require.ErrorIs(r, err, dispatcher.ErrCursor, "of another filter")
	}},
	{Name: "the log reports the start of its complete period", Run: func(r *redisqtest.Rig) {
		const some = 120 // Redis cuts whole nodes, of a hundred entries at most
		for range some {
			r.EndOne("a")
		}
		require.Zero(r, mustPage(r).CompleteSince, "nothing was cut")
		r.Pass(time.Hour)
		r.EndOne("a")
		r.Trim(redisqtest.KeepAnHour)
		page := mustPage(r)
		require.Less(r, len(page.Lines), some)
		require.False(r, page.CompleteSince.Before(redisqtest.Start.Add(time.Hour-time.Minute)), page.CompleteSince)
		require.False(r, page.CompleteSince.After(r.Now))
	}},
	{Name: "the log uses no more memory than its limit", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepAll
		keep.LogBytes = 200 << 10
		r.Publish("a", "m1")
		for n := range 300 {
			c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
			s := redisqtest.Failure(c, 0)
			s.Attempt.Error = strings.Repeat(fmt.Sprint(n%10), 4<<10)
			r.MustSettle(redisqtest.One, s)
			r.Pass(time.Millisecond)
			r.Move()
		}
		r.Trim(keep)
		before := mustPage(r)
		keep.LogBytes = 20 << 10
		r.Trim(keep)
		after := mustPage(r)
		require.Less(r, len(after.Lines), len(before.Lines))
		require.NotEmpty(r, after.Lines)
		require.False(r, after.CompleteSince.IsZero())
		require.False(r, after.CompleteSince.After(after.Lines[len(after.Lines)-1].Attempt.At.Add(5*time.Millisecond)), "the log is complete from its first line on")
	}},
}

// ProofCases are about the proof of a success: the last attempt of a delivered delivery.
var ProofCases = []redisqtest.Case{
	{Name: "a query returns the proof of a first attempt with status 200", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		s := proven(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0])
		r.MustSettle(redisqtest.One, s)
		want := s.Attempt
		want.URL = "https://example.com/m1"
		d := r.Inspect(redisqtest.Named("a", "m1"))
		require.Len(r, d.History, 1)
		require.True(r, want.At.Equal(d.History[0].At))
		want.At = d.History[0].At
		require.Equal(r, want, d.History[0])
	}},
	{Name: "a query returns the proof of a success after a failure once, in the history", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		s := proven(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0])
		s.Attempt.Excerpt = []byte(strings.Repeat("long", 100))
		r.MustSettle(redisqtest.One, s)
		d := r.Inspect(redisqtest.Named("a", "m1"))
		require.Len(r, d.History, 2)
		require.Equal(r, "192.0.2.1:443", d.History[1].Address)
		require.Equal(r, string(s.Attempt.Excerpt), string(d.History[1].Excerpt), "the history has more of the response")
	}},
	{Name: "a query returns the first and the last success of a delivery that was sent again", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, proven(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		r.Pass(time.Minute)
		r.Retry(redisqtest.Named("a", "m1"))
		s := proven(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0])
		s.Attempt.Resend, s.Attempt.ShortHello, s.Attempt.Excerpt = true, true, []byte("again")
		r.MustSettle(redisqtest.One, s)
		d := r.Inspect(redisqtest.Named("a", "m1"))
		require.Len(r, d.History, 2)
		require.True(r, d.History[1].Resend && d.History[1].ShortHello)
		require.False(r, d.History[0].ShortHello)
		require.Equal(r, "again", string(d.History[1].Excerpt))
	}},
	{Name: "a query returns the proof of a late success, even if the delivery ended later", Run: func(r *redisqtest.Rig) {
		for _, end := range []struct {
			message string
			by      func(id dispatcher.DeliveryID)
		}{
			{"claimed", func(id dispatcher.DeliveryID) { r.MustClaimNothing(redisqtest.Two) }},
			{"settled", nil},
		} {
			id := redisqtest.Named("a", end.message)
			r.Publish("a", end.message)
			first := "first-" + end.message
			lost := r.MustClaim(first, id)[0]
			r.Reap(first)
			var claimed []dispatcher.Claimed
			if end.by == nil {
				claimed = r.MustClaim(redisqtest.Two, id)
			}
			s := proven(lost)
			require.Equal(r, dispatcher.SettledDone, r.Settle(first, s)[0])
			r.Pass(time.Hour)
			if end.by != nil {
				end.by(id)
			} else {
				r.Settle(redisqtest.Two, redisqtest.Failure(claimed[0], time.Minute))
			}
			d := r.MustStand(id, dispatcher.StatusDelivered)
			last := d.History[len(d.History)-1]
			require.Equal(r, "thanks", string(last.Excerpt), end.message)
			require.Equal(r, "192.0.2.1:443", last.Address)
		}
	}},
	{Name: "a query returns a delivery without its proof if the log has lost it", Run: func(r *redisqtest.Rig) {
		keep := redisqtest.KeepAll
		keep.LogBytes = 1
		id := r.EndOne("a")
		require.Len(r, r.Inspect(id).History, 1)
		r.Trim(keep)
		r.EndOne("a")
		r.Trim(keep)
		require.Empty(r, r.MustStand(id, dispatcher.StatusDelivered).History)
	}},
	{Name: "a delivery that ends after the clock stepped back does not end before earlier ends", Run: func(r *redisqtest.Rig) {
		first := r.EndOne("a")
		ended := r.Inspect(first).Ended
		r.SetNow(r.Now.Add(-10 * time.Second))
		second, dead := r.EndOne("a"), r.DieOne("a")
		r.Publish("a", "m1")
		r.Cancel(redisqtest.Named("a", "m1"))
		require.False(r, r.Inspect(second).Ended.Before(ended))
		require.False(r, r.Inspect(dead).Ended.Before(ended))
		require.Len(r, r.Inspect(second).History, 1, "the query returns its proof")
	}},
	{Name: "an end more than an hour ahead is ignored, because it came from a wrong clock", Run: func(r *redisqtest.Rig) {
		r.EndOne("a")
		r.SetNow(r.Now.Add(-2 * time.Hour))
		require.Equal(r, r.Now.UnixMilli(), r.Inspect(r.EndOne("a")).Ended.UnixMilli())
	}},
}

// proven returns a success with all evidence of it.
func proven(c dispatcher.Claimed) dispatcher.Settlement {
	s := redisqtest.Success(c)
	s.Attempt.Duration = 12345 * time.Microsecond
	s.Attempt.Address, s.Attempt.Excerpt = "192.0.2.1:443", []byte("thanks")
	return s
}

func mustPage(r *redisqtest.Rig) dispatcher.LogPage {
	r.Helper()
	page, err := r.Queue.ReadLog(r.Ctx, dispatcher.LogFilter{}, 500, "")
	require.NoError(r, err)
	return page
}
