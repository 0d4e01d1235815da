package wire

import (
	"strconv"

	"github.com/hookladder/hookladder/ladder"
)

// Published is the response to a publish. A repeat returns the existing deliveries.
type Published struct {
	ID         string        `json:"id"`
	Topic      string        `json:"topic"`
	CreatedAt  Time          `json:"created_at,omitzero" doc:"Left out, as matched is, of a repeat of which only the id and a digest are still known."`
	Duplicate  bool          `json:"duplicate" doc:"The same id and content was published before."`
	Matched    int           `json:"matched" required:"false" doc:"How many destinations the message has; 0: no endpoint matches, and nothing is kept."`
	Deliveries []DeliveryRef `json:"deliveries"`
}

// DeliveryRef is a delivery in the response to a publish.
type DeliveryRef struct {
	ID            string `json:"id" doc:"<destination>:<message id>"`
	Destination   string `json:"destination" doc:"The lane: everything that goes to one place has the same."`
	URL           string `json:"url,omitzero"`
	Status        string `json:"status" words:"status"`
	NextAttemptAt Time   `json:"next_attempt_at" required:"false" nullable:"true" doc:"null: no attempt is coming, or it is ready, of which only the answer to a publish has it. Left out, as url is, without the scope read."`
	EndedAt       Time   `json:"ended_at,omitzero" doc:"When it was delivered, died or was cancelled."`
}

// Batch publishes several messages in one call.
type Batch struct {
	Messages []Message `json:"messages" minItems:"1" maxItems:"1000"`
}

// Results is the response to a batch, in the order of its messages.
type Results struct {
	Results []Result `json:"results"`
}

// Result is the result of one message of a batch. It has the status and the response of a single
// call. With status 200 or 202 it has the fields of Published, otherwise a Problem.
type Result struct {
	Status     int      `json:"status" doc:"As its single call would have answered: 202, 200, 409, 413, 422, 429 or 503."`
	*Published          // nil if Problem is set; the Go client always sets it, because of the ID
	Problem    *Problem `json:"problem,omitzero" doc:"Why the message was not taken. The other fields are left out then."`
}

// Delivery is one message to one destination, as the API returns it. Every list has this object,
// without History.
type Delivery struct {
	DeliveryRef
	MessageID      string         `json:"message_id" required:"false"`
	CreatedAt      Time           `json:"created_at,omitzero" doc:"When its message was accepted. Left out: it can't be read."`
	Topic          string         `json:"topic,omitzero"`
	Tenant         string         `json:"tenant,omitzero"`
	Subject        string         `json:"subject,omitzero" doc:"The caller's own reference."`
	Attempts       int            `json:"attempts" required:"false" doc:"How many were made."`
	Rung           int            `json:"rung" required:"false" doc:"How many waits of its ladder it has spent, the one it is in among them."`
	LadderFrom     int            `json:"ladder_from,omitzero" doc:"The number of the attempt at which its ladder began."`
	LastStatusCode int            `json:"last_status_code,omitzero"`
	LastError      string         `json:"last_error,omitzero"`
	DeliveredAt    Time           `json:"delivered_at,omitzero" doc:"When it was delivered first: it stays where it was sent again since, whatever that brought."`
	DeadReason     string         `json:"dead_reason,omitzero" words:"reason"`
	WaitingFor     string         `json:"waiting_for,omitzero" words:"waiting" doc:"consumer: it waits to be taken. retry_after: its receiver asked for it. sealed: an instance can't open its endpoint, or a message's headers, with its ENCRYPTION_KEY. missing: its endpoint is not there. egress: our own network failed, and the attempt that it made fail does not count."`
	Ladder         *ladder.Ladder `json:"ladder,omitzero" doc:"The waits in force: the message's, its endpoint's or the setting's, cut by max_attempts."`
	WaitingUntil   Time           `json:"waiting_until,omitzero" doc:"Left out: that is not known. What waits behind others may wait longer."`
	WaitingBehind  int            `json:"waiting_behind,omitzero" doc:"With order: so many of its ordering key, or of its ordered endpoint, go first."`
	History        []Attempt      `json:"history,omitzero" doc:"Its newest 32 attempts, oldest first, where one failed, and of a delivered one the last, as long as the store has memory for it. Not in lists."`
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	Attempt         int    `json:"attempt" doc:"Counted from 1."`
	At              Time   `json:"at"`
	DurationMS      int64  `json:"duration_ms"`
	StatusCode      int    `json:"status_code,omitzero" doc:"Left out: no answer came."`
	Outcome         string `json:"outcome" words:"outcome"`
	Class           string `json:"class,omitzero" words:"class" doc:"What went wrong, in a word. egress: our own network failed, and no receiver is blamed. Left out: nothing did."`
	URL             string `json:"url,omitzero" doc:"Which was called. Left out, as address is: none was reached, or it is not kept."`
	Address         string `json:"address,omitzero" doc:"Which was connected to, with its port."`
	Resend          bool   `json:"resend,omitzero" doc:"A person asked for it."`
	ShortHello      bool   `json:"short_hello,omitzero" doc:"Its TLS handshake began with a ClientHello of one packet, because the receiver did not answer a longer one."`
	Error           string `json:"error,omitzero"`
	ResponseExcerpt string `json:"response_excerpt,omitzero" doc:"The head of the receiver's answer; of the newest 3 attempts, and the head of a success. Needs the scope bodies."`
	ResponseBytes   int    `json:"response_bytes,omitzero" doc:"Without the scope bodies, in place of response_excerpt: its size."`
	NextAttemptAt   Time   `json:"next_attempt_at" nullable:"true"`
}

