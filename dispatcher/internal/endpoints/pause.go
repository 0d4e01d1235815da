package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// Lane returns the lane of a destination. A destination is a lane, an endpoint's id or
// uid, q_<name> for a queue, a URL, or * for all lanes. A URL means the lane of its
// origin and of tenant. It returns ErrNoEndpoint if no endpoint has that uid.
func (r *Registry) Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error) {
	lane, _, err := r.laneAndName(ctx, destination, tenant)
	return lane, err
}

// MessageLane is Lane for a message: a URL means the lane of its origin and of the
// message's tenant.
func (r *Registry) MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error) {
	tenant := ""
	if strings.Contains(destination, "://") {
		var err error
		if tenant, err = r.MessageTenant(ctx, id); err != nil {
			return "", err
		}
	}
	return r.Lane(ctx, destination, tenant)
}

// MessageTenant returns the tenant of a message, or ErrNotFound if there is no such
// message.
func (r *Registry) MessageTenant(ctx context.Context, id string) (string, error) {
	record, err := r.Read(ctx, id)
	if err != nil {
		return "", err
	}
	return record.Message.Tenant, nil
}

// laneAndName is Lane, and also returns the lane's name if the destination contains it: a
// URL's origin and tenant, or the name of a queue.
func (r *Registry) laneAndName(ctx context.Context, destination, tenant string) (lane dispatcher.Lane, name string, err error) {
	if !strings.Contains(destination, "://") {
		if queue, ok := dispatcher.QueueNamed(destination); ok {
			return dispatcher.QueueLane(queue), queue, nil
		}
		lane, err = r.namedLane(ctx, destination)
		return lane, "", err
	}
	u, err := dispatcher.ParseURL(destination)
	if err != nil {
		return "", "", err
	}
	return dispatcher.URLLane(u, tenant), dispatcher.URLLaneName(u, tenant), nil
}

// namedLane returns the lane of a destination that is not a URL.
func (r *Registry) namedLane(ctx context.Context, destination string) (dispatcher.Lane, error) {
	switch {
	case destination == string(dispatcher.AllLanes):
		return dispatcher.AllLanes, nil
	case dispatcher.NamesLane(destination):
		if !dispatcher.ValidLane(destination) {
			return "", fmt.Errorf("lane %s: %w", input.Clip(destination), dispatcher.ErrNotFound)
		}
		return dispatcher.Lane(destination), nil
	}
	id, err := r.Cache.id(ctx, destination)
	return dispatcher.Lane(id), err
}

// Pause pauses a destination: its deliveries wait. A URL means the lane of tenant.
func (r *Registry) Pause(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	return r.setPaused(ctx, destination, tenant, true)
}

// Resume makes a destination active again. It ends a pause, enables an endpoint, closes
// the breaker and drops a Retry-After.
//
// A person with a link can't resume everything. A URL that waits for a test keeps
// waiting, and the call returns ErrDisabled if the operator disabled the endpoint.
func (r *Registry) Resume(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	return r.setPaused(ctx, destination, tenant, false)
}

func (r *Registry) setPaused(ctx context.Context, destination, tenant string, paused bool) (dispatcher.LaneState, error) {
	lane, name, err := r.laneAndName(ctx, destination, tenant)
	if err == nil {
		err = r.checkLane(ctx, lane, destination)
	}
	switch {
	case err != nil:
		return dispatcher.LaneState{}, err
	case lane.IsEndpoint():
		_, err = r.changeEndpoint(ctx, string(lane), func(e *dispatcher.Endpoint) error {
			if !paused && e.Disabled && e.Cause == "" && byLink(ctx) { // the operator disabled it
				return fmt.Errorf("resume endpoint %s: %w", e.ID, dispatcher.ErrDisabled)
			}
			e.Paused = paused
			if !paused {
				e.Disabled = false
			}
			return nil
		}, !paused)
	default:
		limits := dispatcher.LaneLimits{Name: name, By: dispatcher.CallerOf(ctx)}
		if paused {
			limits.Mode = dispatcher.LanePaused
		}
		_, err = r.setLimits(ctx, lane, limits, clears(dispatcher.WhyResumed, !paused))
		r.OnActivity()
	}
	if err != nil {
		return dispatcher.LaneState{}, err
	}
	states, err := r.LaneReads.LaneStates(ctx, []dispatcher.Lane{lane})
	if err == nil {
		err = r.FillURLs(ctx, states)
	} else {
		states, err = []dispatcher.LaneState{{Lane: lane}}, fmt.Errorf("read lane %s: %w", lane, err)
	}
	r.logPaused(ctx, &states[0], paused) // the change is made even if its state could not be read
	return states[0], err
}

