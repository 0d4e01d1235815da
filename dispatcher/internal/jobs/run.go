package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// atOnce is the number of slots of an instance. Each running job keeps a node of the store
// busy with short scripts. A job gives its slot to another one while it waits for its rate
// or for a lane.
const atOnce = 8

// forgetEvery is the time between two deletions of jobs that ended long ago.
const forgetEvery = time.Hour

// searchAgain is the wait before another search for jobs without a holder, if the store did
// not reply.
const searchAgain = 5 * time.Second

// Run runs this instance's jobs, and takes over jobs of instances that are gone, until ctx
// ends. Then it gives up its jobs, so that other instances take them over.
func (s *Jobs) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, atOnce)
	guard := time.NewTicker(max(s.o.PollEvery, searchAgain))
	defer guard.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for forgot := (time.Time{}); ; {
		guarded := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.begun:
			for _, w := range s.takeNew() {
				working.Go(func() { s.carryOut(ctx, w, slots) })
			}
			continue
		case <-s.wake:
		case <-guard.C:
			guarded = true
		case <-again.C:
		}
		s.searchBegins()
		working.Go(func() {
			defer s.searchEnded()
			if !s.takeOverAll(ctx) || !guarded && !s.notifyEnded(ctx) {
				again.Reset(searchAgain)
			}
		})
		if now := time.Now(); now.Sub(forgot) > forgetEvery {
			forgot = now
			working.Go(func() { s.report(ctx, "forget jobs", s.store.Forget(ctx, s.o.Now())) })
		}
	}
}

// searchBegins counts a search for jobs.
func (s *Jobs) searchBegins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.searches, s.asked = s.searches+1, false
}

func (s *Jobs) searchEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.searches--
}

func (s *Jobs) report(ctx context.Context, stage string, err error) {
	if ctx.Err() == nil {
		s.down.Report(stage, err)
	}
}

// carryOut runs a job until it has ended, or another instance has it. If this instance
// stops first, the job has no holder afterwards.
func (s *Jobs) carryOut(ctx context.Context, w *jobWorker, slots chan struct{}) {
	defer s.forget(w)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(w.life, stop)()
	if w.slots = slots; w.takeSlot(ctx) {
		w.work(ctx)
		w.freeSlot()
	}
	if w.ended {
		return
	}
	after, cancel := outage.Within(context.WithoutCancel(ctx))
	defer cancel()
	err := w.change(after, func(j *dispatcher.Job) { j.Holder = "" })
	if err != nil && !errors.Is(err, dispatcher.ErrJobTurn) {
		s.log.Warn("could not give up a job, another instance takes it over", "job", w.job.ID(), "err", err)
	}
}

// takeOverAll takes over the jobs that no living instance holds, and reports whether all
// jobs were read.
func (s *Jobs) takeOverAll(ctx context.Context) bool {
	call, cancel := outage.Within(ctx)
	defer cancel()
	live, instances, err := s.store.Live(call)
	var holders []string
	for _, j := range live {
		if s.isHere(j.Number) {
			continue
		}
		if j.Holder != s.o.Name() && slices.Contains(instances, j.Holder) {
			holders = append(holders, j.Holder)
			continue
		}
		if taken := s.takeOver(call, j); taken != nil {
			err = taken
		}
	}
	s.mu.Lock()
	s.holders = holders
	s.mu.Unlock()
	s.report(ctx, "look for jobs", err)
	return err == nil
}

// noticeWithin is the time after the end of a job in which its notice may be missing. It is
// longer than the time to detect a dead instance. Only the last endedMost jobs are checked.
const (
	noticeWithin = 10 * time.Minute
	endedMost    = 50
)

// notifyEnded repeats the notices of jobs that ended recently, because an instance may have
// died before its notice was stored. Each is stored once. It reports whether the jobs were
// read.
func (s *Jobs) notifyEnded(ctx context.Context) bool {
	call, cancel := outage.Within(ctx)
	defer cancel()
	list, _, err := s.store.Jobs(call, endedMost, "")
	for i := range list {
		if j := &list[i]; j.State.Ended() && s.o.Now().Sub(j.EndedAt) < noticeWithin {
			s.notify(j)
		}
	}
	s.report(ctx, "look for jobs", err)
	return err == nil
}

// notify sends the notice that a job ended.
func (s *Jobs) notify(j *dispatcher.Job) {
	detail := fmt.Sprintf("%s, %s by %s: %d done, %d failed, %d left", j.ID(), j.Kind, j.By, j.Done, j.Failed, j.Left)
	if j.Error != "" {
		detail += ": " + j.Error
	}
	s.o.Notify(dispatcher.News{
		Notice: dispatcher.NoticeJob, At: j.EndedAt, Key: fmt.Sprintf("%d_%d", j.Number, j.Turn), State: string(j.State),
		Since: j.StartedAt, Count: j.Done, Job: &dispatcher.JobEnd{ID: j.ID(), Kind: j.Kind, JobCounts: j.JobCounts}, Detail: detail,
	})
}

// takeOver makes this instance the holder of a job, unless another instance was faster.
func (s *Jobs) takeOver(ctx context.Context, j dispatcher.Job) error {
	before := j.Turn
	j, err := s.store.Change(ctx, j.Number, func(now *dispatcher.Job) error {
		if now.Turn != before || now.State.Ended() {
			return dispatcher.ErrJobTurn
		}
		now.Turn++
		now.Holder = s.o.Name()
		return nil
	})
	if err == nil {
		var parts map[int]dispatcher.JobPart
		if parts, err = s.store.Turn(ctx, s.o.Name(), &j); err == nil {
			s.log.LogAttrs(ctx, slog.LevelInfo, "job taken over", slog.String("job", j.ID()))
			s.take(j, parts)
			return nil
		}
	}
	if errors.Is(err, dispatcher.ErrJobTurn) || errors.Is(err, dispatcher.ErrNoJob) {
		return nil
	}
	return err
}

// take adds a job to this instance's, and passes it to Run. An older turn of it ends by
// itself.
func (s *Jobs) take(j dispatcher.Job, parts map[int]dispatcher.JobPart) {
	w := newWorker(s, j, parts)
	s.mu.Lock()
	s.here[j.Number] = w
	s.added = append(s.added, w)
	s.mu.Unlock()
	s.begun.Set()
}

// takeNew returns the jobs that were added since the last call.
func (s *Jobs) takeNew() []*jobWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := s.added
	s.added = nil
	return added
}

func (s *Jobs) isHere(number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here[number] != nil
}

// drop cancels the run of a job that was stopped, unless it was resumed after that.
func (s *Jobs) drop(stopped *dispatcher.Job) {
	s.mu.Lock()
	w := s.here[stopped.Number]
	s.mu.Unlock()
	if w != nil && w.job.Turn < stopped.Turn {
		w.drop()
	}
}

// forget removes a turn of a job that has ended here.
func (s *Jobs) forget(w *jobWorker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here[w.job.Number] == w {
		delete(s.here, w.job.Number)
	}
}

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
