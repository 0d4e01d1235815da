package wire

// LaneState is the state of a lane, as the API returns it.
type LaneState struct {
	Lane        string `json:"lane" doc:"* stands for all of them; it is listed while all lanes are paused."`
	URL         string `json:"url,omitzero" doc:"Scheme, host and port, where they are known."`
	Tenant      string `json:"tenant,omitzero" doc:"Whose messages go there. Left out: those without a tenant."`
	Endpoint    string `json:"endpoint,omitzero" doc:"The id of the endpoint whose lane it is."`
	UID         string `json:"uid,omitzero" doc:"Its uid."`
	Queue       string `json:"queue,omitzero" doc:"The name of the queue whose lane it is, where that is known."`
	Kind        string `json:"kind,omitzero" words:"lane-kind" doc:"pull: its deliveries are taken, as those of a queue are. Left out: a URL is called."`
	State       string `json:"state" words:"lane-state" doc:"limited: it waits for a time. open: its breaker is, so it waits or is tried with one attempt. failing: no attempt succeeded for FAILING_AFTER."`
	Why         string `json:"why,omitzero" words:"lane-why" doc:"unverified: a link set the url of its endpoint, which waits for a test that succeeds. sealed: an instance can't open its endpoint with its ENCRYPTION_KEY. missing: its endpoint is not there. egress: our own network failed. all: everything is paused (lane *). operator, gone, failing: a person disabled its endpoint, or its receiver answered 410, or no attempt succeeded for disable_after; a lane may be failing for a while before that. Left out: it is active."`
	Since       Time   `json:"since,omitzero" doc:"Since when it is paused, disabled or deleted. Of one that is open or failing: since when none of its attempts succeeded."`
	By          string `json:"by,omitzero" doc:"The caller that did that: key:<name of the API key, or the first 8 hex digits of its SHA-256>, link:<id>, local while there are no keys, or system."`
	InFlight    int    `json:"in_flight"`
	Waiting     int    `json:"waiting"`
	Ready       int    `json:"ready" doc:"How many of the waiting ones are due: only the state of the lane delays them. The others wait for their next attempt, their time, or their order."`
	Window      int    `json:"window" doc:"How many may be in flight now. It grows with each success."`
	MaxInFlight int    `json:"max_in_flight,omitzero" doc:"How far the window may grow. Left out: as far as the dispatcher's settings say."`
	Rate        string `json:"rate,omitzero" example:"100/s"`
	TokenAt     Time   `json:"token_at,omitzero" doc:"When the rate allows the next attempt."`
	Ordered     bool   `json:"ordered" doc:"One at a time."`
	Fails       int    `json:"fails" doc:"Failures in a row that count for the breaker."`
	Opened      int    `json:"opened" doc:"How often in a row the breaker opened; 0: it is closed."`
	Until       Time   `json:"until,omitzero" doc:"Nothing is attempted before: by the breaker, the receiver's Retry-After, or the rate."`

	FailingSince Time `json:"failing_since,omitzero" doc:"Its first failed attempt without a success since; 429 and our own faults don't count."`

	LastFailure *LaneFailure `json:"last_failure,omitzero" doc:"The last attempt that failed, also if others succeeded since. Left out: none did, or its message is not kept any more."`

	OtherTenants *OtherTenants `json:"other_tenants,omitzero" doc:"Only where a URL was paused or resumed: what else there is at its origin."`
}

// LaneFailure is the last failed attempt of a lane.
type LaneFailure struct {
	MessageID       string `json:"message_id"`
	At              Time   `json:"at" doc:"When it began."`
	StatusCode      int    `json:"status_code,omitzero" doc:"Left out: no answer came."`
	Class           string `json:"class,omitzero" words:"class" doc:"What went wrong, in a word."`
	Error           string `json:"error,omitzero"`
	ResponseExcerpt string `json:"response_excerpt,omitzero" doc:"The head of the receiver's answer, 200 bytes at most. Needs the scope bodies."`
}

// OtherTenants counts the lanes of other tenants at the origin of a URL.
type OtherTenants struct {
	Lanes      int     `json:"lanes" doc:"So many were found. Without all_tenants they are left as they are."`
	Changed    int     `json:"changed" doc:"So many of them were paused or resumed, with all_tenants."`
	Failed     int     `json:"failed" doc:"Lanes that could not be changed, and parts of the store that could not be read: repeat the call."`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"One call goes through 100,000 lanes and changes 1,000: repeat it with this cursor. null: all were looked at."`
}

// LanePage is a page of the list of lanes, newest first.
type LanePage struct {
	Data       []LaneState `json:"data"`
	NextCursor *string     `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}
