// Package jobs changes many deliveries that a filter selects: it replays, cancels
// and purges. It uses the queue only through its Store.
//
// One instance runs a job, its holder. If the holder dies, another instance takes the job
// over. Each step writes its progress, so the next holder continues there. run.go finds jobs
// and their holders, and runs them. These words say where a job is:
//
//	turn     the time of one holder; the store refuses steps of an older turn
//	part     one part of the queue, with its own progress and cursor
//	round    one reading of all parts, from their first deliveries to their last
//	step     one change of up to 64 deliveries of a part
//	full     a lane, or its delivery, that can't take more now
//	skipped  full deliveries that are left for the next round
//	slot     the right to run here; an instance has 8 for all its jobs
package jobs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Store stores jobs and makes their steps. The parts of the queue are numbered from 0. Each
// step is in one part.
type Store interface {
	// Add stores a new job and sets its number. It returns dispatcher.ErrJobs if too many jobs
	// have not ended.
	Add(ctx context.Context, j *dispatcher.Job) error
	// Change stores the job that change returns. It returns an error of change unchanged, and
	// calls change again after a race.
	Change(ctx context.Context, number int64, change func(j *dispatcher.Job) error) (dispatcher.Job, error)
	// Turn makes all parts reject steps of an older turn, and returns the job's progress in
	// each. It returns dispatcher.ErrJobTurn if a part has a newer turn.
	Turn(ctx context.Context, by string, j *dispatcher.Job) (map[int]dispatcher.JobPart, error)
	// Page returns deliveries of one part that a job may change, oldest first. It leaves out
	// lanes that are full.
	Page(ctx context.Context, j *dispatcher.Job, at dispatcher.JobAt, full []dispatcher.Lane) (dispatcher.JobPage, error)
	// Step changes some deliveries and writes the job's progress. It returns
	// dispatcher.ErrJobTurn if its turn is over.
	Step(ctx context.Context, by string, step dispatcher.JobStep) (dispatcher.JobStepped, error)
	// Parts returns the parts in which a filter may find deliveries.
	Parts(f dispatcher.Filter) []int
	// Part returns the part of a lane.
	Part(lane dispatcher.Lane) int
	// Live returns the jobs that have not ended, without counts, and the names of all
	// instances.
	Live(ctx context.Context) (list []dispatcher.Job, instances []string, err error)
	// Job returns a job with counts and failures, or dispatcher.ErrNoJob.
	Job(ctx context.Context, number int64) (dispatcher.Job, error)
	// Jobs returns a page of jobs with counts, the newest first.
	Jobs(ctx context.Context, limit int, cursor string) (list []dispatcher.Job, next string, err error)
	// Forget deletes jobs that ended long ago, and the oldest jobs if there are too many.
	Forget(ctx context.Context, now time.Time) error
}

// ListFunc returns a page of deliveries.
type ListFunc func(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)

// ShowFunc returns deliveries with the values of every list. It leaves out deleted ones.
type ShowFunc func(ctx context.Context, found []dispatcher.Delivery) ([]dispatcher.Delivery, error)

// TryFunc lets lanes be attempted at once. Where a breaker is open it allows one attempt.
type TryFunc func(ctx context.Context, lanes []dispatcher.Lane) error

// Options are the dependencies of Jobs. All fields without a comment are required.
type Options struct {
	Store     Store
	List      ListFunc
	Show      ShowFunc
	TryNow    TryFunc
	Name      func() string         // of this instance
	Now       func() time.Time      // by the queue's clock
	PollEvery time.Duration         // time between two searches for jobs without a holder
	Notify    func(dispatcher.News) // called when a job ended; must not block
	Stirred   func()                // called after a change of deliveries; must not block; nil: not called
	Log       *slog.Logger
}

