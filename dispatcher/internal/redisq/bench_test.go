package redisq_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The cost of the scripts in a real Redis with its append-only file on. One
// iteration is one call of a script with one batch. The data of a call is made
// and removed outside of the measurement. The figure to compare is
// redis-µs/msg: the CPU time of Redis' main thread. On a busy machine it shows
// the work of a script, and not how long it lasts.
//
//	go test -run '^$' -bench . -benchtime 0.2s -count 6 ./dispatcher/internal/redisq > new.txt
//	benchstat old.txt new.txt

const (
	benchBlock  = 32                   // calls between two preparations
	benchWindow = 8192                 // two blocks in flight at once, on one lane
	benchFree   = 1 << 20              // permits: a block never runs out of them
	benchDelay  = 5 * time.Millisecond // due later
	benchBody   = 1 << 10
)

// benchKeep leaves enough finished work that sets and hashes do not have the
// small forms of Redis, as in a store in use.
var benchKeep = dispatcher.Keep{Finished: time.Hour, FinishedMax: 2000, SeenMax: 2000, Dead: time.Hour, DeadMax: 1}

func BenchmarkSchedule(b *testing.B) {
	schedule := func(delay time.Duration) func(r *benchRig) {
		return func(r *benchRig) {
			var batches [][]dispatcher.Entry
			r.calls(func() { batches = r.entries(delay) }, func(k int) { r.schedule(batches[k], r.batch) })
		}
	}
	b.Run("place=due", func(b *testing.B) { shapes(b, schedule(benchDelay), 8, 64) })
	b.Run("place=leased", func(b *testing.B) { shapes(b, schedule(0), 8, 64) })
	b.Run("place=due/subject", func(b *testing.B) {
		shapes(b, func(r *benchRig) {
			r.change = func(m *dispatcher.Message) {
				m.Subject = "order_" + m.ID[4:14] + fmt.Sprint(r.next, "_", time.Now().UnixNano())
			}
			schedule(benchDelay)(r)
		}, 8, 64)
	})
	b.Run("place=due/tenant", func(b *testing.B) {
		shapes(b, func(r *benchRig) {
			r.change = func(m *dispatcher.Message) { m.Tenant = "merchant_17" }
			schedule(benchDelay)(r)
		}, 8, 64)
	})
}

func BenchmarkTrim(b *testing.B) {
	trim := func(change func(*dispatcher.Message)) func(r *benchRig) {
		return func(r *benchRig) {
			r.change = change
			r.calls(func() {
				r.put(0)
				r.finish()
			}, func(int) {
				_, err := r.store.Trim(r.Context(), "one", []int{0}, benchKeep, false)
				require.NoError(r, err)
			})
		}
	}
	b.Run("plain", func(b *testing.B) { shapes(b, trim(nil), 64) })
	b.Run("subject", func(b *testing.B) {
		shapes(b, trim(func(m *dispatcher.Message) { m.Subject = fmt.Sprint("order_", time.Now().UnixNano()) }), 64)
	})
}

func BenchmarkMove(b *testing.B) {
	shapes(b, func(r *benchRig) {
		r.calls(func() {
			r.put(benchDelay)
			r.untilDue()
		}, func(int) { r.move() })
	}, 128) // the batch of a move, whatever is due
}

func BenchmarkClaim(b *testing.B) {
	claim := func(later bool) func(r *benchRig) {
		return func(r *benchRig) {
			r.later = later
			r.calls(r.ready, func(int) { r.claim() })
		}
	}
	b.Run("read=now", func(b *testing.B) { shapes(b, claim(false), 4, 16, 64) })
	b.Run("read=later", func(b *testing.B) { shapes(b, claim(true), 4, 16, 64) })
}

func BenchmarkSettle(b *testing.B) {
	settle := func(verdict dispatcher.Verdict) func(r *benchRig) {
		return func(r *benchRig) {
			var batches [][]dispatcher.Settlement
			r.calls(func() {
				r.ready()
				batches = batches[:0]
				for range benchBlock {
					batches = append(batches, r.outcomes(verdict, r.claim()))
				}
			}, func(k int) { r.settle(batches[k]) })
		}
	}
	b.Run("verdict=ok", func(b *testing.B) { shapes(b, settle(dispatcher.Delivered), 8, 64) })
	b.Run("verdict=retry", func(b *testing.B) { shapes(b, settle(dispatcher.Retry), 8, 64) })
}

