package jobs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// stepMost is how many deliveries one step changes: some ms of the store.
const stepMost = 64

// The times of a job that meets lanes which take no more. A receiver that takes more
// than a step in patience is waited for, since to read on costs the store more. Else
// the job goes on with other lanes, and comes back after a round.
const (
	patience    = 250 * time.Millisecond
	slotsFirst  = 20 * time.Millisecond // until a lane is asked again
	roundFirst  = 200 * time.Millisecond
	waitsAfter  = time.Second // without a change: the job is waiting
	waitMost    = 5 * time.Second
	turnEvery   = 2 * time.Second // how often it is looked whether the job is still this instance's
	lanesPassed = 500             // most lanes that one reading leaves out
)

// jobWorker carries out one turn of a job.
type jobWorker struct {
	jobs  *Jobs
	store Store
	job   dispatcher.Job
	parts map[int]dispatcher.JobPart
	pace  pace
	life  context.Context // ends when the job was stopped by a call to this instance
	drop  context.CancelFunc
	ended bool // the job has, or this turn of it

	places    chan struct{} // as many as jobs are carried out at once
	placed    bool          // it has a place of them
	searching bool          // it goes through the parts for the first time

	changed time.Time // when it last changed something, or did not have to pass anything by
	looked  time.Time // when it last looked whether the turn is its own

	waits atomic.Bool // it is dispatcher.JobWaiting
}

func newWorker(s *Jobs, j dispatcher.Job, parts map[int]dispatcher.JobPart) *jobWorker {
	w := &jobWorker{
		jobs: s, store: s.store, job: j, parts: parts, pace: newPace(j.Rate), searching: true, changed: time.Now(), looked: time.Now(),
	}
	w.life, w.drop = context.WithCancel(context.Background())
	return w
}

// work carries the job out, whatever the store does, until it has ended or is
// another's. It returns early when ctx ends.
func (w *jobWorker) work(ctx context.Context) {
	defer w.drop()
	for failures := 0; ctx.Err() == nil && !w.ended; {
		err := w.rounds(ctx)
		switch {
		case errors.Is(err, dispatcher.ErrJobTurn) || errors.Is(err, dispatcher.ErrNoJob):
			w.ended = true
		case err == nil:
			w.end(ctx, dispatcher.JobDone, "")
		case ctx.Err() != nil:
		case outage.Any(err, outage.Passes):
			failures = w.jobs.down.Repeat(ctx, "job", failures, err)
		default:
			w.end(ctx, dispatcher.JobFailed, err.Error())
		}
	}
}

// end notes how the job ended. Where that fails the work is repeated, which then
// finds nothing.
func (w *jobWorker) end(ctx context.Context, state dispatcher.JobState, why string) {
	at := w.jobs.o.Now()
	err := w.change(ctx, func(j *dispatcher.Job) { j.State, j.Error, j.Holder, j.EndedAt = state, why, "", at })
	if err != nil && !errors.Is(err, dispatcher.ErrJobTurn) && !errors.Is(err, dispatcher.ErrNoJob) {
		w.jobs.report(ctx, "job", err)
		w.sleep(ctx, waitsAfter)
		return
	}
	w.ended = true
	if err == nil {
		sum := w.sum()
		told := w.job
		told.State, told.Error, told.EndedAt, told.JobCounts = state, why, at, sum
		told.Account()
		w.jobs.tell(&told)
		w.jobs.log.LogAttrs(ctx, slog.LevelInfo, "job ended", slog.String("job", w.job.ID()), slog.String("kind", string(w.job.Kind)),
			slog.String("state", string(state)), slog.Int("done", sum.Done), slog.Int("failed", sum.Failed), slog.Int("left", told.Left))
	}
}

func (w *jobWorker) sum() (sum dispatcher.JobCounts) {
	for _, part := range w.parts {
		sum.Add(part.JobCounts)
	}
	return sum
}

