package endpoints

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// A change of an endpoint has two steps: the endpoint itself, and the copy of its limits
// that its lane keeps. They may lie on two servers, and the instance may die between
// them. If the lane may be claimed from, the next claim finds that out (see
// CheckVersions). A lane that is held, or whose endpoint was deleted, is never claimed
// from. Every instance compares those: at its start, when another died, and at each poll.

const (
	// finishAgain is the wait before the next comparison where something did not answer.
	finishAgain = 5 * time.Second
	// finishLeast is the least time between two comparisons, which many deaths at once ask for.
	finishLeast = time.Second
	// notYet is how long the endpoint of a copy may not exist yet, since it is being
	// created: far longer than any call lasts.
	notYet = 10 * time.Minute
	// toldWithin is how long after an endpoint was disabled its notice may be missing: longer
	// than it takes to find a dead instance, or for the next poll.
	toldWithin = 10 * time.Minute
	// versionsCost is how many commands it takes to read versionsAtOnce versions.
	versionsCost, versionsAtOnce = 3, 64
)

// finisher finishes changes of endpoints that stopped half-way.
type finisher struct {
	registry *Registry
	wake     chan struct{} // 1 deep
	asked    atomic.Bool   // to compare, and it has not begun
	works    atomic.Bool   // it compares
	rests    atomic.Bool   // it did so just now
	spent    atomic.Int64  // commands of the comparison under way, about
	cost     atomic.Int64  // commands of the last one
}

func newFinisher(r *Registry) *finisher {
	return &finisher{registry: r, wake: make(chan struct{}, 1)}
}

// Run compares at the start, and when it is woken, until ctx ends.
func (f *finisher) Run(ctx context.Context) error {
	if f.registry.Store == nil {
		return nil
	}
	f.suspect()
	again := time.NewTimer(finishAgain)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-again.C:
		}
		f.works.Store(true)
		f.asked.Store(false)
		err := f.finish(ctx)
		f.rests.Store(true)
		f.works.Store(false)
		if ctx.Err() != nil {
			return nil
		}
		f.registry.Outages.Report("finish", err)
		if err != nil {
			again.Reset(finishAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(finishLeast):
		}
		f.rests.Store(false)
	}
}

// finish goes through all that may be half done. One failure does not stop the rest.
func (f *finisher) finish(ctx context.Context) error {
	f.spent.Store(0)
	defer func() { f.cost.Store(f.spent.Load()) }()
	return errors.Join(f.held(ctx), f.deleted(ctx))
}

