package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
)

// Lane is the lane of a destination. That is a lane, an endpoint's id or uid, q_<name> for
// a queue, a URL, or * for all lanes. A URL means the lane of its origin and of tenant.
// ErrNoEndpoint says that no endpoint has that uid.
func (r *Registry) Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error) {
	lane, _, err := r.laneAndName(ctx, destination, tenant)
	return lane, err
}

// MessageLane is Lane of one message: a URL means the lane of its origin and of
// the message's tenant.
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

// MessageTenant is the tenant of a message. ErrNotFound says that there is no such message.
func (r *Registry) MessageTenant(ctx context.Context, id string) (string, error) {
	record, err := r.Queue.Read(ctx, id)
	if err != nil {
		return "", err
	}
	return record.Message.Tenant, nil
}

// laneAndName is Lane, and what the lane is for where the destination says it: a URL's
// origin and tenant, or the name of a queue.
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

// namedLane is the lane of a destination that is no URL.
func (r *Registry) namedLane(ctx context.Context, destination string) (dispatcher.Lane, error) {
	switch {
	case destination == string(dispatcher.AllLanes):
		return dispatcher.AllLanes, nil
	case dispatcher.NamesLane(destination):
		if !dispatcher.ValidLane(destination) {
			return "", fmt.Errorf("lane %s: %w", fields.Clip(destination), dispatcher.ErrNotFound)
		}
		return dispatcher.Lane(destination), nil
	}
	id, err := r.Cache.id(ctx, destination)
	return dispatcher.Lane(id), err
}

// Pause holds a destination: deliveries to it wait. A URL means the lane of tenant.
func (r *Registry) Pause(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	return r.hold(ctx, destination, tenant, true)
}

// Resume ends whatever holds a destination: a pause, being disabled, its breaker, or a
// Retry-After. A URL that waits for a test goes on waiting where a link resumes, and a
// link's resume is ErrDisabled where the operator disabled the endpoint.
func (r *Registry) Resume(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	return r.hold(ctx, destination, tenant, false)
}

func (r *Registry) hold(ctx context.Context, destination, tenant string, held bool) (dispatcher.LaneState, error) {
	lane, name, err := r.laneAndName(ctx, destination, tenant)
	if err == nil {
		err = r.checkLane(ctx, lane, destination)
	}
	switch {
	case err != nil:
		return dispatcher.LaneState{}, err
	case lane.IsEndpoint():
		_, err = r.changeEndpoint(ctx, string(lane), func(e *dispatcher.Endpoint) error {
			if !held && e.Disabled && e.Cause == "" && byLink(ctx) { // a person of the operator did that
				return fmt.Errorf("resume endpoint %s: %w", e.ID, dispatcher.ErrDisabled)
			}
			e.Paused = held
			if !held {
				e.Disabled = false
			}
			return nil
		}, !held)
	default:
		limits := dispatcher.LaneLimits{Name: name, By: dispatcher.CallerOf(ctx)}
		if held {
			limits.Held = dispatcher.HeldPaused
		}
		_, err = r.setLimits(ctx, lane, limits, clears(dispatcher.WhyResumed, !held))
		r.Stirred()
	}
	if err != nil {
		return dispatcher.LaneState{}, err
	}
	states, err := r.Queue.LaneStates(ctx, []dispatcher.Lane{lane})
	if err == nil {
		err = r.TellURLs(ctx, states)
	} else {
		states, err = []dispatcher.LaneState{{Lane: lane}}, fmt.Errorf("read lane %s: %w", lane, err)
	}
	r.tellHeld(ctx, &states[0], held) // the change is made, even where its state could not be read
	return states[0], err
}