// change changes the job's record, if the turn is still this one.
func (w *jobWorker) change(ctx context.Context, change func(j *dispatcher.Job)) error {
	j, err := w.store.Change(ctx, w.job.Number, func(j *dispatcher.Job) error {
		if j.Turn != w.job.Turn {
			return dispatcher.ErrJobTurn
		}
		change(j)
		return nil
	})
	if err == nil {
		w.job.State = j.State
	}
	return err
}

// stand has the record say whether the job moves on.
func (w *jobWorker) stand(ctx context.Context) error {
	state := dispatcher.JobRunning
	if time.Since(w.changed) > waitsAfter {
		state = dispatcher.JobWaiting
	}
	w.waits.Store(state == dispatcher.JobWaiting)
	if state == w.job.State && time.Since(w.looked) < turnEvery {
		return nil
	}
	w.looked = time.Now()
	return w.change(ctx, func(j *dispatcher.Job) { j.State = state })
}

// rounds goes through all parts until nothing is left there.
func (w *jobWorker) rounds(ctx context.Context) error {
	if err := w.expect(ctx); err != nil {
		return err
	}
	if err := w.probe(ctx); err != nil {
		return err
	}
	if w.job.Kind == dispatcher.JobCancel {
		return w.cancel(ctx)
	}
	for wait := roundFirst; ; {
		left, before := false, w.sum().Done
		for _, n := range slices.Sorted(maps.Keys(w.parts)) {
			if w.parts[n].Ended {
				continue
			}
			if err := w.walk(ctx, n); err != nil {
				return err
			}
			left = left || !w.parts[n].Ended
		}
		if !left {
			return nil
		}
		w.searching = false
		if w.sum().Done > before {
			wait = roundFirst
		}
		if err := w.stand(ctx); err != nil {
			return err
		}
		if !w.sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, waitMost)
	}
}

// walk goes through one part once. What it has to pass by there is left for the next
// time.
func (w *jobWorker) walk(ctx context.Context, n int) error {
	var skip []dispatcher.Lane
	for more := true; more; {
		part := w.parts[n]
		page, err := w.store.Page(ctx, &w.job, dispatcher.JobAt{Part: n, Since: part.Since, Cursor: part.Cursor}, skip)
		if err != nil {
			return err
		}
		ids := make([]dispatcher.DeliveryID, len(page.Deliveries))
		for i := range page.Deliveries {
			ids[i] = page.Deliveries[i].ID
		}
		for some := range slices.Chunk(ids, stepMost) {
			passed, err := w.move(ctx, dispatcher.JobStep{Part: n, Status: page.Status}, some, skip)
			if err != nil {
				return err
			}
			if skip = passed; len(skip) > lanesPassed {
				skip = skip[:lanesPassed]
			}
		}
		part = w.parts[n]
		part.Cursor = page.Cursor
		w.parts[n] = part
		if w.searching && len(skip) == 0 {
			w.changed = time.Now()
		}
		if more = page.More; more && len(ids) == 0 {
			if err := w.step(ctx, dispatcher.JobStep{Part: n}, nil); err != nil {
				return err
			}
		}
	}
	return w.conclude(ctx, n, func(part *dispatcher.JobPart) {
		part.Cursor, part.Ended, part.Passed = "", part.Passed == 0, 0
	})
}

// conclude writes how a part stands at the end of a walk. It is not so before it is
// written: else it would not be written again.
func (w *jobWorker) conclude(ctx context.Context, n int, change func(part *dispatcher.JobPart)) error {
	before := w.parts[n]
	part := before
	change(&part)
	w.parts[n] = part
	err := w.step(ctx, dispatcher.JobStep{Part: n}, nil)
	if err != nil {
		w.parts[n] = before
	}
	return err
}

