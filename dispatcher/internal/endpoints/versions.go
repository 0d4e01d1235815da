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

// checkWithin bounds the check of a claim: reading endpoints and writing limits.
const checkWithin = 2 * time.Second

// CheckVersions tells which of the deliveries that were just leased may be attempted. The
// lane's copy of the limits may be older than the endpoint: then the lane gets the newer
// limits, and what they forbid goes back. So a change counts from the next claim on, even
// if the instance that made it died before it wrote to the lane.
//
// With an error the store did not answer, and everything goes back.
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

// StalledFor is how long a lane rests whose endpoint can't be called for a reason on our
// side. Without a pause its deliveries would be claimed again at once, in a loop.
const StalledFor = 10 * time.Second

// stallOf is why a lane is stalled.
func stallOf(dest *Destination) dispatcher.LaneWhy {
	if dest == nil {
		return dispatcher.WhyMissing
	}
	return dispatcher.WhySealed
}

// fitness says whether a lane's deliveries may be attempted.
type fitness uint8

const (
	blocked fitness = iota // not now: the limits forbid it
	fits                   // they may
	stalled                // not for a while: the endpoint can't be read, or does not exist
)

// endpointsOf are the ids of the endpoints whose deliveries these are.
func endpointsOf(leased []dispatcher.Claimed) (ids []string) {
	for _, c := range leased {
		if !slices.Contains(ids, string(c.ID.Lane)) {
			ids = append(ids, string(c.ID.Lane))
		}
	}
	return ids
}

// refresh reads again the endpoints of which a lane has a newer version.
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

// fit judges a lane, and gives it newer limits. A missing endpoint counts as deleted only
// where the store says so: a store that lost an endpoint must end no delivery.
func (r *Registry) fit(ctx context.Context, c dispatcher.Claimed, dest *Destination) fitness {
	if dest == nil {
		end, err := r.end(ctx, c.ID.Lane)
		switch {
		case err != nil:
			r.Outages.Report("admit", err)
			return stalled
		case end == 0:
			r.tellMissing(ctx, c.ID.Lane)
			return stalled
		}
		r.limit(ctx, c.ID.Lane, dispatcher.LaneLimits{Version: end, Held: dispatcher.HeldDeleted}, false)
		return blocked
	}
	if dest.Fault != nil {
		r.tellSealed(ctx, c.ID.Lane, dest.Fault)
		return stalled
	}
	limits := dest.Endpoint.Limits()
	switch {
	case limits.Version > c.Version:
		r.limit(ctx, c.ID.Lane, limits, dest.Endpoint.Since > c.Version)
	case limits.Version < c.Version: // it was read again since the claim
		r.Outages.Report("limit", r.overtake(ctx, string(c.ID.Lane)))
	}
	if limits.Held != dispatcher.HeldNone {
		return blocked
	}
	return fits
}

// end is the version with which an endpoint was deleted; 0: it was not.
func (r *Registry) end(ctx context.Context, lane dispatcher.Lane) (int64, error) {
	versions, err := r.Store.EndpointVersions(ctx, []string{string(lane)})
	if err != nil {
		return 0, fmt.Errorf("endpoint %s: %w", lane, err)
	}
	return versions[0].End, nil
}

// tellMissing logs, at most once in toldEvery, that deliveries wait for an endpoint that
// does not exist and was not deleted.
func (r *Registry) tellMissing(ctx context.Context, lane dispatcher.Lane) {
	if r.missing.tell() {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "deliveries wait for an endpoint that is not there, and was not deleted",
			slog.String("lane", string(lane)), slog.String("cure", "the store lost it: cancel its messages, or restore the store"))
	}
}

// tellSealed logs, at most once in toldEvery, that deliveries wait since this instance
// can't open or read an endpoint.
func (r *Registry) tellSealed(ctx context.Context, lane dispatcher.Lane, fault error) {
	if r.sealed.tell() {
		r.Log.LogAttrs(ctx, slog.LevelError, "deliveries wait for an endpoint that this instance can't open or read",
			slog.String("lane", string(lane)), slog.Any("err", fault),
			slog.String("cure", "start it with the ENCRYPTION_KEY that the others have; hookladder lanes shows which endpoints wait (sealed)"))
	}
}

// seldom says whether something that goes on is to be logged again.
type seldom struct {
	mu   sync.Mutex // guards told
	told time.Time  // zero: never
}

// toldEvery keeps a log readable while a thousand lanes wait for one mistake.
const toldEvery = time.Minute

func (s *seldom) tell() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.told.IsZero() && now.Sub(s.told) < toldEvery {
		return false
	}
	s.told = now
	return true
}

// RepairLimits gives lanes the limits that they lack, or have an older version of, as
// a publish found out: used are the endpoints that it went to, one for each place.
func (r *Registry) RepairLimits(ctx context.Context, placed []dispatcher.Placed, used []*Destination) error {
	for i := range placed {
		lane, version, known := placed[i].Lane, placed[i].Version, used[i].Endpoint.Version
		if version == known {
			continue
		}
		r.Cache.forget(string(lane)) // the cached one may be older than the lane's
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
				end = known + 1 // the endpoint existed; it was deleted and forgotten since, and so was its lane's copy
			}
			if end > version {
				r.limit(ctx, lane, dispatcher.LaneLimits{Version: end, Held: dispatcher.HeldDeleted}, false)
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

// overtake makes an endpoint newer than its lane, if it is older: a failover lost its last
// changes, of which the lane knows. Otherwise the lane would take none of the next changes.
// A lane that was deleted has its endpoint deleted.
func (r *Registry) overtake(ctx context.Context, id string) error {
	lane := dispatcher.Lane(id)
	states, err := r.Queue.LaneStates(ctx, []dispatcher.Lane{lane})
	if err != nil {
		return fmt.Errorf("read lane %s: %w", lane, err)
	}
	e, err := r.Stored(ctx, id) // after the lane: each change is made here first
	switch limits := &states[0].Limits; {
	case errors.Is(err, dispatcher.ErrNoEndpoint):
		return nil
	case err != nil:
		return err
	case e.Version >= limits.Version, len(e.Secrets) == 0: // what this instance can't open, another can
		return nil
	case limits.Held == dispatcher.HeldDeleted:
		_, err = r.DeleteEndpoint(ctx, id)
	default:
		before := e.Version
		limits.Since, limits.By = states[0].Since, states[0].By
		e.Overtake(*limits)
		if err = r.Store.RaiseEndpoint(ctx, before, e); errors.Is(err, dispatcher.ErrStale) {
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
	r.Stirred() // the log has the change by now
	r.Log.LogAttrs(ctx, slog.LevelWarn, "the store lost the last changes of an endpoint, and has kept that it was paused, disabled, resumed or deleted",
		slog.String("lane", id), slog.String("cure", "look at the endpoint's other settings: they may be older than those that were answered"))
	return nil
}

// overtaken reads an endpoint that is to be changed. If its lane is newer, it becomes newer
// than the lane first, so that its next version is.
func (r *Registry) overtaken(ctx context.Context, name string) (*dispatcher.Endpoint, error) {
	e, err := r.Stored(ctx, name)
	if err != nil {
		return nil, err
	}
	states, err := r.Queue.LaneStates(ctx, []dispatcher.Lane{e.Lane()})
	if err != nil {
		return nil, fmt.Errorf("read lane of %s: %w", e.ID, err)
	}
	if states[0].Limits.Version <= e.Version {
		return e, nil
	}
	if err := r.overtake(ctx, e.ID); err != nil {
		return nil, err
	}
	return r.Stored(ctx, e.ID)
}
