package dispatcher

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// JobKind is the change that a job makes to the deliveries of its filter.
type JobKind string

// The kinds of jobs.
const (
	JobRetry  JobKind = "retry"  // a new ladder for ended deliveries, an extra attempt for waiting ones
	JobCancel JobKind = "cancel" // cancel unfinished deliveries
	JobPurge  JobKind = "purge"  // delete dead deliveries; the ids of their messages stay known
)

// JobKinds lists all kinds of jobs.
func JobKinds() []JobKind {
	return []JobKind{JobRetry, JobCancel, JobPurge}
}

// Statuses returns the statuses that a job of the kind may select. It also returns the default
// for a filter that names none.
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
	JobFailed  JobState = "failed"  // it could not continue; Job.Error has the reason
)

// JobStates lists all states of a job.
func JobStates() []JobState {
	return []JobState{JobRunning, JobWaiting, JobDone, JobStopped, JobFailed}
}

// Ended reports whether a job with this state is finished.
func (s JobState) Ended() bool { return s == JobDone || s == JobStopped || s == JobFailed }

// Job is a change of many deliveries, which an instance makes step by step.
type Job struct {
	Number    int64
	Kind      JobKind
	Filter    Filter // its statuses are never empty
	Rate      Rate   // of the deliveries that it changes
	Probe     bool   // a retry attempts one delivery of each destination first
	State     JobState
	Error     string // the reason of its failure
	By        string // the caller that asked for it, as the audit has it
	Holder    string // the instance that runs it; empty: none does
	Turn      int64  // raised with each new holder and when it is stopped: a step of a lower turn changes nothing
	StartedAt time.Time
	EndedAt   time.Time // zero: it has not
	Forgotten bool      // its filter has hashes instead of forgotten names

	JobCounts
	Failures []JobFailure // the first ones, at most MostFailures
	Reasons  map[Left]int // why deliveries were left
	Ends     JobEnds
	Expected *int // the number of deliveries to change at its start; nil: not known
}

// JobEnds counts the results of the deliveries that a job sent. The counts change until a day
// after its last step.
type JobEnds struct {
	Delivered, Cancelled, Dead int
	TakenOver                  int // another job or a person asked for another attempt before they ended
}

// Add adds the counts of other.
func (e *JobEnds) Add(other JobEnds) {
	e.Delivered, e.Cancelled = e.Delivered+other.Delivered, e.Cancelled+other.Cancelled
	e.Dead, e.TakenOver = e.Dead+other.Dead, e.TakenOver+other.TakenOver
}

// Retrying returns the number of deliveries that a job sent, that still belong to it and have not
// ended.
func (j *Job) Retrying() int {
	e := j.Ends
	return max(0, j.Done-e.Delivered-e.Cancelled-e.Dead-e.TakenOver)
}

// Account counts expected deliveries that changed before the job reached them as left. Call it
// only when the job is done, because until then the job may still reach them.
func (j *Job) Account() {
	if j.State != JobDone || j.Expected == nil {
		return
	}
	if n := *j.Expected - j.Done - j.Failed - j.Left; n > 0 {
		j.Left += n
		j.AddReasons(map[Left]int{LeftChanged: n})
	}
}

// JobCounts counts the deliveries that a job has processed.
type JobCounts struct {
	Matched int
	Done    int // changed
	Failed  int // not changed, for a reason of their own
	Left    int // no longer in the state that the job selects
}

// Add adds the counts of other.
func (c *JobCounts) Add(other JobCounts) {
	c.Matched, c.Done, c.Failed, c.Left = c.Matched+other.Matched, c.Done+other.Done, c.Failed+other.Failed, c.Left+other.Left
}

// AddReasons counts deliveries that a job left, by reason.
func (j *Job) AddReasons(reasons map[Left]int) {
	for why, n := range reasons {
		if j.Reasons == nil {
			j.Reasons = map[Left]int{}
		}
		j.Reasons[why] += n
	}
}

// MostFailures is the highest number of failures that a job records by name.
const MostFailures = 1000

// JobFailure is a delivery that a job could not change.
type JobFailure struct {
	ID  DeliveryID
	Why Left
}

// LeftGone means that a job failed to change a delivery because it is no longer kept.
const LeftGone Left = "gone"

// LeftChanged means that a job left a delivery because its state had changed. Another job, a
// person or an attempt was faster.
const LeftChanged Left = "changed"

// The reasons why a job that probes left the other deliveries of a destination.
const (
	LeftProbe    Left = "probe_failed" // its probe failed, or was not attempted within an hour
	LeftHeld     Left = "held"         // its lane is paused
	LeftUnprobed Left = "unprobed"     // the job already probes as many others as it may
)

// jobFailures are the reasons why a job could not change a delivery, and jobLefts the
// reasons why it left one.
var (
	jobFailures = []Left{LeftGone, LeftExpired, LeftDisabled, LeftDeleted}
	jobLefts    = []Left{LeftChanged, LeftInFlight, LeftOrder, LeftDelivered, LeftProbe, LeftHeld, LeftUnprobed}
)

// ID returns the name of the job for callers.
func (j *Job) ID() string { return jobPrefix + strconv.FormatInt(j.Number, 10) }

const jobPrefix = "job_"

// ParseJobID parses an ID; ok is false for any other text.
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

// Again reports whether a job sends delivered deliveries again.
func (j *Job) Again() bool { return slices.Contains(j.Filter.Statuses, StatusDelivered) }

// The errors of jobs.
var (
	// ErrNoJob reports that there is no such job.
	ErrNoJob = errors.New("no such job")
	// ErrJobs reports that too many jobs are unfinished.
	ErrJobs = errors.New("too many jobs have not ended")
	// ErrJobState reports that a job can't be resumed, because it runs or is done.
	ErrJobState = errors.New("the job is not stopped")
	// ErrJobForgotten reports that the job can't continue, because its filter named a tenant or
	// subject that was forgotten.
	ErrJobForgotten = errors.New("the job's tenant or subject was forgotten")
	// ErrJobTurn reports that the job was stopped, or that another instance runs it now.
	ErrJobTurn = errors.New("the job is another instance's by now")
)

// JobPart is the progress of a job in one part of the queue.
type JobPart struct {
	JobCounts
	Since   time.Time // when it began there: it skips deliveries that ended later
	Skipped int       // matched, and skipped in this round, because their lanes were full
	Cursor  string    // of the next page; empty: of the first
	Ended   bool      // nothing is left there
}

// JobAt selects a page of a job.
type JobAt struct {
	Part   int
	Since  time.Time // the job skips deliveries that ended later; zero: none
	Cursor string    // empty: the first page
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
	Named   int    // the number of further failures that are kept by name
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
	Deliveries []Delivery // oldest first, only matches of the filter
	Cursor     string     // after the last delivery
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