// tellHeld logs that a lane was paused or resumed. A lane's URL has no secret part.
func (r *Registry) tellHeld(ctx context.Context, s *dispatcher.LaneState, held bool) {
	text := "lane resumed"
	switch {
	case held && s.Lane == dispatcher.AllLanes:
		text = "all lanes paused"
	case held:
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

// pausedTold is how many paused lanes are listed; all are counted.
const pausedTold = 50

// PausedLanes lists the lanes that were paused last, after AllLanes if that is paused, and
// counts all that are.
func (r *Registry) PausedLanes(ctx context.Context) ([]dispatcher.LaneState, int, error) {
	states, total, err := r.Queue.PausedLanes(ctx, pausedTold)
	return states, total, errors.Join(err, r.TellURLs(ctx, states))
}

// checkLane answers ErrNoLane for an unknown lane that was named as a lane. A URL, an
// endpoint and a queue may be held before their first message.
func (r *Registry) checkLane(ctx context.Context, lane dispatcher.Lane, destination string) error {
	if string(lane) != destination || lane == dispatcher.AllLanes || lane.IsEndpoint() {
		return nil
	}
	if lane.IsQueue() && (dispatcher.QueueOf(lane, "") != "" || len(lane) == dispatcher.MaxLane) {
		return nil // the lane of a long name can't be told from others of its length
	}
	states, err := r.Queue.LaneStates(ctx, []dispatcher.Lane{lane})
	if err != nil {
		return fmt.Errorf("read lane %s: %w", lane, err)
	}
	if !exists(states[0]) {
		return fmt.Errorf("lane %s: %w", lane, dispatcher.ErrNoLane)
	}
	return nil
}

// exists reports whether anything is known of a lane.
func exists(s dispatcher.LaneState) bool {
	return s.Known || s.URL != "" || s.LaneCount != (dispatcher.LaneCount{})
}

// LaneStates reads those of these lanes that exist. ErrListing says that too many callers
// list now.
func (r *Registry) LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	states, err := r.Queue.LaneStates(ctx, lanes)
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
	return states, r.TellURLs(ctx, states)
}

// Lanes reads a page of all lanes. ErrListing says that too many callers list now.
func (r *Registry) Lanes(ctx context.Context, limit int, cursor string) ([]dispatcher.LaneState, string, error) {
	leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	states, next, err := r.Queue.Lanes(ctx, limit, cursor)
	if err != nil {
		return nil, "", err
	}
	return states, next, r.TellURLs(ctx, states)
}

// Known loads endpoints to describe deliveries and lanes with. If the store lost its
// endpoints there are none, and what is described is still there.
func (r *Registry) Known(ctx context.Context, ids ...string) (map[string]*Destination, error) {
	found, err := r.Cache.Load(ctx, ids...)
	var lost *dispatcher.Emptied
	if errors.As(err, &lost) {
		return nil, nil
	}
	return found, err
}

// TellURLs fills in the present URLs of endpoints' lanes.
func (r *Registry) TellURLs(ctx context.Context, states []dispatcher.LaneState) error {
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

// setLimits writes the limits that a lane keeps. Where a reason to clear is given, its
// breaker closes, and it fails anew or not at all.
func (r *Registry) setLimits(ctx context.Context, lane dispatcher.Lane, l dispatcher.LaneLimits, clear dispatcher.LaneWhy) (dispatcher.LaneCount, error) {
	count, err := r.Queue.Limit(ctx, r.Name(), lane, l, clear != "")
	if err != nil {
		r.PollSoon() // the change may be made, and only its answer lost, which tells what is ready
	}
	if !count.Failed.IsZero() {
		r.Failing(dispatcher.LaneFailing{Lane: lane, Since: count.Failed, Recovered: true, Why: clear}, 0)
	}
	return count, err
}

// clears is a reason to clear a lane, where it is to be cleared.
func clears(why dispatcher.LaneWhy, clear bool) dispatcher.LaneWhy {
	if !clear {
		return ""
	}
	return why
}

// limit is setLimits where no caller waits for the result. A failure is only logged: the
// next claim finds the old limits again.
func (r *Registry) limit(ctx context.Context, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) {
	_, err := r.setLimits(ctx, lane, l, clears(dispatcher.WhyChanged, clear))
	r.Outages.Report("limit", err)
}
