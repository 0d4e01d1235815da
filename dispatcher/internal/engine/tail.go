package engine

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
	// readEvery is the poll interval of the log while it does not grow faster than it is read.
	// For a person who watches, a second is fast enough.
	readEvery = time.Second

	// mostBehind limits the memory of lines that were not shown to all followers yet. It is
	// enough for the attempts of an instance in several seconds.
	mostBehind = 8 << 20
	lineBytes  = 400 // of a line, without its texts
)

// tailStage is the name of this query in the log of the process.
const tailStage = "tail"

// TailSource is the log that a Tail reads.
type TailSource interface {
	// LogEnd returns the position after all logged lines.
	LogEnd(ctx context.Context) (dispatcher.LogPosition, error)
	// LogSince returns a position before all attempts that ended at a time or later.
	LogSince(at time.Time) dispatcher.LogPosition
	// LogAt parses the text of a position. It returns dispatcher.ErrCursor if it is no
	// position of this log.
	LogAt(text string) (dispatcher.LogPosition, error)
	// FollowLog reads some wanted lines after a position, and moves the position. It may
	// return both lines and an error.
	FollowLog(ctx context.Context, at *dispatcher.LogPosition, wanted func(*dispatcher.Logged) bool) (dispatcher.LogStep, error)
}

// Tail reads the log for all followers of this instance.
type Tail struct {
	log  TailSource
	down *outage.Log

	wake    wait.Signal   // a follower joins
	stopped chan struct{} // closed when Run returns
	turns   chan struct{} // of followers that read old lines

	mu        sync.Mutex // guards the fields below
	newest    *stretch   // nil: there is no follower
	followers map[*follower]bool
	joining   []*follower
}

// readersAtOnce is the number of followers that read old lines concurrently, with a MiB or two
// each. All followers of a dead instance come to the others together.
const readersAtOnce = 8

// NewTail returns a Tail. Run reads for it.
func NewTail(log TailSource, to *slog.Logger) *Tail {
	return &Tail{
		log: log, down: outage.New(to, "store lost for the log of attempts", "store back for the log of attempts"),
		wake: wait.NewSignal(), stopped: make(chan struct{}), turns: make(chan struct{}, readersAtOnce),
		followers: map[*follower]bool{},
	}
}

// stretch has the lines of one read. Each points to the next one, not to the one before. So a
// stretch is freed after all followers have shown it.
type stretch struct {
	lines []dispatcher.Logged
	gap   time.Time
	total int64         // bytes of all stretches up to this one
	next  *stretch      // nil until grown is closed
	grown chan struct{} // closed when there is a next one

	after dispatcher.LogPosition // position after it; in the newest stretch, Tail.mu guards it, and it moves even without new lines
}

// Run reads the log while there are followers, until ctx ends. It is called once.
func (h *Tail) Run(ctx context.Context) error {
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

// watch reads while there are followers.
func (h *Tail) watch(ctx context.Context) {
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
		case <-h.wake: // it is admitted above, and waits for the next stretch like the others
		case <-tick.C:
			due = true
		}
	}
}

// asked reports whether a follower is joining.
func (h *Tail) asked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.joining) > 0
}

func (h *Tail) end(ctx context.Context) (dispatcher.LogPosition, error) {
	ctx, stop := outage.Within(ctx)
	defer stop()
	return h.log.LogEnd(ctx)
}

// refuse returns an error to all joining followers, because the log can't be read.
func (h *Tail) refuse(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.joining {
		f.err = err
		close(f.joined)
	}
	h.joining = nil
}

// admit adds all joining followers. They get the lines after this position. It reports whether
// there are followers.
func (h *Tail) admit(at dispatcher.LogPosition) bool {
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
func (h *Tail) read(ctx context.Context, at *dispatcher.LogPosition) (more bool) {
	within, stop := outage.Within(ctx)
	defer stop()
	step, err := h.log.FollowLog(within, at, h.wanted())
	if ctx.Err() == nil {
		h.down.Report(tailStage, err)
	}
	h.handOn(&step, at)
	return step.More
}

// wanted returns a filter for the lines that any follower wants; nil: all.
func (h *Tail) wanted() func(*dispatcher.Logged) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	filters := make([]*dispatcher.LogFilter, 0, len(h.followers))
	for f := range h.followers {
		if len(f.filter.Lanes)+len(f.filter.Messages)+len(f.filter.Happenings)+len(f.filter.Statuses)+len(f.filter.Jobs) == 0 {
			return nil // one wants all, which is common
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
func (h *Tail) handOn(step *dispatcher.LogStep, at *dispatcher.LogPosition) {
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
		if last.total-f.at.total > mostBehind { // the newest stretch does not count
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
