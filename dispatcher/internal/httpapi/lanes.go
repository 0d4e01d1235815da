package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Lanes reads, pauses and resumes lanes. A destination is a lane, an endpoint's id or uid, a URL,
// or * for all lanes.
type Lanes interface {
	// Lane returns the lane of a destination, for a URL the lane of tenant. It returns
	// dispatcher.ErrNoEndpoint if no endpoint has the uid.
	Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error)
	// Lanes returns a page of all lanes.
	Lanes(ctx context.Context, limit int, cursor string) (states []dispatcher.LaneState, next string, err error)
	// LaneStates returns the states of these lanes, without missing ones.
	LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error)
	// FailingLanes returns the lanes whose attempts fail, the most waiting first, at most 500.
	FailingLanes(ctx context.Context) ([]dispatcher.LaneState, error)
	// PausedLanes returns the lanes that were paused last, and the number of all paused lanes.
	PausedLanes(ctx context.Context) (states []dispatcher.LaneState, total int, err error)
	// Pause pauses a destination. It returns dispatcher.ErrNoEndpoint or dispatcher.ErrNoLane if
	// there is no such endpoint or lane.
	Pause(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// Resume ends a pause.
	Resume(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// OtherTenants returns the number of lanes of other tenants at a URL's origin.
	OtherTenants(ctx context.Context, url, tenant string) (dispatcher.OtherTenants, error)
	// PauseTenants pauses the lanes of all tenants at a URL's origin.
	PauseTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)
	// ResumeTenants ends the pauses of all tenants at a URL's origin.
	ResumeTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)
}

// laneSubject is a lane in a path.
var laneSubject = &api.Subject{Name: "lane", Doc: "A lane, an endpoint's id or uid, a URL (its slashes escaped as %2F), or * for all.", Schema: api.LaneForm.Schema, Example: "merchant-7", Check: checkLane}

// laneOperations returns the calls about lanes.
func (s *server) laneOperations() []api.Operation {
	params := []*api.Param{
		api.OfText("tenant", "With a URL: the tenant whose deliveries are meant. Left out: those without a tenant.", api.TenantForm),
		api.OfFlag("all_tenants", "true, with a URL: also the lanes of all other tenants that exist at its origin now."),
		api.OfText("cursor", "With all_tenants: next_cursor of the call before.", api.AnyFilled),
	}
	one := api.OK(exampleLaneState)
	return []api.Operation{
		{
			ID: "list-lanes", Method: "GET", Path: "/v1/lanes", Scope: callers.Read, Link: api.AnyLink,
			Summary: "List lanes, newest first", Do: s.lanes,
			Query: append([]*api.Param{
				api.Repeated(api.OfText("destination", "Only the lane of this: a lane, an endpoint's id or uid, a URL, or q_<name> for a queue. May be repeated. One that is not there is left out.", api.DestinationForm)),
				api.OfFlag("failing", "true: only lanes of which no attempt succeeded since failing_since, the most waiting first. At most 500, without a cursor."),
				api.Repeated(api.OfText("tenant", "With a URL: the tenant whose lane is meant. Left out: that of the deliveries without a tenant. May be repeated.", api.TenantForm)),
			}, api.OfPage(input.MaxPage)...), Answers: api.OK(exampleLanePage),
			Problems: []*api.Kind{api.Malformed, api.Listing},
		},
		{
			ID: "pause-lane", Method: "POST", Path: "/v1/lanes/{lane}/pause", Scope: callers.Admin, Audit: "lane.pause",
			Summary: "Pause the deliveries to a destination, or all deliveries", Do: s.pauseLane,
			Subject: laneSubject, Query: params, Answers: one, Problems: []*api.Kind{api.Changed, api.Sealed},
		},
		{
			ID: "resume-lane", Method: "POST", Path: "/v1/lanes/{lane}/resume", Scope: callers.Admin, Audit: "lane.resume",
			Summary: "Resume the deliveries to a destination, and close its breaker", Do: s.resumeLane,
			Subject: laneSubject, Query: params, Answers: one, Problems: []*api.Kind{api.Changed, api.Sealed},
		},
	}
}

// unknownDestination returns a problem if no endpoint has the uid.
func unknownDestination(err error) error {
	if errors.Is(err, dispatcher.ErrNoEndpoint) {
		return api.WrongField(api.QueryDestination, "there is no endpoint with this uid; a queue is written q_<its name>")
	}
	return err
}

