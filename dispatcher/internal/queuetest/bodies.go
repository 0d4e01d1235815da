package queuetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// largeBody is a body of size bytes. Its text repeats every 17 bytes, so that
// blocks of it differ.
func largeBody(size int) []byte {
	return bytes.Repeat([]byte("0123456789abcdefg"), size/17+1)[:size]
}

func large(size int) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Body = largeBody(size) }
}

// bodyOf is the body of a delivery, wherever the store keeps it. It is read
// over a connection that does not break.
func (r *rig) bodyOf(c dispatcher.Claimed) []byte {
	r.Helper()
	queue := r.Queue
	if r.good != nil {
		queue = r.good
	}
	if c.Message.Apart == nil {
		return c.Message.Body
	}
	require.Empty(r, c.Message.Body, "%s", c.ID)
	body, err := queue.Body(r.ctx, c.ID, *c.Message.Apart)
	require.NoError(r, err, "%s", c.ID)
	return body
}

// The store keeps bodies in three ways, by their size. The body is part of the
// record, or lies apart and is written by the same script, or is written before
// that script.
const (
	inRecord = 12 << 10
	inScript = 300 << 10
	staged   = 3 << 20
)

// keepAnHour forgets deliveries that ended an hour ago.
var keepAnHour = dispatcher.Keep{Finished: time.Hour, FinishedMax: 1000, SeenMax: 1000, Dead: time.Hour, DeadMax: 1000}

var bodyCases = []testCase{
	{name: "a body is read as it was published, whatever its size", run: func(r *rig) {
		for _, size := range []int{inRecord, dispatcher.ApartAbove - 1, dispatcher.ApartAbove, inScript, 1 << 20, 1<<20 + 1, staged} {
			e := r.entry("m"+time.Duration(size).String(), to("a"), large(size))
			require.Equal(r, dispatcher.Accepted, r.schedule(e)[0].Result)
			c := r.claim(one, 1)[0]
			require.Equal(r, size > inRecord, c.Message.Apart != nil, "%d", size)
			if a := c.Message.Apart; a != nil {
				require.Equal(r, dispatcher.Apart{Size: size, Digest: e.Digest}, *a)
			}
			require.True(r, bytes.Equal(e.Message.Body, r.bodyOf(c)), "%d", size)
			require.Equal(r, e.Digest, c.Message.Digest(), "%d", size)
			r.mustSettle(one, success(c))
			rec, err := r.Queue.Read(r.ctx, e.Message.ID)
			require.NoError(r, err)
			require.Equal(r, e.Digest, rec.Message.Digest())
		}
	}},
	{name: "a repeat of a large message is a duplicate, another body a conflict, and neither leaves anything", run: func(r *rig) {
		for i, size := range []int{inScript, staged} {
			id := []string{"m1", "m2"}[i]
			r.schedule(r.entry(id, to("a"), large(size)))
			r.mustChangeNothing(func() {
				got := r.schedule(r.entry(id, to("a"), large(size)), r.entry(id, to("a"), large(size-1)), r.entry(id, to("a")))
				require.Equal(r, dispatcher.Duplicate, got[0].Result)
				require.Equal(r, dispatcher.Conflict, got[1].Result)
				require.Equal(r, dispatcher.Conflict, got[2].Result)
			})
		}
	}},
	{name: "two of one id in one batch share the body", run: func(r *rig) {
		got := r.schedule(r.entry("m1", to("a"), large(staged)), r.entry("m1", to("a"), large(staged)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.Duplicate, got[1].Result)
		require.Len(r, r.bodyOf(r.mustClaim(one, named("a", "m1"))[0]), staged)
	}},
	{name: "a body goes with the last delivery of its message", run: func(r *rig) {
		for _, size := range []int{inScript, staged} {
			r.schedule(r.entry("m1", to("a", "b"), large(size)))
			r.mustSettle(one, success(r.claim(one, 1)[0]))
			r.pass(time.Hour)
			r.trim(keepAnHour)
			require.Len(r, r.State().Bodies, 1)
			c := r.claim(one, 1)[0]
			require.Len(r, r.bodyOf(c), size)
			r.mustSettle(one, success(c))
			r.pass(time.Hour)
			r.trim(keepAnHour)
			require.Empty(r, r.State().Bodies)
			_, err := r.Queue.Body(r.ctx, c.ID, *c.Message.Apart)
			require.ErrorIs(r, err, dispatcher.ErrNotFound)
		}
	}},
	{name: "what is cut to its digest keeps no body, and its repeat leaves none", run: func(r *rig) {
		for i, size := range []int{inScript, staged} {
			e := r.entry([]string{"m1", "m2"}[i], to("a"), large(size))
			r.schedule(e)
			r.mustSettle(one, success(r.claim(one, 1)[0]))
			r.trim(keepDigests)
			require.Empty(r, r.State().Bodies)
			require.Equal(r, dispatcher.Duplicate, r.schedule(e)[0].Result)
			require.Empty(r, r.State().Bodies)
		}
	}},
	{name: "a full lane refuses a large message without a trace", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.publish("a", "m1")
		for _, size := range []int{inScript, staged} {
			require.Equal(r, dispatcher.LaneFull, r.schedule(r.entry("m2", to("a"), large(size)))[0].Result)
			require.Empty(r, r.State().Bodies)
		}
	}},
	{name: "a large message goes to many lanes with one body", setup: Setup{Partitions: 2}, run: func(r *rig) {
		e := r.entry("m1", manyLanes(200), large(staged))
		e.Fan = true
		got := r.schedule(e)[0]
		require.NoError(r, got.Err)
		require.Equal(r, dispatcher.Accepted, got.Result)
		require.Len(r, got.Ready, 200)
		for _, c := range r.claimAll(one)[:3] {
			require.Len(r, r.bodyOf(c), staged)
		}
	}},
	{name: "one claim answers a mebibyte at most, and the next one continues", run: func(r *rig) {
		const each = 12 << 10
		var want []dispatcher.DeliveryID
		for i := range 200 { // in two lanes, with several turns each
			id := named(dispatcher.Lane([]string{"a", "b"}[i%2]), fmt.Sprintf("m%03d", i))
			e := r.entry(id.Message, to(id.Lane), large(each))
			r.schedule(e)
			want = append(want, id)
		}
		var got []dispatcher.DeliveryID
		for len(got) < len(want) {
			claimed := r.claimWith(one, 64, 512)
			require.NotEmpty(r, claimed)
			r.mustBeSound()
			size := 0
			for _, c := range claimed {
				size += len(c.Message.Body)
				got = append(got, c.ID)
				r.mustSettle(one, success(c))
			}
			require.LessOrEqual(r, size, 1<<20)
		}
		require.ElementsMatch(r, want, got)
	}},
	{name: "a claim of several partitions shares the mebibyte", setup: Setup{Partitions: 4}, run: func(r *rig) {
		for i := range 400 {
			r.schedule(r.entry(fmt.Sprintf("m%03d", i), manyLanes(100)[i%100:i%100+1], large(12<<10)))
		}
		left := 400
		for left > 0 {
			claimed := r.claimWith(one, 256, 512)
			require.NotEmpty(r, claimed)
			size := 0
			for _, c := range claimed {
				size += len(c.Message.Body)
				r.mustSettle(one, success(c))
			}
			require.LessOrEqual(r, size, 1<<20)
			left -= len(claimed)
		}
	}},
	{name: "a cancelled message takes its body with it", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), large(inScript)))
		r.cancel(named("a", "m1"))
		r.mustClaimNothing(one)
		r.trim(keepNothing)
		require.Empty(r, r.State().Bodies)
	}},
}
