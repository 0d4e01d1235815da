package engine_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
)

// fakeLanes is what a fakeQueue knows of lanes and of what ended. The queue's mu
// guards it.
type fakeLanes struct {
	known    map[d.Lane]*fakeLane
	allHeld  bool
	most     int                       // deliveries that may wait in a lane; 0: any number
	batch    int                       // Sweep ends this many in a call
	failures int                       // blamed in a row, that open a lane; 0: none do
	kept     map[string]*d.Message     // as they were accepted
	goes     map[string][]d.Lane       // where each goes
	ended    map[d.DeliveryID]*outcome // how deliveries ended
	died     []d.Death                 // not told yet
	marked   map[d.DeliveryID]bool     // cancelled, though they are leased
	behind   []*item                   // wait for the one before them
}

type fakeLane struct {
	limits        d.LaneLimits
	fails, opened int
	until         time.Time
	made          int
	since         time.Time // when it was made
}

type outcome struct {
	status d.Status
	reason d.DeadReason
	item   *item
}

func newFakeLanes() *fakeLanes {
	return &fakeLanes{
		known: map[d.Lane]*fakeLane{}, batch: 2, kept: map[string]*d.Message{}, goes: map[string][]d.Lane{},
		ended: map[d.DeliveryID]*outcome{}, marked: map[d.DeliveryID]bool{},
	}
}

func (l *fakeLanes) of(lane d.Lane) *fakeLane {
	if l.known[lane] == nil {
		l.known[lane] = &fakeLane{made: len(l.known) + 1, since: time.Now()}
	}
	return l.known[lane]
}

// open reports whether a lane may be claimed from. mu is held.
func (q *fakeQueue) open(lane d.Lane) bool {
	l := q.lanes.of(lane)
	return !q.lanes.allHeld && l.limits.Held == d.HeldNone && (!lane.IsEndpoint() || l.limits.Version > 0) && !l.until.After(q.now())
}

// ends ends a delivery whose lane is disabled or deleted. mu is held.
func (q *fakeQueue) ends(it *item) bool {
	switch q.lanes.of(it.ID.Lane).limits.Held {
	case d.HeldDisabled:
		q.over(it, d.StatusDead, d.ReasonDisabled)
	case d.HeldDeleted:
		q.over(it, d.StatusCancelled, "")
	default:
		return false
	}
	return true
}

// over ends a delivery; the next one behind it is ready then. mu is held.
func (q *fakeQueue) over(it *item, status d.Status, reason d.DeadReason) {
	q.lanes.ended[it.ID] = &outcome{status: status, reason: reason, item: it}
	if status == d.StatusDead {
		q.lanes.died = append(q.lanes.died, d.Death{ID: it.ID, Reason: reason})
	}
	key := q.orderOf(it)
	if key == "" {
		return
	}
	at := slices.IndexFunc(q.lanes.behind, func(o *item) bool { return o.ID.Lane == it.ID.Lane && q.orderOf(o) == key })
	if at >= 0 {
		next := q.lanes.behind[at]
		q.lanes.behind = slices.Delete(q.lanes.behind, at, at+1)
		q.makeReady(next)
	}
}

// orderOf is the key that a delivery waits for its turn under; empty: none.
func (q *fakeQueue) orderOf(it *item) string {
	switch {
	case it.Message == nil:
		return ""
	case q.lanes.of(it.ID.Lane).limits.Ordered:
		return "*"
	}
	return it.Message.OrderingKey
}

// follows reports whether an unfinished delivery of the same key is before. mu is held.
func (q *fakeQueue) follows(it *item) bool {
	key := q.orderOf(it)
	for _, o := range q.unfinished() {
		if key != "" && o.ID.Lane == it.ID.Lane && o.ID != it.ID && q.orderOf(o) == key {
			return true
		}
	}
	return false
}

// unfinished are all deliveries that have not ended. mu is held.
func (q *fakeQueue) unfinished() []*item {
	all := slices.Concat(q.ready, q.lanes.behind)
	all = slices.AppendSeq(all, maps.Values(q.due))
	return slices.AppendSeq(all, maps.Values(q.leased))
}

func (q *fakeQueue) makeReady(it *item) {
	if !q.ends(it) {
		q.ready = append(q.ready, it)
	}
}

// count is what a lane has. mu is held.
func (q *fakeQueue) countOf(lane d.Lane) (c d.LaneCount) {
	for _, it := range q.unfinished() {
		switch {
		case it.ID.Lane != lane:
		case q.leased[it.ID] != nil:
			c.InFlight++
		default:
			c.Waiting++
		}
	}
	return c
}