// shapes measures batches of several sizes, to one lane and to a hundred. The
// cost of a script has parts for its call, its lanes and its messages.
func shapes(b *testing.B, run func(r *benchRig), batches ...int) {
	b.Helper()
	for _, lanes := range []int{1, 100} {
		for _, batch := range batches {
			b.Run(fmt.Sprintf("lanes=%d/batch=%d", lanes, batch), func(b *testing.B) { run(newBenchRig(b, lanes, batch)) })
		}
	}
}

// benchRig is a store on a Redis of its own, with lanes whose windows have
// grown.
type benchRig struct {
	*testing.B
	store *redisqtest.Raw
	lanes []dispatcher.Lane
	batch int
	next  int  // the lane of the next entry
	later bool // a claim reads the messages of the claim before

	unread []dispatcher.Claimed // of the claim before

	change func(*dispatcher.Message) // of each entry; nil: none

	spent time.Duration // by Redis in the measured part
}

func newBenchRig(b *testing.B, lanes, batch int) *benchRig {
	b.Helper()
	return newBenchRigOn(b, redistest.Start(b, "auto-aof-rewrite-percentage 0").URL(), lanes, batch)
}

func newBenchRigOn(b *testing.B, url string, lanes, batch int) *benchRig {
	b.Helper()
	r := &benchRig{B: b, batch: batch, store: openTestStore(b, redisq.Options{
		URL: url, Project: "bench",
		Partitions: 1, LaneMaxInFlight: benchWindow, Permits: 1024, Log: slog.New(slog.DiscardHandler),
	})}
	_, _, err := r.store.Beat(b.Context(), "one", 1)
	require.NoError(b, err)
	for n := range lanes {
		r.lanes = append(r.lanes, dispatcher.Lane(fmt.Sprintf("u_%010x", n*7919)))
	}
	for grown := 0; grown < max(2*benchBlock*batch, benchKeep.FinishedMax); grown += benchBlock * batch { // so that no window limits a block
		r.put(0)
		r.empty()
	}
	return r
}

// calls measures call. k is the number of the call since prepare.
func (r *benchRig) calls(prepare func(), call func(k int)) {
	r.Helper()
	k, calls, began := benchBlock, 0, time.Duration(0)
	for r.Loop() {
		if k == benchBlock {
			r.StopTimer()
			if calls > 0 {
				r.spent += r.cpuTime() - began
				r.empty()
			}
			prepare()
			k, began = 0, r.cpuTime()
			r.StartTimer()
		}
		call(k)
		k++
		calls++
	}
	r.spent += r.cpuTime() - began
	messages := float64(calls * r.batch)
	r.ReportMetric(float64(r.spent.Nanoseconds())/1000/messages, "redis-µs/msg")
	r.ReportMetric(float64(r.Elapsed().Nanoseconds())/1000/messages, "wall-µs/msg")
}

// cpuTime is the CPU time of Redis' main thread so far.
func (r *benchRig) cpuTime() time.Duration {
	return (&trap{TB: r.B, store: r.store}).cpuTime()
}

// benchEntry is a typical message.
func benchEntry(lane dispatcher.Lane, delay time.Duration) dispatcher.Entry {
	m := &dispatcher.Message{
		ID: "msg_" + ulid.Make().String(), Topic: "order.paid", URL: "https://merchant.example.com/hooks/payments",
		ContentType: "application/json", Body: bytes.Repeat([]byte("x"), benchBody), Delay: delay, CreatedAt: time.Now(),
	}
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{lane}}
}

// entries are the batches of a block, each to as many lanes as possible.
func (r *benchRig) entries(delay time.Duration) [][]dispatcher.Entry {
	batches := make([][]dispatcher.Entry, benchBlock)
	for i := range batches {
		for range r.batch {
			e := benchEntry(r.lanes[r.next], delay)
			if r.change != nil {
				r.change(e.Message)
				e.Digest = e.Message.Digest()
			}
			batches[i] = append(batches[i], e)
			r.next = (r.next + 1) % len(r.lanes)
		}
	}
	return batches
}

