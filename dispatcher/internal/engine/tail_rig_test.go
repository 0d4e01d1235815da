package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// fakeLog is a log of two partitions, which lie in memory.
type fakeLog struct {
	mu    sync.Mutex // guards the fields below
	lines [2][]dispatcher.Logged
	cut   time.Time // set: the next read tells of it
	most  int       // lines of a read
	err   error
	grows int // so many reads find a line that was logged just before
	ends  int // calls of LogEnd
	reads int
	seq   uint64
}

func (f *fakeLog) LogEnd(context.Context) (dispatcher.LogPosition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends++
	p := dispatcher.LogPosition{Store: 1, Marks: make([]dispatcher.LogMark, 2)}
	for n, lines := range f.lines {
		p.Marks[n].Before = time.Now().UnixMilli()
		for _, l := range lines {
			p.Marks[n].MS, p.Marks[n].Seq = l.Place.MS, l.Place.Seq
		}
	}
	return p, f.err
}

func (f *fakeLog) LogSince(at time.Time) dispatcher.LogPosition {
	return dispatcher.LogPositionAt(1, 2, at.UnixMilli())
}

func (f *fakeLog) LogAt(text string) (dispatcher.LogPosition, error) {
	return dispatcher.ParseLogPosition(text)
}

func (f *fakeLog) FollowLog(_ context.Context, at *dispatcher.LogPosition, wanted func(*dispatcher.Logged) bool) (step dispatcher.LogStep, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.err != nil {
		return step, f.err
	}
	if f.grows > 0 {
		f.grows--
		f.log(fmt.Sprint("grown", f.grows))
	}
	step.Gap, f.cut = f.cut, time.Time{}
	for n, lines := range f.lines {
		read := 0
		for _, l := range lines {
			if at.Read(l.Place) {
				continue
			}
			if read++; read > f.most {
				step.More = true
				break
			}
			at.Marks[n] = dispatcher.LogMark{MS: l.Place.MS, Seq: l.Place.Seq, Before: at.Marks[n].Before}
			if wanted == nil || wanted(&l) {
				step.Lines = append(step.Lines, l)
			}
		}
		if !step.More {
			at.Marks[n].Before, at.Marks[n].Lines = time.Now().UnixMilli(), 0
		}
	}
	return step, nil
}

// add logs an attempt in each partition.
func (f *fakeLog) add(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log(ids...)
}

// log is add while mu is held.
func (f *fakeLog) log(ids ...string) {
	for _, id := range ids {
		for n := range f.lines {
			f.seq++
			f.lines[n] = append(f.lines[n], dispatcher.Logged{
				Place: dispatcher.LogPlace{MS: time.Now().UnixMilli(), Partition: n, Seq: f.seq},
				ID:    dispatcher.DeliveryID{Lane: dispatcher.Lane(fmt.Sprint("lane", n)), Message: id}, Tenant: "t1",
				Happening: dispatcher.HappenedDelivered, Attempt: dispatcher.Attempt{At: time.Now(), Number: 1},
			})
		}
	}
}

func (f *fakeLog) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// calls are how often the log was read since the last call.
func (f *fakeLog) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.ends + f.reads
	f.ends, f.reads = 0, 0
	return n
}

// viewer is one that follows, and remembers what it saw.
type viewer struct {
	stop context.CancelFunc
	done chan error
	slow chan struct{} // show waits for it; nil: it does not

	mu    sync.Mutex // guards the fields below
	seen  []string   // ids of messages and lanes; gap and alive
	at    []string   // positions
	times []time.Time
	fails error
}

func follow(t testing.TB, h *engine.Tail, filter dispatcher.LogFilter, behind string, change ...func(*viewer)) *viewer {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background()) // that of t is outside of the bubble
	v := &viewer{stop: stop, done: make(chan error, 1)}
	for _, c := range change {
		c(v)
	}
	go func() { v.done <- h.FollowLog(ctx, filter, behind, v.show) }()
	return v
}

func (v *viewer) show(all []dispatcher.LogEvent) error {
	if v.slow != nil {
		<-v.slow
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range all {
		word := "alive"
		switch {
		case e.Line != nil:
			word = e.Line.ID.String()
		case !e.Gap.IsZero():
			word = "gap"
		}
		v.seen, v.at, v.times = append(v.seen, word), append(v.at, e.At), append(v.times, time.Now())
	}
	return v.fails
}

// saw is what it saw since the last call, and the last position.
func (v *viewer) saw() (seen []string, at string) {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, v.seen = v.seen, nil
	return seen, v.at[len(v.at)-1]
}

func run(t *testing.T, f *fakeLog, do func(h *engine.Tail, stop context.CancelFunc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if f.most == 0 {
			f.most = 100
		}
		h := engine.NewTail(f, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		do(h, stop)
		stop()
		require.NoError(t, <-done)
	})
}

func both(ids ...string) (out []string) {
	for _, id := range ids {
		out = append(out, "lane0:"+id, "lane1:"+id)
	}
	return out
}