// held compares the held lanes with their endpoints. It reads the copies before the
// endpoints. So an endpoint may be newer than a copy that has been raised since, which is
// harmless: a copy is never replaced by an older one.
func (f *finisher) held(ctx context.Context) error {
	var errs []error
	for cursor := ""; ; {
		call, cancel := outage.Within(ctx)
		page, next, err := f.registry.Queue.HeldLanes(call, cursor)
		cancel()
		f.spent.Add(1)
		if len(page) > 0 {
			f.spent.Add(1) // their versions too
		}
		var copies []dispatcher.LaneVersion
		var disabled []string // lately
		for _, l := range page {
			if l.Held == dispatcher.HeldCut {
				f.registry.sweeper.put(l.Lane, 0)
			}
			if l.Held == dispatcher.HeldDisabled && f.registry.Queue.Now().Sub(l.Since) < toldWithin {
				disabled = append(disabled, string(l.Lane))
			}
			if l.Lane.IsEndpoint() && l.Held != dispatcher.HeldDeleted {
				copies = append(copies, l.LaneVersion)
			}
		}
		errs = append(errs, err, f.compare(ctx, copies, notYet), f.tellDisabled(ctx, disabled))
		if cursor = next; cursor == "" || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// tellDisabled tells once more which endpoints were disabled: the instance that did so may
// have died before its notice was stored, which is kept once.
func (f *finisher) tellDisabled(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	found, err := f.registry.Cache.Load(ctx, ids...)
	for _, dest := range found {
		f.registry.tellNotice(dest.Endpoint)
	}
	return err
}

// compare gives lanes the limits of their endpoints where these are newer, and makes newer
// the endpoints that are older than their lanes. The copies were read before. A copy without
// an endpoint that was not deleted either comes from a creation that failed: it is removed
// once it has that age. If something waits in its lane, the store lost the endpoint.
func (f *finisher) compare(ctx context.Context, copies []dispatcher.LaneVersion, age time.Duration) error {
	if len(copies) == 0 {
		return nil
	}
	r := f.registry
	ids := make([]string, len(copies))
	for i, c := range copies {
		ids[i] = string(c.Lane)
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	f.spent.Add(versionsCost * int64(1+len(ids)/versionsAtOnce))
	truth, err := r.Store.EndpointVersions(call, ids)
	if err != nil {
		return err
	}
	var errs []error
	for i, c := range copies {
		switch t := truth[i]; {
		case t.End > 0:
			errs = append(errs, f.end(ctx, ids[i], t.End))
		case t.Version > c.Version:
			errs = append(errs, f.raise(ctx, c))
		case t.Version > 0 && t.Version < c.Version:
			errs = append(errs, r.overtake(ctx, ids[i]))
		case t.Version == 0:
			_, err := r.Queue.ForgetLane(call, r.Name(), c, age)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// raise gives a lane the present limits of its endpoint.
func (f *finisher) raise(ctx context.Context, c dispatcher.LaneVersion) error {
	r := f.registry
	r.Cache.forget(string(c.Lane)) // the cached one may be as old as the copy
	found, err := r.Cache.Load(ctx, string(c.Lane))
	if err != nil {
		return err
	}
	dest := found[string(c.Lane)]
	if dest == nil || dest.Fault != nil || dest.Endpoint.Version <= c.Version {
		return nil // the limits of an endpoint that can't be read may be wrong
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	limits := dest.Endpoint.Limits()
	if _, err := r.setLimits(call, c.Lane, limits, clears(dispatcher.WhyChanged, dest.Endpoint.Since > c.Version)); err != nil {
		return err
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "change of an endpoint finished",
		slog.String("lane", string(c.Lane)), slog.Int64("version", limits.Version))
	if limits.Held == dispatcher.HeldDisabled {
		f.registry.sweeper.put(c.Lane, 0)
	}
	return nil
}

// deleted goes through the deleted endpoints whose lanes may not be empty.
func (f *finisher) deleted(ctx context.Context) error {
	var errs []error
	for cursor := ""; ; {
		call, cancel := outage.Within(ctx)
		page, next, err := f.registry.Store.DeletedEndpoints(call, cursor)
		cancel()
		f.spent.Add(1)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for id, end := range page {
			errs = append(errs, f.end(ctx, id, end))
		}
		if cursor = next; cursor == "" {
			return errors.Join(errs...)
		}
	}
}

func (f *finisher) end(ctx context.Context, id string, end int64) error {
	if _, going := f.registry.deleting.Load(id); going {
		return nil
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	_, err := f.registry.sweeper.delete(call, id, end)
	return err
}

// Suspect has the finisher look soon for changes that stopped half-way.
func (r *Registry) Suspect() { r.finisher.suspect() }

func (f *finisher) suspect() {
	f.asked.Store(f.registry.Store != nil)
	wake(f.wake)
}

// busy reports whether it compares, or is about to, but not after one that just ended: what
// asks for another is told several times.
func (f *finisher) busy() bool { return f.asked.Load() && !f.rests.Load() || f.works.Load() }

// Compare gives lanes that a trim has read the limits of their endpoints where these are
// newer: an empty lane that is not held is never claimed from either. Without such lanes
// it makes no call and reports nothing about the store.
func (r *Registry) Compare(ctx context.Context, looked []dispatcher.LaneVersion) {
	if r.Store != nil && len(looked) > 0 {
		r.Outages.Report("trim", r.finisher.compare(ctx, looked, 0))
	}
}

// FinishCost is about how many commands it takes to look for half-done changes; held of
// them read the held lanes. It is 0 without a store of endpoints.
func (r *Registry) FinishCost(held int) int {
	if r.Store == nil {
		return 0
	}
	return max(held+1, int(r.finisher.cost.Load()))
}
