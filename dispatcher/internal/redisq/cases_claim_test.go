package redisq_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ClaimCases are about leasing ready deliveries.
var ClaimCases = []redisqtest.Case{
	{Name: "a claim of an empty store returns nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() { r.MustClaimNothing(redisqtest.One) })
	}},
	{Name: "a claim returns everything that an attempt needs", Run: func(r *redisqtest.Rig) {
		e := r.Entry("m1", redisqtest.To("a"))
		r.Schedule(e)
		r.Pass(time.Second)
		got := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		requireMessage(r, e.Message, got[0].Message)
		require.Equal(r, redisqtest.Start, got[0].Due)
		require.Equal(r, 1, got[0].Attempt)
		require.Equal(r, 1, got[0].Rung)
		require.False(r, got[0].Asked)
		require.True(r, got[0].First)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusInFlight)
	}},
	{Name: "a claim returns a lane's deliveries in the order of publishing", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m2", "m1", "m3")
		require.Equal(r, redisqtest.IDs("a", "m2", "m1"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "a claim returns at most the wanted number", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Publish("b", "m3", "m4")
		require.Len(r, r.Claim(redisqtest.One, 3), 3)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
	}},
	{Name: "a claim without a free permit returns nothing", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustChangeNothing(func() { require.Empty(r, r.ClaimWith(redisqtest.One, 64, 0)) })
	}},
	{Name: "a claim never returns more than the free permits", Setup: redisqtest.Setup{Permits: 4}, Run: func(r *redisqtest.Rig) {
		for i := range 8 {
			r.Publish(dispatcher.Lane(fmt.Sprintf("l%d", i)), fmt.Sprintf("m%d", i))
		}
		require.LessOrEqual(r, len(r.ClaimWith(redisqtest.One, 64, 3)), 3)
		require.LessOrEqual(r, len(r.ClaimWith(redisqtest.Two, 64, 4)), 4)
	}},
	{Name: "a delivery is claimed once, by the first instance", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.MustClaimNothing(redisqtest.Two)
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, redisqtest.IDs("a", "m1"), r.Leases(redisqtest.One))
		require.Empty(r, r.Leases(redisqtest.Two))
	}},
	{Name: "all instances share a lane's window", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(r.Claim(redisqtest.Two, 64)))
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a claim by a fenced instance returns an error and no delivery", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		_, _, err := r.Queue.Reap(r.Ctx, redisqtest.Two, redisqtest.One)
		require.NoError(r, err)
		r.MustChangeNothing(func() {
			got, _, err := r.Queue.Claim(r.Ctx, redisqtest.One, r.All(), 64, 512)
			require.ErrorIs(r, err, dispatcher.ErrFenced)
			require.Empty(r, got)
		})
	}},
	{Name: "a query of an instance's leases returns the oldest first", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Publish("b", "m2", "m3")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Pass(time.Millisecond)
		r.MustClaim(redisqtest.Two, redisqtest.Named("b", "m2"))
		r.Pass(time.Millisecond)
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m3"))
		require.Equal(r, []dispatcher.DeliveryID{redisqtest.Named("a", "m1"), redisqtest.Named("b", "m3")}, r.Leases(redisqtest.One))
		require.Equal(r, redisqtest.IDs("b", "m2"), r.Leases(redisqtest.Two))
		require.Empty(r, r.Leases("nobody"))
	}},
	{Name: "an expired delivery dies without an attempt", Run: func(r *redisqtest.Rig) {
		r.Schedule(
			r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(redisqtest.Start.Add(time.Second))),
			r.Entry("m2", redisqtest.To("a"), redisqtest.Expires(redisqtest.Start.Add(time.Second+time.Millisecond))),
		)
		r.Pass(time.Second)
		got, hints, err := r.Queue.Claim(r.Ctx, redisqtest.One, r.All(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(got))
		require.Equal(r, 1, hints[0].Ended)
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
		require.Equal(r, redisqtest.Start.Add(time.Second), d.Ended)
		require.Equal(r, int64(1), r.Stats().Dead[dispatcher.ReasonExpired])
	}},
	{Name: "a delivery that expires before its retry keeps its history", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(redisqtest.Start.Add(time.Minute))))
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Minute))
		r.Pass(time.Minute)
		r.Move()
		r.MustClaimNothing(redisqtest.One)
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Equal(r, 1, d.Attempts)
		require.Len(r, d.History, 1)
	}},
	{Name: "a delivery whose record was deleted by hand blocks nothing and leaves no trace", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Lose("m1")
		got, hints, err := r.Queue.Claim(r.Ctx, redisqtest.One, r.All(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(got))
		require.Equal(r, 1, hints[0].Lost)
		require.Equal(r, redisqtest.IDs("a", "m2"), r.Leases(redisqtest.One))
		_, err = r.Queue.Read(r.Ctx, "m1")
		require.ErrorIs(r, err, dispatcher.ErrNotFound)
	}},
	{Name: "the next claim reads the messages that a claim left unread", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		for i, lane := range lanes {
			r.Schedule(r.Entry(fmt.Sprint("m", i), redisqtest.To(lane), redisqtest.Body(fmt.Sprint("body ", i))))
		}
		unread := claimLater(r, r.All(), 8)
		require.Len(r, unread, 8)
		for _, c := range unread {
			require.True(r, c.Unread)
			require.Nil(r, c.Message)
		}
		r.Publish("late", "n")
		got, _, err := r.Queue.ClaimIn(r.Ctx, redisqtest.One, []int{r.Partition("late")}, dispatcher.Claim{Wanted: 1, Free: 64, Unread: unread})
		require.NoError(r, err)
		require.Equal(r, redisqtest.IDs("late", "n"), redisqtest.ClaimedIDs(got))
		require.False(r, got[0].Unread)
		for _, c := range unread {
			require.False(r, c.Unread)
			require.Equal(r, "body "+c.ID.Message[1:], string(c.Message.Body))
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
		}
	}},
	{Name: "a claim leaves no message unread that decides whether its delivery ends", Run: func(r *redisqtest.Rig) {
		r.Schedule(
			r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(redisqtest.Start.Add(time.Second))),
			r.Entry("m2", redisqtest.To("a")),
		)
		r.Pass(time.Second)
		got := claimLater(r, r.All(), 8)
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(got))
		require.False(r, got[0].Unread)
		require.Equal(r, dispatcher.ReasonExpired, r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead).Reason)
	}},
	{Name: "an unread delivery without a message is dropped by the next claim after it was handed back", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Lose("m1")
		unread := claimLater(r, r.All(), 8)
		require.Len(r, unread, 2)
		require.NoError(r, r.Queue.Messages(r.Ctx, unread))
		require.True(r, unread[0].Unread)
		require.Equal(r, "m2", unread[1].Message.ID)
		r.MustSettle(redisqtest.One, redisqtest.HandBack(unread[0]))
		require.Empty(r, claimLater(r, r.All(), 8))
		require.Equal(r, redisqtest.IDs("a", "m2"), r.Leases(redisqtest.One))
		r.MustBeSound()
	}},
	{Name: "large messages are not left unread, so that one answer does not have too many of them", Run: func(r *redisqtest.Rig) {
		for i := range 80 {
			r.Schedule(r.Entry(fmt.Sprint("m", i), redisqtest.ManyLanes(80)[i:i+1], large(15<<10)))
		}
		require.False(r, claimLater(r, r.All(), 65)[0].Unread, "none was read before")
		require.True(r, claimLater(r, r.All(), 8)[0].Unread, "8 of them are not too many")
	}},
	{Name: "a claim deletes all other keys of a delivery whose record is lost", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
		for _, c := range r.Claim(redisqtest.One, 2) {
			r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Second))
		}
		r.Lose("m1")
		r.Pass(time.Second)
		r.Move()
		r.MustClaimNothing(redisqtest.One)
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a settled delivery whose record was deleted by hand does no harm", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Lose("m1")
		r.Settle(redisqtest.One, redisqtest.Failure(c, time.Second))
		r.Pass(time.Second)
		r.Move()
		r.MustClaimNothing(redisqtest.One)
		r.Trim(redisqtest.KeepNothing)
	}},
	{Name: "the counts of attempts and rungs continue at a retry", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		for n := 1; n <= 4; n++ {
			c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
			require.Equal(r, n, c.Attempt)
			require.Equal(r, n, c.Rung)
			require.Equal(r, n == 1, c.First)
			r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Second))
			r.Pass(time.Second)
			r.Move()
		}
	}},
}

