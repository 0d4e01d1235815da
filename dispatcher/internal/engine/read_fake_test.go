package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
)

// What a fakeQueue answers to people.

func (q *fakeQueue) Known(ctx context.Context, ids []string) ([]bool, error) {
	if err := q.begin(ctx, call{name: "known", n: len(ids)}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	known := make([]bool, len(ids))
	for i, id := range ids {
		_, known[i] = q.stored[id]
	}
	return known, nil
}

func (q *fakeQueue) Kept(ctx context.Context, batch []d.Entry) ([]*d.Message, error) {
	if err := q.begin(ctx, call{name: "kept", n: len(batch)}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := make([]*d.Message, len(batch))
	for i, e := range batch {
		if m := q.lanes.kept[e.Message.ID]; m != nil && m.Digest() != e.Digest {
			kept[i] = m
		}
	}
	return kept, nil
}

func (q *fakeQueue) Read(ctx context.Context, id string) (d.MessageView, error) {
	if err := q.begin(ctx, call{name: "look"}); err != nil {
		return d.MessageView{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.lanes.kept[id]
	if m == nil {
		return d.MessageView{}, fmt.Errorf("message %s: %w", id, d.ErrNotFound)
	}
	record := d.MessageView{Message: *m}
	for _, lane := range q.lanes.goes[id] {
		record.Deliveries = append(record.Deliveries, q.delivery(d.DeliveryID{Lane: lane, Message: id}))
	}
	return record, nil
}

func (q *fakeQueue) Standing(ctx context.Context, batch []d.Entry) ([]d.Standing, error) {
	if err := q.begin(ctx, call{name: "standing", n: len(batch)}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]d.Standing, len(batch))
	for i, e := range batch {
		m := q.lanes.kept[e.Message.ID]
		switch {
		case m == nil:
			continue
		case m.Digest() != e.Digest:
			out[i].Result = d.Conflict
			continue
		}
		out[i].Result, out[i].CreatedAt = d.Duplicate, m.CreatedAt
		for _, lane := range q.lanes.goes[m.ID] {
			out[i].Deliveries = append(out[i].Deliveries, q.delivery(d.DeliveryID{Lane: lane, Message: m.ID}))
		}
	}
	return out, nil
}

// delivery is one as read; the URL of an endpoint's is not in the queue. mu is held.
func (q *fakeQueue) delivery(id d.DeliveryID) d.Delivery {
	m := q.lanes.kept[id.Message]
	one := d.Delivery{ID: id, Topic: m.Topic, Tenant: m.Tenant, URL: m.URL, Status: d.StatusScheduled}
	switch {
	case q.lanes.ended[id] != nil:
		one.Status, one.Reason = q.lanes.ended[id].status, q.lanes.ended[id].reason
	case q.leased[id] != nil:
		one.Status = d.StatusInFlight
	case q.due[id] != nil:
		one.Due = q.due[id].Due
		if !q.due[id].First {
			one.Status = d.StatusRetrying
		}
	case slices.ContainsFunc(q.ready, func(it *item) bool { return it.ID == id }):
		one.Status = d.StatusReady
	}
	return one
}

// List knows one page, filtered by lane.
func (q *fakeQueue) List(ctx context.Context, f d.Filter) (d.Page, error) {
	if err := q.begin(ctx, call{name: "list"}); err != nil {
		return d.Page{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var page d.Page
	for id, lanes := range q.lanes.goes {
		for _, lane := range lanes {
			if len(f.Lanes) == 0 || slices.Contains(f.Lanes, lane) {
				page.Deliveries = append(page.Deliveries, q.delivery(d.DeliveryID{Lane: lane, Message: id}))
			}
		}
	}
	return page, nil
}

func (q *fakeQueue) Stats(ctx context.Context) (d.Stats, error) {
	if err := q.begin(ctx, call{name: "stats"}); err != nil {
		return d.Stats{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := d.Stats{Now: q.now()}
	for lane := range q.lanes.known {
		s.Lanes = append(s.Lanes, q.state(lane))
	}
	return s, nil
}

// Cancel ends what waits. Those behind it end with their lane, and are told.
func (q *fakeQueue) Cancel(ctx context.Context, by string, ids []d.DeliveryID) ([]d.Change, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "cancel", by: by, n: len(ids)}); err != nil {
		return nil, nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	changes := make([]d.Change, len(ids))
	for i, id := range ids {
		changes[i] = d.Change{ID: id, Changed: q.due[id] != nil}
		if it := q.due[id]; it != nil {
			delete(q.due, id)
			q.over(it, d.StatusCancelled, "")
		}
	}
	return changes, q.allHints(), nil
}

func (q *fakeQueue) Retry(ctx context.Context, by string, ids []d.DeliveryID, delivered bool) ([]d.Change, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "retry", by: by, n: len(ids)}); err != nil {
		return nil, nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	changes := make([]d.Change, len(ids))
	for i, id := range ids {
		changes[i] = d.Change{ID: id, Err: q.retry(id)}
		changes[i].Changed = changes[i].Err == nil
	}
	return changes, q.allHints(), nil
}

// retry makes one delivery ready at once. mu is held.
func (q *fakeQueue) retry(id d.DeliveryID) error {
	ended := q.lanes.ended[id]
	switch held := q.lanes.of(id.Lane).limits.Held; {
	case held == d.HeldDeleted:
		return d.ErrDeleted
	case held == d.HeldDisabled:
		return d.ErrDisabled
	case q.leased[id] != nil:
		return d.ErrInFlight
	case ended != nil:
		delete(q.lanes.ended, id)
		ended.item.Rung, ended.item.First, ended.item.Asked = 1, false, true
		q.ready = append(q.ready, ended.item)
	case q.due[id] != nil:
		q.due[id].Asked = true
		q.ready = append(q.ready, q.due[id])
		delete(q.due, id)
	}
	return nil
}

func (q *fakeQueue) PausedLanes(ctx context.Context, most int) (states []d.LaneState, total int, err error) {
	if err := q.begin(ctx, call{name: "paused lanes", n: most}); err != nil {
		return nil, 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, lane := range slices.Sorted(maps.Keys(q.lanes.known)) {
		if q.lanes.known[lane].limits.Held == d.HeldPaused {
			states = append(states, q.state(lane))
		}
	}
	return states[:min(most, len(states))], len(states), nil
}

// Lanes pages by when lanes were made.
func (q *fakeQueue) Lanes(ctx context.Context, limit int, cursor string) ([]d.LaneState, string, error) {
	if err := q.begin(ctx, call{name: "lanes", n: limit}); err != nil {
		return nil, "", err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	from, err := strconv.Atoi(cmp.Or(cursor, "0"))
	if err != nil {
		return nil, "", fmt.Errorf("%w: %q", d.ErrCursor, cursor)
	}
	all := slices.SortedFunc(maps.Keys(q.lanes.known), func(a, b d.Lane) int { return q.lanes.known[b].made - q.lanes.known[a].made })
	if q.lanes.allHeld {
		all = append([]d.Lane{d.AllLanes}, all...)
	}
	var states []d.LaneState
	for _, lane := range all[min(from, len(all)):min(from+limit, len(all))] {
		states = append(states, q.state(lane))
	}
	if from+limit >= len(all) {
		return states, "", nil
	}
	return states, strconv.Itoa(from + limit), nil
}
