package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// MaxFaults is the number of wrong fields that one response names. More would not be read.
const MaxFaults = 32

// Kind is a kind of problem, with the fields that are the same for all its problems.
type Kind struct {
	Word   string // of its type, /problems/<word>
	Status int
	Title  string
	Retry  int // seconds for Retry-After; 0: none
}

// Type returns the type of its problems.
func (k *Kind) Type() string { return "/problems/" + k.Word }

// The kinds of problems. Their words are part of the API.
var (
	Malformed    = &Kind{"malformed", http.StatusBadRequest, "The request can't be read", 0}
	Unauthorized = &Kind{"unauthorized", http.StatusUnauthorized, "A valid API key is needed", 0}
	Forbidden    = &Kind{"forbidden", http.StatusForbidden, "This is not allowed", 0}
	NotFound     = &Kind{"not-found", http.StatusNotFound, "There is no such thing", 0}
	BadMethod    = &Kind{"method-not-allowed", http.StatusMethodNotAllowed, "This method is not served here", 0}
	tooSlow      = &Kind{"timeout", http.StatusRequestTimeout, "The request took too long to arrive", 0}
	Conflict     = &Kind{"conflict", http.StatusConflict, "The id is taken by another message", 0}
	InFlight     = &Kind{"in-flight", http.StatusConflict, "An attempt is under way", 0}
	Due          = &Kind{"ready", http.StatusConflict, "It is due already", 0}
	Order        = &Kind{"order", http.StatusConflict, "Others go first", 0}
	Delivered    = &Kind{"delivered", http.StatusConflict, "It was delivered", 0}
	Expired      = &Kind{"expired", http.StatusConflict, "It has expired", 0}
	Taken        = &Kind{"taken", http.StatusConflict, "The uid is taken by another endpoint", 0}
	Changed      = &Kind{"changed", http.StatusConflict, "It was changed meanwhile", 0}
	Disabled     = &Kind{"disabled", http.StatusConflict, "The endpoint is disabled", 0}
	Archived     = &Kind{"archived", http.StatusConflict, "Only the archive has it", 0}
	Deleted      = &Kind{"deleted", http.StatusConflict, "The endpoint was deleted", 0}
	TooLarge     = &Kind{"too-large", http.StatusRequestEntityTooLarge, "The body is too large", 0}
	BadMedia     = &Kind{"unsupported-media-type", http.StatusUnsupportedMediaType, "The content type must be application/json", 0}
	Invalid      = &Kind{"invalid", http.StatusUnprocessableEntity, "Some fields are wrong", 0}
	TooMany      = &Kind{"too-many-endpoints", http.StatusUnprocessableEntity, "Too many endpoints match", 0}
	Unmatched    = &Kind{"unmatched", http.StatusUnprocessableEntity, "No endpoint matches", 0}
	Registered   = &Kind{"endpoint-limit", http.StatusUnprocessableEntity, "Too many endpoints are registered", 0}
	TooManyLinks = &Kind{"link-limit", http.StatusUnprocessableEntity, "There are too many links", 0}
	// A full lane gets room with each delivery that ends, if its receiver responds at all.
	// With a shorter wait callers would only send more requests.
	LaneFull  = &Kind{"lane-full", http.StatusTooManyRequests, "Too much waits for this destination", 5}
	Profiling = &Kind{"profiling", http.StatusConflict, "A profile of this sort is being taken", 0}
	// A person waits for each test, and few are under way.
	Busy = &Kind{"busy", http.StatusTooManyRequests, "Too many tests are under way", 2}
	// A list takes some ms, so all waiting lists are done in less than a second.
	Listing = &Kind{"busy", http.StatusTooManyRequests, "Too many lists are read at once", 1}
	// Connections end often, and requests on them even more often.
	share = &Kind{"busy", http.StatusTooManyRequests, "This caller has too much under way", 1}
	// Such a call usually lasts for minutes.
	Waiting = &Kind{"waiting", http.StatusTooManyRequests, "Too many calls wait", 10}
	// A person checks the jobs, and stops one or waits for its end.
	TooManyJobs = &Kind{"too-many-jobs", http.StatusTooManyRequests, "Too many jobs have not ended", 60}
	AcceptsOnly = &Kind{"accepts-only", http.StatusConflict, "This instance accepts only", 0}
	NotStopped  = &Kind{"not-stopped", http.StatusConflict, "The job is not stopped", 0}
	internal    = &Kind{"internal", http.StatusInternalServerError, "Something went wrong here", 0}
	// Only an operator can help, so a retry is useless.
	Sealed = &Kind{"sealed", http.StatusInternalServerError, "The endpoint's secrets can't be read", 0}
	// A lost store is usually back within seconds. A full one gets room as work ends,
	// which takes longer.
	Unavailable = &Kind{"unavailable", http.StatusServiceUnavailable, "The store can't be reached", 1}
	slowStore   = &Kind{"unavailable", http.StatusServiceUnavailable, "The store did not answer in time", 1}
	NotReady    = &Kind{"unavailable", http.StatusServiceUnavailable, "This instance is not ready", 1}
	Starting    = &Kind{"unavailable", http.StatusServiceUnavailable, "This instance starts", 1}
	stopping    = &Kind{"unavailable", http.StatusServiceUnavailable, "This instance stops", 1}
	// A person has to act, so a caller need not ask each second.
	emptiedStore = &Kind{"unavailable", http.StatusServiceUnavailable, "The store lost data", 5}
	noRight      = &Kind{"unavailable", http.StatusServiceUnavailable, "The store refuses a command", 5}
	// A disk gets room only when a person makes some.
	ReadOnly    = &Kind{"unavailable", http.StatusServiceUnavailable, "The store can't write to its disk", 10}
	comparing   = &Kind{"unavailable", http.StatusServiceUnavailable, "The archive is not compared with the store yet", 3}
	archiveAway = &Kind{"unavailable", http.StatusServiceUnavailable, "The archive can't be reached", 3}
	Weak        = &Kind{"not-durable", http.StatusServiceUnavailable, "The store is not as durable as asked", 1}
	Crowded     = &Kind{"overloaded", http.StatusServiceUnavailable, "Too much is being received at once", 1}
	Full        = &Kind{"full", http.StatusServiceUnavailable, "The store is full", 10}
)

