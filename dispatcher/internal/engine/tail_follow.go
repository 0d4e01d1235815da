package engine

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

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
