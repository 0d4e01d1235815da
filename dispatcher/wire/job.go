package wire

// JobRequest is the body of a retry, a cancel or a purge of many deliveries. Instead of a list, a
// filter may be one text.
type JobRequest struct {
	Status      []string `json:"status,omitempty" words:"status" doc:"retry: dead; if they are named also cancelled and delivered, which begin a new ladder, and retrying and scheduled, which get one attempt now beside their ladder. cancel: what is unfinished. purge: dead."`
	Topic       []string `json:"topic,omitempty" doc:"Topics, or patterns as payment.*."`
	Tenant      []string `json:"tenant,omitempty"`
	Subject     []string `json:"subject,omitempty"`
	Failed      bool     `json:"failed,omitzero"`
	Destination []string `json:"destination,omitempty" doc:"Lanes, endpoints' ids or uids, or URLs. A URL means its deliveries without a tenant, or with tenant that tenant's."`
	DeadReason  []string `json:"dead_reason,omitempty" words:"reason"`
	Since       Time     `json:"since,omitzero" doc:"Ended, or due, at this time or later."`
	Until       Time     `json:"until,omitzero" doc:"Ended, or due, before this time."`
	All         bool     `json:"all,omitzero" doc:"true: needed where no filter is given."`
	Rate        string   `json:"rate,omitempty" example:"200/s" doc:"How many are changed in a time, or a number a second."`
	Probe       bool     `json:"probe,omitzero" doc:"Of a retry: true: first one delivery of each destination is attempted, beside the rate; at once where destination names it, also behind an open breaker or a Retry-After. The others follow when it succeeded, or any other in that destination since the job began. They are left if it fails or is not attempted within an hour (probe_failed), or if the destination is paused (held). Of more than 4,096 destinations in a partition the rest is left too (unprobed)."`
	DryRun      bool     `json:"dry_run,omitzero" doc:"true: nothing is changed; the response says what would be changed."`
	CountAll    bool     `json:"count_all,omitzero" doc:"true: a dry run counts for up to ten seconds; else for less than one."`
}

// Survey is the response to a dry run. It counts the deliveries that a job would change.
type Survey struct {
	Matched  int            `json:"matched"`
	Complete bool           `json:"complete" doc:"false: there was not the time to look at all of it."`
	ByReason map[string]int `json:"by_reason" doc:"Of what is dead."`
	Oldest   Time           `json:"oldest" nullable:"true" doc:"When the first one ended, or is due."`
	Newest   Time           `json:"newest" nullable:"true"`
	Sample   []Delivery     `json:"sample" doc:"Ten at most."`
}

// Job is a change of many deliveries that runs in the background.
type Job struct {
	ID        string       `json:"id"`
	Kind      string       `json:"kind" words:"job-kind"`
	Filter    JobFilter    `json:"filter"`
	State     string       `json:"state" words:"job-state" doc:"waiting: what is left belongs to lanes that take no more now, since they are open or paused, or have as many ready as a job adds: their takers take none, or their attempts are slow."`
	Expected  *int         `json:"expected" nullable:"true" doc:"How many matched when it began: those that are counted in the two seconds of the call, or in the job's first ten. null: not counted yet, or more than can be counted so."`
	Matched   int          `json:"matched" doc:"Found so far: a job that goes on, or waits, may find more."`
	Done      int          `json:"done" doc:"Set on the way, marked as cancelled, or forgotten."`
	Failed    int          `json:"failed" doc:"Could not be, for a reason of their own: they are not kept any more, they have expired, or their endpoint takes nothing."`
	Left      int          `json:"left" doc:"Not in the state any more in which the job looks for them: another job, a person or an attempt was quicker; or passed over, as left_by_reason says. They are no failures."`
	Reasons   LeftReasons  `json:"left_by_reason,omitempty" doc:"How many were left for each reason: changed, in_flight, order, delivered; and where it probes probe_failed, held, unprobed."`
	Outcomes  *JobOutcomes `json:"outcomes,omitempty" doc:"Of a retry: how the deliveries ended that it sent and that still belong to it. It may change for 24 h after the last step of the job."`
	Retrying  *int         `json:"retrying,omitempty" doc:"Of a retry: done without outcomes and taken_over. These deliveries wait, or are attempted."`
	TakenOver *int         `json:"taken_over,omitempty" doc:"Of a retry: another job or a person asked for another attempt before they ended."`
	Failures  []JobFailure `json:"failures,omitempty" doc:"The first 1,000 of them; left out of lists."`
	Rate      string       `json:"rate,omitempty" example:"200/s"`
	Probe     bool         `json:"probe,omitzero"`
	StartedAt Time         `json:"started_at"`
	EndedAt   Time         `json:"ended_at" nullable:"true"`
	By        string       `json:"by,omitempty" doc:"The caller that asked for it: key:<name>, link:<id> or local."`
	Error     string       `json:"error,omitempty" doc:"Why it failed."`
}

// JobFilter selects the deliveries of a job. Destinations are lanes.
type JobFilter struct {
	Status      []string `json:"status,omitempty" words:"status"`
	Topic       []string `json:"topic,omitempty"`
	Tenant      []string `json:"tenant,omitempty"`
	Subject     []string `json:"subject,omitempty"`
	Failed      bool     `json:"failed,omitzero"`
	Destination []string `json:"destination,omitempty"`
	DeadReason  []string `json:"dead_reason,omitempty" words:"reason"`
	Since       Time     `json:"since,omitzero"`
	Until       Time     `json:"until,omitzero"`
}

// JobFailure is a delivery that a job could not change.
type JobFailure struct {
	ID  string `json:"id"`
	Why string `json:"why" words:"job-failure" doc:"gone: it is not kept any more."`
}

// JobOutcomes counts the ends of deliveries that a job sent.
type JobOutcomes struct {
	Delivered int `json:"delivered"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`
}

// LeftReasons counts the deliveries that a job left, by reason: changed, in_flight, order or
// delivered. A job that probes also has probe_failed, held and unprobed.
type LeftReasons map[string]int

// JobPage is a page of the list of jobs, newest first.
type JobPage struct {
	Data       []Job   `json:"data"`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}