// logPaused logs that a lane was paused or resumed. A lane's URL has no secret part.
func (r *Registry) logPaused(ctx context.Context, s *dispatcher.LaneState, paused bool) {
	text := "lane resumed"
	switch {
	case paused && s.Lane == dispatcher.AllLanes:
		text = "all lanes paused"
	case paused:
		text = "lane paused"
	case s.Lane == dispatcher.AllLanes:
		text = "all lanes resumed"
	}
	attrs := []slog.Attr{byCaller(ctx), slog.String("lane", string(s.Lane))}
	if s.Lane != dispatcher.AllLanes {
		attrs = append(attrs, slog.String("url", s.URL), slog.String("tenant", s.Tenant))
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
}

// maxPausedListed bounds the listed paused lanes; all are counted.
const maxPausedListed = 50

// PausedLanes returns the most recently paused lanes, after AllLanes if that is paused,
// and the number of all paused lanes.
func (r *Registry) PausedLanes(ctx context.Context) ([]dispatcher.LaneState, int, error) {
	states, total, err := r.LaneReads.PausedLanes(ctx, maxPausedListed)
	return states, total, errors.Join(err, r.FillURLs(ctx, states))
}

// checkLane returns ErrNoLane for an unknown lane id. A URL, an endpoint and a queue may
// be paused before their first message.
func (r *Registry) checkLane(ctx context.Context, lane dispatcher.Lane, destination string) error {
	if string(lane) != destination || lane == dispatcher.AllLanes || lane.IsEndpoint() {
		return nil
	}
	if lane.IsQueue() && (dispatcher.QueueOf(lane, "") != "" || len(lane) == dispatcher.MaxLane) {
		return nil // a long name has a hash, so the lane can't be checked by its name
	}
	states, err := r.LaneReads.LaneStates(ctx, []dispatcher.Lane{lane})
	if err != nil {
		return fmt.Errorf("read lane %s: %w", lane, err)
	}
	if !exists(states[0]) {
		return fmt.Errorf("lane %s: %w", lane, dispatcher.ErrNoLane)
	}
	return nil
}

// exists reports whether the queue knows anything about a lane.
func exists(s dispatcher.LaneState) bool {
	return s.Known || s.URL != "" || s.LaneCount != (dispatcher.LaneCount{})
}

// LaneStates returns the states of the lanes that exist. It returns ErrListing if too
// many callers list now.
func (r *Registry) LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	_, leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	states, err := r.LaneReads.LaneStates(ctx, lanes)
	if err != nil {
		return nil, err
	}
	var missing []dispatcher.Lane
	states = slices.DeleteFunc(states, func(s dispatcher.LaneState) bool {
		if !exists(s) {
			missing = append(missing, s.Lane)
		}
		return !exists(s)
	})
	if len(missing) > 0 {
		if err := r.Queue.Intact(ctx, missing...); err != nil {
			return nil, fmt.Errorf("read lanes: %w", err)
		}
	}
	return states, r.FillURLs(ctx, states)
}

// FailingLanes returns the lanes whose attempts fail, the most waiting first, at most 500. It
// returns ErrListing if too many callers list now.
func (r *Registry) FailingLanes(ctx context.Context) ([]dispatcher.LaneState, error) {
	_, leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	states, err := r.LaneReads.FailingLanes(ctx)
	if err != nil {
		return nil, err
	}
	return states, r.FillURLs(ctx, states)
}

// Lanes returns a page of all lanes. It returns ErrListing if too many callers list now.
func (r *Registry) Lanes(ctx context.Context, limit int, cursor string) ([]dispatcher.LaneState, string, error) {
	_, leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	states, next, err := r.LaneReads.Lanes(ctx, limit, cursor)
	if err != nil {
		return nil, "", err
	}
	return states, next, r.FillURLs(ctx, states)
}

// Known returns the endpoints of deliveries and lanes, to describe these. If the store
// lost its endpoints it returns none and no error, because the deliveries and lanes are
// still there.
func (r *Registry) Known(ctx context.Context, ids ...string) (map[string]*Destination, error) {
	found, err := r.Cache.Load(ctx, ids...)
	var lost *dispatcher.Emptied
	if errors.As(err, &lost) {
		return nil, nil
	}
	return found, err
}

// FillURLs fills in the current URLs of endpoints' lanes.
func (r *Registry) FillURLs(ctx context.Context, states []dispatcher.LaneState) error {
	var ids []string
	for _, s := range states {
		if s.Lane.IsEndpoint() {
			ids = append(ids, string(s.Lane))
		}
	}
	found, err := r.Known(ctx, ids...)
	if err != nil {
		return err
	}
	for i := range states {
		if dest := found[string(states[i].Lane)]; dest != nil {
			e := dest.Endpoint
			states[i].URL, states[i].Tenant, states[i].UID, states[i].Cause = dest.Origin(), e.Tenant, e.UID, e.Cause
			if e.Unverified && !e.Paused && !e.Disabled {
				states[i].Cause = dispatcher.WhyUnverified
			}
		}
	}
	return nil
}

// setLimits writes the limits that a lane keeps. With a reason to clear, it also closes
// the lane's breaker and clears its failures.
func (r *Registry) setLimits(ctx context.Context, lane dispatcher.Lane, l dispatcher.LaneLimits, clear dispatcher.LaneWhy) (dispatcher.LaneCount, error) {
	count, err := r.Queue.Limit(ctx, r.Name(), lane, l, clear != "")
	if err != nil {
		r.PollSoon() // the change may be made, with only its response lost, and make deliveries ready
	}
	if !count.Failed.IsZero() {
		r.Failing(dispatcher.LaneFailing{Lane: lane, Since: count.Failed, Recovered: true, Why: clear}, 0)
	}
	return count, err
}

// clears returns the reason to clear a lane, or "" if it is not to be cleared.
func clears(why dispatcher.LaneWhy, clear bool) dispatcher.LaneWhy {
	if !clear {
		return ""
	}
	return why
}

// limit is setLimits without a result. It only logs a failure, because the next claim
// finds the old limits again.
func (r *Registry) limit(ctx context.Context, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) {
	_, err := r.setLimits(ctx, lane, l, clears(dispatcher.WhyChanged, clear))
	r.Outages.Report("limit", err)
}