// LoggedAttempt is an attempt in the live window, or the end of a delivery without one.
type LoggedAttempt struct {
	ID              string `json:"id" doc:"Of the delivery: <destination>:<message id>. Together with attempt and at it identifies a line, which may come twice."`
	MessageID       string `json:"message_id"`
	Destination     string `json:"destination"`
	URL             string `json:"url,omitzero" doc:"Which was called. Left out, as topic, tenant and subject are, when the message is no longer kept."`
	Address         string `json:"address,omitzero" doc:"Which was connected to, with its port."`
	Topic           string `json:"topic,omitzero"`
	Tenant          string `json:"tenant,omitzero"`
	Subject         string `json:"subject,omitzero"`
	Attempt         int    `json:"attempt" doc:"Counted from 1. Of an end without an attempt, how many were made before."`
	At              Time   `json:"at" doc:"When it began, or the delivery ended."`
	DurationMS      int64  `json:"duration_ms"`
	StatusCode      int    `json:"status_code,omitzero" doc:"Left out: no answer came."`
	Class           string `json:"class,omitzero" words:"class" doc:"What went wrong, in a word. egress: our own network failed, and no receiver is blamed. Left out: nothing did."`
	Outcome         string `json:"outcome" words:"event" doc:"retry: it failed, and its delivery did not die of it. cancelled, and dead without a status or class: the delivery ended without an attempt."`
	Error           string `json:"error,omitzero" doc:"Of an end without an attempt its reason."`
	ResponseExcerpt string `json:"response_excerpt,omitzero" doc:"The head of the answer, 128 bytes at most. The history of a message has more of a failure's. Needs the scope bodies."`
	ResponseBytes   int    `json:"response_bytes,omitzero" doc:"Without the scope bodies, in place of response_excerpt: its size."`
	NextAttemptAt   Time   `json:"next_attempt_at" nullable:"true"`
	Resend          bool   `json:"resend,omitzero" doc:"A person asked for it."`
	ShortHello      bool   `json:"short_hello,omitzero" doc:"Its TLS handshake began with a ClientHello of one packet, because the receiver did not answer a longer one."`
	Job             string `json:"job,omitzero" doc:"The id of the job that sent it. Left out: none did, or it is not known."`
}