// Problem is an error in the form for the caller.
type Problem struct {
	Kind   *Kind
	Detail string
	Fields []wire.FieldError
	Allow  string // for a 405
}

// Error returns the problem in one line.
func (p *Problem) Error() string {
	w := p.Wire()
	return w.Error()
}

// Wire returns the problem in the form for callers.
func (p *Problem) Wire() wire.Problem {
	return wire.Problem{
		Type: p.Kind.Type(), Title: p.Kind.Title, Status: p.Kind.Status,
		Detail: p.Detail, Errors: p.Fields,
	}
}

// WrongFields returns a problem with these fields, or nil if there are none.
func WrongFields(wrong []dispatcher.FieldError) error {
	if len(wrong) == 0 {
		return nil
	}
	return InvalidFields(wrong)
}

// unchanged is the detail of wrong fields.
const unchanged = "nothing was changed"

// InvalidFields returns a problem with these fields.
func InvalidFields(wrong []dispatcher.FieldError) *Problem {
	p := &Problem{Kind: Invalid, Detail: unchanged}
	if len(wrong) > MaxFaults {
		p.Detail = unchanged + "; these are the first of " + strconv.Itoa(len(wrong))
		wrong = wrong[:MaxFaults]
	}
	for _, w := range wrong {
		p.Fields = append(p.Fields, wire.FieldError(w))
	}
	return p
}

// JoinErrors adds the errors of other fields to noted. A value that could not be read is
// empty, but must not be reported as missing too.
func JoinErrors(noted, more []dispatcher.FieldError) []dispatcher.FieldError {
	all := noted
	for _, w := range more {
		if !slices.ContainsFunc(noted, func(n dispatcher.FieldError) bool { return n.Path == w.Path }) {
			all = append(all, w)
		}
	}
	return all
}

// WrongField returns a problem with one field.
func WrongField(path, detail string) *Problem {
	return InvalidFields([]dispatcher.FieldError{{Path: path, Detail: detail}})
}

// Details for a caller that can't know whether a change was made.
const (
	unsure = "it is not known whether the change was made; asking again with the same id, or uid, is safe"
	late   = "it did not answer in time; asking again with the same id, or uid, is safe"
)

