package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Lane is the lane that a destination means: a lane, an endpoint's id or uid, a
// URL, which means the lane of its origin and of tenant, or * for all.
// ErrNoEndpoint says that a uid is nobody's.
func (d *Dispatcher) Lane(ctx context.Context, destination, tenant string) (Lane, error) {
	lane, _, err := d.laneAndName(ctx, destination, tenant)
	return lane, err
}

// MessageLane is Lane of one message: a URL means the lane of its origin and of
// the message's tenant.
func (d *Dispatcher) MessageLane(ctx context.Context, id, destination string) (Lane, error) {
	tenant := ""
	if strings.Contains(destination, "://") {
		record, err := d.engine.queue.Read(ctx, id)
		if err != nil {
			return "", err
		}
		tenant = record.Message.Tenant
	}
	return d.Lane(ctx, destination, tenant)
}

// laneAndName is Lane, and what that lane is called where a URL says so.
func (d *Dispatcher) laneAndName(ctx context.Context, destination, tenant string) (lane Lane, name string, err error) {
	if !strings.Contains(destination, "://") {
		lane, err = d.namedLane(ctx, destination)
		return lane, "", err
	}
	u, err := ParseURL(destination)
	if err != nil {
		return "", "", err
	}
	return URLLane(u, tenant), URLLaneName(u, tenant), nil
}

// namedLane is the lane of a destination that is no URL.
func (d *Dispatcher) namedLane(ctx context.Context, destination string) (Lane, error) {
	switch {
	case destination == string(AllLanes):
		return AllLanes, nil
	case Lane(destination).IsEndpoint(), strings.HasPrefix(destination, urlPrefix), strings.HasPrefix(destination, queuePrefix):
		if !ValidLane(destination) {
			return "", fmt.Errorf("lane %s: %w", clip(destination), ErrNotFound)
		}
		return Lane(destination), nil
	}
	id, err := d.engine.cache.id(ctx, destination)
	return Lane(id), err
}

// Pause holds a destination, of which a URL means that of tenant: what comes
// for it waits.
func (d *Dispatcher) Pause(ctx context.Context, destination, tenant string) (LaneState, error) {
	return d.hold(ctx, destination, tenant, true)
}

// Resume lets a destination go on, whatever held it: a pause, being disabled,
// its breaker, or a Retry-After.
func (d *Dispatcher) Resume(ctx context.Context, destination, tenant string) (LaneState, error) {
	return d.hold(ctx, destination, tenant, false)
}

func (d *Dispatcher) hold(ctx context.Context, destination, tenant string, held bool) (LaneState, error) {
	lane, name, err := d.laneAndName(ctx, destination, tenant)
	if err == nil {
		err = d.checkLane(ctx, lane, destination)
	}
	switch {
	case err != nil:
		return LaneState{}, err
	case lane.IsEndpoint():
		_, err = d.changeEndpoint(ctx, string(lane), func(e *Endpoint) error {
			e.Paused = held
			if !held {
				e.Disabled = false
			}
			return nil
		}, !held)
	default:
		limits := LaneLimits{Name: name, By: callerOf(ctx)}
		if held {
			limits.Held = HeldPaused
		}
		_, err = d.engine.setLimits(ctx, lane, limits, !held)
	}
	if err != nil {
		return LaneState{}, err
	}
	states, err := d.engine.queue.LaneStates(ctx, []Lane{lane})
	if err == nil {
		err = d.tellURLs(ctx, states)
	} else {
		states, err = []LaneState{{Lane: lane}}, fmt.Errorf("read lane %s: %w", lane, err)
	}
	d.tellHeld(ctx, &states[0], held) // it is done, whatever could be read of it
	return states[0], err
}

// tellHeld logs that somebody paused a lane, or let it go on. Its URL is without
// the parts that may be secret.
func (d *Dispatcher) tellHeld(ctx context.Context, s *LaneState, held bool) {
	text := "lane resumed"
	switch {
	case held && s.Lane == AllLanes:
		text = "all lanes paused"
	case held:
		text = "lane paused"
	case s.Lane == AllLanes:
		text = "all lanes resumed"
	}
	attrs := []slog.Attr{byCaller(ctx), slog.String("lane", string(s.Lane))}
	if s.Lane != AllLanes {
		attrs = append(attrs, slog.String("url", s.URL), slog.String("tenant", s.Tenant))
	}
	d.engine.log.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
}