// lanesOf returns the lanes of destinations. A URL has one lane for each tenant, or only one if no
// tenant is given.
func (s *server) lanesOf(ctx context.Context, destinations, tenants []string) (lanes []dispatcher.Lane, err error) {
	for _, destination := range destinations {
		of := []string{""}
		if api.IsURL(destination) && len(tenants) > 0 {
			of = tenants
		}
		for _, tenant := range of {
			lane, err := s.o.Lanes.Lane(ctx, destination, tenant)
			if err != nil {
				return nil, unknownDestination(err)
			}
			lanes = append(lanes, lane)
		}
		if len(lanes) > api.MaxValues {
			return nil, api.WrongField(api.QueryDestination, "means more than 100 lanes, with all these tenants")
		}
	}
	return lanes, nil
}

// checkLane returns an error if the unescaped path has no valid lane. A lane may be a URL.
func checkLane(text string) error {
	if text == string(dispatcher.AllLanes) {
		return nil
	}
	if why := api.DestinationForm.Refuse(text); why != "" {
		return api.WrongField("path.lane", why)
	}
	return nil
}

// lanes serves GET /v1/lanes.
func (s *server) lanes(ctx context.Context, q *api.Request) (*api.Response, error) {
	destinations := q.All("destination")
	switch {
	case q.Flag("failing") && (len(destinations) > 0 || q.Cursor() != ""):
		return nil, api.WrongField("query.failing", "goes without destination and cursor")
	case len(destinations) > 0:
		return s.namedLanes(ctx, q, destinations)
	}
	if len(q.All("tenant")) > 0 {
		return nil, api.WrongField("query.tenant", "goes with a URL as destination only")
	}
	if q.Flag("failing") {
		return s.failingLanes(ctx, q)
	}
	states, next, err := s.o.Lanes.Lanes(ctx, q.Limit(), q.Cursor())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.LanePage{Data: outwardLanes(q, states), NextCursor: api.NextCursor(next)})
}

// failingLanes returns the lanes whose attempts fail.
func (s *server) failingLanes(ctx context.Context, q *api.Request) (*api.Response, error) {
	states, err := s.o.Lanes.FailingLanes(ctx)
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.LanePage{Data: outwardLanes(q, states[:min(len(states), input.PageSize(q.Limit(), input.MaxPage))])})
}

// pauseLane serves POST /v1/lanes/{lane}/pause.
func (s *server) pauseLane(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.hold(ctx, q, s.o.Lanes.Pause, s.o.Lanes.PauseTenants)
}

// resumeLane serves POST /v1/lanes/{lane}/resume.
func (s *server) resumeLane(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.hold(ctx, q, s.o.Lanes.Resume, s.o.Lanes.ResumeTenants)
}

// namedLanes returns the lanes of destinations, which fit in one page.
func (s *server) namedLanes(ctx context.Context, q *api.Request, destinations []string) (*api.Response, error) {
	if q.Cursor() != "" {
		return nil, api.WrongField("query.cursor", "goes without destination")
	}
	lanes, err := s.lanesOf(ctx, destinations, q.All("tenant"))
	if err != nil {
		return nil, err
	}
	states, err := s.o.Lanes.LaneStates(ctx, lanes)
	if err != nil {
		return nil, err
	}
	states = own(q, states, func(l *dispatcher.LaneState) (string, dispatcher.Lane) { return l.Tenant, l.Lane })
	w := wire.LanePage{Data: outwardLanes(q, states)}
	if q.Linked() {
		for i := range w.Data {
			w.Data[i].UID, w.Data[i].By = "", "" // By is an operator
		}
	}
	return api.JSON(http.StatusOK, w)
}

