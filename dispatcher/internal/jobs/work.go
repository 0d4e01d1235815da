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

// stepMost is the number of deliveries in one step. A step takes the store some ms.
const stepMost = 64

// The times of a job with full lanes. It waits patience for them, because a full lane of a
// fast receiver soon takes another step, and to continue with other lanes costs the store
// more. Then the job continues with other lanes, and returns in the next round.
const (
	patience   = 250 * time.Millisecond
	slotsFirst = 20 * time.Millisecond // wait before a full lane is tried again
	roundFirst = 200 * time.Millisecond
	waitsAfter = time.Second // without a change: the job is waiting
	waitMost   = 5 * time.Second
	turnEvery  = 2 * time.Second // time between two checks that the turn is not over
	fullMost   = 500             // maximum number of lanes that one page leaves out
)

// jobWorker runs one turn of a job.
type jobWorker struct {
	jobs  *Jobs
	store Store
	job   dispatcher.Job
	parts map[int]dispatcher.JobPart
	pace  pace
	life  context.Context // ends when the job was stopped by a call to this instance
	drop  context.CancelFunc
	ended bool // the job has ended, or this turn of it

	slots      chan struct{} // of this instance
	hasSlot    bool          // it has one of the slots
	firstRound bool

	changed time.Time // when it last changed a delivery, or had none to skip
	checked time.Time // when it last checked that the turn is not over

	waits atomic.Bool // it is dispatcher.JobWaiting
}

func newWorker(s *Jobs, j dispatcher.Job, parts map[int]dispatcher.JobPart) *jobWorker {
	w := &jobWorker{
		jobs: s, store: s.store, job: j, parts: parts, pace: newPace(j.Rate), firstRound: true, changed: time.Now(), checked: time.Now(),
	}
	w.life, w.drop = context.WithCancel(context.Background())
	return w
}

// work runs the job until it has ended, or another instance has it. It retries while the store
// does not respond. It returns early when ctx ends.
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

// end records the end of the job. If that fails, the job runs again, and the second run finds
// nothing to change.
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
		ended := w.job
		ended.State, ended.Error, ended.EndedAt, ended.JobCounts = state, why, at, sum
		ended.Account()
		w.jobs.notify(&ended)
		w.jobs.log.LogAttrs(ctx, slog.LevelInfo, "job ended", slog.String("job", w.job.ID()), slog.String("kind", string(w.job.Kind)),
			slog.String("state", string(state)), slog.Int("done", sum.Done), slog.Int("failed", sum.Failed), slog.Int("left", ended.Left))
	}
}

func (w *jobWorker) sum() (sum dispatcher.JobCounts) {
	for _, part := range w.parts {
		sum.Add(part.JobCounts)
	}
	return sum
}

// change changes the job's record, unless the turn is over.
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

// reportState records whether the job waits for full lanes.
func (w *jobWorker) reportState(ctx context.Context) error {
	state := dispatcher.JobRunning
	if time.Since(w.changed) > waitsAfter {
		state = dispatcher.JobWaiting
	}
	w.waits.Store(state == dispatcher.JobWaiting)
	if state == w.job.State && time.Since(w.checked) < turnEvery {
		return nil
	}
	w.checked = time.Now()
	return w.change(ctx, func(j *dispatcher.Job) { j.State = state })
}

// rounds runs rounds until no part has deliveries left.
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
			if err := w.readPart(ctx, n); err != nil {
				return err
			}
			left = left || !w.parts[n].Ended
		}
		if !left {
			return nil
		}
		w.firstRound = false
		if w.sum().Done > before {
			wait = roundFirst
		}
		if err := w.reportState(ctx); err != nil {
			return err
		}
		if !w.sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, waitMost)
	}
}