// put schedules a block and leases nothing.
func (r *benchRig) put(delay time.Duration) {
	r.Helper()
	for _, batch := range r.entries(delay) {
		r.schedule(batch, 0)
	}
}

// ready makes a block that may be claimed.
func (r *benchRig) ready() {
	r.Helper()
	r.put(0)
}

func (r *benchRig) schedule(batch []dispatcher.Entry, lease int) {
	r.Helper()
	got, _, err := r.store.Schedule(r.Context(), "one", benchFree, lease, batch)
	require.NoError(r, err)
	require.NoError(r, got[len(got)-1].Err)
	require.Equal(r, lease > 0 && batch[0].Message.Delay == 0, len(redisqtest.Leased(got[len(got)-1])) > 0, "leased")
}

func (r *benchRig) move() redisqtest.Hint {
	r.Helper()
	_, hints, err := r.store.Move(r.Context(), "one", []int{0})
	require.NoError(r, err)
	return hints[0]
}

// untilDue waits until all deliveries are due, by the clock of Redis.
func (r *benchRig) untilDue() {
	r.Helper()
	now, err := r.store.Client().Time(r.Context()).Result()
	require.NoError(r, err)
	for due := now.Add(2 * benchDelay); now.Before(due); {
		now, err = r.store.Client().Time(r.Context()).Result()
		require.NoError(r, err)
	}
}

func (r *benchRig) claim() []dispatcher.Claimed {
	r.Helper()
	claimed, _, err := r.store.ClaimIn(r.Context(), "one", []int{0}, dispatcher.Claim{
		Wanted: r.batch, Free: benchFree, Later: r.later, Unread: r.unread,
	})
	require.NoError(r, err)
	if r.later {
		r.unread = claimed
	}
	return claimed
}

func (r *benchRig) outcomes(verdict dispatcher.Verdict, claimed []dispatcher.Claimed) []dispatcher.Settlement {
	r.Helper()
	require.Len(r, claimed, r.batch)
	batch := make([]dispatcher.Settlement, len(claimed))
	for i, c := range claimed {
		batch[i] = outcome(verdict, c.ID, c.Attempt)
	}
	return batch
}

// outcome is the outcome of an attempt with a quick answer.
func outcome(verdict dispatcher.Verdict, id dispatcher.DeliveryID, attempt int) dispatcher.Settlement {
	o := dispatcher.Settlement{
		ID: id, Verdict: verdict, First: attempt == 1,
		Attempt: dispatcher.Attempt{Number: attempt, At: time.Now(), Status: 200, Verdict: verdict, Duration: time.Millisecond},
	}
	if verdict == dispatcher.Retry {
		o.Wait, o.Blame, o.Attempt.Status = benchDelay, true, 500
		o.Attempt.Excerpt = []byte(`{"error":"internal"}`)
	}
	return o
}

func (r *benchRig) settle(batch []dispatcher.Settlement) {
	r.Helper()
	settled, _, err := r.store.Settle(r.Context(), "one", batch)
	require.NoError(r, err)
	require.Equal(r, dispatcher.SettledOK, settled[len(settled)-1])
}

// empty delivers all that is left, and forgets most of it.
func (r *benchRig) empty() {
	r.Helper()
	r.finish()
	for more := true; more; {
		trimmed, err := r.store.Trim(r.Context(), "one", []int{0}, benchKeep, false)
		require.NoError(r, err)
		more = trimmed.More
	}
}

// finish delivers all that is left.
func (r *benchRig) finish() {
	r.Helper()
	for {
		leases, err := r.store.Leases(r.Context(), "one")
		require.NoError(r, err)
		for from := 0; from < len(leases); from += 256 {
			var batch []dispatcher.Settlement
			for _, l := range leases[from:min(from+256, len(leases))] {
				batch = append(batch, outcome(dispatcher.Delivered, l.ID, 2)) // only claim knows whether it is the first
			}
			r.settle(batch)
		}
		if hint := r.move(); len(r.claim()) == 0 && hint.Due.IsZero() && len(leases) == 0 {
			break
		}
	}
}