func large(size int) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Body = redisqtest.LargeBody(size) }
}

// The store keeps bodies in three ways, by their size. A small body is part of the
// record. A larger body has its own key, which the same script writes. The largest
// bodies are written before that script.
const (
	inRecord = 12 << 10
	inScript = 300 << 10
	staged   = 3 << 20
)

// BodyCases are about large bodies.
var BodyCases = []redisqtest.Case{
	{Name: "a query returns the body as it was published, at any size", Run: func(r *redisqtest.Rig) {
		for _, size := range []int{inRecord, dispatcher.ApartAbove - 1, dispatcher.ApartAbove, inScript, 1 << 20, 1<<20 + 1, staged} {
			e := r.Entry("m"+time.Duration(size).String(), redisqtest.To("a"), large(size))
			require.Equal(r, dispatcher.Accepted, r.Schedule(e)[0].Result)
			c := r.Claim(redisqtest.One, 1)[0]
			require.Equal(r, size > inRecord, c.Message.Apart != nil, "%d", size)
			if a := c.Message.Apart; a != nil {
				require.Equal(r, dispatcher.Apart{Size: size, Digest: e.Digest}, *a)
			}
			require.True(r, bytes.Equal(e.Message.Body, r.BodyOf(c)), "%d", size)
			require.Equal(r, e.Digest, c.Message.Digest(), "%d", size)
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
			rec, err := r.Queue.Read(r.Ctx, e.Message.ID)
			require.NoError(r, err)
			require.Equal(r, e.Digest, rec.Message.Digest())
		}
	}},
	{Name: "a repeat of a large message is a duplicate, another body is a conflict, and neither writes anything", Run: func(r *redisqtest.Rig) {
		for i, size := range []int{inScript, staged} {
			id := []string{"m1", "m2"}[i]
			r.Schedule(r.Entry(id, redisqtest.To("a"), large(size)))
			r.MustChangeNothing(func() {
				got := r.Schedule(r.Entry(id, redisqtest.To("a"), large(size)), r.Entry(id, redisqtest.To("a"), large(size-1)), r.Entry(id, redisqtest.To("a")))
				require.Equal(r, dispatcher.Duplicate, got[0].Result)
				require.Equal(r, dispatcher.Conflict, got[1].Result)
				require.Equal(r, dispatcher.Conflict, got[2].Result)
			})
		}
	}},
	{Name: "two of one id in one batch share the body", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(r.Entry("m1", redisqtest.To("a"), large(staged)), r.Entry("m1", redisqtest.To("a"), large(staged)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.Duplicate, got[1].Result)
		require.Len(r, r.BodyOf(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]), staged)
	}},
	{Name: "a body is deleted with the last delivery of its message", Run: func(r *redisqtest.Rig) {
		for _, size := range []int{inScript, staged} {
			r.Schedule(r.Entry("m1", redisqtest.To("a", "b"), large(size)))
			r.MustSettle(redisqtest.One, redisqtest.Success(r.Claim(redisqtest.One, 1)[0]))
			r.Pass(time.Hour)
			r.Trim(redisqtest.KeepAnHour)
			require.Len(r, r.State().Bodies, 1)
			c := r.Claim(redisqtest.One, 1)[0]
			require.Len(r, r.BodyOf(c), size)
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
			r.Pass(time.Hour)
			r.Trim(redisqtest.KeepAnHour)
			require.Empty(r, r.State().Bodies)
			_, err := r.Queue.Body(r.Ctx, c.ID, *c.Message.Apart)
			require.ErrorIs(r, err, dispatcher.ErrNotFound)
		}
	}},
	{Name: "a digest keeps no body, and a repeat of its message writes none", Run: func(r *redisqtest.Rig) {
		for i, size := range []int{inScript, staged} {
			e := r.Entry([]string{"m1", "m2"}[i], redisqtest.To("a"), large(size))
			r.Schedule(e)
			r.MustSettle(redisqtest.One, redisqtest.Success(r.Claim(redisqtest.One, 1)[0]))
			r.Trim(redisqtest.KeepDigests)
			require.Empty(r, r.State().Bodies)
			require.Equal(r, dispatcher.Duplicate, r.Schedule(e)[0].Result)
			require.Empty(r, r.State().Bodies)
		}
	}},
	{Name: "a full lane refuses a large message and writes nothing", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		for _, size := range []int{inScript, staged} {
			require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("m2", redisqtest.To("a"), large(size)))[0].Result)
			require.Empty(r, r.State().Bodies)
		}
	}},
	{Name: "a large message goes to many lanes with one body", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		e := r.Entry("m1", redisqtest.ManyLanes(200), large(staged))
		e.Fan = true
		got := r.Schedule(e)[0]
		require.NoError(r, got.Err)
		require.Equal(r, dispatcher.Accepted, got.Result)
		require.Len(r, redisqtest.Ready(got), 200)
		for _, c := range r.ClaimAll(redisqtest.One)[:3] {
			require.Len(r, r.BodyOf(c), staged)
		}
	}},
	{Name: "one claim returns a mebibyte at most, and the next one continues", Run: func(r *redisqtest.Rig) {
		const each = 12 << 10
		var want []dispatcher.DeliveryID
		for i := range 200 { // in two lanes, with several turns each
			id := redisqtest.Named(dispatcher.Lane([]string{"a", "b"}[i%2]), fmt.Sprintf("m%03d", i))
			e := r.Entry(id.Message, redisqtest.To(id.Lane), large(each))
			r.Schedule(e)
			want = append(want, id)
		}
		var got []dispatcher.DeliveryID
		for len(got) < len(want) {
			claimed := r.ClaimWith(redisqtest.One, 64, 512)
			require.NotEmpty(r, claimed)
			r.MustBeSound()
			size := 0
			for _, c := range claimed {
				size += len(c.Message.Body)
				got = append(got, c.ID)
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
			require.LessOrEqual(r, size, 1<<20)
		}
		require.ElementsMatch(r, want, got)
	}},
	{Name: "a claim of several partitions shares the mebibyte", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		for i := range 400 {
			r.Schedule(r.Entry(fmt.Sprintf("m%03d", i), redisqtest.ManyLanes(100)[i%100:i%100+1], large(12<<10)))
		}
		left := 400
		for left > 0 {
			claimed := r.ClaimWith(redisqtest.One, 256, 512)
			require.NotEmpty(r, claimed)
			size := 0
			for _, c := range claimed {
				size += len(c.Message.Body)
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
			require.LessOrEqual(r, size, 1<<20)
			left -= len(claimed)
		}
	}},
	{Name: "a cancel deletes the message's body", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), large(inScript)))
		r.Cancel(redisqtest.Named("a", "m1"))
		r.MustClaimNothing(redisqtest.One)
		r.Trim(redisqtest.KeepNothing)
		require.Empty(r, r.State().Bodies)
	}},
}

// claimLater claims deliveries whose messages may stay unread.
func claimLater(r *redisqtest.Rig, in []int, wanted int) []dispatcher.Claimed {
	r.Helper()
	got, _, err := r.Queue.ClaimIn(r.Ctx, redisqtest.One, in, dispatcher.Claim{Wanted: wanted, Free: 512, Later: true})
	require.NoError(r, err)
	return got
}
