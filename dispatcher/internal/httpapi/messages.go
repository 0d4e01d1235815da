package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/events"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// message serves GET /v1/messages/{id}.
func (s *server) message(ctx context.Context, q *request) (*response, error) {
	view, err := s.svc.Message(ctx, q.id())
	if err != nil {
		return nil, err
	}
	w := wireMessage(view)
	switch gone := view.Message.Apart; {
	case gone != nil && view.Message.Body == nil: // it is not kept
		w.BodyBytes = gone.Size
	case q.bodies:
		setWireBody(&w.Message, &view.Message)
	default:
		sum := sha256.Sum256(view.Message.Body)
		w.BodyBytes, w.BodySHA256 = len(view.Message.Body), hex.EncodeToString(sum[:])
	}
	for i := range w.Deliveries {
		if !q.bodies {
			hideAnswers(&w.Deliveries[i], &view.Deliveries[i])
		}
	}
	body, err := w.Append(nil)
	if err != nil {
		return nil, fmt.Errorf("read message %s: %w", q.id(), err)
	}
	return &response{status: http.StatusOK, contentType: mediaJSON, body: body}, nil
}

// cancel serves DELETE /v1/messages/{id}.
func (s *server) cancel(ctx context.Context, q *request) (*response, error) {
	lane, err := s.destination(ctx, q)
	if err != nil {
		return nil, err
	}
	deliveries, err := s.svc.Cancel(ctx, q.id(), lane)
	if err != nil {
		return nil, q.elsewhere(err)
	}
	if !q.reads {
		return answerJSON(http.StatusOK, deliveriesOf{q.id(), convert(deliveries, briefDelivery)})
	}
	list := convert(deliveries, wireDelivery)
	if !q.bodies {
		for i := range list {
			hideAnswers(&list[i], &deliveries[i])
		}
	}
	return answerJSON(http.StatusOK, deliveriesOf{q.id(), list})
}

// hideAnswers replaces what a receiver answered by its size, for a key without the
// scope bodies.
func hideAnswers(w *wire.Delivery, d *dispatcher.Delivery) {
	for k := range w.History {
		w.History[k].ResponseExcerpt, w.History[k].ResponseBytes = "", len(d.History[k].Excerpt)
	}
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
		page, err := s.svc.Deliveries(ctx, f)
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
		page, err := s.svc.Ended(ctx, q.id(), f)
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
	page, err := s.svc.Dead(ctx, f)
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

// deliveriesOf is wire.Deliveries, wire.Retried or wire.BriefDeliveries.
type deliveriesOf struct {
	ID         string `json:"id"`
	Deliveries any    `json:"deliveries"`
}

// briefDelivery is the answer to a key without the scope read. Ids can be guessed,
// since callers choose them, and URLs and answers hold secrets.
func briefDelivery(d *dispatcher.Delivery) wire.BriefDelivery {
	return wire.BriefDelivery{ID: d.ID.String(), Destination: string(d.ID.Lane), Status: string(d.Status)}
}

// retry serves POST /v1/messages/{id}/retry.
func (s *server) retry(ctx context.Context, q *request) (*response, error) {
	lane, err := s.destination(ctx, q)
	if err != nil {
		return nil, err
	}
	all, err := s.svc.Retry(ctx, q.id(), lane, q.flag("all") || lane != "")
	if err != nil {
		return nil, q.elsewhere(err)
	}
	full := convert(all, wireRetried)
	if !q.bodies {
		for i := range full {
			hideAnswers(&full[i].Delivery, &all[i].Delivery)
		}
	}
	var list any = full
	if !q.reads {
		list = convert(all, func(r *dispatcher.Retried) wire.BriefDelivery {
			w := briefDelivery(&r.Delivery)
			w.Retried, w.Why = new(r.Left == dispatcher.LeftNot), string(r.Left)
			return w
		})
	}
	if slices.ContainsFunc(all, func(r dispatcher.Retried) bool { return r.Left == dispatcher.LeftNot }) {
		return answerJSON(http.StatusAccepted, deliveriesOf{q.id(), list})
	}
	p := leaving[all[0].Left]
	q.w.refusal = p
	body, err := json.Marshal(struct {
		wire.Problem
		Deliveries any `json:"deliveries"`
	}{p.wire(), list})
	return p.response(body), err
}

// leaving has the problem for each reason why nothing is attempted.
var leaving = map[dispatcher.Left]*problem{
	dispatcher.LeftReady:     {kind: due, detail: "it is attempted as soon as nothing holds it back: see waiting_for"},
	dispatcher.LeftInFlight:  {kind: inFlight, detail: "wait for its end, then ask again"},
	dispatcher.LeftOrder:     {kind: order, detail: "others of its ordering key go first: retry or cancel the first of them"},
	dispatcher.LeftDelivered: {kind: delivered, detail: "to send it again, name its destination, or ask for all=true"},
	dispatcher.LeftExpired:   {kind: expired, detail: "its expires_at has passed: publish it anew under another id"},
	dispatcher.LeftDisabled:  {kind: disabled, detail: "resume its lane first: POST /v1/endpoints/{id}/resume, or of a URL POST /v1/lanes/{lane}/resume"},
	dispatcher.LeftDeleted:   {kind: deleted, detail: "nothing is sent to it any more"},
}

func wireRetried(r *dispatcher.Retried) wire.RetriedDelivery {
	return wire.RetriedDelivery{Delivery: wireDelivery(&r.Delivery), Retried: r.Left == dispatcher.LeftNot, Why: string(r.Left)}
}

// elsewhere is one error for a caller without the scope read, whatever is missing:
// the message, the endpoint, or the delivery of one to the other. Else the caller
// could find out which uids exist.
func (q *request) elsewhere(err error) error {
	missing := errors.Is(err, dispatcher.ErrNotFound) || errors.Is(err, dispatcher.ErrNoDelivery) || errors.Is(err, dispatcher.ErrNoEndpoint)
	if !q.reads && missing && q.query.Has("destination") {
		return &problem{kind: notFound, detail: "it was never published, is no longer kept, or does not go to this destination"}
	}
	return err
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
		page, err := s.svc.ReadLog(ctx, f, limit, q.cursor())
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
	err := s.svc.FollowLog(ctx, f, q.r.Header.Get(lastEventID), func(all []dispatcher.LogEvent) error {
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
