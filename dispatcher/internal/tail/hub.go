// Package tail shows people the log of attempts as it grows.
//
// One Hub reads the log for all followers of an instance, and only while there are
// any. It passes on the lines as a chain of stretches: each follower reads along it at its
// own pace, and one that falls too far behind is dropped. follow.go is a
// follower's side.
package tail

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

const (
	// readEvery is how often the log is read while it does not grow faster than it is
	// read. A person who watches does not mind a second.
	readEvery = time.Second

	// mostBehind bounds the memory of lines that were not shown to all followers yet. It is
	// enough for the attempts of an instance in several seconds.
	mostBehind = 8 << 20
	lineBytes  = 400 // of a line, besides its texts
)

// stage is the name of this reading in the log of the process.
const stage = "tail"

// Source is the log, as a Hub reads it.
type Source interface {
	// LogEnd is the position behind all that was logged.
	LogEnd(ctx context.Context) (dispatcher.LogPosition, error)
	// LogSince is the position from which on nothing is missing that ended at a time
	// or later.
	LogSince(at time.Time) dispatcher.LogPosition
	// LogAt reads the text of a position; dispatcher.ErrCursor where it is none here.
	LogAt(text string) (dispatcher.LogPosition, error)
	// FollowLog reads some wanted lines behind a position, and moves the position on. It may
	// return lines also beside an error.
	FollowLog(ctx context.Context, at *dispatcher.LogPosition, wanted func(*dispatcher.Logged) bool) (dispatcher.LogStep, error)
}

// Hub reads the log for all followers of this instance.
type Hub struct {
	log  Source
	down *outage.Log

	wake    wait.Signal   // a follower joins
	stopped chan struct{} // closed when Run returns
	turns   chan struct{} // of followers that read old lines

	mu        sync.Mutex // guards the fields below
	newest    *stretch   // nil: there is no follower
	followers map[*follower]bool
	joining   []*follower
}

// readersAtOnce is how many followers read old lines at the same time, a MiB or two each:
// all followers of an instance that is gone come back together.
const readersAtOnce = 8

// New makes a Hub. Run reads for it.
func New(log Source, to *slog.Logger) *Hub {
	return &Hub{
		log: log, down: outage.New(to, "store lost for the log of attempts", "store back for the log of attempts"),
		wake: wait.NewSignal(), stopped: make(chan struct{}), turns: make(chan struct{}, readersAtOnce),
		followers: map[*follower]bool{},
	}
}

// stretch has the lines of one read. Each knows the next one, and none the one before, so
// that a stretch is freed after all followers have shown it.
type stretch struct {
	lines []dispatcher.Logged
	gap   time.Time
	total int64         // bytes of all stretches up to this one
	next  *stretch      // nil until grown is closed
	grown chan struct{} // closed when there is a next one

	after dispatcher.LogPosition // behind it; Hub.mu guards it in the newest stretch, where it moves on while nothing comes
}

// Run reads the log while anybody follows it, until ctx ends. It comes once.
func (h *Hub) Run(ctx context.Context) error {
	defer close(h.stopped)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
			h.watch(ctx)
		}
	}
}

// watch reads as long as there are followers.
func (h *Hub) watch(ctx context.Context) {
	var at dispatcher.LogPosition
	tick := time.NewTimer(0)
	defer tick.Stop()
	for known, due := false, false; ctx.Err() == nil; {
		if !known && h.asked() {
			var err error
			if at, err = h.end(ctx); err != nil {
				h.refuse(err)
				return
			}
			known = true
		}
		if !h.admit(at) {
			return
		}
		if due {
			due = h.read(ctx, &at)
		}
		if due { // there is more
			continue
		}
		tick.Reset(readEvery)
		select {
		case <-ctx.Done():
		case <-h.wake: // it is let in above, and waits for the next stretch as all others
		case <-tick.C:
			due = true
		}
	}
}

// asked reports whether anybody wants to join.
func (h *Hub) asked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.joining) > 0
}

func (h *Hub) end(ctx context.Context) (dispatcher.LogPosition, error) {
	ctx, stop := outage.Within(ctx)
	defer stop()
	return h.log.LogEnd(ctx)
}

// refuse returns to all joining followers that the log can't be read.
func (h *Hub) refuse(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.joining {
		f.err = err
		close(f.joined)
	}
	h.joining = nil
}

// admit lets all join that want to. They see the lines after this position. It
// reports whether there are followers.
func (h *Hub) admit(at dispatcher.LogPosition) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.followers)+len(h.joining) == 0 {
		h.newest = nil
		return false
	}
	if h.newest == nil {
		h.newest = &stretch{after: at.Clone(), grown: make(chan struct{})}
	}
	for _, f := range h.joining {
		f.at, f.from = h.newest, at.Clone()
		h.followers[f] = true
		close(f.joined)
	}
	h.joining = nil
	return true
}

// read reads once and passes on the lines. It reports whether there is more.
func (h *Hub) read(ctx context.Context, at *dispatcher.LogPosition) (more bool) {
	within, stop := outage.Within(ctx)
	defer stop()
	step, err := h.log.FollowLog(within, at, h.wanted())
	if ctx.Err() == nil {
		h.down.Report(stage, err)
	}
	h.handOn(&step, at)
	return step.More
}

// wanted says which lines anybody wants to see; nil: all.
func (h *Hub) wanted() func(*dispatcher.Logged) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	filters := make([]*dispatcher.LogFilter, 0, len(h.followers))
	for f := range h.followers {
		if len(f.filter.Lanes)+len(f.filter.Messages)+len(f.filter.Happenings)+len(f.filter.Statuses)+len(f.filter.Jobs) == 0 {
			return nil // there is one that wants all, as mostly
		}
		filters = append(filters, &f.filter)
	}
	return func(l *dispatcher.Logged) bool {
		for _, f := range filters {
			if f.MayMatch(l) {
				return true
			}
		}
		return false
	}
}

// handOn adds a stretch to the chain, and drops the followers that are too far behind.
func (h *Hub) handOn(step *dispatcher.LogStep, at *dispatcher.LogPosition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.newest
	if len(step.Lines) == 0 && step.Gap.IsZero() {
		last.after = at.Clone()
		return
	}
	p := &stretch{lines: step.Lines, gap: step.Gap, total: last.total, grown: make(chan struct{}), after: at.Clone()}
	for i := range p.lines {
		p.total += sizeOf(&p.lines[i])
	}
	last.next, h.newest = p, p
	close(last.grown)
	for f := range h.followers {
		if last.total-f.at.total > mostBehind { // the stretch that just came is no reproach
			f.at = nil
			close(f.dropped)
			delete(h.followers, f)
		}
	}
}

func sizeOf(l *dispatcher.Logged) int64 {
	a := &l.Attempt
	return int64(lineBytes + len(l.ID.Message) + len(l.Topic) + len(l.Tenant) + len(l.Subject) + len(a.URL) + len(a.Address) + len(a.Error) + len(a.Excerpt))
}
