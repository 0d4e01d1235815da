package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/events"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Lists are pages of deliveries. A list refuses a cursor that it did not make with
// dispatcher.ErrCursor.
type Lists interface {
	// Deliveries reads a page of deliveries.
	Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	// Ended reads a page of the finished deliveries of an endpoint, oldest first.
	Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
}

// Dead are the dead deliveries.
type Dead interface {
	// Dead counts them by destination and reason.
	Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error)
}

// Followers follow the log of attempts.
type Followers interface {
	// FollowLog shows lines of the log that match as they are written, or the lines behind an
	// event's position first, until ctx ends or show fails. An event without a line or a
	// gap says that the stream is alive; the first comes at once.
	FollowLog(ctx context.Context, f dispatcher.LogFilter, behind string, show func([]dispatcher.LogEvent) error) error
}

// deliveries serves GET /v1/deliveries.
func (s *server) deliveries(ctx context.Context, q *request) (*response, error) {
	f, err := s.filter(ctx, q)
	if err != nil {
		return nil, err
	}
	f.Cursor, f.Order = q.cursor(), dispatcher.Order(q.one("order"))
	if err := f.Arrange(); err != nil {
		return nil, wrongField("query.order", err.Error())
	}
	return fitting(q.limit(), func(limit int) (*response, error) {
		f.Limit = limit
		page, err := s.o.Lists.Deliveries(ctx, f)
		if err != nil {
			return nil, err
		}
		w := wire.Page{Data: convert(page.Deliveries, Listed), NextCursor: nextCursor(page.Next), CompleteSince: wire.Time{Time: page.CompleteSince}}
		everything := q.view == dispatcher.View{}
		if everything {
			w.LookedAt = page.LookedAt
		}
		short := page.Next != "" && page.Reached != nil && len(page.Deliveries) < limit
		if short && (everything || f.Order == dispatcher.OrderAccepted) { // another place may be of another tenant
			w.LookedUntil = wire.Time{Time: page.Reached.At}
		}
		if q.prefers(mediaCSV) {
			return answerCSV(w.Data, w.NextCursor, w.CompleteSince)
		}
		return answerJSON(http.StatusOK, w)
	})
}

// ended serves GET /v1/endpoints/{id}/deliveries.
func (s *server) ended(ctx context.Context, q *request) (*response, error) {
	f := dispatcher.EndedFilter{
		Statuses: asWords[dispatcher.Status](q.all("status")), Since: q.time("since"), Until: q.time("until"), Cursor: q.cursor(), View: q.view,
	}
	return fitting(q.limit(), func(limit int) (*response, error) {
		f.Limit = limit
		page, err := s.o.Lists.Ended(ctx, q.id(), f)
		if err != nil {
			return nil, err
		}
		w := wire.EndedPage{
			Data: convert(page.Deliveries, Listed), ResumeCursor: page.Resume, LookedAt: page.LookedAt,
			CompleteSince: wire.Time{Time: page.CompleteSince},
		}
		if page.More {
			w.NextCursor = &w.ResumeCursor
		}
		if !q.prefers(mediaCSV) {
			return answerJSON(http.StatusOK, w)
		}
		r, err := answerCSV(w.Data, w.NextCursor, w.CompleteSince)
		if err == nil {
			r.headers[wire.HeaderResumeCursor] = w.ResumeCursor
		}
		return r, err
	})
}

// answerCSV answers a page of deliveries as CSV, with its cursor in a header.
func answerCSV(list []wire.Delivery, next *string, complete wire.Time) (*response, error) {
	var b bytes.Buffer
	if err := wire.WriteDeliveries(&b, list); err != nil {
		return nil, err
	}
	headers := map[string]string{}
	if next != nil {
		headers[wire.HeaderNextCursor] = *next
	}
	if !complete.IsZero() {
		headers[wire.HeaderCompleteSince] = complete.Text()
	}
	return &response{status: http.StatusOK, contentType: mediaCSV + "; charset=utf-8", body: b.Bytes(), headers: headers}, nil
}

// dead serves GET /v1/dead.
func (s *server) dead(ctx context.Context, q *request) (*response, error) {
	f := dispatcher.DeadFilter{
		Tenants: q.all("tenant"), Reasons: asWords[dispatcher.DeadReason](q.all("dead_reason")), Limit: q.limit(), Cursor: q.cursor(), View: q.view,
	}
	var err error
	if f.Lanes, err = s.lanesOf(ctx, q.all("destination"), f.Tenants); err != nil {
		return nil, err
	}
	page, err := s.o.Dead.Dead(ctx, f)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.DeadPage{Data: convert(page.Groups, wireDead), NextCursor: nextCursor(page.Next)})
}

func wireDead(g *dispatcher.DeadGroup) wire.DeadGroup {
	w := wire.DeadGroup{
		Destination: string(g.Lane), URL: g.URL, UID: g.UID, Reason: string(g.Reason), Count: g.Count,
		Newest: wire.Time{Time: g.Newest}, LastStatusCode: g.LastStatus, LastError: g.LastError,
	}
	if g.Lane.IsEndpoint() {
		w.Endpoint = string(g.Lane)
	}
	return w
}

// filter reads the parameters of filterParams.
func (s *server) filter(ctx context.Context, q *request) (f dispatcher.Filter, err error) {
	f = dispatcher.Filter{
		Statuses: asWords[dispatcher.Status](q.all("status")), Reasons: asWords[dispatcher.DeadReason](q.all("dead_reason")),
		Topics: q.all("topic"), Tenants: q.all("tenant"), Subjects: q.all("subject"), SubjectLike: q.all("subject_like"),
		Failed: q.flag("failed"), Since: q.time("since"), Until: q.time("until"), View: q.view,
	}
	f.Lanes, err = s.lanesOf(ctx, q.all("destination"), f.Tenants)
	return f, err
}

