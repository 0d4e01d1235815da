package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Lanes are paused and resumed. A destination is a lane, an endpoint's id or uid, a URL,
// or * for all lanes.
type Lanes interface {
	// Lane is the lane of a destination, for a URL the lane of tenant;
	// dispatcher.ErrNoEndpoint if no endpoint has a uid.
	Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error)
	// Lanes reads a page of all lanes.
	Lanes(ctx context.Context, limit int, cursor string) (states []dispatcher.LaneState, next string, err error)
	// LaneStates reads these lanes, without the ones that do not exist.
	LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error)
	// PausedLanes are the lanes that were paused last, and the number of all paused.
	PausedLanes(ctx context.Context) (states []dispatcher.LaneState, total int, err error)
	// Pause pauses a destination; dispatcher.ErrNoEndpoint or dispatcher.ErrNoLane
	// if there is no such endpoint or lane.
	Pause(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// Resume ends a pause.
	Resume(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// OtherTenants counts the lanes of other tenants at a URL's origin.
	OtherTenants(ctx context.Context, url, tenant string) (dispatcher.OtherTenants, error)
	// PauseTenants pauses the lanes of all tenants there.
	PauseTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)
	// ResumeTenants ends these pauses.
	ResumeTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)
}

// MessageLanes are the lanes of a message's destinations. dispatcher.ErrNotFound says that
// there is no such message. While there is an archive, it is asked too.
type MessageLanes interface {
	// MessageTenant is the tenant of a message.
	MessageTenant(ctx context.Context, id string) (string, error)
	// MessageLane is the lane of a destination, for a URL with the tenant of a message.
	MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error)
}

// destination is the lane of the message's destination that the query names;
// empty: it names none.
func (s *server) destination(ctx context.Context, q *request) (dispatcher.Lane, error) {
	text := q.one("destination")
	if text == "" {
		return "", nil
	}
	lane, err := s.o.MessageLanes.MessageLane(ctx, q.id(), text)
	if err := q.elsewhere(err); err != nil {
		return "", unknownDestination(err)
	}
	return lane, nil
}

const queryDestination = "query.destination"

// unknownDestination makes a problem of the error that no endpoint has a uid.
func unknownDestination(err error) error {
	if errors.Is(err, dispatcher.ErrNoEndpoint) {
		return wrongField(queryDestination, "there is no endpoint with this uid; a queue is written q_<its name>")
	}
	return err
}

// lanesOf are the lanes of destinations. A URL has a lane for each of the tenants,
// or one where no tenant is given.
func (s *server) lanesOf(ctx context.Context, destinations, tenants []string) (lanes []dispatcher.Lane, err error) {
	for _, destination := range destinations {
		of := []string{""}
		if isURL(destination) && len(tenants) > 0 {
			of = tenants
		}
		for _, tenant := range of {
			lane, err := s.o.Lanes.Lane(ctx, destination, tenant)
			if err != nil {
				return nil, unknownDestination(err)
			}
			lanes = append(lanes, lane)
		}
		if len(lanes) > maxValues {
			return nil, wrongField(queryDestination, "means more than 100 lanes, with all these tenants")
		}
	}
	return lanes, nil
}

// isURL reports whether a destination is a URL.
func isURL(destination string) bool { return strings.Contains(destination, "://") }

// refuseDestination says why a text can't name a destination, or nothing.
func refuseDestination(text string) string {
	if isURL(text) {
		if _, err := dispatcher.ParseURL(text); err != nil {
			return err.Error()
		}
		return ""
	}
	_, queue := dispatcher.QueueNamed(text)
	return unless(queue || dispatcher.ValidLane(text) || dispatcher.ValidUID(text), "must be a lane, an endpoint's id or uid, a URL, or q_ and the name of a queue")
}

// checkLane checks the lane in a path. It is unescaped, so that a URL may stand in it.
func checkLane(text string) error {
	if text == string(dispatcher.AllLanes) {
		return nil
	}
	if why := refuseDestination(text); why != "" {
		return wrongField("path.lane", why)
	}
	return nil
}

// lanes serves GET /v1/lanes.
func (s *server) lanes(ctx context.Context, q *request) (*response, error) {
	if destinations := q.all("destination"); len(destinations) > 0 {
		return s.namedLanes(ctx, q, destinations)
	}
	if len(q.all("tenant")) > 0 {
		return nil, wrongField("query.tenant", "goes with a URL as destination only")
	}
	states, next, err := s.o.Lanes.Lanes(ctx, q.limit(), q.cursor())
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.LanePage{Data: convert(states, wireLane), NextCursor: nextCursor(next)})
}

