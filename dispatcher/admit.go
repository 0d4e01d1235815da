package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// checkWithin bounds what a lease waits for: endpoints read, limits written.
const checkWithin = 2 * time.Second

// checkVersions tells which of the deliveries that were just leased may be attempted:
// those whose lane and endpoint are of one version, or whose endpoint may be
// called all the same. The others go back; their lanes are told what they did
// not know. So a change counts from the next claim on, even if the instance that
// made it died before it told the others.
//
// An error says that the store does not answer, and everything went back.
func (d *endpointCache) checkVersions(ctx context.Context, leased []Claimed) (may []Claimed, back []Settlement, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkWithin)
	defer cancel()
	found, err := d.load(call, endpointsOf(leased)...)
	if err == nil {
		err = d.refresh(call, leased, found)
	}
	judged := map[Lane]fitness{}
	for _, c := range leased {
		fit, known := judged[c.ID.Lane]
		if !known {
			if fit = blocked; err == nil {
				fit = d.fit(call, c, found[string(c.ID.Lane)])
			}
			judged[c.ID.Lane] = fit
		}
		switch fit {
		case fits:
			may = append(may, c)
		case stalled:
			back = append(back, Settlement{ID: c.ID, Verdict: Back, Due: c.Due, Leased: c.Leased, Pause: stalledFor, Stalled: stallOf(found[string(c.ID.Lane)])})
		default:
			back = append(back, Settlement{ID: c.ID, Verdict: Back, Due: c.Due, Leased: c.Leased})
		}
	}
	return may, back, err
}

// stalledFor is how long a lane is left alone whose endpoint can't be called
// for a reason that is not its receiver's: so nothing is claimed in a circle.
const stalledFor = 10 * time.Second

// stallOf is why a lane is left alone.
func stallOf(dest *destination) LaneWhy {
	if dest == nil {
		return WhyMissing
	}
	return WhySealed
}

// fitness says whether a lane's deliveries may be attempted.
type fitness uint8

const (
	blocked fitness = iota // not now; the lane knows why by now
	fits                   // they may
	stalled                // nobody can tell why not: its endpoint can't be read, or is not there
)

// endpointsOf are the ids of the endpoints whose deliveries these are.
func endpointsOf(leased []Claimed) (ids []string) {
	for _, c := range leased {
		if !slices.Contains(ids, string(c.ID.Lane)) {
			ids = append(ids, string(c.ID.Lane))
		}
	}
	return ids
}

// refresh reads again what a lane knows a newer version of.
func (d *endpointCache) refresh(ctx context.Context, leased []Claimed, found map[string]*destination) error {
	var old []string
	for _, c := range leased {
		id := string(c.ID.Lane)
		if dest := found[id]; dest != nil && dest.endpoint.Version < c.Version && !slices.Contains(old, id) {
			d.forget(id)
			delete(found, id)
			old = append(old, id)
		}
	}
	if len(old) == 0 {
		return nil
	}
	fresh, err := d.load(ctx, old...)
	for id, dest := range fresh {
		found[id] = dest
	}
	return err
}

// fit judges a lane, and tells it what it did not know. That an endpoint is not
// there means that it was deleted only where that is noted: a store that lost
// it, or does not have it yet, ends nothing.
func (d *endpointCache) fit(ctx context.Context, c Claimed, dest *destination) fitness {
	if dest == nil {
		end, err := d.end(ctx, c.ID.Lane)
		switch {
		case err != nil:
			d.engine.outages.report("admit", err)
			return stalled
		case end == 0:
			d.tellMissing(ctx, c.ID.Lane)
			return stalled
		}
		d.engine.limit(ctx, c.ID.Lane, LaneLimits{Version: end, Held: HeldDeleted}, false)
		return blocked
	}
	if dest.fault != nil {
		d.tellSealed(ctx, c.ID.Lane, dest.fault)
		return stalled
	}
	limits := dest.endpoint.Limits()
	if limits.Version > c.Version {
		d.engine.limit(ctx, c.ID.Lane, limits, dest.endpoint.Since > c.Version)
	}
	if limits.Held != HeldNone {
		return blocked
	}
	return fits
}

// end is the version of a deleted endpoint's end; 0: it was not deleted.
func (d *endpointCache) end(ctx context.Context, lane Lane) (int64, error) {
	versions, err := d.store.EndpointVersions(ctx, []string{string(lane)})
	if err != nil {
		return 0, fmt.Errorf("endpoint %s: %w", lane, err)
	}
	return versions[0].End, nil
}

// tellMissing tells that deliveries wait for an endpoint that is not there and
// was not deleted, at most once in a while.
func (d *endpointCache) tellMissing(ctx context.Context, lane Lane) {
	if d.missing.tell() {
		d.engine.log.LogAttrs(ctx, slog.LevelWarn, "deliveries wait for an endpoint that is not there, and was not deleted",
			slog.String("lane", string(lane)), slog.String("cure", "the store lost it: cancel its messages, or restore the store"))
	}
}

// tellSealed tells that deliveries wait since this instance can't open or read an
// endpoint, at most once in a while.
func (d *endpointCache) tellSealed(ctx context.Context, lane Lane, fault error) {
	if d.sealed.tell() {
		d.engine.log.LogAttrs(ctx, slog.LevelError, "deliveries wait for an endpoint that this instance can't open or read",
			slog.String("lane", string(lane)), slog.Any("err", fault),
			slog.String("cure", "start it with the ENCRYPTION_KEY that the others have; hookladder lanes shows which endpoints wait (sealed)"))
	}
}

// seldom says whether to tell again of something that goes on.
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

// repairLimits gives lanes the limits that they lack, or have an older version of, as
// a publish found out.
func (d *endpointCache) repairLimits(ctx context.Context, versions map[Lane]int64, used map[Lane]int64) error {
	for lane, version := range versions {
		if version == used[lane] {
			continue
		}
		d.forget(string(lane)) // either may be the older one
		found, err := d.load(ctx, string(lane))
		if err != nil {
			return err
		}
		dest := found[string(lane)]
		if dest == nil {
			end, err := d.end(ctx, lane)
			if err != nil {
				return err
			}
			if end == 0 && version == 0 {
				end = used[lane] + 1 // it was there, and since then both were deleted and forgotten
			}
			if end > version {
				d.engine.limit(ctx, lane, LaneLimits{Version: end, Held: HeldDeleted}, false)
			}
			continue
		}
		if limits := dest.endpoint.Limits(); dest.fault == nil && limits.Version > version {
			d.engine.limit(ctx, lane, limits, dest.endpoint.Since > version)
		}
	}
	return nil
}
