package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Followers follow the log of attempts.
type Followers interface {
	// FollowLog calls show for matching lines of the log as they are written. If a position is
	// given, the lines after it come first. It returns when ctx ends or show fails. An event
	// without a line or a gap is a heartbeat, and the first one comes at once.
	FollowLog(ctx context.Context, f dispatcher.LogFilter, behind string, show func([]dispatcher.LogEvent) error) error
}

// attemptOperations returns the operations about attempts.
func (s *server) attemptOperations() []api.Operation {
	return []api.Operation{
		{
			ID: "list-attempts", Method: "GET", Path: "/v1/attempts", Scope: callers.Read, Link: api.AnyLink,
			Summary: "List attempts, and ends without one, newest first; or follow them as events", Do: s.attempts,
			Headers: []*huma.Param{{
				Name: lastEventID, In: "header", Schema: api.TextSchema,
				Description: "With Accept: text/event-stream: the id of the last event that came. The stream goes on behind it.",
			}},
			Events: "Events attempt: data is a LoggedAttempt, id goes into Last-Event-ID. " +
				"A gap says that attempts before it are missing, and since when the log is whole (complete_since). An end comes last, with the reason why. " +
				"limit and cursor are refused. With since it begins at that time.",
			Answers: api.OK(exampleLoggedPage), Query: api.OfFilter(client.AttemptFilter{}),
			Problems: []*api.Kind{api.Malformed, api.Waiting},
		},
	}
}

