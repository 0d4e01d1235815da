package endpoints

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

const (
	// compareRetry is the wait before the next comparison if the store did not respond.
	compareRetry = 5 * time.Second
	// compareMin is the shortest time between two comparisons, because many deaths at once
	// request one each.
	compareMin = time.Second
	// maxGiveUps bounds the requests to give up lanes. If there are more, the next failure of a
	// lane requests it again.
	maxGiveUps = 10_000
)

// repairs is the background work of a Registry, of four kinds:
//   - It gives up destinations that failed for too long (giveup.go).
//   - It compares stopped lanes with their endpoints, and finishes changes that stopped
//     half-way (compare.go).
//   - It compares all endpoints with their lanes, after a loss (compare.go).
//   - It sweeps lanes: it ends the deliveries of lanes that were disabled, deleted or cut
//     (sweep.go).
//
// Run takes the kinds in turn, and of a sweep or of all endpoints only one page at a time, so
// no kind waits for the end of a large lane. Requests that are lost when this process ends are made again: by
// the next failure of a lane, by the comparison at the start of every instance, and for what
// a sweep did not reach when it becomes due. Only the comparison of all endpoints is not: other
// instances make it too, and a publish gives its lane the limits.
type repairs struct {
	registry *Registry
	wake     wait.Signal

	mu       sync.Mutex // guards the fields below
	turn     int        // of the kind that was taken last
	working  bool       // Run has taken something
	giveUps  map[dispatcher.Lane]giveUp
	sweeps   []*sweep
	compares bool                                       // a comparison is requested, and has not begun
	rests    time.Time                                  // no comparison begins before
	retries  time.Time                                  // when the last comparison, which failed, is repeated; zero: it worked
	all      bool                                       // a comparison of all endpoints is requested, and has not begun
	pages    pages                                      // the comparison of all endpoints that is running
	logged   map[dispatcher.Lane]dispatcher.LaneFailing // lanes that were logged as failing

	spent atomic.Int64 // commands of the running comparison, about
	cost  atomic.Int64 // commands of the last comparison
}

// pages is how far a comparison of all endpoints is.
type pages struct {
	running bool
	cursor  string    // of the next page
	failed  bool      // an endpoint could not be compared, so all are compared once more
	retries time.Time // no page before, because of an error
}

func newRepairs(r *Registry) *repairs {
	return &repairs{
		registry: r, wake: wait.NewSignal(), giveUps: map[dispatcher.Lane]giveUp{}, logged: map[dispatcher.Lane]dispatcher.LaneFailing{},
	}
}

// request adds work, and wakes Run.
func (q *repairs) request(add func()) {
	q.mu.Lock()
	add()
	q.mu.Unlock()
	q.wake.Set()
}

// suspect requests a comparison.
func (q *repairs) suspect() {
	q.request(func() { q.compares = q.registry.Store != nil })
}

// suspectAll requests a comparison of all endpoints.
func (q *repairs) suspectAll() {
	q.request(func() {
		q.compares = q.registry.Store != nil
		q.all = q.compares
	})
}

// sweep requests a sweep of a lane. end is the last version of a deleted endpoint, which is
// forgotten when its lane is empty; otherwise 0. A lane whose sweep has not begun is not added
// again.
func (q *repairs) sweep(lane dispatcher.Lane, end int64) {
	of := dispatcher.LaneVersion{Lane: lane, Version: end}
	q.request(func() {
		if !slices.ContainsFunc(q.sweeps, func(s *sweep) bool { return !s.begun && s.LaneVersion == of }) {
			q.sweeps = append(q.sweeps, &sweep{LaneVersion: of})
		}
	})
}

// giveUp requests that a lane is given up.
func (q *repairs) giveUp(lane dispatcher.Lane, g giveUp) {
	q.request(func() {
		if len(q.giveUps) < maxGiveUps {
			q.giveUps[lane] = g
		}
	})
}