// Jobs starts, stops and runs jobs.
type Jobs struct {
	store Store
	o     Options
	log   *slog.Logger
	down  *outage.Log

	wake  wait.Signal // an instance is gone
	begun wait.Signal // a job was added

	mu       sync.Mutex           // guards the fields below
	here     map[int64]*jobWorker // the jobs of this instance
	added    []*jobWorker         // that Run has not started yet
	holders  []string             // of other jobs that have not ended
	searches int                  // number of running searches for jobs
	asked    bool                 // a search for jobs was requested
}

// New returns Jobs. Run runs them.
func New(o Options) *Jobs {
	return &Jobs{
		store: o.Store, o: o, log: o.Log, down: outage.New(o.Log, "store lost for jobs", "store back for jobs"),
		wake: wait.NewSignal(), begun: wait.NewSignal(), here: map[int64]*jobWorker{},
		asked: true, // Run begins with a search
	}
}

// Busy reports whether a job is running here, or a search for jobs. holders are the other
// instances that have jobs.
func (s *Jobs) Busy() (busy bool, holders []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy = s.searches > 0 || s.asked
	for _, w := range s.here {
		busy = busy || !w.waits.Load()
	}
	return busy, slices.Clone(s.holders)
}

// Departed starts a search for jobs to take over, because an instance is gone. It does not
// block.
func (s *Jobs) Departed() {
	s.mu.Lock()
	s.asked = true
	s.mu.Unlock()
	s.wake.Set()
}

// RetryLane attempts what waits in a lane now, one delivery first, as a job. If such a job has not ended, it
// continues that job.
func (s *Jobs) RetryLane(ctx context.Context, lane dispatcher.Lane) (dispatcher.Job, error) {
	live, _, err := s.store.Live(ctx)
	if err != nil {
		return dispatcher.Job{}, err
	}
	for i := range live {
		if !retriesLane(&live[i], lane) {
			continue
		}
		if err := s.tryNow(ctx, &live[i]); err != nil {
			return live[i], err
		}
		return s.store.Job(ctx, live[i].Number)
	}
	return s.StartJob(ctx, dispatcher.Job{
		Kind: dispatcher.JobRetry, Probe: true, Filter: dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}, Lanes: []dispatcher.Lane{lane}},
	})
}

// retriesLane reports whether a job is one that RetryLane starts for a lane.
func retriesLane(j *dispatcher.Job, lane dispatcher.Lane) bool {
	f := &j.Filter
	return j.Kind == dispatcher.JobRetry && j.Probe && j.Rate.IsZero() &&
		len(f.Lanes) == 1 && f.Lanes[0] == lane && len(f.Statuses) == 1 && f.Statuses[0] == dispatcher.StatusRetrying &&
		len(f.Topics)+len(f.Tenants)+len(f.Subjects) == 0 && f.Since.IsZero() && f.Until.IsZero()
}

// tryNow lets the lanes that a probing job names be attempted at once. Otherwise the first delivery of a lane
// would wait for its breaker.
func (s *Jobs) tryNow(ctx context.Context, j *dispatcher.Job) error {
	if !j.Probe || len(j.Filter.Lanes) == 0 {
		return nil
	}
	return s.o.TryNow(ctx, j.Filter.Lanes)
}

// StartJob starts a job with the given kind, filter, rate and probe setting. A job that finds
// nothing ends at once.
func (s *Jobs) StartJob(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error) {
	j.Filter, j.State, j.By = withStatuses(j.Kind, j.Filter), dispatcher.JobRunning, dispatcher.CallerOf(ctx)
	j.Holder, j.Turn, j.StartedAt = s.o.Name(), 1, s.o.Now()
	first, err := s.survey(ctx, &j, firstTime)
	if err == nil {
		err = s.tryNow(ctx, &j)
	}
	if err != nil {
		return j, err
	}
	if first.Complete {
		j.Expected = &first.Matched
	}
	if first.Complete && first.Matched == 0 {
		j.State, j.Holder, j.EndedAt = dispatcher.JobDone, "", s.o.Now()
		err := s.store.Add(ctx, &j)
		if err == nil {
			s.notify(&j)
		}
		return j, err
	}
	if err := s.store.Add(ctx, &j); err != nil {
		return j, err
	}
	return s.begin(ctx, j)
}