// pausedTold is how many paused lanes are told by themselves.
const pausedTold = 50

// PausedLanes are the lanes that were paused last, behind AllLanes where that is,
// and how many there are.
func (d *Dispatcher) PausedLanes(ctx context.Context) ([]LaneState, int, error) {
	states, total, err := d.engine.queue.PausedLanes(ctx, pausedTold)
	return states, total, errors.Join(err, d.tellURLs(ctx, states))
}

// checkLane says ErrNoLane of a lane that is named by itself and is not
// there. A URL and an endpoint may be held before their first message.
func (d *Dispatcher) checkLane(ctx context.Context, lane Lane, destination string) error {
	if string(lane) != destination || lane == AllLanes || lane.IsEndpoint() {
		return nil
	}
	states, err := d.engine.queue.LaneStates(ctx, []Lane{lane})
	if err != nil {
		return fmt.Errorf("read lane %s: %w", lane, err)
	}
	if s := states[0]; !s.Known && s.URL == "" && s.LaneCount == (LaneCount{}) {
		return fmt.Errorf("lane %s: %w", lane, ErrNoLane)
	}
	return nil
}

// ErrNoLane says that there is no such lane.
var ErrNoLane = errors.New("no such lane")

// Lanes reads a page of all lanes. ErrListing says that too many ask for one.
func (d *Dispatcher) Lanes(ctx context.Context, limit int, cursor string) ([]LaneState, string, error) {
	if err := d.lists.enter(ctx); err != nil {
		return nil, "", err
	}
	defer d.lists.leave()
	states, next, err := d.engine.queue.Lanes(ctx, limit, cursor)
	if err != nil {
		return nil, "", err
	}
	return states, next, d.tellURLs(ctx, states)
}

// tellURLs fills in where the lanes of endpoints lead by now.
func (d *Dispatcher) tellURLs(ctx context.Context, states []LaneState) error {
	var ids []string
	for _, s := range states {
		if s.Lane.IsEndpoint() {
			ids = append(ids, string(s.Lane))
		}
	}
	found, err := d.engine.cache.load(ctx, ids...)
	if err != nil {
		return err
	}
	for i := range states {
		if dest := found[string(states[i].Lane)]; dest != nil {
			e := dest.endpoint
			states[i].URL, states[i].Tenant, states[i].UID, states[i].Gone = dest.origin(), e.Tenant, e.UID, e.Gone
		}
	}
	return nil
}

// setLimits writes what a lane has to know.
func (e *engine) setLimits(ctx context.Context, lane Lane, l LaneLimits, clear bool) (LaneCount, error) {
	count, hints, err := e.queue.Limit(ctx, e.name(), lane, l, clear)
	e.answered(hints...)
	e.tellBreakers(hints)
	if err != nil {
		e.pollSoon() // it may be done, and nobody here was told what is ready now
	}
	return count, err
}

// limit is setLimits where nobody waits for the answer: what fails is found out
// again.
func (e *engine) limit(ctx context.Context, lane Lane, l LaneLimits, clear bool) {
	_, err := e.setLimits(ctx, lane, l, clear)
	e.outages.report("limit", err)
}

// tellBreakers logs what calls opened and closed.
func (e *engine) tellBreakers(hints []Hint) {
	for _, h := range hints {
		for _, o := range h.Opened {
			e.log.LogAttrs(context.Background(), slog.LevelInfo, "breaker opened",
				slog.String("lane", string(o.Lane)), seconds("wait_s", o.Until.Sub(h.Now)))
		}
		for _, lane := range h.Closed {
			e.log.LogAttrs(context.Background(), slog.LevelInfo, "breaker closed", slog.String("lane", string(lane)))
		}
	}
}
