package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
)

// fakeQueue is a queue in memory that fails as tests tell it to. It keeps the places
// of deliveries and the limits of lanes as the real one does, but it gives lanes no
// fair turns. There is one ready list for each partition, and a test sets the weight
// of a lane.
type fakeQueue struct {
	queuetest.Queue // what a test does not expect to be called panics

	partitions int
	down       map[int]error // partitions that don't answer, and why; changed with set
	reads      bool          // they may be read all the same
	nodes      int           // that they lie on; 0: one
	polls      bool          // nothing can be told
	skew       time.Duration // of its clock, against the host's

	// hook runs at the start of each call, outside of mu: it may block or, with
	// an error, keep the call from being made. after runs when a call was made: its
	// error takes the place of the answer.
	hook, after func(call string) error

	hangs      string // calls of this name end with their context
	leasesRead func() // runs between the reading of leases and their answer

	mu        sync.Mutex // guards what follows
	at        time.Time  // of the last answer
	ticks     time.Duration
	calls     []call
	counts    map[string]int
	weight    int // of the lightest lane while something is ready
	light     func(free int) bool
	direct    bool // Schedule leases what it may
	bodiless  bool // large bodies are gone
	undurable bool // what Schedule stores is not as durable as asked for
	full      int  // entries, over all calls of Schedule, that there is no memory for
	tight     bool // memory counts
	memory    int  // entries that there is memory for
	old       int  // finished deliveries that Trim can make room of
	deaf      bool // Watch ends at once
	due       map[d.DeliveryID]*item
	ready     []*item
	leased    map[d.DeliveryID]*item
	leases    int64 // taken so far
	stored    map[string]d.Digest
	settled   map[d.DeliveryID][]d.Settlement
	beats     map[string]int64
	dead      map[string]int64 // other instances, whose numbers never grow
	strays    []string         // instances that are gone and hold leases
	fenced    map[string]bool
	refuse    func(id d.DeliveryID, times int) bool // outcomes that Settle does not record
	bad       func(s d.Settlement) bool             // an outcome for which Settle refuses its batch
	refused   map[d.DeliveryID]int
	taken     bool           // what is settled is another's by then
	given     []d.Settlement // as they came, also those that changed nothing
	cut       struct {
		dead int
		age  time.Duration
	}
	kills   bool // what a dead instance held dies with it
	placing bool // Trim places a lane anew, and says so
	more    int  // Trim has this many more batches
	ears    queuetest.Subscriber
	hears   bool // Watch says at once that something may have been missed, as the real one does
	lanes   *fakeLanes
}

type item struct {
	d.Claimed
	by string
}

// call is one call as the queue saw it.
type call struct {
	name   string
	by     string
	at     time.Time
	n      int // entries, outcomes, permits wanted, lanes
	free   int
	leased int // Schedule's lease, Claim's answer
	room   bool
	asked  []int // partitions

	lane   d.Lane // Limit, Sweep
	limits d.LaneLimits
	clear  bool
}

func newFakeQueue(partitions int) *fakeQueue {
	return &fakeQueue{
		partitions: partitions, counts: map[string]int{}, due: map[d.DeliveryID]*item{}, leased: map[d.DeliveryID]*item{},
		stored: map[string]d.Digest{}, settled: map[d.DeliveryID][]d.Settlement{}, beats: map[string]int64{},
		dead: map[string]int64{}, fenced: map[string]bool{},
		refused: map[d.DeliveryID]int{}, lanes: newFakeLanes(),
	}
}

// begin records a call; what hook says keeps it from being made.
func (q *fakeQueue) begin(ctx context.Context, c call) error {
	c.at = time.Now()
	q.mu.Lock()
	q.calls = append(q.calls, c)
	q.counts[c.name]++
	hook := q.hook
	q.mu.Unlock()
	if hook != nil {
		if err := hook(c.name); err != nil {
			return err
		}
	}
	if c.name == q.hangs {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", c.name, d.ErrUnavailable, err)
	}
	return nil
}

func (q *fakeQueue) end(name string) error {
	q.mu.Lock()
	after := q.after
	q.mu.Unlock()
	if after != nil {
		return after(name)
	}
	return nil
}

func (q *fakeQueue) now() time.Time { return time.Now().Add(q.skew) }

// hint is what partition n has to do. mu is held.
func (q *fakeQueue) hint(n int) queuetest.Hint {
	h := queuetest.Hint{Partition: n, Now: q.now(), Weight: -1}
	for id, it := range q.due {
		if q.partition(id.Lane) == n && (h.Due.IsZero() || it.Due.Before(h.Due)) {
			h.Due = it.Due
		}
	}
	for _, it := range q.ready { // its lane waits for a time
		until := q.lanes.of(it.ID.Lane).until
		if q.partition(it.ID.Lane) == n && until.After(h.Now) && (h.Due.IsZero() || until.Before(h.Due)) {
			h.Due = until
		}
	}
	if slices.ContainsFunc(q.ready, func(it *item) bool { return q.partition(it.ID.Lane) == n && q.open(it.ID.Lane) }) {
		h.Weight = q.weight
	}
	return h
}

func (q *fakeQueue) partition(lane d.Lane) int { return int(lane[len(lane)-1]) % q.partitions }

