package dispatcher

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// JobKind says what a job does with the deliveries that its filter selects.
type JobKind string

// The kinds of jobs.
const (
	JobRetry  JobKind = "retry"  // a new ladder for what has ended, an attempt beside it for what waits
	JobCancel JobKind = "cancel" // end what is unfinished
	JobPurge  JobKind = "purge"  // forget what is dead; the ids of its messages stay known
)

// JobKinds lists all of them.
var JobKinds = []JobKind{JobRetry, JobCancel, JobPurge}

// Statuses are those that a job of the kind may take, the first ones where its
// filter names none.
func (k JobKind) Statuses() (may, default_ []Status) {
	switch k {
	case JobRetry:
		return []Status{StatusDead, StatusCancelled, StatusDelivered, StatusRetrying, StatusScheduled}, []Status{StatusDead}
	case JobCancel:
		all := []Status{StatusScheduled, StatusRetrying, StatusReady, StatusInFlight}
		return all, all
	default:
		return []Status{StatusDead}, []Status{StatusDead}
	}
}

// JobState is the state of a job.
type JobState string

// The states of a job.
const (
	JobRunning JobState = "running"
	JobWaiting JobState = "waiting" // all lanes of its deliveries are full
	JobDone    JobState = "done"
	JobStopped JobState = "stopped" // by a person
	JobFailed  JobState = "failed"  // it could not go on; Job.Error says why
)

// JobStates lists all of them.
var JobStates = []JobState{JobRunning, JobWaiting, JobDone, JobStopped, JobFailed}

// Ended reports whether a job has ended.
func (s JobState) Ended() bool { return s == JobDone || s == JobStopped || s == JobFailed }

// Job is a change of many deliveries, which an instance makes by and by.
type Job struct {
	Number    int64
	Kind      JobKind
	Filter    Filter // its statuses are never empty
	Rate      Rate   // of the deliveries that it changes
	Probe     bool   // a retry attempts one delivery of each destination first
	State     JobState
	Error     string // why it failed
	By        string // the caller that asked for it, as the audit has it
	Holder    string // the instance that carries it out; empty: none does
	Turn      int64  // raised with each holder, and where it is stopped: a step of a lower turn changes nothing
	StartedAt time.Time
	EndedAt   time.Time // zero: it has not
	Forgotten bool      // its filter has hashes in place of names that were forgotten

	JobCounts
	Failures []JobFailure // the first ones, at most MostFailures
	Reasons  map[Left]int // why deliveries were left
	Ends     JobEnds
	Expected *int // how many it was to change at its start; nil: not known
}

// JobEnds are what became of the deliveries that a job sent. They change for a day
// after the last of its steps.
type JobEnds struct {
	Delivered, Cancelled, Dead int
	TakenOver                  int // another job or a person asked for another attempt before they ended
}

// Add adds other ends.
func (e *JobEnds) Add(other JobEnds) {
	e.Delivered, e.Cancelled = e.Delivered+other.Delivered, e.Cancelled+other.Cancelled
	e.Dead, e.TakenOver = e.Dead+other.Dead, e.TakenOver+other.TakenOver
}

// Retrying is how many deliveries that a job sent have not ended, and belong to it.
func (j *Job) Retrying() int {
	e := j.Ends
	return max(0, j.Done-e.Delivered-e.Cancelled-e.Dead-e.TakenOver)
}

// Account adds to what a job left those of its expected ones that it did not come to
// before they changed. It is for a job that is done: any other may come to them.
func (j *Job) Account() {
	if j.State != JobDone || j.Expected == nil {
		return
	}
	if n := *j.Expected - j.Done - j.Failed - j.Left; n > 0 {
		j.Left += n
		j.AddReasons(map[Left]int{LeftChanged: n})
	}
}

// JobCounts are what a job found by now.
type JobCounts struct {
	Matched int
	Done    int // changed
	Failed  int // could not be, for a reason of their own
	Left    int // were not in the state any more in which the job looks for them
}

// Add adds other counts.
func (c *JobCounts) Add(other JobCounts) {
	c.Matched, c.Done, c.Failed, c.Left = c.Matched+other.Matched, c.Done+other.Done, c.Failed+other.Failed, c.Left+other.Left
}

// AddReasons adds deliveries that a job left.
func (j *Job) AddReasons(reasons map[Left]int) {
	for why, n := range reasons {
		if j.Reasons == nil {
			j.Reasons = map[Left]int{}
		}
		j.Reasons[why] += n
	}
}