// begin makes the parts accept this turn, and adds the job to those that run here.
func (s *Jobs) begin(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error) {
	parts, err := s.store.Turn(ctx, s.o.Name(), &j)
	switch {
	case errors.Is(err, dispatcher.ErrJobTurn): // another instance took it over, or a caller stopped it, between two calls
		return s.store.Job(ctx, j.Number)
	case err != nil:
		s.Departed() // another search will find it
		return j, err
	}
	begun := j
	for _, part := range parts {
		begun.Add(part.JobCounts)
	}
	s.take(j, parts) // from now on only the worker uses them
	return begun, nil
}

// withStatuses returns a filter that names its statuses, each once, without a page. Pages go
// from one status to the next.
func withStatuses(kind dispatcher.JobKind, f dispatcher.Filter) dispatcher.Filter {
	if len(f.Statuses) == 0 {
		_, f.Statuses = kind.Statuses()
	}
	var once []dispatcher.Status
	for _, status := range f.Statuses {
		if !slices.Contains(once, status) {
			once = append(once, status)
		}
	}
	f.Statuses = once
	f.Limit, f.Cursor = 0, ""
	return f
}

// StopJob ends a job: after it returns, the job changes nothing more. A job that has ended
// does not change.
func (s *Jobs) StopJob(ctx context.Context, number int64) (dispatcher.Job, error) {
	j, err := s.store.Change(ctx, number, func(j *dispatcher.Job) error {
		if j.State.Ended() {
			return errEnded
		}
		j.Turn++
		j.State, j.Holder, j.EndedAt = dispatcher.JobStopped, "", s.o.Now()
		return nil
	})
	if err != nil && !errors.Is(err, errEnded) {
		return j, err
	}
	if j.State == dispatcher.JobStopped { // even if an earlier call failed before this
		if _, err := s.store.Turn(ctx, s.o.Name(), &j); err != nil && !errors.Is(err, dispatcher.ErrJobTurn) {
			return j, err
		}
		s.drop(&j)
	}
	ended, read := s.store.Job(ctx, number)
	if err == nil && read == nil {
		s.notify(&ended)
	}
	return ended, read
}

var errEnded = errors.New("ended")

// ResumeJob continues a job that was stopped, or that failed.
func (s *Jobs) ResumeJob(ctx context.Context, number int64) (dispatcher.Job, error) {
	j, err := s.store.Change(ctx, number, func(j *dispatcher.Job) error {
		if j.State != dispatcher.JobStopped && j.State != dispatcher.JobFailed {
			return dispatcher.ErrJobState
		}
		if j.Forgotten {
			return dispatcher.ErrJobForgotten
		}
		j.Turn++
		j.State, j.Error, j.Holder, j.EndedAt = dispatcher.JobRunning, "", s.o.Name(), time.Time{}
		return nil
	})
	if err != nil {
		return j, err
	}
	return s.begin(ctx, j)
}

// States counts the jobs that have not ended, by state.
func (s *Jobs) States(ctx context.Context) (map[dispatcher.JobState]int64, error) {
	live, _, err := s.store.Live(ctx)
	counts := map[dispatcher.JobState]int64{}
	for i := range live {
		counts[live[i].State]++
	}
	return counts, err
}

// Job returns a job.
func (s *Jobs) Job(ctx context.Context, number int64) (dispatcher.Job, error) {
	return s.store.Job(ctx, number)
}

// Jobs returns a page of jobs, the newest first.
func (s *Jobs) Jobs(ctx context.Context, limit int, cursor string) (list []dispatcher.Job, next string, err error) {
	return s.store.Jobs(ctx, limit, cursor)
}