// table maps an error of the engine to its problem. The text of any other error is only
// logged, because it may contain something that callers must not read.
var table = []struct {
	err    error
	kind   *Kind
	path   string // of the field that is wrong
	detail string
}{
	{dispatcher.ErrNotFound, NotFound, "", "it was never published, or is no longer kept"},
	{dispatcher.ErrArchived, Archived, "", "it ended, and the store keeps it no more: to send it again, publish it under another id"},
	{dispatcher.ErrArchiveAway, archiveAway, "", "the store does not have it, and the archive, which may have it, does not answer: ask again later"},
	{dispatcher.ErrComparing, comparing, "", "it ended, and the part of the log with its result was cut before it was archived (ARCHIVE_BACKLOG): ask again when hookladder_archive_comparing is 0"},
	{dispatcher.ErrNoLane, NotFound, "", "there is no such lane: GET /v1/lanes lists them. Name an endpoint by its id or uid, or give a URL (with its tenant), whose lane may be paused before its first message"},
	{dispatcher.ErrNoDelivery, NotFound, "", "the message is kept, but it does not go to this destination: reading it shows where it goes"},
	{dispatcher.ErrNoEndpoint, NotFound, "", "there is no such endpoint: GET /v1/endpoints lists them"},
	{dispatcher.ErrTaken, Taken, "", "it is there with other content; nothing was changed"},
	{dispatcher.ErrStale, Changed, "", "others changed it at the same time; nothing was changed: ask again"},
	{dispatcher.ErrFanOut, TooMany, "", "more match than one message may reach (FANOUT_MAX); nothing was stored: narrow the topic, the endpoints' topics or the tenant, or raise the setting"},
	{dispatcher.ErrUnmatched, Unmatched, "", "no enabled endpoint of the message's tenant has a topic that matches; nothing was stored: correct the tenant, the topic or the endpoints, or leave require_match out"},
	{dispatcher.ErrEndpoints, Registered, "", "a project keeps 1,000,000 endpoints; nothing was stored: delete some that are not needed, or run another PROJECT"},
	{dispatcher.ErrDisabled, Disabled, "", "resume its lane first: POST /v1/endpoints/{id}/resume, or of a URL POST /v1/lanes/{lane}/resume"},
	{dispatcher.ErrDeleted, Deleted, "", "nothing is sent to it any more"},
	{dispatcher.ErrPull, Invalid, "path.id", "is of kind pull, which is never called: publish a message to it, and take that"},
	{dispatcher.ErrBusy, Busy, "", "ask again when one has ended"},
	{dispatcher.ErrNoJob, NotFound, "", "there is no such job: GET /v1/jobs lists the jobs of the last 7 days"},
	{dispatcher.ErrJobs, TooManyJobs, "", "100 have not ended: GET /v1/jobs lists them, and DELETE /v1/jobs/{id} stops one"},
	{dispatcher.ErrNoLink, NotFound, "", "there is no such link, or it has expired: GET /v1/links lists them"},
	{dispatcher.ErrTenantEndpoints, Registered, "", "a link adds endpoints up to 50 of a tenant; nothing was stored"},
	{dispatcher.ErrNoKey, Unauthorized, "", "the key was taken away while the call was made"},
	{dispatcher.ErrLinks, TooManyLinks, "", "10,000 have not expired: revoke some that are not needed (DELETE /v1/links/{id})"},
	{dispatcher.ErrAcceptsOnly, AcceptsOnly, "", "MAX_IN_FLIGHT=0 has it attempt nothing: ask one that dispatches, or run hookladder tick"},
	{dispatcher.ErrJobState, NotStopped, "", "only one that was stopped, or failed, can go on"},
	{dispatcher.ErrJobForgotten, NotStopped, "", "its filter named a tenant or subject that hookladder forget has taken out since: start another job"},
	{callers.ErrShare, share, "", "half of MAX_CONNECTIONS are its own, and all are taken: keep fewer connections, or raise the setting"},
	{callers.ErrCrowdedOut, Waiting, "", "another caller with fewer calls that wait got the place: keep fewer of them, or raise MAX_CONNECTIONS"},
	{dispatcher.ErrListing, Listing, "", "ask for fewer pages at a time"},
	{dispatcher.ErrSealed, Sealed, "", "no key of ENCRYPTION_KEY opens them: start with the key they were stored with"},
	{dispatcher.ErrCursor, Invalid, "query.cursor", wrongCursor},
	{dispatcher.ErrFull, Full, "", "nothing was changed; ask again later"},
	{dispatcher.ErrNotDurable, Weak, "", "it is stored and will be sent; asking again with the same id is safe, and answers 200 once it is durable"},
	{dispatcher.ErrDiskFull, ReadOnly, "", "the disk of Redis is full; nothing was changed: make room on it, and it continues by itself"},
	{dispatcher.ErrReadOnly, ReadOnly, "", "Redis refuses all changes, and its log says why; nothing was changed: ask again later"},
	{dispatcher.ErrMayNotLease, Unavailable, "", "this instance starts, or its heartbeat is late: nothing was leased; ask again in a second"},
	{dispatcher.ErrUnavailable, Unavailable, "", unsure},
	{dispatcher.ErrFenced, Unavailable, "", "this instance restarts; ask again"},
	{dispatcher.ErrStopping, stopping, "", "ask again: another one answers"},
	{context.DeadlineExceeded, slowStore, "", late},
	{context.Canceled, Unavailable, "", "the request was given up"},
}