// MostFailures is how many failures of a job are named.
const MostFailures = 1000

// JobFailure is a delivery that a job could not change.
type JobFailure struct {
	ID  DeliveryID
	Why Left
}

// LeftGone is why a job failed to change a delivery that is not kept any more.
const LeftGone Left = "gone"

// LeftChanged is why a job left a delivery that is not in its earlier state any more:
// another job, a person or an attempt was quicker.
const LeftChanged Left = "changed"

// Why a job that probes left the other deliveries of a destination.
const (
	LeftProbe    Left = "probe_failed" // its probe failed, or was not attempted within an hour
	LeftHeld     Left = "held"         // its lane is paused
	LeftUnprobed Left = "unprobed"     // the job probes others already, as many as it may
)

// JobFailures lists the reasons why a job could not change a delivery, and JobLefts the
// reasons why it left one.
var (
	JobFailures = []Left{LeftGone, LeftExpired, LeftDisabled, LeftDeleted}
	JobLefts    = []Left{LeftChanged, LeftInFlight, LeftOrder, LeftDelivered, LeftProbe, LeftHeld, LeftUnprobed}
)

// ID is the job as callers name it.
func (j *Job) ID() string { return jobPrefix + strconv.FormatInt(j.Number, 10) }

const jobPrefix = "job_"

// ParseJobID reads what ID made.
func ParseJobID(text string) (number int64, ok bool) {
	digits, ok := strings.CutPrefix(text, jobPrefix)
	number, err := strconv.ParseInt(digits, 10, 53)
	return number, ok && err == nil && number > 0 && strconv.FormatInt(number, 10) == digits
}

// ValidJobID reports whether a text may name a job.
func ValidJobID(text string) bool {
	_, ok := ParseJobID(text)
	return ok
}

// Again reports whether a job sends again what was delivered.
func (j *Job) Again() bool { return slices.Contains(j.Filter.Statuses, StatusDelivered) }

// What may be in the way of a job.
var (
	// ErrNoJob says that there is no such job.
	ErrNoJob = errors.New("no such job")
	// ErrJobs says that too many jobs have not ended.
	ErrJobs = errors.New("too many jobs have not ended")
	// ErrJobState says that a job is in no state for what was asked: it goes on, or
	// it is done.
	ErrJobState = errors.New("the job is not stopped")
	// ErrJobForgotten says that the job's filter named a tenant or subject that was
	// forgotten, so that it can't go on.
	ErrJobForgotten = errors.New("the job's tenant or subject was forgotten")
	// ErrJobTurn says that the job is another's by now: it was stopped, or taken over.
	ErrJobTurn = errors.New("the job is another instance's by now")
)

// JobPart is the progress of a job in one part of the queue.
type JobPart struct {
	JobCounts
	Since   time.Time // when it began there: it leaves out deliveries that ended later
	Skipped int       // matched, and skipped in this round, because their lanes were full
	Cursor  string    // of the next page; empty: of the first
	Ended   bool      // nothing is left there
}

// JobAt selects a page of a job.
type JobAt struct {
	Part   int
	Since  time.Time // it leaves out deliveries that ended later; zero: none
	Cursor string    // empty: at the first
}

// JobStep is a change of some deliveries that a job found, all in one part.
type JobStep struct {
	Job     *Job
	Part    int
	Status  Status // by which they were found
	IDs     []DeliveryID
	Skipped int    // of JobPart, then
	Cursor  string // likewise
	Ended   bool   // likewise
	Named   int    // how many more failures are kept by name
}

// JobStepped is the result of a step.
type JobStepped struct {
	JobPart
	Full   []DeliveryID // not changed, because their lanes are full
	Done   int          // changed by this step
	Probes int          // changed by this step beside those, as the first of their destination
}

// JobPage is a page of deliveries that a job may change.
type JobPage struct {
	Status     Status     // of all of them
	Deliveries []Delivery // oldest first, those of its filter
	Cursor     string     // behind the last one
	More       bool
	LookedAt   int
}

// Survey counts the deliveries that a job would change.
type Survey struct {
	Matched  int
	Complete bool // all deliveries were read
	ByReason map[DeadReason]int
	Oldest   time.Time
	Newest   time.Time
	Sample   []Delivery // ten at most
}
