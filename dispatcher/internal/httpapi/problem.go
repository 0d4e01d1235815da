package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// maxFaults is how many wrong fields one answer names. More would not be read.
const maxFaults = 32

// problemKind is a sort of problem: the parts of it that are always the same.
type problemKind struct {
	word   string // of its type, /problems/<word>
	status int
	title  string
	retry  int // seconds for Retry-After; 0: none
}

// The kinds of problems. Their words are part of the API.
var (
	malformed    = &problemKind{"malformed", http.StatusBadRequest, "The request can't be read", 0}
	unauthorized = &problemKind{"unauthorized", http.StatusUnauthorized, "A valid API key is needed", 0}
	forbidden    = &problemKind{"forbidden", http.StatusForbidden, "This is not allowed", 0}
	notFound     = &problemKind{"not-found", http.StatusNotFound, "There is no such thing", 0}
	badMethod    = &problemKind{"method-not-allowed", http.StatusMethodNotAllowed, "This method is not served here", 0}
	tooSlow      = &problemKind{"timeout", http.StatusRequestTimeout, "The request took too long to arrive", 0}
	conflict     = &problemKind{"conflict", http.StatusConflict, "The id is taken by another message", 0}
	inFlight     = &problemKind{"in-flight", http.StatusConflict, "An attempt is under way", 0}
	due          = &problemKind{"ready", http.StatusConflict, "It is due already", 0}
	order        = &problemKind{"order", http.StatusConflict, "Others go first", 0}
	delivered    = &problemKind{"delivered", http.StatusConflict, "It was delivered", 0}
	expired      = &problemKind{"expired", http.StatusConflict, "It has expired", 0}
	taken        = &problemKind{"taken", http.StatusConflict, "The uid is taken by another endpoint", 0}
	changed      = &problemKind{"changed", http.StatusConflict, "It was changed meanwhile", 0}
	disabled     = &problemKind{"disabled", http.StatusConflict, "The endpoint is disabled", 0}
	archived     = &problemKind{"archived", http.StatusConflict, "Only the archive has it", 0}
	deleted      = &problemKind{"deleted", http.StatusConflict, "The endpoint was deleted", 0}
	tooLarge     = &problemKind{"too-large", http.StatusRequestEntityTooLarge, "The body is too large", 0}
	badMedia     = &problemKind{"unsupported-media-type", http.StatusUnsupportedMediaType, "The content type must be application/json", 0}
	invalid      = &problemKind{"invalid", http.StatusUnprocessableEntity, "Some fields are wrong", 0}
	tooMany      = &problemKind{"too-many-endpoints", http.StatusUnprocessableEntity, "Too many endpoints match", 0}
	unmatched    = &problemKind{"unmatched", http.StatusUnprocessableEntity, "No endpoint matches", 0}
	registered   = &problemKind{"endpoint-limit", http.StatusUnprocessableEntity, "Too many endpoints are registered", 0}
	tooManyLinks = &problemKind{"link-limit", http.StatusUnprocessableEntity, "There are too many links", 0}
	// A full lane gets room with each delivery that ends, if its receiver answers at
	// all. To wait less would only make callers ask more often.
	laneFull  = &problemKind{"lane-full", http.StatusTooManyRequests, "Too much waits for this destination", 5}
	profiling = &problemKind{"profiling", http.StatusConflict, "A profile of this sort is being taken", 0}
	// A person waits for each test, and few are under way.
	busy = &problemKind{"busy", http.StatusTooManyRequests, "Too many tests are under way", 2}
	// A list takes some ms: all that may wait are done in less than a second.
	listing = &problemKind{"busy", http.StatusTooManyRequests, "Too many lists are read at once", 1}
	// Connections end, and requests on them more often.
	share = &problemKind{"busy", http.StatusTooManyRequests, "This caller has too much under way", 1}
	// Such a call mostly lasts for minutes.
	waiting = &problemKind{"waiting", http.StatusTooManyRequests, "Too many calls wait", 10}
	// A person looks at the jobs, and stops one or waits for its end.
	tooManyJobs = &problemKind{"too-many-jobs", http.StatusTooManyRequests, "Too many jobs have not ended", 60}
	acceptsOnly = &problemKind{"accepts-only", http.StatusConflict, "This instance accepts only", 0}
	notStopped  = &problemKind{"not-stopped", http.StatusConflict, "The job is not stopped", 0}
	internal    = &problemKind{"internal", http.StatusInternalServerError, "Something went wrong here", 0}
	// Only an operator can help, so a caller is not told to ask again.
	sealed = &problemKind{"sealed", http.StatusInternalServerError, "The endpoint's secrets can't be read", 0}
	// A lost store is usually back within seconds. A full one gets room as work ends,
	// which takes longer.
	unavailable = &problemKind{"unavailable", http.StatusServiceUnavailable, "The store can't be reached", 1}
	notReady    = &problemKind{"unavailable", http.StatusServiceUnavailable, "This instance is not ready", 1}
	stopping    = &problemKind{"unavailable", http.StatusServiceUnavailable, "This instance stops", 1}
	// A person has to act, so a caller need not ask each second.
	emptiedStore = &problemKind{"unavailable", http.StatusServiceUnavailable, "The store lost data", 5}
	// A disk gets room when a person makes some.
	readOnly    = &problemKind{"unavailable", http.StatusServiceUnavailable, "The store can't write to its disk", 10}
	comparing   = &problemKind{"unavailable", http.StatusServiceUnavailable, "The archive is not compared with the store yet", 3}
	archiveAway = &problemKind{"unavailable", http.StatusServiceUnavailable, "The archive can't be reached", 3}
	weak        = &problemKind{"not-durable", http.StatusServiceUnavailable, "The store is not as durable as asked", 1}
	crowded     = &problemKind{"overloaded", http.StatusServiceUnavailable, "Too much is being received at once", 1}
	full        = &problemKind{"full", http.StatusServiceUnavailable, "The store is full", 10}
)