// wrongCursor is the cure for each cursor that can't be opened.
const wrongCursor = "belongs to another list, filter or caller, or to data that were lost since: leave it out to begin at the first page"

// ProblemFor returns a problem for an error. known is false for an error that is not in the
// table.
func ProblemFor(err error) (p *Problem, known bool) {
	if errors.As(err, &p) {
		return p, true
	}
	var lost *dispatcher.Emptied
	if errors.As(err, &lost) {
		return Emptied(lost), true
	}
	var right *dispatcher.NoRight
	if errors.As(err, &right) {
		return &Problem{Kind: noRight, Detail: right.Error() + ": ask again when it is granted"}, true
	}
	if unanswered(err) {
		return &Problem{Kind: slowStore, Detail: late}, true
	}
	for _, row := range table {
		switch {
		case !errors.Is(err, row.err):
		case row.path != "":
			return WrongField(row.path, row.detail), true
		default:
			return &Problem{Kind: row.kind, Detail: row.detail}, true
		}
	}
	return &Problem{Kind: internal, Detail: "the log of the server says why"}, false
}

// unanswered reports whether the store was reached, and did not respond in time.
func unanswered(err error) bool {
	var network net.Error
	if !errors.Is(err, dispatcher.ErrUnavailable) || !errors.As(err, &network) || !network.Timeout() {
		return false
	}
	var call *net.OpError
	return !errors.As(err, &call) || call.Op != "dial"
}

// Emptied returns a problem that reports the lost data of the store, with the cure.
func Emptied(lost *dispatcher.Emptied) *Problem {
	return &Problem{Kind: emptiedStore, Detail: lost.Error()}
}

// ForMethod returns the problem as a response to a method. A read changes nothing, so its
// response does not mention changes.
func (p *Problem) ForMethod(method string) *Problem {
	reads := method == http.MethodGet || method == http.MethodHead
	switch {
	case !reads:
		return p
	case p.Detail == unsure || p.Detail == late:
		return &Problem{Kind: p.Kind, Detail: "nothing could be read; ask again in a moment"}
	case p.Kind == Invalid:
		detail := strings.TrimPrefix(strings.TrimPrefix(p.Detail, unchanged), "; ")
		return &Problem{Kind: p.Kind, Detail: detail, Fields: p.Fields}
	}
	return p
}

// Write sends the problem as the response.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	switch p.Kind {
	case Unauthorized:
		h.Set("WWW-Authenticate", "Bearer")
		h.Set("Connection", "close") // no connection is kept for a stranger
	case Waiting:
		h.Set("Connection", "close") // nor for one that waits for a place: the others need it
	}
	if p.Allow != "" {
		h.Set("Allow", p.Allow)
	}
	p.Response(p.Body()).Write(w)
}

// Response returns the problem as a response with this body.
func (p *Problem) Response(body []byte) *Response {
	r := &Response{Status: p.Kind.Status, ContentType: MediaProblem, Body: body}
	if p.Kind.Retry > 0 {
		r.retryAfter = strconv.Itoa(p.Kind.Retry)
	}
	return r
}

// Body returns the problem as JSON.
func (p *Problem) Body() []byte {
	b, err := json.Marshal(p.Wire())
	if err != nil { // a detail that is not UTF-8
		b, _ = json.Marshal(wire.Problem{Type: p.Kind.Type(), Title: p.Kind.Title, Status: p.Kind.Status})
	}
	return b
}

// LoggedProblem returns a problem for an error, and logs an error that is not in the table.
func LoggedProblem(ctx context.Context, log *slog.Logger, err error) *Problem {
	p, known := ProblemFor(err)
	if !known {
		log.ErrorContext(ctx, "request failed", "err", err)
	}
	return p
}
