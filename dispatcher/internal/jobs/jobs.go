// Package jobs changes many deliveries that a filter selects: it replays, cancels
// and purges. It uses the queue only through its Store.
//
// One instance runs a job, its holder. If the holder dies, another instance takes the job
// over. Each step writes its progress, so the next holder continues there. run.go finds jobs
// and their holders, work.go runs a job. These words say where a job is:
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
	// Add stores a new job and sets its number; dispatcher.ErrJobs where too many
	// have not ended.
	Add(ctx context.Context, j *dispatcher.Job) error
	// Change stores what change makes of a job. It returns an error of change as it
	// is, and calls change again after a race.
	Change(ctx context.Context, number int64, change func(j *dispatcher.Job) error) (dispatcher.Job, error)
	// Turn makes all parts refuse steps of an older turn, and returns the job's progress in
	// each; dispatcher.ErrJobTurn if a part has a newer turn.
	Turn(ctx context.Context, by string, j *dispatcher.Job) (map[int]dispatcher.JobPart, error)
	// Page reads deliveries of one part that a job may change, oldest first. It leaves out
	// lanes that are full.
	Page(ctx context.Context, j *dispatcher.Job, at dispatcher.JobAt, full []dispatcher.Lane) (dispatcher.JobPage, error)
	// Step changes some deliveries and writes the job's progress; dispatcher.ErrJobTurn if
	// its turn is over.
	Step(ctx context.Context, by string, step dispatcher.JobStep) (dispatcher.JobStepped, error)
	// Parts returns the parts in which a filter may find something.
	Parts(f dispatcher.Filter) []int
	// Part returns the part of a lane.
	Part(lane dispatcher.Lane) int
	// Live reads the jobs that have not ended, without counts, and the names of all
	// instances.
	Live(ctx context.Context) (list []dispatcher.Job, instances []string, err error)
	// Job reads a job with counts and failures; dispatcher.ErrNoJob.
	Job(ctx context.Context, number int64) (dispatcher.Job, error)
	// Jobs reads a page of jobs with counts, the newest first.
	Jobs(ctx context.Context, limit int, cursor string) (list []dispatcher.Job, next string, err error)
	// Forget removes jobs that ended long ago, and the oldest where there are too many.
	Forget(ctx context.Context, now time.Time) error
}

// ListFunc reads a page of deliveries.
type ListFunc func(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)

// ShowFunc reads deliveries again, as every list shows them. It leaves out those that are gone.
type ShowFunc func(ctx context.Context, found []dispatcher.Delivery) ([]dispatcher.Delivery, error)

// Options are the dependencies of Jobs. All fields without a remark are needed.
type Options struct {
	Store     Store
	List      ListFunc
	Show      ShowFunc
	Name      func() string         // of this instance
	Now       func() time.Time      // by the queue's clock
	PollEvery time.Duration         // time between two searches for jobs without a holder
	Tell      func(dispatcher.News) // called when a job ended; must not block
	Stirred   func()                // called after a change of deliveries; must not block; nil: it is not
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
	added    []*jobWorker         // that Run does not know yet
	holders  []string             // of other jobs that have not ended
	searches int                  // for jobs, that are running
	asked    bool                 // to search for jobs
}

// New makes Jobs. Run runs them.
func New(o Options) *Jobs {
	return &Jobs{
		store: o.Store, o: o, log: o.Log, down: outage.New(o.Log, "store lost for jobs", "store back for jobs"),
		wake: wait.NewSignal(), begun: wait.NewSignal(), here: map[int64]*jobWorker{},
		asked: true, // Run begins with it
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

// StartJob begins a job of which the kind, the filter, the rate and whether it probes are
// set. One that finds nothing has ended at once.
func (s *Jobs) StartJob(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error) {
	j.Filter, j.State, j.By = withStatuses(j.Kind, j.Filter), dispatcher.JobRunning, dispatcher.CallerOf(ctx)
	j.Holder, j.Turn, j.StartedAt = s.o.Name(), 1, s.o.Now()
	first, err := s.survey(ctx, &j, firstTime)
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
	case errors.Is(err, dispatcher.ErrJobTurn): // another took it over, or stopped it, between two calls
		return s.store.Job(ctx, j.Number)
	case err != nil:
		s.Departed() // another search finds it
		return j, err
	}
	begun := j
	for _, part := range parts {
		begun.Add(part.JobCounts)
	}
	s.take(j, parts) // from here on they are the worker's
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
	if j.State == dispatcher.JobStopped { // also where a call before did not get here
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

// Job reads a job.
func (s *Jobs) Job(ctx context.Context, number int64) (dispatcher.Job, error) {
	return s.store.Job(ctx, number)
}

// Jobs reads a page of jobs, the newest first.
func (s *Jobs) Jobs(ctx context.Context, limit int, cursor string) (list []dispatcher.Job, next string, err error) {
	return s.store.Jobs(ctx, limit, cursor)
}