// LoggedPage is a page of the attempts, newest first. It may be short, even empty, and still have
// a NextCursor.
type LoggedPage struct {
	Data          []LoggedAttempt `json:"data"`
	NextCursor    *string         `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
	LookedAt      int             `json:"looked_at" doc:"How many lines were looked at for this page."`
	CompleteSince Time            `json:"complete_since" nullable:"true" doc:"What is older was partly forgotten, since the deliveries are or memory was short. null: nothing was."`
}

// Gap is an event of the stream of attempts. It means that earlier attempts are missing.
type Gap struct {
	CompleteSince Time `json:"complete_since" doc:"The log is whole from then on."`
}

// StreamEnd is the last event of a stream that the server ends.
type StreamEnd struct {
	Reason string `json:"reason" words:"stream-end" doc:"slow: its caller did not read fast enough. stopping: this instance stops; another one goes on. key: the caller's key is not known any more. busy: another caller needed the place to wait."`
}

// MessageView is a message with its deliveries, as the API returns it.
type MessageView struct {
	Message
	BodyBytes  int        `json:"body_bytes,omitzero" doc:"Without the scope bodies, or where the body is not kept, in place of it: its size."`
	BodySHA256 string     `json:"body_sha256,omitzero" doc:"Likewise: its SHA-256, in hex."`
	CreatedAt  Time       `json:"created_at"`
	Deliveries []Delivery `json:"deliveries"`
	Incomplete bool       `json:"incomplete,omitzero" doc:"The archive did not answer: deliveries, attempts or a body that Redis has no more may be missing. Ask again."`
}

// Append appends the message as JSON to b, with its body byte for byte.
func (r *MessageView) Append(b []byte) ([]byte, error) {
	plain := *r
	plain.Body = nil
	return appendWithBody(b, plain, r.Body)
}

// Deliveries is the response to a cancel: a message's deliveries after it. Without the scope
// read, each has only id, destination and status.
type Deliveries struct {
	ID         string     `json:"id" doc:"Of the message."`
	Deliveries []Delivery `json:"deliveries"`
}

// Retried is the response to a retry: a message's deliveries after it, and the ones that are
// attempted. Without the scope read, each has only id, destination and status.
type Retried struct {
	ID         string            `json:"id" doc:"Of the message."`
	Deliveries []RetriedDelivery `json:"deliveries"`
}

// RetriedDelivery is a delivery of a retry.
type RetriedDelivery struct {
	Delivery
	Retried bool   `json:"retried" required:"false" doc:"It is due now: paused, breaker, rate and limit still hold it."`
	Why     string `json:"why,omitzero" words:"why" doc:"Why it was left as it was: it is due already; an attempt is under way; others of its ordering key go first; the receiver has it, and it was not asked for by destination or all; its expires_at has passed; its endpoint is disabled, or was deleted."`
}

// BriefDeliveries replaces Deliveries and Retried for a key without the scope read.
type BriefDeliveries struct {
	ID         string          `json:"id"`
	Deliveries []BriefDelivery `json:"deliveries"`
}

// BriefDelivery is the status of a delivery, without its content.
type BriefDelivery struct {
	ID          string `json:"id"`
	Destination string `json:"destination"`
	Status      string `json:"status" words:"status"`
	Retried     *bool  `json:"retried,omitempty" doc:"Only of a retry, as of one with the scope read."`
	Why         string `json:"why,omitzero" words:"why" doc:"As of a retry with the scope read."`
}

// Page is a page of a list of deliveries, newest first. It may be short, even empty, and still
// have a NextCursor.
type Page struct {
	Data        []Delivery `json:"data"`
	NextCursor  *string    `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
	LookedAt    int        `json:"looked_at,omitzero" doc:"How many deliveries were looked at for this page: a filter that finds little ends it early, and its cursor goes on. It is left out if the caller sees one tenant only."`
	LookedUntil Time       `json:"looked_until,omitzero" doc:"Of a page that is short although the list goes on: the time, in the order of the list, down to which it was read."`

	CompleteSince Time `json:"complete_since,omitzero" doc:"With ARCHIVE_URL only: of what ended before, some may be missing. Left out: nothing was forgotten, or there is no archive to ask. The archive finds by tenant, subject and destination; with other filters, and while it is away, the list is the store's alone."`
}

