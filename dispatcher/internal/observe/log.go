package observe

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// most is the size of all lines in memory. It has room for the lines of a second at
	// LOG_LEVEL=debug, so a reader that is only slow for a moment loses none.
	most = 4 << 20
	// lineBytes is the size of a line without its texts.
	lineBytes = 512
	// textMost is the longest text in a line. The rest is cut.
	textMost = 8 << 10
)

// Log is a handler's queue. It needs no end: its goroutine runs only while there are lines.
type Log struct {
	to slog.Handler

	mu      sync.Mutex // guards the fields below
	waiting []line     // oldest first
	bytes   int        // of all lines that are not written
	skipped int        // lines that were dropped after the last one in waiting
	dropped int64      // all dropped lines
	writing bool       // the goroutine runs
	idle    *sync.Cond // signalled when it ends
	gap     int        // used by the goroutine: dropped lines that no line has reported
}

// line is a line that waits.
type line struct {
	ctx     context.Context // of its caller, without its end
	to      slog.Handler
	record  slog.Record
	bytes   int
	skipped int // lines that were dropped just before it
}

// NewLog returns a Log in front of a handler.
func NewLog(to slog.Handler) *Log {
	q := &Log{to: to}
	q.idle = sync.NewCond(&q.mu)
	return q
}

// Logger returns a logger that never waits for the handler.
func (q *Log) Logger() *slog.Logger { return slog.New(handler{q, q.to}) }

// Dropped returns the number of lines that were dropped until now.
func (q *Log) Dropped() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Flush waits until all lines are written, but no longer than the given time.
func (q *Log) Flush(within time.Duration) {
	late := false
	timer := time.AfterFunc(within, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		late = true
		q.idle.Broadcast()
	})
	defer timer.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing && !late {
		q.idle.Wait()
	}
}

// put queues a line, or drops it.
func (q *Log) put(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+l.bytes > most {
		q.skipped++
		q.dropped++
		return
	}
	l.skipped, q.skipped = q.skipped, 0
	q.bytes += l.bytes
	q.waiting = append(q.waiting, l)
	if !q.writing {
		q.writing = true
		go q.write()
	}
}

// write writes lines until none waits.
func (q *Log) write() {
	for {
		batch, skipped := q.take()
		if len(batch) == 0 && skipped == 0 {
			return
		}
		for i := range batch {
			q.writeLine(&batch[i])
			batch[i] = line{}
		}
		q.gap += skipped
		q.report() // if that fails, it is tried again before the next line
	}
}

// take returns all lines that wait, and how many were dropped after them. If there are none, the
// goroutine ends.
func (q *Log) take() (batch []line, skipped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, skipped = q.waiting, q.skipped
	q.waiting, q.skipped = nil, 0
	if len(batch) == 0 && skipped == 0 {
		q.writing = false
		q.idle.Broadcast()
	}
	return batch, skipped
}

// writeLine writes one line, and before it the number of lines that are missing there.
func (q *Log) writeLine(l *line) {
	q.gap += l.skipped
	written := q.report() && l.to.Handle(l.ctx, l.record) == nil
	if !written {
		q.gap++
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= l.bytes
	if !written {
		q.dropped++
	}
}

// report writes how many lines were dropped, if there are any. It returns false if that fails.
func (q *Log) report() bool {
	ctx := context.Background()
	if q.gap == 0 {
		return true
	}
	if q.to.Enabled(ctx, slog.LevelWarn) {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines were dropped: the reader of the log is too slow, or was gone", 0)
		r.AddAttrs(slog.Int("lines", q.gap))
		if q.to.Handle(ctx, r) != nil {
			return false
		}
	}
	q.gap = 0
	return true
}

// handler queues lines for one handler.
type handler struct {
	queue *Log
	to    slog.Handler
}

// Enabled reports whether the handler logs lines of a level.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

// Handle queues a line. It never returns an error: what happens to the line is counted.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	record, bytes := bounded(r)
	h.queue.put(line{ctx: context.WithoutCancel(ctx), to: h.to, record: record, bytes: bytes})
	return nil
}

// WithAttrs returns a handler of the same queue.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.queue, h.to.WithAttrs(attrs)}
}

// WithGroup returns a handler of the same queue.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.queue, h.to.WithGroup(name)} }

// bounded returns a copy of a line whose texts are not too long, and its size.
func bounded(r slog.Record) (copied slog.Record, bytes int) {
	bytes = lineBytes + min(len(r.Message), textMost)
	long := len(r.Message) > textMost
	r.Attrs(func(a slog.Attr) bool {
		n := len(textOf(a.Value))
		bytes += len(a.Key) + min(n, textMost)
		long = long || n > textMost
		return true
	})
	if !long {
		return r.Clone(), bytes
	}
	copied = slog.NewRecord(r.Time, r.Level, cut(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if text := textOf(a.Value); len(text) > textMost {
			a.Value = slog.StringValue(cut(text))
		}
		copied.AddAttrs(a)
		return true
	})
	return copied, bytes
}

// textOf returns the text of a value, or "" if it has none. Lists and groups are short, because
// our own code makes them.
func textOf(v slog.Value) (text string) {
	if v.Kind() == slog.KindString {
		return v.String()
	}
	err, ok := v.Any().(error)
	if !ok {
		return ""
	}
	defer func() { _ = recover() }() // an error that is a nil pointer; the real handler knows what to do
	return err.Error()
}

// cut returns the beginning of a long text.
func cut(text string) string {
	if len(text) <= textMost {
		return text
	}
	return strings.ToValidUTF8(text[:textMost], "") + "..."
}
