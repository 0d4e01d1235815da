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

// destination is the lane of the one destination that the query names, or none.
func (s *server) destination(ctx context.Context, c *call) (dispatcher.Lane, error) {
	q, err := c.query("destination")
	if err != nil {
		return "", err
	}
	text, err := only(q, "destination")
	if err != nil || text == "" {
		return "", err
	}
	lane, err := s.lane(ctx, text, "query.destination")
	var wrong *problem
	if !c.reads && errors.As(err, &wrong) && checkDestination(text) == "" {
		return "", dispatcher.ErrNotFound // as where the message does not go there: whose uids there are is not told
	}
	return lane, err
}

// lane is the lane of a destination that was named at path.
func (s *server) lane(ctx context.Context, destination, path string) (dispatcher.Lane, error) {
	if wrong := checkDestination(destination); wrong != "" {
		return "", field(path, wrong)
	}
	lane, err := s.svc.Lane(ctx, destination)
	if errors.Is(err, dispatcher.ErrNoEndpoint) {
		return "", field(path, "there is no endpoint with this uid")
	}
	return lane, err
}

// checkDestination says why a text can't name a destination, or nothing.
func checkDestination(text string) string {
	if strings.Contains(text, "://") {
		if _, err := dispatcher.ParseURL(text); err != nil {
			return err.Error()
		}
		return ""
	}
	return unless(dispatcher.ValidLane(text) || dispatcher.ValidUID(text), "must be a lane, an endpoint's id or uid, or a URL")
}

// lanes serves GET /v1/lanes.
func (s *server) lanes(ctx context.Context, c *call) (*reply, error) {
	q, err := c.query("limit", "cursor")
	if err != nil {
		return nil, err
	}
	p := filterParser{q: q}
	limit, cursor := p.page()
	if wrong := fields(p.wrong); wrong != nil {
		return nil, wrong
	}
	states, next, err := s.svc.Lanes(ctx, limit, cursor)
	if err != nil {
		return nil, err
	}
	w := wire.LanePage{Data: make([]wire.LaneState, len(states)), NextCursor: nextCursor(next)}
	for i := range states {
		w.Data[i] = wireLane(&states[i])
	}
	return answerJSON(http.StatusOK, w)
}

// pauseLane serves POST /v1/lanes/{lane}/pause.
func (s *server) pauseLane(ctx context.Context, c *call) (*reply, error) {
	return s.hold(ctx, c, s.svc.Pause)
}

// resumeLane serves POST /v1/lanes/{lane}/resume.
func (s *server) resumeLane(ctx context.Context, c *call) (*reply, error) {
	return s.hold(ctx, c, s.svc.Resume)
}

type holdFunc func(ctx context.Context, destination string) (dispatcher.LaneState, error)

// hold holds any destination, or lets it go on.
func (s *server) hold(ctx context.Context, c *call, do holdFunc) (*reply, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	destination := c.r.PathValue("lane") // unescaped, so that a URL may stand in it
	if wrong := checkDestination(destination); wrong != "" && destination != string(dispatcher.AllLanes) {
		return nil, field("path.lane", wrong)
	}
	state, err := do(ctx, destination)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wireLane(&state))
}

// wireLane is a lane as callers read it.
func wireLane(l *dispatcher.LaneState) wire.LaneState {
	w := wire.LaneState{
		Lane: string(l.Lane), URL: l.URL, State: string(l.State()),
		InFlight: l.InFlight, Waiting: l.Waiting, Window: l.Window, MaxInFlight: l.Limits.MaxInFlight,
		Rate: rateOf(l.Limits.Interval), TokenAt: wire.Time{Time: l.Token}, Ordered: l.Limits.Ordered,
		Fails: l.Fails, Opened: l.Opened, Until: wire.Time{Time: l.Until},
	}
	if l.Lane.IsEndpoint() {
		w.Endpoint = string(l.Lane)
	}
	switch l.Limits.Held {
	case dispatcher.HeldPaused:
		w.Held = "paused"
	case dispatcher.HeldDisabled:
		w.Held = "disabled"
	case dispatcher.HeldDeleted:
		w.Held = "deleted"
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
