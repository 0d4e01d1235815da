package endpoints

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
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
//   - It gives up destinations that failed for too long.
//   - It compares stopped lanes with their endpoints, and finishes changes that stopped
//     half-way.
//   - It compares all endpoints with their lanes, after a loss.
//   - It sweeps lanes: it ends the deliveries of lanes that were disabled, deleted or cut.
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

// A change of an endpoint has two steps: first the endpoint itself, then the lane's copy
// of its limits. They may be on two servers, and the instance may die between the steps.
// If the lane can be claimed, the next claim finds the stale copy (see CheckVersions). A
// lane that is paused, or whose endpoint was disabled or deleted, is never claimed. Every
// instance compares such lanes with their endpoints: at its start, after another instance
// died, and at each poll.

const (
	// creationGrace is how long a lane's copy may exist before its endpoint, because the
	// endpoint is being created. It is far longer than any call.
	creationGrace = 10 * time.Minute
	// noticeWithin is how long after the disabling of an endpoint its notice may be
	// missing. It is longer than the detection of a dead instance, or the wait for the
	// next poll.
	noticeWithin = 10 * time.Minute
	// versionsCost is the number of commands that read versionsAtOnce versions.
	versionsCost, versionsAtOnce = 3, 64
	// everyAtOnce is the number of endpoints that are compared at once after a loss.
	everyAtOnce = 256
)

