package deliveries

import (
	"bytes"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

func large(size int) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Body = rig.LargeBody(size) }
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
var BodyCases = []rig.Case{
	{Name: "a query returns the body as it was published, at any size", Run: func(r *rig.Rig) {
		for _, size := range []int{inRecord, dispatcher.ApartAbove - 1, dispatcher.ApartAbove, inScript, 1 << 20, 1<<20 + 1, staged} {
			e := r.Entry("m"+time.Duration(size).String(), rig.To("a"), large(size))
			require.Equal(r, dispatcher.Accepted, r.Schedule(e)[0].Result)
			c := r.Claim(rig.One, 1)[0]
			require.Equal(r, size > inRecord, c.Message.Apart != nil, "%d", size)
			if a := c.Message.Apart; a != nil {
				require.Equal(r, dispatcher.Apart{Size: size, Digest: e.Digest}, *a)
			}
			require.True(r, bytes.Equal(e.Message.Body, r.BodyOf(c)), "%d", size)
			require.Equal(r, e.Digest, c.Message.Digest(), "%d", size)
			r.MustSettle(rig.One, rig.Success(c))
			rec, err := r.Queue.Read(r.Ctx, e.Message.ID)
			require.NoError(r, err)
			require.Equal(r, e.Digest, rec.Message.Digest())
		}
	}},
	{Name: "a repeat of a large message is a duplicate, another body is a conflict, and neither writes anything", Run: func(r *rig.Rig) {
		for i, size := range []int{inScript, staged} {
			id := []string{"m1", "m2"}[i]
			r.Schedule(r.Entry(id, rig.To("a"), large(size)))
			r.MustChangeNothing(func() {
				got := r.Schedule(r.Entry(id, rig.To("a"), large(size)), r.Entry(id, rig.To("a"), large(size-1)), r.Entry(id, rig.To("a")))
				require.Equal(r, dispatcher.Duplicate, got[0].Result)
				require.Equal(r, dispatcher.Conflict, got[1].Result)
				require.Equal(r, dispatcher.Conflict, got[2].Result)
			})
		}
	}},
	{Name: "two of one id in one batch share the body", Run: func(r *rig.Rig) {
		got := r.Schedule(r.Entry("m1", rig.To("a"), large(staged)), r.Entry("m1", rig.To("a"), large(staged)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.Duplicate, got[1].Result)
		require.Len(r, r.BodyOf(r.MustClaim(rig.One, rig.Named("a", "m1"))[0]), staged)
	}},
	{Name: "a body is deleted with the last delivery of its message", Run: func(r *rig.Rig) {
		for _, size := range []int{inScript, staged} {
			r.Schedule(r.Entry("m1", rig.To("a", "b"), large(size)))
			r.MustSettle(rig.One, rig.Success(r.Claim(rig.One, 1)[0]))
			r.Pass(time.Hour)
			r.Trim(rig.KeepAnHour)
			require.Len(r, r.State().Bodies, 1)
			c := r.Claim(rig.One, 1)[0]
			require.Len(r, r.BodyOf(c), size)
			r.MustSettle(rig.One, rig.Success(c))
			r.Pass(time.Hour)
			r.Trim(rig.KeepAnHour)
			require.Empty(r, r.State().Bodies)
			_, err := r.Queue.Body(r.Ctx, c.ID, *c.Message.Apart)
			require.ErrorIs(r, err, dispatcher.ErrNotFound)
		}
	}},
	{Name: "a digest keeps no body, and a repeat of its message writes none", Run: func(r *rig.Rig) {
		for i, size := range []int{inScript, staged} {
			e := r.Entry([]string{"m1", "m2"}[i], rig.To("a"), large(size))
			r.Schedule(e)
			r.MustSettle(rig.One, rig.Success(r.Claim(rig.One, 1)[0]))
			r.Trim(rig.KeepDigests)
			require.Empty(r, r.State().Bodies)
			require.Equal(r, dispatcher.Duplicate, r.Schedule(e)[0].Result)
			require.Empty(r, r.State().Bodies)
		}
	}},
	{Name: "a full lane refuses a large message and writes nothing", Setup: stored.Setup{MaxWaiting: 1}, Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		for _, size := range []int{inScript, staged} {
			require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("m2", rig.To("a"), large(size)))[0].Result)
			require.Empty(r, r.State().Bodies)
		}
	}},
	{Name: "a large message goes to many lanes with one body", Setup: stored.Setup{Partitions: 2}, Run: func(r *rig.Rig) {
		e := r.Entry("m1", rig.ManyLanes(200), large(staged))
		e.Fan = true
		got := r.Schedule(e)[0]
		require.NoError(r, got.Err)
		require.Equal(r, dispatcher.Accepted, got.Result)
		require.Len(r, rig.Ready(got), 200)
		for _, c := range r.ClaimAll(rig.One)[:3] {
			require.Len(r, r.BodyOf(c), staged)
		}
	}},
	{Name: "one claim returns a mebibyte at most, and the next one continues", Run: func(r *rig.Rig) {
		const each = 12 << 10
		var want []dispatcher.DeliveryID
		for i := range 200 { // in two lanes, with several turns each
			id := rig.Named(dispatcher.Lane([]string{"a", "b"}[i%2]), fmt.Sprintf("m%03d", i))
			e := r.Entry(id.Message, rig.To(id.Lane), large(each))
			r.Schedule(e)
			want = append(want, id)
		}
		var got []dispatcher.DeliveryID
		for len(got) < len(want) {
			claimed := r.ClaimWith(rig.One, 64, 512)
			require.NotEmpty(r, claimed)
			r.MustBeSound()
			size := 0
			for _, c := range claimed {
				size += len(c.Message.Body)
				got = append(got, c.ID)
				r.MustSettle(rig.One, rig.Success(c))
			}
			require.LessOrEqual(r, size, 1<<20)
		}
		require.ElementsMatch(r, want, got)
	}},
	{Name: "a claim of several partitions shares the mebibyte", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		for i := range 400 {
			r.Schedule(r.Entry(fmt.Sprintf("m%03d", i), rig.ManyLanes(100)[i%100:i%100+1], large(12<<10)))
		}
		left := 400
		for left > 0 {
			claimed := r.ClaimWith(rig.One, 256, 512)
			require.NotEmpty(r, claimed)
			size := 0
			for _, c := range claimed {
				size += len(c.Message.Body)
				r.MustSettle(rig.One, rig.Success(c))
			}
			require.LessOrEqual(r, size, 1<<20)
			left -= len(claimed)
		}
	}},
	{Name: "a cancel deletes the message's body", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), large(inScript)))
		r.Cancel(rig.Named("a", "m1"))
		r.MustClaimNothing(rig.One)
		r.Trim(rig.KeepNothing)
		require.Empty(r, r.State().Bodies)
	}},
}
