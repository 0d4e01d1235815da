package httpapi

import (
	"bytes"
	"context"
	"net/http"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Lists queries pages of deliveries. A list returns dispatcher.ErrCursor for a cursor that it
// did not make.
type Lists interface {
	// Deliveries returns a page of deliveries.
	Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	// Ended returns a page of the finished deliveries of an endpoint, oldest first.
	Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
}

// Dead queries the dead deliveries.
type Dead interface {
	// Dead returns their counts by destination and reason.
	Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error)
}

// listOperations returns the operations that list deliveries of any message.
func (s *server) listOperations() []api.Operation {
	return []api.Operation{
		{
			ID: "list-deliveries", Method: "GET", Path: "/v1/deliveries", Scope: callers.Read, Link: api.AnyLink,
			Summary: "List deliveries, newest first, as JSON or CSV", Do: s.deliveries, CSV: true,
			Answers: api.OK(examplePage), Query: api.OfFilter(client.Filter{}),
			Problems: []*api.Kind{api.Malformed, api.Listing},
		},
		{
			ID: "list-endpoint-deliveries", Method: "GET", Path: "/v1/endpoints/{id}/deliveries", Scope: callers.Read,
			Summary: "List the deliveries to an endpoint that ended, oldest first by their end, as JSON or CSV", Do: s.ended,
			Subject: endpointSubject, Answers: api.OK(exampleEndedPage), CSV: true, Query: api.OfFilter(client.EndedFilter{}),
			Problems: []*api.Kind{api.Malformed, api.Listing},
		},
		{
			ID: "list-dead", Method: "GET", Path: "/v1/dead", Scope: callers.Read,
			Summary: "Count the dead deliveries by destination and reason, most first", Do: s.dead,
			Answers: api.OK(exampleDeadPage), Query: api.OfFilter(client.DeadFilter{}),
			Problems: []*api.Kind{api.Malformed, api.Listing},
		},
	}
}

// deliveries serves GET /v1/deliveries.
func (s *server) deliveries(ctx context.Context, q *api.Request) (*api.Response, error) {
	destinations, err := s.ownDestinations(ctx, q)
	if err != nil {
		return nil, err
	}
	f, err := s.deliveryFilter(ctx, q, destinations)
	if err != nil {
		return nil, err
	}
	f.Cursor, f.Order = q.Cursor(), dispatcher.Order(q.One("order"))
	if err := f.Arrange(); err != nil {
		return nil, api.WrongField("query.order", err.Error())
	}
	return api.Fitting(q.Limit(), func(limit int) (*api.Response, error) {
		f.Limit = limit
		page, err := s.o.Lists.Deliveries(ctx, f)
		if err != nil {
			return nil, err
		}
		short := page.Next != "" && page.Reached != nil && len(page.Deliveries) < limit
		list := own(q, page.Deliveries, func(d *dispatcher.Delivery) (string, dispatcher.Lane) { return d.Tenant, d.ID.Lane })
		w := wire.Page{Data: api.Convert(list, api.Listed), NextCursor: api.NextCursor(page.Next), CompleteSince: wire.Time{Time: page.CompleteSince}}
		for i := range w.Data {
			outwardDelivery(q, &w.Data[i])
		}
		if !q.Linked() { // it also counts deliveries of others
			w.LookedAt = page.LookedAt
		}
		if short && (!q.Linked() || f.Order == dispatcher.OrderAccepted) { // another place may belong to another tenant
			w.LookedUntil = wire.Time{Time: page.Reached.At}
		}
		if q.Prefers(api.MediaCSV) {
			return answerCSV(w.Data, w.NextCursor, w.CompleteSince)
		}
		return api.JSON(http.StatusOK, w)
	})
}

// ended serves GET /v1/endpoints/{id}/deliveries.
func (s *server) ended(ctx context.Context, q *api.Request) (*api.Response, error) {
	f := dispatcher.EndedFilter{
		Statuses: api.AsWords[dispatcher.Status](q.All("status")), Since: q.Time("since"), Until: q.Time("until"), Cursor: q.Cursor(), View: q.View,
	}
	return api.Fitting(q.Limit(), func(limit int) (*api.Response, error) {
		f.Limit = limit
		page, err := s.o.Lists.Ended(ctx, q.ID(), f)
		if err != nil {
			return nil, err
		}
		w := wire.EndedPage{
			Data: api.Convert(page.Deliveries, api.Listed), ResumeCursor: page.Resume, LookedAt: page.LookedAt,
			CompleteSince: wire.Time{Time: page.CompleteSince},
		}
		if page.More {
			w.NextCursor = &w.ResumeCursor
		}
		if !q.Prefers(api.MediaCSV) {
			return api.JSON(http.StatusOK, w)
		}
		r, err := answerCSV(w.Data, w.NextCursor, w.CompleteSince)
		if err == nil {
			r.Headers[wire.HeaderResumeCursor] = w.ResumeCursor
		}
		return r, err
	})
}

// answerCSV returns a page of deliveries as CSV, with its cursor in a header.
func answerCSV(list []wire.Delivery, next *string, complete wire.Time) (*api.Response, error) {
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
	return &api.Response{Status: http.StatusOK, ContentType: api.MediaCSV + "; charset=utf-8", Body: b.Bytes(), Headers: headers}, nil
}

// dead serves GET /v1/dead.
func (s *server) dead(ctx context.Context, q *api.Request) (*api.Response, error) {
	f := dispatcher.DeadFilter{
		Tenants: q.All("tenant"), Reasons: api.AsWords[dispatcher.DeadReason](q.All("dead_reason")), Limit: q.Limit(), Cursor: q.Cursor(), View: q.View,
	}
	var err error
	if f.Lanes, err = s.lanesOf(ctx, q.All("destination"), f.Tenants); err != nil {
		return nil, err
	}
	page, err := s.o.Dead.Dead(ctx, f)
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.DeadPage{Data: api.Convert(page.Groups, wireDead), NextCursor: api.NextCursor(page.Next)})
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

// deliveryFilter parses the parameters of a filter of deliveries, but for the destinations.
func (s *server) deliveryFilter(ctx context.Context, q *api.Request, destinations []string) (f dispatcher.Filter, err error) {
	f = dispatcher.Filter{
		Statuses: api.AsWords[dispatcher.Status](q.All("status")), Reasons: api.AsWords[dispatcher.DeadReason](q.All("dead_reason")),
		Topics: q.All("topic"), Tenants: q.All("tenant"), Subjects: q.All("subject"), SubjectLike: q.All("subject_like"), SubjectEnds: q.All("subject_ends"),
		Failed: q.Flag("failed"), Since: q.Time("since"), Until: q.Time("until"), View: q.View,
	}
	f.Lanes, err = s.lanesOf(ctx, destinations, f.Tenants)
	return f, err
}