// paused compares the paused lanes, including the disabled and deleted ones, with their
// endpoints. It reads the copies first. So an endpoint may be newer than its copy if the copy
// was updated in the meantime. This is harmless, because an older version never replaces a
// copy.
func (q *repairs) paused(ctx context.Context) error {
	var errs []error
	for cursor := ""; ; {
		call, cancel := outage.Within(ctx)
		page, next, err := q.registry.LaneReads.StoppedLanes(call, cursor)
		cancel()
		q.spent.Add(1)
		if len(page) > 0 {
			q.spent.Add(1) // their versions too
		}
		var copies []dispatcher.LaneVersion
		var disabled []string // recently
		for _, l := range page {
			if l.Mode == dispatcher.LaneCut {
				q.sweep(l.Lane, 0)
			}
			if l.Mode == dispatcher.LaneDisabled && q.registry.Queue.Now().Sub(l.Since) < noticeWithin {
				disabled = append(disabled, string(l.Lane))
			}
			if l.Lane.IsEndpoint() && l.Mode != dispatcher.LaneDeleted {
				copies = append(copies, l.LaneVersion)
			}
		}
		errs = append(errs, err, q.compare(ctx, copies, creationGrace), q.notifyDisabled(ctx, disabled))
		if cursor = next; cursor == "" || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// copies reads the versions of the limits that the lanes of a page of endpoints have.
func (q *repairs) copies(ctx context.Context, cursor string) (copies []dispatcher.LaneVersion, next string, err error) {
	r := q.registry
	call, cancel := outage.Within(ctx)
	defer cancel()
	page, next, err := r.Store.ListEndpoints(call, dispatcher.EndpointFilter{Limit: everyAtOnce, Cursor: cursor})
	if err != nil {
		return nil, "", err
	}
	lanes := make([]dispatcher.Lane, len(page))
	for i, e := range page {
		lanes[i] = e.Lane()
	}
	states, err := r.LaneReads.LaneStates(call, lanes)
	for i, s := range states {
		copies = append(copies, dispatcher.LaneVersion{Lane: lanes[i], Version: s.Limits.Version})
	}
	return copies, next, err
}

// notifyDisabled publishes the notices of disabled endpoints once more, because the
// instance that disabled them may have died before. A notice that is stored already is
// not stored again.
func (q *repairs) notifyDisabled(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	found, err := q.registry.Cache.Load(ctx, ids...)
	for _, dest := range found {
		q.registry.notify(dest.Endpoint)
	}
	return err
}

// compare gives lanes the limits of their endpoints if these are newer. If an endpoint is
// older than its lane's copy, it raises the endpoint's version. The copies must be read
// before.
//
// If a copy has no endpoint and no deletion is recorded, a creation failed. Then compare
// removes the copy once it is older than age. If deliveries wait in its lane, the store
// lost the endpoint.
func (q *repairs) compare(ctx context.Context, copies []dispatcher.LaneVersion, age time.Duration) error {
	if len(copies) == 0 {
		return nil
	}
	r := q.registry
	ids := make([]string, len(copies))
	for i, c := range copies {
		ids[i] = string(c.Lane)
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	q.spent.Add(versionsCost * int64(1+len(ids)/versionsAtOnce))
	truth, err := r.Store.EndpointVersions(call, ids)
	if err != nil {
		return err
	}
	var errs []error
	for i, c := range copies {
		switch t := truth[i]; {
		case t.End > 0:
			errs = append(errs, q.end(ctx, ids[i], t.End))
		case t.Version > c.Version:
			errs = append(errs, q.raise(ctx, c))
		case t.Version > 0 && t.Version < c.Version:
			errs = append(errs, r.overtake(ctx, ids[i]))
		case t.Version == 0:
			_, err := r.Queue.ForgetLane(call, r.Name(), c, age)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// raise gives a lane the current limits of its endpoint.
func (q *repairs) raise(ctx context.Context, c dispatcher.LaneVersion) error {
	r := q.registry
	r.Cache.forget(string(c.Lane)) // the cached one may be as old as the copy
	found, err := r.Cache.Load(ctx, string(c.Lane))
	if err != nil {
		return err
	}
	dest := found[string(c.Lane)]
	if dest == nil || dest.Fault != nil || dest.Endpoint.Version <= c.Version {
		return nil // the limits of an endpoint that can't be read may be wrong
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	limits := dest.Endpoint.Limits()
	if _, err := r.setLimits(call, c.Lane, limits, clears(dispatcher.WhyChanged, dest.Endpoint.Since > c.Version)); err != nil {
		return err
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "change of an endpoint finished",
		slog.String("lane", string(c.Lane)), slog.Int64("version", limits.Version))
	if limits.Mode == dispatcher.LaneDisabled {
		q.sweep(c.Lane, 0)
	}
	return nil
}

// deleted finishes the deletions of endpoints whose lanes may not be empty.
func (q *repairs) deleted(ctx context.Context) error {
	var errs []error
	for cursor := ""; ; {
		call, cancel := outage.Within(ctx)
		page, next, err := q.registry.Store.DeletedEndpoints(call, cursor)
		cancel()
		q.spent.Add(1)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for id, end := range page {
			errs = append(errs, q.end(ctx, id, end))
		}
		if cursor = next; cursor == "" {
			return errors.Join(errs...)
		}
	}
}

func (q *repairs) end(ctx context.Context, id string, end int64) error {
	if _, going := q.registry.deleting.Load(id); going {
		return nil
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	_, err := q.registry.deleteLane(call, id, end)
	return err
}

// Suspect requests a comparison, because a change may have stopped half-way.
func (r *Registry) Suspect() { r.repairs.suspect() }

// SuspectAll requests a comparison of all endpoints, because the store lost data.
func (r *Registry) SuspectAll() { r.repairs.suspectAll() }

// Compare gives lanes that a trim has read the limits of their endpoints if these are
// newer. An empty lane is never claimed, so no claim would find that out. Without such
// lanes it makes no call and reports nothing about the store.
func (r *Registry) Compare(ctx context.Context, trimmed []dispatcher.LaneVersion) {
	if r.Store != nil && len(trimmed) > 0 {
		r.Outages.Report("trim", r.repairs.compare(ctx, trimmed, 0))
	}
}

// FinishCost returns about how many commands one comparison takes. paused is the number
// of those that read the paused lanes. It is 0 without a store of endpoints.
func (r *Registry) FinishCost(paused int) int {
	if r.Store == nil {
		return 0
	}
	return max(paused+1, int(r.repairs.cost.Load()))
}

// sweep ends the scheduled deliveries of a disabled or deleted lane, or all waiting deliveries
// of a lane that was given up.
type sweep struct {
	dispatcher.LaneVersion
	begun    bool
	cursor   string
	total    int
	failures int // of the same page, in a row
}

// deleteLane marks the lane of a deleted endpoint as deleted and returns the number of
// waiting deliveries. If there are none, the endpoint is forgotten at once.
func (r *Registry) deleteLane(ctx context.Context, id string, end int64) (waiting int, err error) {
	count, err := r.setLimits(ctx, dispatcher.Lane(id), dispatcher.LaneLimits{Version: end, Mode: dispatcher.LaneDeleted, By: dispatcher.CallerOf(ctx)}, "")
	switch {
	case err != nil:
		return 0, err
	case count.Waiting > 0:
		r.repairs.sweep(dispatcher.Lane(id), end)
		return count.Waiting, nil
	}
	return 0, r.Store.ForgetDeleted(ctx, id)
}

// sweepPage ends a page of deliveries. It reports whether the sweep goes on.
func (r *Registry) sweepPage(ctx context.Context, s *sweep) (more bool) {
	call, cancel := outage.Within(ctx)
	ended, next, err := r.Queue.Sweep(call, r.Name(), s.Lane, s.cursor)
	cancel()
	if s.total += ended; ended > 0 {
		r.OnActivity()
	}
	if s.failures = r.Outages.Repeat(ctx, "sweep", s.failures, err); s.failures > 0 {
		return true
	}
	if s.cursor = next; s.cursor != "" {
		return true
	}
	if s.total == 0 && !s.Lane.IsEndpoint() && ctx.Err() == nil {
		r.Outages.Report("sweep", r.uncut(ctx, s.Lane))
	}
	if s.total > 0 {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "lane swept", slog.String("lane", string(s.Lane)), slog.Int("deliveries", s.total))
	}
	if s.Version > 0 && ctx.Err() == nil {
		r.settle(ctx, s.LaneVersion)
	}
	return false
}

// uncut removes the cut of a lane that was given up, once it has no deliveries left to
// end.
func (r *Registry) uncut(ctx context.Context, lane dispatcher.Lane) error {
	call, cancel := outage.Within(ctx)
	defer cancel()
	return r.Queue.Uncut(call, r.Name(), lane)
}

// settle forgets a deleted endpoint if its lane is empty. Otherwise a comparison retries
// later.
func (r *Registry) settle(ctx context.Context, lane dispatcher.LaneVersion) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	states, err := r.LaneReads.LaneStates(call, []dispatcher.Lane{lane.Lane})
	if err == nil && states[0].Waiting == 0 && states[0].Limits.Mode == dispatcher.LaneDeleted {
		err = r.Store.ForgetDeleted(call, string(lane.Lane))
	}
	r.Outages.Report("sweep", err)
}

// giveUp is one request to give up a lane.
type giveUp struct {
	called *dispatcher.Endpoint // the endpoint as it was called; nil: the lane is of a bare URL
	since  time.Time            // when the lane began to fail
}

// GiveUp requests that a failing destination is given up. since is the time at which it began
// to fail. called is its endpoint in the state of the failed call, and gets disabled. If
// called is nil, the lane is of a bare URL, and only the deliveries that were accepted until
// now end.
func (r *Registry) GiveUp(lane dispatcher.Lane, called *dispatcher.Endpoint, since time.Time) {
	r.repairs.giveUp(lane, giveUp{called, since})
}

// giveUp gives up a lane. It runs apart from the attempt that found the failure, which must
// record its outcome.
func (r *Registry) giveUp(ctx context.Context, lane dispatcher.Lane, g giveUp) {
	switch {
	case g.called != nil:
		r.Disable(g.called, dispatcher.WhyFailing)
	case !lane.IsEndpoint():
		r.cut(ctx, lane, g.since)
	}
}

// cut ends the deliveries that were accepted for a bare URL until now. Later ones are
// attempted, and their failures count from zero. Another instance may have cut the lane
// already.
func (r *Registry) cut(ctx context.Context, lane dispatcher.Lane, since time.Time) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	waiting, cut, err := r.Queue.Cut(call, r.Name(), lane, since)
	r.Outages.Report("give up", err)
	if err != nil {
		r.PollSoon() // the cut may be made, with only its response lost
	}
	if !cut {
		return
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "destination given up", slog.String("lane", string(lane)),
		slog.String("why", string(dispatcher.WhyFailing)), slog.Time("since", since), slog.Int("waiting", waiting))
	r.Notify(dispatcher.News{
		Notice: dispatcher.NoticeDisabled, Lane: lane, Key: dispatcher.Summary(since, 0), State: string(dispatcher.StateActive),
		Since: since, Reason: string(dispatcher.WhyFailing), Count: waiting, // new deliveries are attempted
	})
	r.repairs.sweep(lane, 0)
}

// maxFailingLogged bounds the lanes remembered as logged. If there are more, some are
// logged again.
const maxFailingLogged = 10_000

// Failing logs that a destination has failed for FailingAfter, and that it has recovered,
// each once. It also publishes notices of both, and once an hour that the destination
// still fails. The notice comes from the instance that records the failure. status is the
// last response's.
func (r *Registry) Failing(f dispatcher.LaneFailing, status int) {
	if f.Recovered {
		f.For = max(f.For, r.Queue.Now().Sub(f.Since)) // a test that succeeded does not report For
	}
	if r.FailingAfter == 0 || f.For < r.FailingAfter {
		return
	}
	news := dispatcher.News{
		Notice: dispatcher.NoticeFailing, Lane: f.Lane, Key: dispatcher.Summary(f.Since, f.For-r.FailingAfter),
		Since: f.Since, Reason: string(dispatcher.WhyFailing), Status: status,
	}
	if f.Recovered {
		news.Notice, news.Key, news.Reason = dispatcher.NoticeRecovered, dispatcher.Summary(f.Since, 0), string(f.Why)
	}
	r.Notify(news)
	q := r.repairs
	q.mu.Lock()
	was, logged := q.logged[f.Lane]
	logged = logged && was.Since.Equal(f.Since)
	switch {
	case f.Recovered:
		delete(q.logged, f.Lane)
	case !logged:
		if len(q.logged) >= maxFailingLogged {
			clear(q.logged)
		}
		q.logged[f.Lane] = f
	}
	q.mu.Unlock()
	text := "destination failing"
	switch {
	case f.Recovered && logged:
		text = "destination recovered"
	case f.Recovered || logged:
		return
	}
	r.Log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.String("lane", string(f.Lane)),
		slog.Time("since", f.Since), slog.Float64("for_s", f.For.Seconds()))
}

// Works clears the failures of an endpoint's lane after a test of the endpoint succeeded.
// It also verifies the endpoint's URL if that is still the same.
func (r *Registry) Works(ctx context.Context, e *dispatcher.Endpoint) error {
	ctx, cancel := outage.Within(context.WithoutCancel(ctx)) // the caller of the test may have gone
	defer cancel()
	r.Outages.Report("works", r.Queue.Works(ctx, r.Name(), e.Lane()))
	if !e.Unverified {
		return nil
	}
	_, err := r.changeEndpoint(ctx, e.ID, func(now *dispatcher.Endpoint) error {
		if !now.Unverified || now.URL != e.URL {
			return errAlready
		}
		now.Unverified = false
		return nil
	}, false)
	switch {
	case errors.Is(err, errAlready):
		return nil
	case err == nil:
		r.Log.LogAttrs(ctx, slog.LevelInfo, "endpoint verified", byCaller(ctx), slog.String("lane", e.ID))
	}
	return err
}
