package engine_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// What the gate costs for each attempt that takes no time.
func BenchmarkGate(b *testing.B) {
	b.ReportAllocs()
	var all sync.WaitGroup
	g := engine.NewWorkers(0, func(d.Claimed) { all.Done() })
	batch := tasks(64)
	for left := b.N; left > 0; left -= len(batch) {
		n := min(left, len(batch))
		all.Add(n)
		g.Put(batch[:n]...)
		all.Wait() // as permits bound what is put
	}
	all.Wait()
	g.Close()
	g.Wait()
}

// What an attempt costs besides the request: headers, signature, judgement, and
// its way through gate and settler.
func BenchmarkDeliver(b *testing.B) { deliverAll(b, nil) }

// What traces cost beside that, as ratios in one run: if they are off, if no span is sampled,
// and if all are.
func BenchmarkTraces(b *testing.B) {
	plain := 0.0
	for _, c := range []struct {
		name   string
		tracer trace.Tracer
	}{
		{"off", nil},
		{"unsampled", observe.NewTracer(sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())), "test")},
		{"sampled", observe.NewTracer(sdk.NewTracerProvider(), "test")},
	} {
		b.Run(c.name, func(b *testing.B) {
			deliverAll(b, c.tracer)
			each := float64(b.Elapsed()) / float64(b.N)
			if c.tracer == nil {
				plain = each
			}
			b.ReportMetric(each/plain, "×off")
		})
	}
}

func deliverAll(b *testing.B, tracer trace.Tracer) {
	b.ReportAllocs()
	sender := &fakeSender{forget: true}
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	sender.answer = func(context.Context, d.Call) d.Answer {
		if left.Add(-1) == 0 {
			close(done)
		}
		return d.Answer{Status: 200}
	}
	q := newEndlessQueue(b)
	q.template = claimed(message("msg_01JABCDEFGHJKMNPQRSTVWXYZ0"))
	q.left.Store(int64(b.N))
	o := newTestOptions(b, io.Discard)
	o.Tracer = tracer
	dispatcher := newTestInstance(b, q, sender, o)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ResetTimer()
	go func() { ended <- dispatcher.Run(ctx) }()
	<-done
	b.StopTimer()
	cancel()
	<-ended
}

// endlessQueue has a number of deliveries, and keeps nothing.
type endlessQueue struct {
	*testConn
	events   d.Events
	template d.Claimed
	left     atomic.Int64
	calls    atomic.Int64 // of Schedule
	placed   [1]d.Placed  // all answers of it
}

func newEndlessQueue(b *testing.B) *endlessQueue {
	return &endlessQueue{testConn: connect(b, newTestQueue(b, 1), 1024)}
}

func (q *endlessQueue) Notify(e d.Events) {
	q.events = e.Whole()
	q.testConn.Notify(e)
}

func (q *endlessQueue) Claimable(int) (batches int, waiting bool) {
	left := q.left.Load() > 0
	return flag(left), left
}

func (q *endlessQueue) Claim(_ context.Context, _ string, c d.Claim) ([]d.Claimed, error) {
	n := min(int64(c.Wanted), q.left.Load()) // one claimer asks
	q.left.Add(-n)
	out := make([]d.Claimed, n)
	for i := range out {
		out[i] = q.template
	}
	return out, nil
}

func (q *endlessQueue) Settle(_ context.Context, _ string, batch []d.Settlement) []d.Settled {
	out := make([]d.Settled, len(batch))
	for i := range out {
		out[i].Result = d.SettledOK
	}
	q.events.Ready()
	return out
}

func (q *endlessQueue) Schedule(_ context.Context, _ string, _, _ int, batch []d.Entry) ([]d.ScheduleResult, error) {
	q.calls.Add(1)
	time.Sleep(100 * time.Microsecond) // a round trip
	out := make([]d.ScheduleResult, len(batch))
	for i := range out {
		out[i].Result, out[i].Placed = d.Accepted, q.placed[:]
	}
	return out, nil
}

// What a publish costs besides the queue's own work, and how many go together
// in a call of it.
func BenchmarkAccept(b *testing.B) {
	b.ReportAllocs()
	q := newEndlessQueue(b)
	q.placed[0].Status = d.StatusReady
	o := newTestOptions(b, io.Discard)
	o.MaxInFlight = 0
	dispatcher := newTestInstance(b, q, &fakeSender{}, o)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()
	b.SetParallelism(32) // callers for each core
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		batch := messages("m", 1)
		for pb.Next() {
			if _, err := dispatcher.Publish(ctx, batch); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(max(q.calls.Load(), 1)), "messages/call")
	cancel()
	<-ended
}