// problem is an error as the caller sees it.
type problem struct {
	kind   *problemKind
	detail string
	fields []wire.FieldError
	allow  string // for a 405
}

// Error is the problem in one line.
func (p *problem) Error() string {
	w := p.wire()
	return w.Error()
}

func (p *problem) wire() wire.Problem {
	return wire.Problem{
		Type: "/problems/" + p.kind.word, Title: p.kind.title, Status: p.kind.status,
		Detail: p.detail, Errors: p.fields,
	}
}

// wrongFields is a problem with these fields, or nil where there are none.
func wrongFields(wrong []dispatcher.FieldError) error {
	if len(wrong) == 0 {
		return nil
	}
	return invalidFields(wrong)
}

func invalidFields(wrong []dispatcher.FieldError) *problem {
	p := &problem{kind: invalid, detail: "nothing was changed"}
	if len(wrong) > maxFaults {
		p.detail = "nothing was changed; these are the first of " + strconv.Itoa(len(wrong))
		wrong = wrong[:maxFaults]
	}
	for _, w := range wrong {
		p.fields = append(p.fields, wire.FieldError(w))
	}
	return p
}

// join adds to noted what is wrong with other fields. A value that could not be read
// is empty, and must not be called missing too.
func join(noted, more []dispatcher.FieldError) []dispatcher.FieldError {
	all := noted
	for _, w := range more {
		if !slices.ContainsFunc(noted, func(n dispatcher.FieldError) bool { return n.Path == w.Path }) {
			all = append(all, w)
		}
	}
	return all
}

// wrongField is a problem with one field.
func wrongField(path, detail string) *problem {
	return invalidFields([]dispatcher.FieldError{{Path: path, Detail: detail}})
}

// Details for a caller who can't know whether a change was made.
const (
	unsure = "it is not known whether the change was made; asking again with the same id, or uid, is safe"
	late   = "it did not answer in time; asking again with the same id, or uid, is safe"
)