// readPart reads one part once, and changes its deliveries. It skips full lanes: their
// deliveries are left for the next round.
func (w *jobWorker) readPart(ctx context.Context, n int) error {
	var full []dispatcher.Lane
	for more := true; more; {
		part := w.parts[n]
		page, err := w.store.Page(ctx, &w.job, dispatcher.JobAt{Part: n, Since: part.Since, Cursor: part.Cursor}, full)
		if err != nil {
			return err
		}
		ids := make([]dispatcher.DeliveryID, len(page.Deliveries))
		for i := range page.Deliveries {
			ids[i] = page.Deliveries[i].ID
		}
		for some := range slices.Chunk(ids, stepMost) {
			now, err := w.steps(ctx, dispatcher.JobStep{Part: n, Status: page.Status}, some, full)
			if err != nil {
				return err
			}
			if full = now; len(full) > fullMost {
				full = full[:fullMost]
			}
		}
		part = w.parts[n]
		part.Cursor = page.Cursor
		w.parts[n] = part
		if w.firstRound && len(full) == 0 {
			w.changed = time.Now()
		}
		if more = page.More; more && len(ids) == 0 {
			if err := w.step(ctx, dispatcher.JobStep{Part: n}, nil); err != nil {
				return err
			}
		}
	}
	return w.writePart(ctx, n, func(part *dispatcher.JobPart) {
		part.Cursor, part.Ended, part.Skipped = "", part.Skipped == 0, 0
	})
}

