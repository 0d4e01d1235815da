package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// checkWithin is the timeout for the check of a claim: reading endpoints and writing
// limits.
const checkWithin = 2 * time.Second

// CheckVersions divides the deliveries that were just leased: may can be attempted, back
// must be returned to their lanes. If the lane's copy of the limits is older than the
// endpoint, the lane gets the newer limits, and they decide. So a change is effective
// from the next claim on, even if the instance that made it died before it wrote to the
// lane.
//
// If the store does not respond, it returns the error, and all deliveries in back.
func (r *Registry) CheckVersions(ctx context.Context, leased []dispatcher.Claimed) (may []dispatcher.Claimed, back []dispatcher.Settlement, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkWithin)
	defer cancel()
	found, err := r.Cache.Load(call, endpointsOf(leased)...)
	if err == nil {
		err = r.refresh(call, leased, found)
	}
	judged := map[dispatcher.Lane]fitness{}
	for _, c := range leased {
		fit, known := judged[c.ID.Lane]
		if !known {
			if fit = blocked; err == nil {
				fit = r.fit(call, c, found[string(c.ID.Lane)])
			}
			judged[c.ID.Lane] = fit
		}
		switch fit {
		case fits:
			may = append(may, c)
		case stalled:
			back = append(back, dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased, Pause: StalledFor, Stalled: stallOf(found[string(c.ID.Lane)])})
		default:
			back = append(back, dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased})
		}
	}
	return may, back, err
}

// StalledFor is how long a lane is paused if its endpoint can't be called for a reason on
// our side. Without the pause its deliveries would be claimed again at once, in a loop.
const StalledFor = 10 * time.Second

// stallOf returns the reason why a lane is stalled.
func stallOf(dest *Destination) dispatcher.LaneWhy {
	if dest == nil {
		return dispatcher.WhyMissing
	}
	return dispatcher.WhySealed
}

// fitness is the result of the check of a lane.
type fitness uint8

const (
	blocked fitness = iota // not now, because the limits forbid it
	fits                   // the deliveries may be attempted
	stalled                // not for a while, because the endpoint can't be read or does not exist
)

// endpointsOf returns the ids of the deliveries' endpoints.
func endpointsOf(leased []dispatcher.Claimed) (ids []string) {
	for _, c := range leased {
		if !slices.Contains(ids, string(c.ID.Lane)) {
			ids = append(ids, string(c.ID.Lane))
		}
	}
	return ids
}

// refresh reads endpoints again if their lanes have a newer version than the cache.
func (r *Registry) refresh(ctx context.Context, leased []dispatcher.Claimed, found map[string]*Destination) error {
	var old []string
	for _, c := range leased {
		id := string(c.ID.Lane)
		if dest := found[id]; dest != nil && dest.Endpoint.Version < c.Version && !slices.Contains(old, id) {
			r.Cache.forget(id)
			delete(found, id)
			old = append(old, id)
		}
	}
	if len(old) == 0 {
		return nil
	}
	fresh, err := r.Cache.Load(ctx, old...)
	for id, dest := range fresh {
		found[id] = dest
	}
	return err
}

// fit checks a lane, and gives it newer limits. A missing endpoint counts as deleted only
// if the store recorded the deletion, because a store that lost an endpoint must not end
// deliveries.
func (r *Registry) fit(ctx context.Context, c dispatcher.Claimed, dest *Destination) fitness {
	if dest == nil {
		end, err := r.end(ctx, c.ID.Lane)
		switch {
		case err != nil:
			r.Outages.Report("admit", err)
			return stalled
		case end == 0:
			r.logMissing(ctx, c.ID.Lane)
			return stalled
		}
		r.limit(ctx, c.ID.Lane, dispatcher.LaneLimits{Version: end, Mode: dispatcher.LaneDeleted}, false)
		return blocked
	}
	if dest.Fault != nil {
		r.logSealed(ctx, c.ID.Lane, dest.Fault)
		return stalled
	}
	limits := dest.Endpoint.Limits()
	switch {
	case limits.Version > c.Version:
		r.limit(ctx, c.ID.Lane, limits, dest.Endpoint.Since > c.Version)
	case limits.Version < c.Version: // it was read again after the claim
		r.Outages.Report("limit", r.overtake(ctx, string(c.ID.Lane)))
	}
	if limits.Mode != dispatcher.LaneNormal {
		return blocked
	}
	return fits
}

// end returns the version with which an endpoint was deleted, or 0.
func (r *Registry) end(ctx context.Context, lane dispatcher.Lane) (int64, error) {
	versions, err := r.Store.EndpointVersions(ctx, []string{string(lane)})
	if err != nil {
		return 0, fmt.Errorf("endpoint %s: %w", lane, err)
	}
	return versions[0].End, nil
}

// logMissing logs, at most once in logEvery, that deliveries wait for an endpoint that
// does not exist and was not deleted.
func (r *Registry) logMissing(ctx context.Context, lane dispatcher.Lane) {
	if r.missing.allow() {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "deliveries wait for an endpoint that does not exist and was not deleted",
			slog.String("lane", string(lane)), slog.String("cure", "the store lost it: cancel its messages, or restore the store"))
	}
}