// table says what an error of the engine means to a caller. The text of any other
// error is only logged: it may hold what callers must not read.
var table = []struct {
	err    error
	kind   *problemKind
	path   string // of the field that is wrong
	detail string
}{
	{dispatcher.ErrNotFound, notFound, "", "it was never published, or is no longer kept"},
	{dispatcher.ErrArchived, archived, "", "it ended, and the store keeps it no more: to send it again, publish it under another id"},
	{dispatcher.ErrArchiveAway, archiveAway, "", "the store does not have it, and the archive, which may have it, does not answer: ask again later"},
	{dispatcher.ErrComparing, comparing, "", "it ended, and the log that tells how was cut before it was archived (ARCHIVE_BACKLOG): ask again when hookladder_archive_comparing is 0"},
	{dispatcher.ErrNoLane, notFound, "", "there is no such lane: GET /v1/lanes lists them. Name an endpoint by its id or uid, or give a URL (with its tenant), whose lane may be paused before its first message"},
	{dispatcher.ErrNoDelivery, notFound, "", "the message is kept, but it does not go to this destination: reading it shows where it goes"},
	{dispatcher.ErrNoEndpoint, notFound, "", "there is no such endpoint: GET /v1/endpoints lists them"},
	{dispatcher.ErrTaken, taken, "", "it is there with other content; nothing was changed"},
	{dispatcher.ErrStale, changed, "", "others changed it at the same time; nothing was changed: ask again"},
	{dispatcher.ErrFanOut, tooMany, "", "more match than one message may reach (FANOUT_MAX); nothing was stored: narrow the topic, the endpoints' topics or the tenant, or raise the setting"},
	{dispatcher.ErrUnmatched, unmatched, "", "no enabled endpoint of the message's tenant has a topic that matches; nothing was stored: correct the tenant, the topic or the endpoints, or leave require_match out"},
	{dispatcher.ErrEndpoints, registered, "", "a project keeps 1,000,000 endpoints; nothing was stored: delete some that are not needed, or run another PROJECT"},
	{dispatcher.ErrDisabled, disabled, "", "resume its lane first: POST /v1/endpoints/{id}/resume, or of a URL POST /v1/lanes/{lane}/resume"},
	{dispatcher.ErrDeleted, deleted, "", "nothing is sent to it any more"},
	{dispatcher.ErrPull, invalid, "path.id", "is of kind pull, which is never called: publish a message to it, and take that"},
	{dispatcher.ErrBusy, busy, "", "ask again when one has ended"},
	{dispatcher.ErrNoJob, notFound, "", "there is no such job: GET /v1/jobs lists those of the last 7 days"},
	{dispatcher.ErrJobs, tooManyJobs, "", "100 have not ended: GET /v1/jobs lists them, and DELETE /v1/jobs/{id} stops one"},
	{access.ErrNoLink, notFound, "", "there is no such link, or it has expired: GET /v1/links lists them"},
	{dispatcher.ErrTenantEndpoints, registered, "", "a link adds endpoints up to 50 of a tenant; nothing was stored"},
	{access.ErrNoKey, unauthorized, "", "the key was taken away while the call was made"},
	{access.ErrLinks, tooManyLinks, "", "10,000 have not expired: revoke some that are not needed (DELETE /v1/links/{id})"},
	{dispatcher.ErrAcceptsOnly, acceptsOnly, "", "MAX_IN_FLIGHT=0 has it attempt nothing: ask one that dispatches, or run hookladder tick"},
	{dispatcher.ErrJobState, notStopped, "", "only one that was stopped, or failed, can go on"},
	{dispatcher.ErrJobForgotten, notStopped, "", "its filter named a tenant or subject that hookladder forget has taken out since: start another job"},
	{callers.ErrShare, share, "", "half of MAX_CONNECTIONS are its own, and all are taken: keep fewer connections, or raise the setting"},
	{callers.ErrCrowdedOut, waiting, "", "another caller with fewer calls that wait got the place: keep fewer of them, or raise MAX_CONNECTIONS"},
	{dispatcher.ErrListing, listing, "", "ask for fewer pages at a time"},
	{dispatcher.ErrSealed, sealed, "", "no key of ENCRYPTION_KEY opens them: start with the key they were stored with"},
	{dispatcher.ErrCursor, invalid, "query.cursor", wrongCursor},
	{dispatcher.ErrFull, full, "", "nothing was changed; ask again later"},
	{dispatcher.ErrNotDurable, weak, "", "it is stored and will be sent; asking again with the same id is safe, and answers 200 once it is durable"},
	{dispatcher.ErrDiskFull, readOnly, "", "the disk of Redis is full; nothing was changed: make room on it, and it continues by itself"},
	{dispatcher.ErrReadOnly, readOnly, "", "Redis refuses all changes, and its log says why; nothing was changed: ask again later"},
	{dispatcher.ErrUnavailable, unavailable, "", unsure},
	{dispatcher.ErrFenced, unavailable, "", "this instance restarts; ask again"},
	{dispatcher.ErrStopping, stopping, "", "ask again: another one answers"},
	{context.DeadlineExceeded, unavailable, "", late},
	{context.Canceled, unavailable, "", "the request was given up"},
}

// wrongCursor is the cure of each cursor that does not open.
const wrongCursor = "belongs to another list, filter or caller, or to data that were lost since: leave it out to begin at the first page"

// asProblem finds what an error means to a caller; known is false for one that is
// not in the table.
func asProblem(err error) (p *problem, known bool) {
	if errors.As(err, &p) {
		return p, true
	}
	var lost *dispatcher.Emptied
	if errors.As(err, &lost) {
		return emptied(lost), true
	}
	for _, row := range table {
		switch {
		case !errors.Is(err, row.err):
		case row.path != "":
			return wrongField(row.path, row.detail), true
		default:
			return &problem{kind: row.kind, detail: row.detail}, true
		}
	}
	return &problem{kind: internal, detail: "the log of the server says why"}, false
}

// emptied says that the store lost data, with the cure.
func emptied(lost *dispatcher.Emptied) *problem {
	return &problem{kind: emptiedStore, detail: lost.Error()}
}

// of is the problem as a method answers it. A read changes nothing, so its answer
// need not say that a change is uncertain.
func (p *problem) of(method string) *problem {
	reads := method == http.MethodGet || method == http.MethodHead
	if !reads || p.detail != unsure && p.detail != late {
		return p
	}
	return &problem{kind: p.kind, detail: "nothing could be read; ask again in a moment"}
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	switch p.kind {
	case unauthorized:
		h.Set("WWW-Authenticate", "Bearer")
		h.Set("Connection", "close") // no connection is kept for a stranger
	case waiting:
		h.Set("Connection", "close") // nor for one that waits for a place: the others need it
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	p.response(p.body()).write(w)
}

// response is the problem as an answer with this body.
func (p *problem) response(body []byte) *response {
	r := &response{status: p.kind.status, contentType: mediaProblem, body: body}
	if p.kind.retry > 0 {
		r.retryAfter = strconv.Itoa(p.kind.retry)
	}
	return r
}

// body is the problem as JSON.
func (p *problem) body() []byte {
	b, err := json.Marshal(p.wire())
	if err != nil { // a detail that is not UTF-8
		b, _ = json.Marshal(wire.Problem{Type: "/problems/" + p.kind.word, Title: p.kind.title, Status: p.kind.status})
	}
	return b
}