type (
	holdFunc    func(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	tenantsFunc func(ctx context.Context, destination, cursor string) (dispatcher.OtherTenants, error)
)

// laneRequest is a request to pause or resume a lane.
type laneRequest struct {
	destination, tenant string
	all                 bool // all tenants' lanes at a URL's origin
	cursor              string
}

// hold pauses or resumes any destination.
func (s *server) hold(ctx context.Context, q *api.Request, one holdFunc, all tenantsFunc) (*api.Response, error) {
	asked, err := parseLaneRequest(q)
	if err != nil {
		return nil, err
	}
	var others dispatcher.OtherTenants
	if asked.all { // this is first, because it reaches the rest if a part of the store is down
		if others, err = all(ctx, asked.destination, asked.cursor); err != nil {
			return nil, err
		}
	}
	state, err := one(ctx, asked.destination, asked.tenant)
	if err != nil {
		return nil, err
	}
	if api.IsURL(asked.destination) && !asked.all {
		if others, err = s.o.Lanes.OtherTenants(ctx, asked.destination, asked.tenant); err != nil {
			others.Failed++ // the destination itself is paused or resumed
		}
	}
	w := outwardLanes(q, []dispatcher.LaneState{state})[0]
	if api.IsURL(asked.destination) {
		w.OtherTenants = &wire.OtherTenants{
			Lanes: others.Lanes, Changed: others.Changed, Failed: others.Failed, NextCursor: api.NextCursor(others.Next),
		}
	}
	return api.JSON(http.StatusOK, w)
}

func parseLaneRequest(q *api.Request) (laneRequest, error) {
	h := laneRequest{destination: q.ID(), tenant: q.One("tenant"), all: q.Flag("all_tenants"), cursor: q.Cursor()}
	switch {
	case h.tenant != "" && !api.IsURL(h.destination):
		return h, api.WrongField("query.tenant", "goes with a URL only: any other destination has one tenant")
	case h.all && !api.IsURL(h.destination):
		return h, api.WrongField("query.all_tenants", "goes with a URL only: any other destination has one tenant")
	case h.all && h.tenant != "":
		return h, api.WrongField("query.all_tenants", "goes without tenant")
	case h.cursor != "" && !h.all:
		return h, api.WrongField("query.cursor", "goes with all_tenants only")
	}
	return h, nil
}

// outwardLanes returns lanes as a caller may read them.
func outwardLanes(q *api.Request, states []dispatcher.LaneState) []wire.LaneState {
	list := api.Convert(states, wireLane)
	for i := range list {
		outwardFailure(q, list[i].LastFailure)
	}
	return list
}

// wireLane returns a lane as callers with the scope bodies read it.
func wireLane(l *dispatcher.LaneState) wire.LaneState {
	state, why := l.Standing()
	w := wire.LaneState{
		Lane: string(l.Lane), URL: l.URL, Tenant: l.Tenant, UID: l.UID, State: string(state), Why: string(why),
		Since: wire.Time{Time: l.Since}, By: l.By,
		InFlight: l.InFlight, Waiting: l.Waiting, Ready: l.Ready, Window: l.Window, MaxInFlight: l.Limits.MaxInFlight,
		Rate: rateOf(l.Limits.Interval), TokenAt: wire.Time{Time: l.Token}, Ordered: l.Limits.Ordered,
		Fails: l.Fails, Opened: l.Opened, Until: wire.Time{Time: l.Until},
	}
	w.Queue, w.FailingSince, w.LastFailure = l.Queue, wire.Time{Time: l.Failing}, wireFailure(l.LastFailure)
	if l.Limits.Pull || l.Lane.IsQueue() {
		w.Kind = api.KindPull
	}
	if l.Lane.IsEndpoint() {
		w.Endpoint = string(l.Lane)
	}
	switch why {
	case dispatcher.WhyAll:
		w.Since, w.By = wire.Time{Time: l.All.Since}, l.All.By
	case dispatcher.WhyFailing, dispatcher.WhyBreaker:
		if state != dispatcher.StateDisabled {
			w.Since = wire.Time{Time: l.Failing}
		}
	case dispatcher.WhyRate:
		w.Until = wire.Time{Time: l.Token.Add(time.Millisecond - 1).Truncate(time.Millisecond)} // rounded up as in its deliveries
	}
	return w
}

// rateOf returns the rate with an interval, per second, minute or hour. It uses the shortest unit
// with a whole number, because a lane keeps only the interval.
func rateOf(interval time.Duration) string {
	if interval <= 0 {
		return ""
	}
	var r dispatcher.Rate
	for _, per := range []time.Duration{time.Second, time.Minute, time.Hour} {
		r = dispatcher.Rate{Count: int((per + interval/2) / interval), Per: per}
		if r.Count > 0 && r.Interval() == interval {
			break
		}
	}
	return r.String()
}

// wireFailure returns the last failure of a lane; nil: there is none.
func wireFailure(f *dispatcher.LaneFailure) *wire.LaneFailure {
	if f == nil {
		return nil
	}
	a := api.Attempt(&f.Attempt)
	return &wire.LaneFailure{MessageID: f.Message, At: a.At, StatusCode: a.StatusCode, Class: a.Class, Error: a.Error, ResponseExcerpt: a.ResponseExcerpt}
}

// outwardFailure hides the receiver's response from a key without the scope bodies, and our own
// settings from a link.
func outwardFailure(q *api.Request, f *wire.LaneFailure) {
	if f == nil {
		return
	}
	if q.Linked() {
		f.Error = outward(f.Error)
	}
	if !q.Bodies {
		f.ResponseExcerpt = ""
	}
}
