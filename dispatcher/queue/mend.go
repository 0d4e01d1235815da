package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Stats counts the deliveries of one queue, in all programs.
type Stats struct {
	Queue       string
	Waiting     int // for their time, for a worker, or for others of their ordering key
	InFlight    int // handled now
	Dead        int
	Paused      bool      // nothing of it is handled
	PausedSince time.Time // zero: it is not paused, or that is not known
}

// statsMost bounds the queues of one call of Stats.
const statsMost = 256

// Stats returns the counts of queues, in the order of names. Without names it returns those of the
// queues with a handler in this program. A queue that nobody has used yet has zeros. hookladder serve
// beside the program has more: a console, metrics and the state of each delivery over time.
func (q *Queue) Stats(ctx context.Context, names ...string) (all []Stats, err error) {
	if err := q.usable(ctx, "stats"); err != nil {
		return nil, err
	}
	if len(names) > statsMost {
		return nil, fmt.Errorf("stats: %w", &InvalidError{Fields: []FieldError{{Field: "names", Detail: fmt.Sprintf("are %d, at most %d are taken", len(names), statsMost)}}})
	}
	if len(names) > 0 {
		return q.stats(ctx, names)
	}
	for some := range slices.Chunk(q.handlers.names(), statsMost) { // a program may have more handlers
		part, err := q.stats(ctx, some)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

// stats returns the counts of at most statsMost queues.
func (q *Queue) stats(ctx context.Context, names []string) ([]Stats, error) {
	wrong := &InvalidError{}
	out, at, lanes := make([]Stats, len(names)), map[dispatcher.Lane]int{}, []dispatcher.Lane(nil)
	for i, name := range names {
		wrong.checkQueue("names", name)
		out[i].Queue = name
		if lane := dispatcher.QueueLane(name); at[lane] == 0 {
			at[lane], lanes = i+1, append(lanes, lane)
		}
	}
	if len(wrong.Fields) > 0 {
		return nil, fmt.Errorf("stats: %w", wrong)
	}
	states, err := q.engine.Registry().LaneStates(ctx, lanes)
	if err != nil {
		return nil, q.failed(ctx, "stats", err)
	}
	for i := range states {
		s := &out[at[states[i].Lane]-1]
		s.Waiting, s.InFlight, s.Paused = states[i].Waiting, states[i].InFlight, states[i].Limits.Mode == dispatcher.LanePaused || states[i].All != nil
		if s.Paused {
			s.PausedSince = states[i].Since
		}
	}
	filter := dispatcher.DeadFilter{Lanes: lanes, Limit: pageSize}
	for {
		page, err := q.engine.Registry().Dead(ctx, filter)
		if err != nil {
			return nil, q.failed(ctx, "stats", err)
		}
		for _, g := range page.Groups {
			out[at[g.Lane]-1].Dead += int(g.Count)
		}
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	for i, name := range names { // a name may be there twice
		out[i] = out[at[dispatcher.QueueLane(name)]-1]
	}
	return out, nil
}

// Pause stops a queue in all programs: what runs continues, and nothing more of it is handled until
// Resume. Publishing continues.
func (q *Queue) Pause(ctx context.Context, name string) error {
	return q.hold(ctx, "pause", name, true)
}

// Resume ends a pause, also one of hookladder serve. It does nothing if the queue is not paused.
func (q *Queue) Resume(ctx context.Context, name string) error {
	return q.hold(ctx, "resume", name, false)
}

func (q *Queue) hold(ctx context.Context, doing, name string, paused bool) error {
	if err := q.usable(ctx, doing); err != nil {
		return err
	}
	wrong := &InvalidError{}
	if wrong.checkQueue("name", name); len(wrong.Fields) > 0 {
		return fmt.Errorf("%s: %w", doing, wrong)
	}
	change := q.engine.Registry().Resume
	if paused {
		change = q.engine.Registry().Pause
	}
	if _, err := change(ctx, dispatcher.QueueDestination(name), ""); err != nil {
		return q.failed(ctx, doing+" "+name, err)
	}
	return nil
}

// Replay handles deliveries again, with a new ladder, and returns their number. Without Statuses it
// is for dead deliveries; dead, cancelled and delivered ones can be named. It leaves deliveries that
// can't be handled again, such as expired ones. What ends during the call is not replayed twice. If
// the call fails, some deliveries may have been replayed; another call continues.
func (q *Queue) Replay(ctx context.Context, f Filter) (replayed int, err error) {
	if len(f.Statuses) == 0 {
		f.Statuses = []dispatcher.Status{dispatcher.StatusDead}
	}
	inner, wrong := f.inner()
	again := false
	for _, s := range f.Statuses {
		if again = again || s == dispatcher.StatusDelivered; !s.Ended() {
			wrong.add("Statuses", fmt.Sprintf("has %q: only dead, cancelled and delivered ones can be replayed", string(s)))
		}
	}
	inner.Order = dispatcher.OrderEnded // a replayed delivery that dies again is before the place of the cursor
	var ids []dispatcher.DeliveryID
	replay := func() error {
		changes, err := q.engine.Replay(ctx, ids, again)
		for _, c := range changes {
			if c.Changed {
				replayed++
			}
		}
		ids = ids[:0]
		if err != nil {
			return q.failed(ctx, "replay", err)
		}
		return nil
	}
	for d, err := range q.pages(ctx, "replay", inner, wrong) {
		if err != nil {
			return replayed, err
		}
		if f.published(d) {
			ids = append(ids, d.ID)
		}
		if len(ids) == pageSize {
			if err := replay(); err != nil {
				return replayed, err
			}
		}
	}
	if len(ids) > 0 {
		err = replay()
	}
	return replayed, err
}