// accept is Schedule for one entry. mu is held.
func (q *fakeQueue) accept(e d.Entry, by string, lease *int) d.ScheduleResult {
	s := d.ScheduleResult{CreatedAt: e.Message.CreatedAt, Result: d.Accepted, Placed: make([]d.Placed, len(e.Lanes))}
	for i, lane := range e.Lanes {
		s.Placed[i].Lane = lane
		if lane.IsEndpoint() {
			s.Placed[i].Version = q.lanes.of(lane).limits.Version
		}
	}
	if digest, known := q.stored[e.Message.ID]; known {
		if digest != e.Digest {
			return d.ScheduleResult{Result: d.Conflict}
		}
		s.Result, s.CreatedAt = d.Duplicate, q.lanes.kept[e.Message.ID].CreatedAt
		return s
	}
	full := func(lane d.Lane) bool { return q.lanes.most > 0 && q.countOf(lane).Waiting >= q.lanes.most }
	if !e.Fan && slices.ContainsFunc(e.Lanes, full) {
		return d.ScheduleResult{Result: d.LaneFull, Placed: s.Placed}
	}
	q.memory--
	q.stored[e.Message.ID], q.lanes.kept[e.Message.ID] = e.Digest, e.Message
	q.lanes.goes[e.Message.ID] = e.Lanes
	now := q.now()
	due := now.Add(e.Message.Delay)
	for i, lane := range e.Lanes {
		p := &s.Placed[i]
		it := &item{Claimed: d.Claimed{
			ID: d.DeliveryID{Lane: lane, Message: e.Message.ID}, Message: e.Message, Due: due, Attempt: 1, Rung: 1, First: true,
		}}
		switch held := q.lanes.of(lane).limits.Held; {
		case q.ends(it) && held == d.HeldDeleted:
			p.Status, p.At = d.StatusCancelled, now
		case held == d.HeldDisabled:
			p.Status, p.At, p.Reason = d.StatusDead, now, d.ReasonDisabled
		case full(lane):
			q.over(it, d.StatusDead, d.ReasonOverflow)
			p.Status, p.At, p.Reason = d.StatusDead, now, d.ReasonOverflow
		case q.follows(it):
			q.lanes.behind = append(q.lanes.behind, it)
			p.Status = d.StatusScheduled
		case e.Message.Delay > 0:
			q.due[it.ID] = it
			p.Status, p.Due = d.StatusScheduled, due
		case q.direct && *lease > 0 && q.open(lane):
			*lease--
			it.by, it.Leased = by, q.lease()
			q.leased[it.ID] = it
			p.Status, p.Due, p.At = d.StatusInFlight, due, it.Leased
		default:
			q.ready = append(q.ready, it)
			p.Status, p.Due = d.StatusReady, due
		}
	}
	return s
}

// settle puts what was leased where it belongs then. mu is held.
func (q *fakeQueue) settle(it *item, s d.Settlement) d.SettleResult {
	l := q.lanes.of(it.ID.Lane)
	if s.Pause > 0 {
		l.until = q.now().Add(s.Pause)
	}
	switch s.Verdict {
	case d.Delivered:
		q.over(it, d.StatusDelivered, "")
	case d.Dead:
		if q.lanes.marked[s.ID] {
			q.over(it, d.StatusCancelled, "")
			return d.SettledEnd
		}
		q.over(it, d.StatusDead, s.Reason)
	case d.Back:
		it.Due = s.Due
		if q.ends(it) {
			return d.SettledEnd
		}
		q.ready = append([]*item{it}, q.ready...)
	case d.Retry:
		it.Attempt, it.Rung, it.First, it.Due = it.Attempt+1, it.Rung+1, false, q.now().Add(s.Wait)
		if q.ends(it) {
			return d.SettledEnd
		}
		q.due[s.ID] = it
	}
	return d.SettledOK
}

// breakers counts a batch for the breakers of its lanes. mu is held.
func (q *fakeQueue) breakers(batch []d.Settlement, h *queuetest.Hint) {
	for _, s := range batch {
		l := q.lanes.of(s.ID.Lane)
		switch {
		case s.Verdict == d.Delivered:
			if l.opened > 0 {
				h.Closed = append(h.Closed, s.ID.Lane)
			}
			l.fails, l.opened = 0, 0
		case s.Blame && q.lanes.failures > 0:
			if l.fails++; l.fails >= q.lanes.failures {
				l.opened++
				l.until = h.Now.Add(30 * time.Second)
				h.Opened = append(h.Opened, d.Opening{Lane: s.ID.Lane, Until: l.until})
			}
		}
	}
}

