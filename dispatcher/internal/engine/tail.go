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

// Alive is the time between two heartbeats of an idle follower, because proxies cut
// connections that are idle for half a minute.
const Alive = 15 * time.Second

// follower is a caller that follows the log.
type follower struct {
	filter dispatcher.LogFilter
	show   func([]dispatcher.LogEvent) error
	pos    dispatcher.LogPosition // after the last line that it got

	joined  chan struct{} // closed when at and from are set, or err
	err     error
	from    dispatcher.LogPosition // its stretches begin after it
	dropped chan struct{}          // closed when it is too far behind

	sent time.Time // time of its last event
	more bool      // there was more to read

	at *stretch // its last stretch; nil: it is dropped; Tail.mu guards it
}

// FollowLog calls show for the lines of the log that match: new lines only, or the lines after
// a position, or from a time. If a position is given, the time is ignored. It shows a
// heartbeat at the start, and each time that nothing came for Alive.
//
// It returns nil when ctx ends, and an error of show unchanged. It returns
// dispatcher.ErrBehind if show is too slow, and dispatcher.ErrStopping at the end of Run.
func (h *Tail) FollowLog(ctx context.Context, filter dispatcher.LogFilter, behind string, show func([]dispatcher.LogEvent) error) error {
	f := &follower{filter: filter, show: show, joined: make(chan struct{}), dropped: make(chan struct{})}
	old := true
	switch {
	case behind != "":
		var err error
		if f.pos, err = h.log.LogAt(behind); err != nil {
			return err
		}
	case !filter.Since.IsZero():
		f.pos = h.log.LogSince(filter.Since)
		for n := range f.pos.Marks { // older lines don't match
			f.pos.Marks[n].Before = max(filter.Since.UnixMilli(), 0)
		}
	default:
		old = false
	}
	err := h.follow(ctx, f, old)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follow shows a follower the old lines, and then the new ones.
func (h *Tail) follow(ctx context.Context, f *follower, old bool) error {
	if old {
		if err := h.catchUp(ctx, f, false); err != nil {
			return err
		}
	}
	defer h.leave(f)
	if err := h.join(ctx, f); err != nil {
		return err
	}
	if old {
		// Lines that were logged in the meantime are after its own position, and before the
		// first stretch.
		if err := h.catchUp(ctx, f, true); err != nil {
			return err
		}
	} else {
		f.pos = f.from
		if err := f.send(nil); err != nil {
			return err
		}
	}
	return h.live(ctx, f)
}

// join adds a follower to the Tail, which passes it the lines that it reads.
func (h *Tail) join(ctx context.Context, f *follower) error {
	h.mu.Lock()
	h.joining = append(h.joining, f)
	h.mu.Unlock()
	h.wake.Set()
	select {
	case <-f.joined:
		return f.err
	case <-h.stopped:
		return dispatcher.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Tail) leave(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers, f)
	for i, other := range h.joining {
		if other == f {
			h.joining = append(h.joining[:i:i], h.joining[i+1:]...)
			break
		}
	}
}

// catchUp reads the log for one follower, to its end. If the follower has begun, it waits
// while the store, or a part of it, can't be read.
func (h *Tail) catchUp(ctx context.Context, f *follower, begun bool) error {
	joined := begun
	for failures, more := 0, true; more; begun = true {
		if err := h.turn(ctx, f, begun); err != nil {
			return err
		}
		shown, err := h.readOld(ctx, f, begun)
		<-h.turns
		if shown != nil {
			return shown
		}
		if !begun && isLost(err) {
			return err
		}
		failures = h.down.Repeat(ctx, tailStage, failures, err)
		more = f.more || isLost(err) || joined && err != nil
	}
	return nil
}

// turn waits until a follower may read. It ends with a receive from turns.
func (h *Tail) turn(ctx context.Context, f *follower, begun bool) error {
	alive := time.NewTicker(Alive)
	defer alive.Stop()
	for {
		select {
		case <-f.dropped:
			return dispatcher.ErrBehind
		case <-h.stopped:
			return dispatcher.ErrStopping
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		select {
		case h.turns <- struct{}{}:
			return nil
		case <-f.dropped:
		case <-h.stopped:
		case <-ctx.Done():
		case <-alive.C:
			if begun {
				if err := f.send(nil); err != nil {
					return err
				}
			}
		}
	}
}

// readOld reads once for a follower and shows it the lines. shown is the error of show, and
// err the error of the log.
func (h *Tail) readOld(ctx context.Context, f *follower, begun bool) (shown, err error) {
	within, stop := outage.Within(ctx)
	defer stop()
	after := f.pos.Clone()
	step, err := h.log.FollowLog(within, &after, f.filter.MayMatch)
	f.more = step.More
	if !begun && isLost(err) {
		return nil, err
	}
	return f.advance(&stretch{lines: step.Lines, gap: step.Gap, after: after}, !begun), err
}

// isLost reports whether an error affects the whole log, not only parts of it.
func isLost(err error) bool {
	failed, rest := outage.Split(err)
	return rest != nil || failed != nil && failed.Failed >= failed.Of
}

// live shows a follower the lines that the Tail reads.
func (h *Tail) live(ctx context.Context, f *follower) error {
	alive := time.NewTicker(Alive)
	defer alive.Stop()
	for {
		select {
		case <-h.stopped:
			return dispatcher.ErrStopping
		default:
		}
		next, grown, ok := h.take(f)
		switch {
		case !ok:
			return dispatcher.ErrBehind
		case next != nil:
			if err := f.advance(next, false); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.stopped:
		case <-f.dropped:
		case <-grown:
		case <-alive.C:
			h.reach(f)
			if time.Since(f.sent) >= Alive {
				if err := f.send(nil); err != nil {
					return err
				}
			}
		}
	}
}

// take moves a follower to the next stretch and returns a copy of it, because the position
// behind the newest stretch still moves. It returns nil if there is none until grown is
// closed. ok is false if the follower was dropped.
func (h *Tail) take(f *follower) (next *stretch, grown chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.at == nil {
		return nil, nil, false
	}
	if f.at.next == nil {
		return nil, f.at.grown, true
	}
	f.at = f.at.next
	return &stretch{lines: f.at.lines, gap: f.at.gap, after: f.at.after}, nil, true
}

// reach moves the position of a follower that has all stretches, even without new lines.
func (h *Tail) reach(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.at != nil && f.at.next == nil {
		f.pos.Reach(f.at.after)
	}
}

// advance shows a follower a stretch of the log. If always is set, it shows an event even if
// nothing matches.
func (f *follower) advance(p *stretch, always bool) error {
	if len(f.pos.Marks) != len(p.after.Marks) {
		f.pos = f.pos.Divided(len(p.after.Marks))
	}
	var events []dispatcher.LogEvent
	if !p.gap.IsZero() {
		events = append(events, dispatcher.LogEvent{Gap: p.gap, At: f.pos.String()})
	}
	for i := range p.lines {
		l := &p.lines[i]
		if f.pos.Read(l.Place) {
			continue
		}
		f.pos.Pass(l.Place)
		if f.filter.Matches(l) {
			events = append(events, dispatcher.LogEvent{Line: l, At: f.pos.String()})
		}
	}
	f.pos.Reach(p.after)
	if len(events) > 0 || always || time.Since(f.sent) >= Alive {
		return f.send(events)
	}
	return nil
}

// send shows events; without events it sends a heartbeat.
func (f *follower) send(events []dispatcher.LogEvent) error {
	f.sent = time.Now()
	if len(events) == 0 {
		events = []dispatcher.LogEvent{{At: f.pos.String()}}
	}
	return f.show(events)
}
