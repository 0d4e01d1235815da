package endpoints

import (
	"context"
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
	if limits.Version > c.Version {
		r.limit(ctx, c.ID.Lane, limits, dest.Endpoint.Since > c.Version)
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
		if limits := dest.Endpoint.Limits(); dest.Fault == nil && limits.Version > version {
			r.limit(ctx, lane, limits, dest.Endpoint.Since > version)
		}
	}
	return nil
}