func (q *fakeQueue) Limit(ctx context.Context, by string, lane d.Lane, limits d.LaneLimits, clear bool) (d.LaneCount, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "limit", by: by, lane: lane, limits: limits, clear: clear}); err != nil {
		return d.LaneCount{}, nil, err
	}
	q.mu.Lock()
	var count d.LaneCount
	var closed []d.Lane
	if lane == d.AllLanes {
		q.lanes.allHeld = limits.Held != d.HeldNone
	} else {
		count = q.countOf(lane)
		l := q.lanes.of(lane)
		if limits.Version == 0 || limits.Version > l.limits.Version {
			l.limits = limits
		}
		if clear {
			if l.opened > 0 {
				closed = []d.Lane{lane}
			}
			l.fails, l.opened, l.until = 0, 0, time.Time{}
		}
		q.ready = slices.DeleteFunc(q.ready, func(it *item) bool { return it.ID.Lane == lane && q.ends(it) })
	}
	hints := q.allHints()
	hints[0].Closed = closed
	q.mu.Unlock()
	if err := q.end("limit"); err != nil {
		return d.LaneCount{}, nil, err
	}
	return count, hints, nil
}

func (q *fakeQueue) ForgetLane(ctx context.Context, by string, copied d.LaneVersion, age time.Duration) (bool, error) {
	if err := q.begin(ctx, call{name: "forget lane", by: by, lane: copied.Lane}); err != nil {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes.known[copied.Lane]
	if l == nil || l.limits.Version != copied.Version || q.countOf(copied.Lane) != (d.LaneCount{}) || q.now().Sub(l.since) < age {
		return false, nil
	}
	delete(q.lanes.known, copied.Lane)
	return true, nil
}

func (q *fakeQueue) HeldLanesIn(ctx context.Context, partition int, _ string) ([]d.HeldLane, string, error) {
	if err := q.begin(ctx, call{name: "held lanes", asked: []int{partition}}); err != nil {
		return nil, "", err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []d.HeldLane
	for name, l := range q.lanes.known {
		if partition == 0 && l.limits.Held != d.HeldNone { // the fake's lanes lie in the first
			list = append(list, d.HeldLane{LaneVersion: d.LaneVersion{Lane: name, Version: l.limits.Version}, Held: l.limits.Held})
		}
	}
	return list, "", nil
}

func (q *fakeQueue) Sweep(ctx context.Context, by string, lane d.Lane, cursor string) (int, string, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "sweep", by: by, lane: lane}); err != nil {
		return 0, "", nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []string
	for id := range q.due {
		if id.Lane == lane && id.Message > cursor {
			left = append(left, id.Message)
		}
	}
	slices.Sort(left)
	ended, next := 0, ""
	for i, message := range left {
		if i == q.lanes.batch {
			break
		}
		id := d.DeliveryID{Lane: lane, Message: message}
		if q.ends(q.due[id]) {
			delete(q.due, id)
			ended++
		}
		if next = message; i == len(left)-1 {
			next = ""
		}
	}
	return ended, next, q.allHints(), nil
}

func (q *fakeQueue) LaneStates(ctx context.Context, lanes []d.Lane) ([]d.LaneState, error) {
	if err := q.begin(ctx, call{name: "lane states", n: len(lanes)}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	states := make([]d.LaneState, len(lanes))
	for i, lane := range lanes {
		states[i] = q.state(lane)
	}
	return states, nil
}

// state is a lane as read. mu is held.
func (q *fakeQueue) state(lane d.Lane) d.LaneState {
	s := d.LaneState{Lane: lane, LaneCount: q.countOf(lane)}
	if lane == d.AllLanes {
		if s.Known = q.lanes.allHeld; s.Known {
			s.Limits.Held = d.HeldPaused
		}
		return s
	}
	if q.lanes.allHeld {
		s.All = &d.HeldLane{Held: d.HeldPaused}
	}
	if l := q.lanes.known[lane]; l != nil {
		if l.limits.Held != d.HeldNone {
			s.By = cmp.Or(l.limits.By, d.System)
		}
		s.Known, s.Limits, s.Fails, s.Opened, s.Until = true, l.limits, l.fails, l.opened, l.until
	}
	return s
}