func refuseMessage(v string) string {
	return unless(dispatcher.ValidID(v), "must be the id of a message")
}

// attempts serves GET /v1/attempts.
func (s *server) attempts(ctx context.Context, q *request) (*response, error) {
	f, err := s.logFilter(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.r.Method == http.MethodGet && q.prefers(mediaEvents) {
		return nil, s.followAttempts(ctx, q, f)
	}
	return fitting(q.limit(), func(limit int) (*response, error) {
		page, err := s.o.Attempts.ReadLog(ctx, f, limit, q.cursor())
		if err != nil {
			return nil, err
		}
		w := wire.LoggedPage{
			Data: convert(page.Lines, q.logged), NextCursor: nextCursor(page.Next), LookedAt: page.LookedAt,
			CompleteSince: wire.Time{Time: page.CompleteSince},
		}
		return answerJSON(http.StatusOK, w)
	})
}

// followAttempts serves GET /v1/attempts as an event stream. It returns an error only
// where nothing was written.
func (s *server) followAttempts(ctx context.Context, q *request, f dispatcher.LogFilter) error {
	for _, name := range []string{"limit", "cursor"} {
		if q.query.Has(name) {
			return wrongField("query."+name, "an event stream has no pages: leave it out")
		}
	}
	ctx, leave, ok := s.waiting.Enter(ctx, q.w.caller)
	if !ok {
		return &problem{kind: waiting, detail: "half of MAX_CONNECTIONS do; end one that is not needed, or raise the setting"}
	}
	defer leave()
	out := events.New(q.w)
	err := s.o.Followers.FollowLog(ctx, f, q.r.Header.Get(lastEventID), func(all []dispatcher.LogEvent) error {
		if !s.stillAllowed(q) {
			return errKeyGone
		}
		for i := range all {
			if err := out.Send(q.event(&all[i])); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	if callers.CrowdedOut(ctx) {
		err = callers.ErrCrowdedOut
	}
	switch {
	case q.w.begun:
		if why := ending(err); why != "" {
			_ = out.Send(events.Event{Name: "end", Data: wire.StreamEnd{Reason: why}}) // fails where the caller is gone
			_ = out.Flush()
		}
		return nil
	case errors.Is(err, dispatcher.ErrCursor):
		return wrongField("header."+lastEventID, "is not the id of an event of this stream, or its store was emptied since: leave it out to begin anew")
	}
	return err
}

// errKeyGone says that the caller's key was taken out of API_KEYS.
var errKeyGone = errors.New("the key is not known any more")

// ending is the reason of an event stream's end as its caller is told; empty: the
// caller left.
func ending(err error) string {
	switch {
	case errors.Is(err, dispatcher.ErrBehind):
		return "slow"
	case errors.Is(err, dispatcher.ErrStopping):
		return "stopping"
	case errors.Is(err, errKeyGone):
		return "key"
	case errors.Is(err, callers.ErrCrowdedOut):
		return "busy"
	}
	return ""
}

// event is what a caller is told of an event of the log.
func (q *request) event(e *dispatcher.LogEvent) events.Event {
	switch {
	case e.Line != nil:
		return events.Event{Name: "attempt", ID: e.At, Data: q.logged(e.Line)}
	case !e.Gap.IsZero():
		return events.Event{Name: "gap", ID: e.At, Data: wire.Gap{CompleteSince: wire.Time{Time: e.Gap}}}
	}
	return events.Event{ID: e.At}
}

// logged is a line of the log as its caller may see it.
func (q *request) logged(l *dispatcher.Logged) wire.LoggedAttempt {
	w := wireLogged(l)
	w.Job = q.jobID(l.Job)
	if !q.bodies {
		w.ResponseExcerpt, w.ResponseBytes = "", len(l.Attempt.Excerpt)
	}
	return w
}

func (s *server) logFilter(ctx context.Context, q *request) (f dispatcher.LogFilter, err error) {
	f = dispatcher.LogFilter{
		Tenants: q.all("tenant"), Topics: q.all("topic"), Subjects: q.all("subject"), Messages: q.all("message"),
		Happenings: asWords[dispatcher.Happening](q.all("outcome")), Statuses: q.numbers("status_code"), Jobs: q.jobs("job"),
		Since: q.time("since"), Until: q.time("until"), View: q.view,
	}
	f.Lanes, err = s.lanesOf(ctx, q.all("destination"), f.Tenants)
	return f, err
}

func wireLogged(l *dispatcher.Logged) wire.LoggedAttempt {
	a := &l.Attempt
	w := wire.LoggedAttempt{
		ID: l.ID.String(), MessageID: l.ID.Message, Destination: string(l.ID.Lane), URL: a.URL, Address: a.Address,
		Topic: l.Topic, Tenant: l.Tenant, Subject: l.Subject, Attempt: a.Number, At: wire.Time{Time: a.At}, DurationMS: a.Duration.Milliseconds(),
		StatusCode: a.Status, Class: string(a.Class), Outcome: string(l.Happening), Error: strings.ToValidUTF8(a.Error, "�"),
		ResponseExcerpt: strings.ToValidUTF8(string(a.Excerpt), "�"),
		NextAttemptAt:   wire.Time{Time: a.Next}, Resend: a.Resend,
	}
	if l.Reason != "" {
		w.Error = string(l.Reason)
	}
	return w
}