func (q *fakeQueue) Partitions() int { return q.partitions }

func (q *fakeQueue) Schedule(ctx context.Context, by string, free, lease int, batch []d.Entry) ([]d.ScheduleResult, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "schedule", by: by, n: len(batch), free: free, leased: lease}); err != nil {
		return nil, nil, err
	}
	q.mu.Lock()
	out := make([]d.ScheduleResult, len(batch))
	for i, e := range batch {
		if q.full > 0 || q.tight && q.memory == 0 {
			q.full--
			out[i].Err = fmt.Errorf("message %s: %w", e.Message.ID, d.ErrFull)
			continue
		}
		if err := q.lanesDown(e.Lanes...); err != nil {
			out[i].Err = err
			continue
		}
		out[i] = q.accept(e, by, &lease)
		if q.undurable {
			out[i].Err = fmt.Errorf("message %s: stored, but not durable: %w", e.Message.ID, d.ErrUnavailable)
		}
	}
	hints, _ := q.hintsOf(q.all())
	q.mu.Unlock()
	if err := q.end("schedule"); err != nil {
		return nil, nil, err
	}
	return out, hints, nil
}

func (q *fakeQueue) Move(ctx context.Context, by string, partitions []int) ([]queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "move", by: by, asked: partitions}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, it := range q.due {
		if !it.Due.After(q.now()) && q.reaches(partitions, id.Lane) {
			delete(q.due, id)
			q.makeReady(it)
		}
	}
	return q.hintsOf(partitions)
}

func (q *fakeQueue) Claim(ctx context.Context, by string, partitions []int, wanted, free int) ([]d.Claimed, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "claim", by: by, n: wanted, free: free, asked: partitions}); err != nil {
		return nil, nil, err
	}
	q.mu.Lock()
	if q.fenced[by] {
		q.mu.Unlock()
		return nil, nil, d.ErrFenced
	}
	var claimed []d.Claimed
	for len(claimed) < wanted && (q.light == nil || q.light(free-len(claimed))) {
		at := slices.IndexFunc(q.ready, func(it *item) bool { return q.open(it.ID.Lane) && q.reaches(partitions, it.ID.Lane) })
		if at < 0 {
			break
		}
		it := q.ready[at]
		q.ready = slices.Delete(q.ready, at, at+1)
		it.by, it.Leased = by, q.lease()
		q.leased[it.ID] = it
		it.Version = q.lanes.of(it.ID.Lane).limits.Version
		claimed = append(claimed, it.Claimed)
	}
	q.calls = append(q.calls, call{name: "claimed", by: by, n: wanted, free: free, leased: len(claimed), at: time.Now()})
	hints, err := q.hintsOf(partitions)
	q.mu.Unlock()
	if err := q.end("claim"); err != nil {
		return nil, nil, err
	}
	return claimed, hints, err
}

func (q *fakeQueue) Leases(ctx context.Context, by string) ([]d.Lease, error) {
	if err := q.begin(ctx, call{name: "leases", by: by}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	var leases []d.Lease
	for id, it := range q.leased {
		if it.by == by && q.lanesDown(id.Lane) == nil {
			leases = append(leases, d.Lease{ID: id, At: it.Leased})
		}
	}
	_, err := q.hintsOf(q.all())
	q.mu.Unlock()
	if q.leasesRead != nil {
		q.leasesRead()
	}
	return leases, err
}

func (q *fakeQueue) Settle(ctx context.Context, by string, batch []d.Settlement) ([]d.SettleResult, []queuetest.Hint, error) {
	if err := q.begin(ctx, call{name: "settle", by: by, n: len(batch)}); err != nil {
		return nil, nil, err
	}
	q.mu.Lock()
	out := make([]d.SettleResult, len(batch))
	var failed error
	for _, s := range batch {
		if q.bad != nil && q.bad(s) { // a script checks all of a batch before it writes
			q.mu.Unlock()
			return nil, nil, errBad
		}
	}
	for i, s := range batch {
		if q.lanesDown(s.ID.Lane) != nil {
			continue
		}
		q.given = append(q.given, s)
		if q.refuse != nil && q.refuse(s.ID, q.refused[s.ID]) {
			q.refused[s.ID]++
			failed = fmt.Errorf("settle: %w", d.ErrUnavailable)
			continue
		}
		it := q.leased[s.ID]
		if it == nil || q.taken || it.by != by || s.Attempt.Number == 0 && !s.Leased.IsZero() && !s.Leased.Equal(it.Leased) {
			out[i] = d.SettledLate
			if end := q.lanes.ended[s.ID]; !q.taken && end != nil && end.status == d.StatusDead && len(q.settled[s.ID]) > 0 {
				out[i] = d.SettledBefore
			}
			continue
		}
		delete(q.leased, s.ID)
		q.settled[s.ID] = append(q.settled[s.ID], s)
		it.by = ""
		out[i] = q.settle(it, s)
	}
	hints, down := q.hintsOf(q.partitionsOf(batch))
	if len(hints) > 0 {
		q.breakers(batch, &hints[0])
	}
	if slices.Contains(out, 0) {
		failed = errors.Join(failed, down)
	}
	q.mu.Unlock()
	if err := q.end("settle"); err != nil {
		return nil, nil, err
	}
	return out, hints, failed
}