// namedLanes answers the lanes of destinations, which fit in one page.
func (s *server) namedLanes(ctx context.Context, q *request, destinations []string) (*response, error) {
	if q.cursor() != "" {
		return nil, wrongField("query.cursor", "goes without destination")
	}
	lanes, err := s.lanesOf(ctx, destinations, q.all("tenant"))
	if err != nil {
		return nil, err
	}
	states, err := s.o.Lanes.LaneStates(ctx, lanes)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.LanePage{Data: convert(states, wireLane)})
}

// pauseLane serves POST /v1/lanes/{lane}/pause.
func (s *server) pauseLane(ctx context.Context, q *request) (*response, error) {
	return s.hold(ctx, q, s.o.Lanes.Pause, s.o.Lanes.PauseTenants)
}

// resumeLane serves POST /v1/lanes/{lane}/resume.
func (s *server) resumeLane(ctx context.Context, q *request) (*response, error) {
	return s.hold(ctx, q, s.o.Lanes.Resume, s.o.Lanes.ResumeTenants)
}

type (
	holdFunc    func(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	tenantsFunc func(ctx context.Context, destination, cursor string) (dispatcher.OtherTenants, error)
)

// heldLane is what a call to pause or resume a lane asks for.
type heldLane struct {
	destination, tenant string
	all                 bool // all tenants' lanes at a URL's origin
	cursor              string
}

// hold pauses or resumes any destination.
func (s *server) hold(ctx context.Context, q *request, one holdFunc, all tenantsFunc) (*response, error) {
	asked, err := parseHeldLane(q)
	if err != nil {
		return nil, err
	}
	var others dispatcher.OtherTenants
	if asked.all { // first: if a part of the store is away, this call reaches the rest
		if others, err = all(ctx, asked.destination, asked.cursor); err != nil {
			return nil, err
		}
	}
	state, err := one(ctx, asked.destination, asked.tenant)
	if err != nil {
		return nil, err
	}
	if isURL(asked.destination) && !asked.all {
		if others, err = s.o.Lanes.OtherTenants(ctx, asked.destination, asked.tenant); err != nil {
			others.Failed++ // the destination itself is paused or resumed
		}
	}
	w := wireLane(&state)
	if isURL(asked.destination) {
		w.OtherTenants = &wire.OtherTenants{
			Lanes: others.Lanes, Changed: others.Changed, Failed: others.Failed, NextCursor: nextCursor(others.Next),
		}
	}
	return answerJSON(http.StatusOK, w)
}

func parseHeldLane(q *request) (heldLane, error) {
	h := heldLane{destination: q.id(), tenant: q.one("tenant"), all: q.flag("all_tenants"), cursor: q.cursor()}
	switch {
	case h.tenant != "" && !isURL(h.destination):
		return h, wrongField("query.tenant", "goes with a URL only: any other destination has one tenant")
	case h.all && !isURL(h.destination):
		return h, wrongField("query.all_tenants", "goes with a URL only: any other destination has one tenant")
	case h.all && h.tenant != "":
		return h, wrongField("query.all_tenants", "goes without tenant")
	case h.cursor != "" && !h.all:
		return h, wrongField("query.cursor", "goes with all_tenants only")
	}
	return h, nil
}

// wireLane is a lane as callers read it.
func wireLane(l *dispatcher.LaneState) wire.LaneState {
	state, why := l.Standing()
	w := wire.LaneState{
		Lane: string(l.Lane), URL: l.URL, Tenant: l.Tenant, UID: l.UID, State: string(state), Why: string(why),
		Since: wire.Time{Time: l.Since}, By: l.By,
		InFlight: l.InFlight, Waiting: l.Waiting, Window: l.Window, MaxInFlight: l.Limits.MaxInFlight,
		Rate: rateOf(l.Limits.Interval), TokenAt: wire.Time{Time: l.Token}, Ordered: l.Limits.Ordered,
		Fails: l.Fails, Opened: l.Opened, Until: wire.Time{Time: l.Until},
	}
	w.Queue = l.Queue
	if l.Limits.Pull || l.Lane.IsQueue() {
		w.Kind = kindPull
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
		w.Until = wire.Time{Time: l.Token.Add(time.Millisecond - 1).Truncate(time.Millisecond)} // as in its deliveries
	}
	return w
}

// rateOf is the rate with an interval, per second, minute or hour: the shortest in
// which it is a whole number. A lane keeps the interval only.
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