// move changes deliveries of one part. It waits a while where their lanes take no
// more, and for ever where the job has only one lane. Then it passes them by, and
// answers their lanes with those passed by before.
func (w *jobWorker) move(ctx context.Context, step dispatcher.JobStep, todo []dispatcher.DeliveryID, skip []dispatcher.Lane) ([]dispatcher.Lane, error) {
	began, wait := time.Now(), slotsFirst
	var aside []dispatcher.DeliveryID // in the order of their lanes
	todo, aside = parted(todo, skip)
	w.pass(step.Part, len(aside))
	aside = nil
	for len(todo)+len(aside) > 0 {
		if len(todo) == 0 {
			if len(w.job.Filter.Lanes) != 1 && time.Since(began) > patience {
				w.pass(step.Part, len(aside))
				return withLanes(skip, aside), nil
			}
			if err := w.stand(ctx); err != nil {
				return skip, err
			}
			if !w.sleep(ctx, wait) {
				return skip, ctx.Err()
			}
			wait = min(wait*5/4, waitMost)
			todo, aside = aside, nil
		}
		n := w.pace.may(min(len(todo), stepMost))
		if n == 0 {
			if !w.sleep(ctx, w.pace.wait()) {
				return skip, ctx.Err()
			}
			continue
		}
		before := w.parts[step.Part].Done
		step.IDs = todo[:n]
		var left []dispatcher.DeliveryID
		if err := w.step(ctx, step, &left); err != nil {
			return skip, err
		}
		if w.parts[step.Part].Done > before {
			wait = slotsFirst
		}
		aside = append(aside, left...)
		var held []dispatcher.DeliveryID
		todo, held = parted(todo[n:], withLanes(nil, left))
		aside = append(aside, held...)
	}
	return skip, nil
}

// pass counts deliveries that are left for the next round.
func (w *jobWorker) pass(n, count int) {
	part := w.parts[n]
	part.Passed += count
	w.parts[n] = part
}

// parted divides deliveries by whether their lanes are of some.
func parted(ids []dispatcher.DeliveryID, lanes []dispatcher.Lane) (others, of []dispatcher.DeliveryID) {
	for _, id := range ids {
		if slices.Contains(lanes, id.Lane) {
			of = append(of, id)
		} else {
			others = append(others, id)
		}
	}
	return others, of
}

// withLanes adds the lanes of deliveries.
func withLanes(lanes []dispatcher.Lane, ids []dispatcher.DeliveryID) []dispatcher.Lane {
	for _, id := range ids {
		if !slices.Contains(lanes, id.Lane) {
			lanes = append(lanes, id.Lane)
		}
	}
	return lanes
}

// step makes one step, and writes how far the job is in that part. left gets the
// deliveries whose lanes take no more.
func (w *jobWorker) step(ctx context.Context, step dispatcher.JobStep, left *[]dispatcher.DeliveryID) error {
	part := w.parts[step.Part]
	step.Job, step.Passed, step.Cursor, step.Ended = &w.job, part.Passed, part.Cursor, part.Ended
	step.Named = max(0, dispatcher.MostFailures-w.sum().Failed)
	call, cancel := outage.Within(ctx)
	defer cancel()
	out, err := w.store.Step(call, w.jobs.o.Name(), step)
	if err != nil {
		return err
	}
	w.jobs.report(ctx, "job", nil)
	w.parts[step.Part] = out.JobPart
	w.pace.made(out.Done)
	if out.Done+out.Probes > 0 {
		w.changed = time.Now()
		if w.jobs.o.Stirred != nil {
			w.jobs.o.Stirred()
		}
	}
	if left != nil {
		*left = out.Aside
	}
	return w.stand(ctx)
}

// sleep waits, and reports false where ctx ended before. Meanwhile another job may have
// the place.
func (w *jobWorker) sleep(ctx context.Context, d time.Duration) bool {
	w.leave()
	return wait.Sleep(ctx, d) && w.enter(ctx)
}

// enter waits for a place, and reports false where ctx ended before.
func (w *jobWorker) enter(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case w.places <- struct{}{}:
		w.placed = true
	}
	return w.placed
}

// leave gives the place back.
func (w *jobWorker) leave() {
	if w.placed {
		w.placed = false
		<-w.places
	}
}
