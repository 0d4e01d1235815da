// Package jobs changes many deliveries that a filter selects: it replays, cancels
// and purges. It knows the queue by its Store only.
//
// A job is carried out by one instance, its holder, and by another when that is
// gone. What it has done is written by the step that did it, so that the next
// holder goes on from there. run.go keeps the holder, work.go carries a job out.
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

// Store keeps jobs and carries out their steps. The queue has parts, numbered from
// 0: each step lies in one.
type Store interface {
	// Add stores a new job and sets its number; dispatcher.ErrJobs where too many
	// have not ended.
	Add(ctx context.Context, j *dispatcher.Job) error
	// Change stores what change makes of a job. It returns an error of change as it
	// is, and calls change again after a race.
	Change(ctx context.Context, number int64, change func(j *dispatcher.Job) error) (dispatcher.Job, error)
	// Turn has the parts refuse steps of a lower turn than the job's, and answers how
	// far it is in each; dispatcher.ErrJobTurn where one has a higher turn.
	Turn(ctx context.Context, by string, j *dispatcher.Job) (map[int]dispatcher.JobPart, error)
	// Page reads what a job may change in one part, the oldest first, without what
	// belongs to lanes in skip.
	Page(ctx context.Context, j *dispatcher.Job, at dispatcher.JobAt, skip []dispatcher.Lane) (dispatcher.JobPage, error)
	// Step changes some deliveries and notes how far the job is; dispatcher.ErrJobTurn
	// where its turn is over.
	Step(ctx context.Context, by string, step dispatcher.JobStep) (dispatcher.JobStepped, error)
	// Parts are those where a filter may find something.
	Parts(f dispatcher.Filter) []int
	// Part is where a lane lies.
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

// Options say with what Jobs work. All fields are needed.
type Options struct {
	Store     Store
	List      ListFunc
	Show      ShowFunc
	Name      func() string         // of this instance
	Now       func() time.Time      // by the queue's clock
	PollEvery time.Duration         // how often it is looked for jobs without a holder, whatever was told
	Tell      func(dispatcher.News) // is told which jobs ended; must not block
	Stirred   func()                // is told that one changed something; must not block; nil: it is not
	Log       *slog.Logger
}

// Jobs starts, stops and carries out jobs.
type Jobs struct {
	store Store
	o     Options
	log   *slog.Logger
	down  *outage.Log

	wake  wait.Signal // an instance is gone
	begun wait.Signal // a job is to be carried out

	mu      sync.Mutex           // guards what follows
	here    map[int64]*jobWorker // the jobs of this instance
	fresh   []*jobWorker         // those that Run has not met yet
	holders []string             // of other jobs that have not ended
	looks   int                  // how many times it is looked for jobs just now
	asked   bool                 // to look for jobs
}

// New makes Jobs. Run carries them out.
func New(o Options) *Jobs {
	return &Jobs{
		store: o.Store, o: o, log: o.Log, down: outage.New(o.Log, "store lost for jobs", "store back for jobs"),
		wake: wait.NewSignal(), begun: wait.NewSignal(), here: map[int64]*jobWorker{},
		asked: true, // Run begins with it
	}
}

// Busy reports whether a job moves on here, or it is being looked for one. holders are the
// other instances that have one.
func (s *Jobs) Busy() (busy bool, holders []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy = s.looks > 0 || s.asked
	for _, w := range s.here {
		busy = busy || !w.waits.Load()
	}
	return busy, slices.Clone(s.holders)
}

// Departed tells that an instance is gone, whose jobs another has to take over. It
// does not block.
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
			s.tell(&j)
		}
		return j, err
	}
	if err := s.store.Add(ctx, &j); err != nil {
		return j, err
	}
	return s.begin(ctx, j)
}

// begin has the parts accept this turn, and carries the job out.
func (s *Jobs) begin(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error) {
	parts, err := s.store.Turn(ctx, s.o.Name(), &j)
	switch {
	case errors.Is(err, dispatcher.ErrJobTurn): // another took it over, or stopped it, between two calls
		return s.store.Job(ctx, j.Number)
	case err != nil:
		s.Departed() // it is looked for again
		return j, err
	}
	begun := j
	for _, part := range parts {
		begun.Add(part.JobCounts)
	}
	s.take(j, parts) // from here on they are the worker's
	return begun, nil
}

// withStatuses is a filter that names statuses, each once, and is of no page. Pages go
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

// StopJob ends a job: when it returns, nothing more is changed. One that has ended is
// left.
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
		s.tell(&ended)
	}
	return ended, read
}

var errEnded = errors.New("ended")

// ResumeJob has a job go on that was stopped, or failed.
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