// The timeouts for counting a job's deliveries: in a survey, for which a person waits, in a survey
// that counts on or a job that begins without a count, and in the call that starts a job.
const (
	surveyTime = 800 * time.Millisecond
	expectTime = 10 * time.Second
	firstTime  = 2 * time.Second
)

// expect counts the deliveries of a job before it changes any, if the call that started the
// job had no time for it. After ten seconds the number stays unknown, because the job must not
// wait longer.
func (w *jobWorker) expect(ctx context.Context) error {
	if w.job.Expected != nil || w.job.Turn > 1 || w.sum() != (dispatcher.JobCounts{}) {
		return nil
	}
	found, err := w.jobs.survey(ctx, &w.job, expectTime)
	if err != nil || !found.Complete {
		return err
	}
	w.job.Expected = &found.Matched
	return w.change(ctx, func(j *dispatcher.Job) { j.Expected = &found.Matched })
}

// sampleMost is the number of deliveries that a survey returns.
const sampleMost = 10

// SurveyJob counts the deliveries that a job would change, for less than a second, or if whole for
// up to ten.
func (s *Jobs) SurveyJob(ctx context.Context, kind dispatcher.JobKind, f dispatcher.Filter, whole bool) (dispatcher.Survey, error) {
	j, most := dispatcher.Job{Kind: kind, Filter: withStatuses(kind, f)}, surveyTime
	if whole {
		most = expectTime
	}
	found, err := s.survey(ctx, &j, most)
	if err == nil {
		found.Sample, err = s.o.Show(ctx, found.Sample)
	}
	return found, err
}

// survey counts the deliveries of a job, for at most `most`.
func (s *Jobs) survey(ctx context.Context, j *dispatcher.Job, most time.Duration) (dispatcher.Survey, error) {
	v := surveyor{until: time.Now().Add(most)}
	v.ByReason = map[dispatcher.DeadReason]int{}
	err := s.surveyAll(ctx, j, &v)
	return v.Survey, err
}

// surveyor is a survey that is running.
type surveyor struct {
	dispatcher.Survey
	until time.Time
}

// over reports whether its time is over.
func (v *surveyor) over() bool {
	return time.Now().After(v.until)
}

func (s *Jobs) surveyAll(ctx context.Context, j *dispatcher.Job, v *surveyor) error {
	if j.Kind == dispatcher.JobCancel {
		return s.surveyList(ctx, j, v)
	}
	for _, n := range s.store.Parts(j.Filter) {
		for at, more := (dispatcher.JobAt{Part: n}), true; more; {
			if v.over() {
				return nil
			}
			page, err := s.store.Page(ctx, j, at, nil)
			if err != nil {
				return err
			}
			for i := range page.Deliveries {
				d := &page.Deliveries[i]
				at := d.Ended
				if at.IsZero() {
					at = d.Due
				}
				v.add(d, at)
			}
			at.Cursor, more = page.Cursor, page.More
		}
	}
	v.Complete = true
	return nil
}

// listPage is the number of deliveries in a page.
const listPage = 256

// surveyList counts unfinished deliveries.
func (s *Jobs) surveyList(ctx context.Context, j *dispatcher.Job, v *surveyor) error {
	f := j.Filter
	f.Limit = listPage
	for !v.over() {
		page, err := s.o.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Deliveries {
			v.add(&page.Deliveries[i], page.Deliveries[i].Due)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			v.Complete = true
			return nil
		}
	}
	return nil
}

// add counts a delivery that ended, or is due, at a time; zero: there is none.
func (v *surveyor) add(d *dispatcher.Delivery, at time.Time) {
	v.Matched++
	if d.Reason != "" {
		v.ByReason[d.Reason]++
	}
	if !at.IsZero() && (v.Oldest.IsZero() || at.Before(v.Oldest)) {
		v.Oldest = at
	}
	if at.After(v.Newest) {
		v.Newest = at
	}
	if len(v.Sample) < sampleMost {
		v.Sample = append(v.Sample, *d)
	}
}