// EndedPage is a page of the finished deliveries of an endpoint, oldest first. It may be
// short, even empty, and still have a NextCursor.
type EndedPage struct {
	Data          []Delivery `json:"data"`
	NextCursor    *string    `json:"next_cursor" nullable:"true" doc:"null: this is the last page: there are no more deliveries that ended before until, or before now."`
	ResumeCursor  string     `json:"resume_cursor" doc:"Goes on with what ends later, and skips nothing. since and until may be others then, status may not."`
	LookedAt      int        `json:"looked_at" doc:"How many ends were looked at for this page, those of other endpoints too."`
	CompleteSince Time       `json:"complete_since,omitzero" doc:"Of what ended before, some was forgotten by RETENTION, RETENTION_MAX or DEAD_RETENTION, and is not in the archive, where there is one. Left out: nothing was."`
}

// DeadGroup counts the dead deliveries of one destination and one reason.
type DeadGroup struct {
	Destination    string `json:"destination" doc:"The lane."`
	URL            string `json:"url,omitzero" doc:"Scheme, host and port, where they are known."`
	Endpoint       string `json:"endpoint,omitzero" doc:"The id of the endpoint whose lane it is."`
	UID            string `json:"uid,omitzero" doc:"Its uid."`
	Reason         string `json:"reason" words:"reason"`
	Count          int64  `json:"count"`
	Newest         Time   `json:"newest" nullable:"true" doc:"When the newest of them died. null: too many others died since to look for it, and what follows is left out."`
	LastStatusCode int    `json:"last_status_code,omitzero" doc:"Of the newest one's last attempt."`
	LastError      string `json:"last_error,omitzero" doc:"What was wrong with that attempt."`
}

// DeadPage is a page of the groups, most first. It may be short, even empty, and still have a
// NextCursor. If there are more than 50,000 groups, only some of them are sorted at a time.
type DeadPage struct {
	Data       []DeadGroup `json:"data"`
	NextCursor *string     `json:"next_cursor" nullable:"true" doc:"null: this is the last page."`
}

// Health is the response of /healthz: the process is alive.
type Health struct {
	Status string `json:"status" enum:"ok"`
}

// Ready is the response of /readyz: the store can be reached and is as durable as asked.
type Ready struct {
	Status      string      `json:"status" enum:"ready"`
	PausedLanes int         `json:"paused_lanes,omitzero" doc:"How many lanes are paused; * counts as one. Only with the scope read."`
	Paused      []LaneState `json:"paused,omitempty" doc:"* where all are paused, and the 50 that were paused last. Only with the scope read."`
	Emptied     string      `json:"emptied,omitzero" doc:"What the store lost, and the cure, while there is no archive to restore it from. Only with the scope read."`
	Store       *Store      `json:"store,omitzero" doc:"Left out without the scope read."`
}

// Problem is an error in the format of RFC 9457.
type Problem struct {
	Type   string       `json:"type" example:"/problems/invalid" doc:"What kind of problem it is; this never changes. A GET of it leads to its cause and cure."`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitzero"`
	Errors []FieldError `json:"errors,omitzero" doc:"All fields that are wrong."`

	Deliveries []RetriedDelivery `json:"deliveries,omitzero" doc:"Of a retry that attempted nothing: why each was left, the first of which is the type."`
	Results    []Result          `json:"results,omitzero" doc:"Of a batch of which nothing could be stored: what became of each of its messages."`
}

// shownErrors is how many invalid fields the text of a problem has.
const shownErrors = 3

// Error returns the title, the detail and the first invalid fields in one line.
func (p *Problem) Error() string {
	text := p.Title
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	for i, e := range p.Errors {
		switch {
		case i == shownErrors:
			return text + "; and " + strconv.Itoa(len(p.Errors)-i) + " more"
		case i == 0:
			text += ": "
		default:
			text += "; "
		}
		text += e.Path + ": " + e.Detail
	}
	return text
}

// FieldError is the error of one field.
type FieldError struct {
	Path   string `json:"path" example:"$.url" doc:"A JSON path, or query.<name>, path.<name> or header.<name>."`
	Detail string `json:"detail"`
}