// logSealed logs, at most once in logEvery, that deliveries wait because this instance
// can't decrypt or read an endpoint.
func (r *Registry) logSealed(ctx context.Context, lane dispatcher.Lane, fault error) {
	if r.sealed.allow() {
		r.Log.LogAttrs(ctx, slog.LevelError, "deliveries wait for an endpoint that this instance can't open or read",
			slog.String("lane", string(lane)), slog.Any("err", fault),
			slog.String("cure", "start it with the ENCRYPTION_KEY that the others have; hookladder lanes shows which endpoints wait (sealed)"))
	}
}

// logLimiter limits how often a lasting condition is logged.
type logLimiter struct {
	mu   sync.Mutex // guards last
	last time.Time  // zero: never
}

// logEvery keeps a log readable while a thousand lanes wait for the same reason.
const logEvery = time.Minute

func (s *logLimiter) allow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.last.IsZero() && now.Sub(s.last) < logEvery {
		return false
	}
	s.last = now
	return true
}

// RepairLimits repairs the limits of lanes after a publish found them missing or stale.
// used are the endpoints of the deliveries in placed, in the same order.
func (r *Registry) RepairLimits(ctx context.Context, placed []dispatcher.Placed, used []*Destination) error {
	for i := range placed {
		lane, version, known := placed[i].Lane, placed[i].Version, used[i].Endpoint.Version
		if version == known {
			continue
		}
		r.Cache.forget(string(lane)) // the cached one may be older than the lane's copy
		found, err := r.Cache.Load(ctx, string(lane))
		if err != nil {
			return err
		}
		dest := found[string(lane)]
		if dest == nil {
			end, err := r.end(ctx, lane)
			if err != nil {
				return err
			}
			if end == 0 && version == 0 {
				end = known + 1 // the endpoint and its lane's copy were deleted and forgotten in the meantime
			}
			if end > version {
				r.limit(ctx, lane, dispatcher.LaneLimits{Version: end, Mode: dispatcher.LaneDeleted}, false)
			}
			continue
		}
		switch limits := dest.Endpoint.Limits(); {
		case dest.Fault != nil:
		case limits.Version > version:
			r.limit(ctx, lane, limits, dest.Endpoint.Since > version)
		case limits.Version < version:
			r.Outages.Report("limit", r.overtake(ctx, string(lane)))
		}
	}
	return nil
}

// overtake makes an endpoint newer than its lane. The endpoint is older if a failover
// lost its last changes, which the lane still has. Otherwise the lane would ignore the
// next changes. If the lane was deleted, it deletes the endpoint.
func (r *Registry) overtake(ctx context.Context, id string) error {
	lane := dispatcher.Lane(id)
	states, err := r.LaneReads.LaneStates(ctx, []dispatcher.Lane{lane})
	if err != nil {
		return fmt.Errorf("read lane %s: %w", lane, err)
	}
	e, err := r.Stored(ctx, id) // after the lane, because each change is stored here first
	switch limits := &states[0].Limits; {
	case errors.Is(err, dispatcher.ErrNoEndpoint):
		return nil
	case err != nil:
		return err
	case e.Version >= limits.Version, len(e.Secrets) == 0: // this instance can't decrypt it, but another can
		return nil
	case limits.Mode == dispatcher.LaneDeleted:
		_, err = r.DeleteEndpoint(ctx, id)
	default:
		before := e.Version
		limits.Since, limits.By = states[0].Since, states[0].By
		e.Overtake(*limits)
		if err = r.Store.RaiseEndpoint(ctx, before, e); errors.Is(err, dispatcher.ErrStale) { // another instance did so
			return nil // somebody else did so
		}
		if err == nil {
			r.Cache.OnChange(dispatcher.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
			_, err = r.setLimits(ctx, lane, e.Limits(), "")
		}
	}
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", id, err)
	}
	r.OnActivity() // the log has the change by now
	r.Log.LogAttrs(ctx, slog.LevelWarn, "the store lost the last changes of an endpoint: its state was restored from its lane",
		slog.String("lane", id), slog.String("cure", "check the endpoint's other settings: its last changes may be lost"))
	return nil
}

// storedAboveLane reads an endpoint that is to be changed. If its lane is newer, it
// raises the endpoint first, so that the next version is above the lane's. copied reports
// whether the lane has a copy of this version.
func (r *Registry) storedAboveLane(ctx context.Context, name string) (e *dispatcher.Endpoint, copied bool, err error) {
	if e, err = r.Stored(ctx, name); err != nil {
		return nil, false, err
	}
	states, err := r.LaneReads.LaneStates(ctx, []dispatcher.Lane{e.Lane()})
	if err != nil {
		return nil, false, fmt.Errorf("read lane of %s: %w", e.ID, err)
	}
	if version := states[0].Limits.Version; version <= e.Version {
		return e, version == e.Version, nil
	}
	if err := r.overtake(ctx, e.ID); err != nil {
		return nil, false, err
	}
	e, err = r.Stored(ctx, e.ID)
	return e, false, err
}