// attempts serves GET /v1/attempts.
func (s *server) attempts(ctx context.Context, q *api.Request) (*api.Response, error) {
	f, err := s.logFilter(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.HTTP.Method == http.MethodGet && q.Prefers(api.MediaEvents) && !q.Linked() { // the pages of links have no stream, and its events are not narrowed
		return nil, s.followAttempts(ctx, q, f)
	}
	return api.Fitting(q.Limit(), func(limit int) (*api.Response, error) {
		page, err := s.o.Attempts.ReadLog(ctx, f, limit, q.Cursor())
		if err != nil {
			return nil, err
		}
		lines := own(q, page.Lines, func(l *dispatcher.Logged) (string, dispatcher.Lane) { return l.Tenant, l.ID.Lane })
		w := wire.LoggedPage{
			Data: api.Convert(lines, func(l *dispatcher.Logged) wire.LoggedAttempt { return logged(q, l) }), NextCursor: api.NextCursor(page.Next),
			CompleteSince: wire.Time{Time: page.CompleteSince},
		}
		if !q.Linked() { // it also counts attempts of others
			w.LookedAt = page.LookedAt
		}
		return api.JSON(http.StatusOK, w)
	})
}

// followAttempts serves GET /v1/attempts as an event stream. It returns an error only if
// nothing was written.
func (s *server) followAttempts(ctx context.Context, q *api.Request, f dispatcher.LogFilter) error {
	for _, name := range []string{"limit", "cursor"} {
		if q.Query.Has(name) {
			return api.WrongField("query."+name, "an event stream has no pages: leave it out")
		}
	}
	ctx, leave, ok := q.Wait(ctx)
	if !ok {
		return &api.Problem{Kind: api.Waiting, Detail: "half of MAX_CONNECTIONS do; end one that is not needed, or raise the setting"}
	}
	defer leave()
	out := NewStream(q.Writer)
	err := s.o.Followers.FollowLog(ctx, f, q.HTTP.Header.Get(lastEventID), func(all []dispatcher.LogEvent) error {
		if !q.StillAllowed() {
			return api.ErrKeyGone
		}
		for i := range all {
			if err := out.Send(event(q, &all[i])); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	if callers.CrowdedOut(ctx) {
		err = callers.ErrCrowdedOut
	}
	switch {
	case q.Writer.Begun:
		if why := ending(err); why != "" {
			_ = out.Send(Event{Name: "end", Data: wire.StreamEnd{Reason: why}}) // it fails if the caller is gone
			_ = out.Flush()
		}
		return nil
	case errors.Is(err, dispatcher.ErrCursor):
		return api.WrongField("header."+lastEventID, "is not the id of an event of this stream, or its store was emptied since: leave it out to begin anew")
	}
	return err
}

// ending returns the reason for an event stream's end, for its caller; empty: the caller left.
func ending(err error) string {
	switch {
	case errors.Is(err, dispatcher.ErrBehind):
		return "slow"
	case errors.Is(err, dispatcher.ErrStopping):
		return "stopping"
	case errors.Is(err, api.ErrKeyGone):
		return "key"
	case errors.Is(err, callers.ErrCrowdedOut):
		return "busy"
	}
	return ""
}

// event converts an event of the log for its caller.
func event(q *api.Request, e *dispatcher.LogEvent) Event {
	switch {
	case e.Line != nil:
		return Event{Name: "attempt", ID: e.At, Data: logged(q, e.Line)}
	case !e.Gap.IsZero():
		return Event{Name: "gap", ID: e.At, Data: wire.Gap{CompleteSince: wire.Time{Time: e.Gap}}}
	}
	return Event{ID: e.At}
}

// logged converts a line of the log for its caller.
func logged(q *api.Request, l *dispatcher.Logged) wire.LoggedAttempt {
	w := wireLogged(l)
	w.Job = jobID(q, l.Job)
	if !q.Bodies {
		w.ResponseExcerpt, w.ResponseBytes = "", len(l.Attempt.Excerpt)
	}
	if q.Linked() {
		w.Address, w.Error = "", outward(w.Error)
	}
	return w
}

func (s *server) logFilter(ctx context.Context, q *api.Request) (f dispatcher.LogFilter, err error) {
	f = dispatcher.LogFilter{
		Tenants: q.All("tenant"), Topics: q.All("topic"), Subjects: q.All("subject"), Messages: q.All("message"),
		Happenings: api.AsWords[dispatcher.Happening](q.All("outcome")), Statuses: q.Numbers("status_code"), Jobs: jobsOf(q, "job"),
		Since: q.Time("since"), Until: q.Time("until"), View: q.View,
	}
	destinations, err := s.ownDestinations(ctx, q)
	if err != nil {
		return f, err
	}
	f.Lanes, err = s.lanesOf(ctx, destinations, f.Tenants)
	return f, err
}

func wireLogged(l *dispatcher.Logged) wire.LoggedAttempt {
	a := &l.Attempt
	w := wire.LoggedAttempt{
		ID: l.ID.String(), MessageID: l.ID.Message, Destination: string(l.ID.Lane), URL: a.URL, Address: a.Address,
		Topic: l.Topic, Tenant: l.Tenant, Subject: l.Subject, Attempt: a.Number, At: wire.Time{Time: a.At}, DurationMS: a.Duration.Milliseconds(),
		StatusCode: a.Status, Class: string(a.Class), Outcome: string(l.Happening), Error: strings.ToValidUTF8(a.Error, "�"),
		ResponseExcerpt: strings.ToValidUTF8(string(a.Excerpt), "�"),
		NextAttemptAt:   wire.Time{Time: a.Next}, Resend: a.Resend, ShortHello: a.ShortHello,
	}
	if l.Reason != "" {
		w.Error = string(l.Reason)
	}
	return w
}

// lastEventID is the header with the position of a caller that lost its event stream.
const lastEventID = "Last-Event-ID"

// jobsOf returns the numbers of the jobs in a parameter. JobForm has checked them before.
func jobsOf(q *api.Request, name string) (all []int64) {
	for _, text := range q.All(name) {
		number, _ := dispatcher.ParseJobID(text)
		all = append(all, number)
	}
	return all
}

// jobID returns the id of a job for a caller that may see everything; empty: there is none, or
// it is hidden.
func jobID(q *api.Request, number int64) string {
	if number == 0 || q.Linked() {
		return ""
	}
	return (&dispatcher.Job{Number: number}).ID()
}

const (
	// pieceBytes is the size of one write.
	pieceBytes = 64 << 10

	// pieceWithin is the timeout of a write. Slower callers are disconnected, because the next
	// events wait in memory for them.
	pieceWithin = 10 * time.Second
)

// Event is one event. If Data is nil, it is only a comment and the id.
type Event struct {
	Name, ID string // without line breaks; an empty id keeps the previous one
	Data     any    // JSON
}

// Stream writes events. Nothing is sent before the first Flush.
type Stream struct {
	w     http.ResponseWriter
	conn  *http.ResponseController
	begun bool
	buf   []byte
}

// NewStream returns a Stream.
func NewStream(w http.ResponseWriter) *Stream {
	return &Stream{w: w, conn: http.NewResponseController(w)}
}

// Send adds an event.
func (s *Stream) Send(e Event) error {
	if e.ID != "" {
		s.buf = append(append(append(s.buf, "id: "...), e.ID...), '\n')
	}
	if e.Data == nil {
		s.buf = append(s.buf, ":\n\n"...)
	} else {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return err
		}
		s.buf = append(append(append(s.buf, "event: "...), e.Name...), "\ndata: "...)
		s.buf = append(append(s.buf, data...), "\n\n"...)
	}
	if len(s.buf) < pieceBytes {
		return nil
	}
	return s.Flush()
}

// Flush sends the added events. It ignores a writer without deadlines, which needs none.
func (s *Stream) Flush() error {
	if !s.begun {
		s.begun = true
		_ = s.conn.SetReadDeadline(time.Time{}) // the server's would end it, and nothing more is read
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // header of nginx
		h.Set("Connection", "close")     // the next request goes to another instance if this one stops
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(pieceWithin))
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	if err != nil {
		return err
	}
	return s.conn.Flush()
}