// busy reports whether something is done or requested. It leaves out a comparison that is
// requested just after another, because one cause may request several.
func (q *repairs) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	return q.working || len(q.giveUps) > 0 || len(q.sweeps) > 0 ||
		q.compares && !now.Before(q.rests) || (q.all || q.pages.running) && !now.Before(q.pages.retries)
}

// Run repairs until ctx ends.
func (q *repairs) Run(ctx context.Context) error {
	q.suspect()
	for ctx.Err() == nil {
		do, later := q.take()
		if do != nil {
			do(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-later:
		}
	}
	return nil
}

// take returns the next thing to do. Without one, later is when a comparison may begin or go on;
// nil: none is requested.
func (q *repairs) take() (do func(context.Context), later <-chan time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kinds := []func() func(context.Context){q.takeGiveUp, q.takeComparison, q.takePage, q.takeSweep}
	for range kinds {
		q.turn = (q.turn + 1) % len(kinds)
		if do = kinds[q.turn](); do != nil {
			break
		}
	}
	if q.working = do != nil; q.working {
		return do, nil
	}
	at, ok := q.nextComparison()
	if (q.pages.running || q.all) && (!ok || q.pages.retries.Before(at)) {
		at, ok = q.pages.retries, true
	}
	if ok {
		later = time.After(time.Until(at))
	}
	return nil, later
}

func (q *repairs) takeGiveUp() func(context.Context) {
	for lane, g := range q.giveUps {
		delete(q.giveUps, lane)
		return func(ctx context.Context) { q.registry.giveUp(ctx, lane, g) }
	}
	return nil
}

func (q *repairs) takeComparison() func(context.Context) {
	at, ok := q.nextComparison()
	if !ok || time.Now().Before(at) {
		return nil
	}
	q.compares, q.retries = false, time.Time{}
	return q.compareAll
}

// takePage takes the next page of all endpoints. Only the loss of a part of the store needs that: a lane
// that lost its copy is not among the stopped ones, and without deliveries nothing claims it. One failure
// does not stop the rest. A comparison that is requested while one runs begins after it.
func (q *repairs) takePage() func(context.Context) {
	if time.Now().Before(q.pages.retries) {
		return nil
	}
	if q.all && !q.pages.running {
		q.all, q.pages = false, pages{running: true}
	}
	if !q.pages.running {
		return nil
	}
	cursor := q.pages.cursor
	return func(ctx context.Context) {
		copies, next, err := q.copies(ctx, cursor)
		read := err == nil
		if read {
			err = q.compare(ctx, copies, creationGrace)
		}
		if ctx.Err() != nil {
			return
		}
		q.registry.Outages.Report("compare", err)
		q.mu.Lock()
		defer q.mu.Unlock()
		if !read {
			q.pages.retries = time.Now().Add(compareRetry)
			return
		}
		q.pages = pages{running: next != "", cursor: next, failed: q.pages.failed || err != nil}
		if q.pages.failed && !q.pages.running {
			q.all, q.pages = true, pages{retries: time.Now().Add(compareRetry)}
		}
	}
}

func (q *repairs) takeSweep() func(context.Context) {
	if len(q.sweeps) == 0 {
		return nil
	}
	s := q.sweeps[0]
	q.sweeps = q.sweeps[1:]
	s.begun = true
	return func(ctx context.Context) {
		if q.registry.sweepPage(ctx, s) {
			q.request(func() { q.sweeps = append(q.sweeps, s) })
		}
	}
}

// nextComparison returns when a comparison may begin; false: none is requested.
func (q *repairs) nextComparison() (at time.Time, ok bool) {
	if q.compares {
		return q.rests, true
	}
	return q.retries, !q.retries.IsZero()
}

// compareAll compares everything that may be half done. One failure does not stop the rest.
func (q *repairs) compareAll(ctx context.Context) {
	q.spent.Store(0)
	err := errors.Join(q.paused(ctx), q.deleted(ctx))
	q.cost.Store(q.spent.Load())
	if ctx.Err() != nil {
		return
	}
	q.registry.Outages.Report("finish", err)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rests = time.Now().Add(compareMin); err != nil {
		q.retries = time.Now().Add(compareRetry)
	}
}