// writePart writes the progress of a part at the end of a round. If that fails, it restores
// the part, so that it is written again.
func (w *jobWorker) writePart(ctx context.Context, n int, change func(part *dispatcher.JobPart)) error {
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

// steps changes deliveries of one part, in steps. It waits a while for full lanes, and for
// ever if the job has only one lane. Then it skips them, and returns all lanes that are full.
func (w *jobWorker) steps(ctx context.Context, step dispatcher.JobStep, todo []dispatcher.DeliveryID, full []dispatcher.Lane) ([]dispatcher.Lane, error) {
	todo, skipped := split(todo, full)
	w.skip(step.Part, len(skipped))
	var later []dispatcher.DeliveryID // of full lanes, in their order
	for began, wait := time.Now(), slotsFirst; len(todo)+len(later) > 0; {
		if len(todo) == 0 {
			if len(w.job.Filter.Lanes) != 1 && time.Since(began) > patience {
				w.skip(step.Part, len(later))
				return withLanes(full, later), nil
			}
			if err := w.reportState(ctx); err != nil {
				return full, err
			}
			if !w.sleep(ctx, wait) {
				return full, ctx.Err()
			}
			wait = min(wait*5/4, waitMost)
			todo, later = later, nil
		}
		n := w.pace.may(min(len(todo), stepMost))
		if n == 0 {
			if !w.sleep(ctx, w.pace.wait()) {
				return full, ctx.Err()
			}
			continue
		}
		before := w.parts[step.Part].Done
		step.IDs = todo[:n]
		var refused []dispatcher.DeliveryID
		if err := w.step(ctx, step, &refused); err != nil {
			return full, err
		}
		if w.parts[step.Part].Done > before {
			wait = slotsFirst
		}
		others, same := split(todo[n:], withLanes(nil, refused))
		todo, later = others, append(append(later, refused...), same...)
	}
	return full, nil
}

// skip counts deliveries that are left for the next round.
func (w *jobWorker) skip(n, count int) {
	part := w.parts[n]
	part.Skipped += count
	w.parts[n] = part
}

// split divides deliveries by lane: the others, and the ones of these lanes.
func split(ids []dispatcher.DeliveryID, lanes []dispatcher.Lane) (others, of []dispatcher.DeliveryID) {
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

// step runs one step, and writes the progress of its part. full receives the deliveries whose
// lanes are full.
func (w *jobWorker) step(ctx context.Context, step dispatcher.JobStep, full *[]dispatcher.DeliveryID) error {
	part := w.parts[step.Part]
	step.Job, step.Skipped, step.Cursor, step.Ended = &w.job, part.Skipped, part.Cursor, part.Ended
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
	if full != nil {
		*full = out.Full
	}
	return w.reportState(ctx)
}

// sleep waits, and returns false if ctx ended before. Meanwhile another job may use the slot.
func (w *jobWorker) sleep(ctx context.Context, d time.Duration) bool {
	w.freeSlot()
	return wait.Sleep(ctx, d) && w.takeSlot(ctx)
}

// takeSlot waits for a slot, and returns false if ctx ended before.
func (w *jobWorker) takeSlot(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case w.slots <- struct{}{}:
		w.hasSlot = true
	}
	return w.hasSlot
}

// freeSlot gives the slot back.
func (w *jobWorker) freeSlot() {
	if w.hasSlot {
		w.hasSlot = false
		<-w.slots
	}
}

// cancel cancels unfinished deliveries. A delivery may move to a list that was read before,
// for example if its attempt fails. So all lists are read again, until there is nothing more
// to cancel.
func (w *jobWorker) cancel(ctx context.Context) error {
	for {
		before := w.sum().Done
		if err := w.cancelOnce(ctx); err != nil {
			return err
		}
		if w.sum().Done == before {
			break
		}
	}
	for _, n := range slices.Sorted(maps.Keys(w.parts)) {
		if err := w.writePart(ctx, n, func(part *dispatcher.JobPart) { part.Ended = true }); err != nil {
			return err
		}
	}
	return nil
}

// cancelOnce reads the list of all unfinished deliveries once.
func (w *jobWorker) cancelOnce(ctx context.Context) error {
	f := w.job.Filter
	for f.Limit = listPage; ; {
		page, err := w.jobs.o.List(ctx, f)
		if err != nil {
			return err
		}
		in := map[int][]dispatcher.DeliveryID{}
		for i := range page.Deliveries {
			id := page.Deliveries[i].ID
			n := w.store.Part(id.Lane)
			in[n] = append(in[n], id)
		}
		for _, n := range slices.Sorted(maps.Keys(in)) {
			for some := range slices.Chunk(in[n], stepMost) {
				if _, err := w.steps(ctx, dispatcher.JobStep{Part: n}, some, nil); err != nil {
					return err
				}
			}
		}
		w.changed = time.Now() // full lanes do not matter to it
		if err := w.reportState(ctx); err != nil {
			return err
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}

// probedMost is the maximum number of lanes of one part that a holder probes. The store has
// the same limit.
const probedMost = 4096

// probe sends the first delivery of each lane, regardless of the rate. The store records that
// delivery, and reports the lane as full until it has ended. So the next holder may probe
// again. A lane that is full now is probed when the job reads its deliveries.
func (w *jobWorker) probe(ctx context.Context) error {
	if !w.job.Probe {
		return nil
	}
	for _, n := range slices.Sorted(maps.Keys(w.parts)) {
		if w.parts[n].Ended {
			continue
		}
		if err := w.probePart(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (w *jobWorker) probePart(ctx context.Context, n int) error {
	seen := map[dispatcher.Lane]bool{}
	var probed []dispatcher.Lane
	at := dispatcher.JobAt{Part: n, Since: w.parts[n].Since}
	for more := true; more && len(seen) < probedMost; {
		page, err := w.store.Page(ctx, &w.job, at, probed)
		if err != nil {
			return err
		}
		var first []dispatcher.DeliveryID
		for i := range page.Deliveries {
			id := page.Deliveries[i].ID
			if seen[id.Lane] {
				continue
			}
			seen[id.Lane] = true
			if first = append(first, id); len(probed) < fullMost {
				probed = append(probed, id.Lane)
			}
		}
		for some := range slices.Chunk(first, stepMost) {
			if err := w.step(ctx, dispatcher.JobStep{Part: n, Status: page.Status, IDs: some}, nil); err != nil {
				return err
			}
		}
		at.Cursor, more = page.Cursor, page.More
	}
	return nil
}

// pace limits the deliveries that a job changes to its rate.
type pace struct {
	interval time.Duration // between two; 0: no limit
	next     time.Time     // time of the next change
	now      func() time.Time
}

// paceSteps is the maximum number of steps per second of a job with a rate. Large steps cost
// the store less, and small ones are smooth.
const paceSteps = 20

func newPace(r dispatcher.Rate) pace {
	return pace{interval: r.Interval(), now: time.Now}
}

// may returns how many of some deliveries may be changed now: all, unless the rate allows
// fewer.
func (p *pace) may(some int) int {
	if p.interval == 0 {
		return some
	}
	now := p.now()
	if now.Before(p.next) {
		return 0
	}
	// A step makes up for missed time, up to twice its size.
	batch := max(1, int(time.Second/paceSteps/p.interval))
	if missed := int(now.Sub(p.next) / p.interval); !p.next.IsZero() && missed > batch {
		batch = min(missed, 2*batch)
	}
	return min(some, batch)
}

// wait returns the time until the next change.
func (p *pace) wait() time.Duration { return max(p.next.Sub(p.now()), time.Millisecond) }

// made counts changes.
func (p *pace) made(n int) {
	if p.interval == 0 || n == 0 {
		return
	}
	now := p.now()
	if late := now.Add(-2 * time.Second / paceSteps); p.next.Before(late) {
		p.next = late // it makes up for no more
	}
	p.next = p.next.Add(time.Duration(n) * p.interval)
}
