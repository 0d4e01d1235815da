package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// destination is the lane of the one destination of a message that the query
// names, or none.
func (s *server) destination(ctx context.Context, c *request, q url.Values, id string) (dispatcher.Lane, error) {
	text, err := only(q, "destination")
	if err != nil || text == "" {
		return "", err
	}
	if wrong := checkDestination(text); wrong != "" {
		return "", wrongField(queryDestination, wrong)
	}
	lane, err := s.svc.MessageLane(ctx, id, text)
	if err := c.elsewhere(q, err); err != nil {
		return "", unknownDestination(err)
	}
	return lane, nil
}

const queryDestination = "query.destination"

// unknownDestination tells of an error that a uid is nobody's.
func unknownDestination(err error) error {
	if errors.Is(err, dispatcher.ErrNoEndpoint) {
		return wrongField(queryDestination, "there is no endpoint with this uid")
	}
	return err
}

// lanesOf are the lanes of destinations, of which a URL means one for each of
// the tenants, or that of no tenant.
func (s *server) lanesOf(ctx context.Context, destinations, tenants []string) (lanes []dispatcher.Lane, err error) {
	for _, destination := range destinations {
		of := []string{""}
		if isURL(destination) && len(tenants) > 0 {
			of = tenants
		}
		for _, tenant := range of {
			lane, err := s.svc.Lane(ctx, destination, tenant)
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

// isURL reports whether a destination is given as a URL.
func isURL(destination string) bool { return strings.Contains(destination, "://") }

// checkDestination says why a text can't name a destination, or nothing.
func checkDestination(text string) string {
	if isURL(text) {
		if _, err := dispatcher.ParseURL(text); err != nil {
			return err.Error()
		}
		return ""
	}
	return unless(dispatcher.ValidLane(text) || dispatcher.ValidUID(text), "must be a lane, an endpoint's id or uid, or a URL")
}

// lanes serves GET /v1/lanes.
func (s *server) lanes(ctx context.Context, c *request) (*response, error) {
	q, err := c.query("limit", "cursor")
	if err != nil {
		return nil, err
	}
	p := filterParser{q: q}
	limit, cursor := p.page()
	if wrong := wrongFields(p.wrong); wrong != nil {
		return nil, wrong
	}
	states, next, err := s.svc.Lanes(ctx, limit, cursor)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.LanePage{Data: wireLanes(states), NextCursor: nextCursor(next)})
}

func wireLanes(states []dispatcher.LaneState) []wire.LaneState {
	list := make([]wire.LaneState, len(states))
	for i := range states {
		list[i] = wireLane(&states[i])
	}
	return list
}

// pauseLane serves POST /v1/lanes/{lane}/pause.
func (s *server) pauseLane(ctx context.Context, c *request) (*response, error) {
	return s.hold(ctx, c, s.svc.Pause, s.svc.PauseTenants)
}

// resumeLane serves POST /v1/lanes/{lane}/resume.
func (s *server) resumeLane(ctx context.Context, c *request) (*response, error) {
	return s.hold(ctx, c, s.svc.Resume, s.svc.ResumeTenants)
}

type (
	holdFunc    func(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	tenantsFunc func(ctx context.Context, destination, cursor string) (dispatcher.OtherTenants, error)
)

// heldLane is what a call about a lane asks for.
type heldLane struct {
	destination, tenant string
	all                 bool // all tenants' lanes at a URL's origin
	cursor              string
}

// hold holds any destination, or lets it go on.
func (s *server) hold(ctx context.Context, c *request, one holdFunc, all tenantsFunc) (*response, error) {
	asked, err := parseHeldLane(c)
	if err != nil {
		return nil, err
	}
	var others dispatcher.OtherTenants
	if asked.all { // first, so that a part of the store that is away keeps none of the rest from it
		if others, err = all(ctx, asked.destination, asked.cursor); err != nil {
			return nil, err
		}
	}
	state, err := one(ctx, asked.destination, asked.tenant)
	if err != nil {
		return nil, err
	}
	if isURL(asked.destination) && !asked.all {
		if others, err = s.svc.OtherTenants(ctx, asked.destination, asked.tenant); err != nil {
			others.Failed++ // what was asked for is done all the same
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

func parseHeldLane(c *request) (h heldLane, err error) {
	q, err := c.query("tenant", "all_tenants", "cursor")
	if err != nil {
		return h, err
	}
	values := map[string]string{}
	for _, name := range []string{"tenant", "all_tenants", "cursor"} {
		if values[name], err = only(q, name); err != nil {
			return h, err
		}
	}
	h = heldLane{destination: c.r.PathValue("lane"), tenant: values["tenant"], cursor: values["cursor"]} // unescaped, so that a URL may stand in it
	if wrong := checkDestination(h.destination); wrong != "" && h.destination != string(dispatcher.AllLanes) {
		return h, wrongField("path.lane", wrong)
	}
	switch values["all_tenants"] {
	case "", "false":
	case "true":
		h.all = true
	default:
		return h, wrongField("query.all_tenants", "must be true or false")
	}
	switch {
	case h.tenant != "" && !dispatcher.ValidTenant(h.tenant):
		return h, wrongField("query.tenant", "must be a tenant")
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
	if l.Lane.IsEndpoint() {
		w.Endpoint = string(l.Lane)
	}
	switch why {
	case dispatcher.WhyAll:
		w.Since, w.By = wire.Time{Time: l.All.Since}, l.All.By
	case dispatcher.WhyRate:
		w.Until = wire.Time{Time: l.Token.Add(time.Millisecond - 1).Truncate(time.Millisecond)} // as deliveries tell it
	}
	return w
}

// rateOf is the rate that has an interval, in the shortest time in which it is a
// whole number: a lane knows no more of it.
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
