package endpoints

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// A change of an endpoint has two steps: first the endpoint itself, then the lane's copy
// of its limits. They may be on two servers, and the instance may die between the steps.
// If the lane can be claimed, the next claim finds the stale copy (see CheckVersions). A
// lane that is paused, or whose endpoint was disabled or deleted, is never claimed. Every
// instance compares such lanes with their endpoints: at its start, after another instance
// died, and at each poll.

const (
	// finishRetry is the wait before the next comparison if the store did not respond.
	finishRetry = 5 * time.Second
	// finishMin is the shortest time between two comparisons, because many deaths at once
	// request one each.
	finishMin = time.Second
	// creationGrace is how long a lane's copy may exist before its endpoint, because the
	// endpoint is being created. It is far longer than any call.
	creationGrace = 10 * time.Minute
	// noticeWithin is how long after the disabling of an endpoint its notice may be
	// missing. It is longer than the detection of a dead instance, or the wait for the
	// next poll.
	noticeWithin = 10 * time.Minute
	// versionsCost is the number of commands that read versionsAtOnce versions.
	versionsCost, versionsAtOnce = 3, 64
)

// finisher finishes changes of endpoints that stopped half-way.
type finisher struct {
	registry  *Registry
	wake      wait.Signal
	requested atomic.Bool  // a comparison is requested, and has not begun
	working   atomic.Bool  // a comparison is running
	resting   atomic.Bool  // a comparison has just ended
	spent     atomic.Int64 // commands of the running comparison, about
	cost      atomic.Int64 // commands of the last comparison
}

func newFinisher(r *Registry) *finisher {
	return &finisher{registry: r, wake: wait.NewSignal()}
}

// Run compares at its start and after each signal, until ctx ends.
func (f *finisher) Run(ctx context.Context) error {
	if f.registry.Store == nil {
		return nil
	}
	f.suspect()
	retry := time.NewTimer(finishRetry)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-retry.C:
		}
		f.working.Store(true)
		f.requested.Store(false)
		err := f.finish(ctx)
		f.resting.Store(true)
		f.working.Store(false)
		if ctx.Err() != nil {
			return nil
		}
		f.registry.Outages.Report("finish", err)
		if err != nil {
			retry.Reset(finishRetry)
		}
		if !wait.Sleep(ctx, finishMin) {
			return nil
		}
		f.resting.Store(false)
	}
}

// finish compares everything that may be half done. One failure does not stop the rest.
func (f *finisher) finish(ctx context.Context) error {
	f.spent.Store(0)
	defer func() { f.cost.Store(f.spent.Load()) }()
	return errors.Join(f.paused(ctx), f.deleted(ctx))
}

// paused compares the paused lanes, including the disabled and deleted ones, with their
// endpoints. It reads the copies first. So an endpoint may be newer than its copy if the copy
// was updated in the meantime. This is harmless, because an older version never replaces a
// copy.
func (f *finisher) paused(ctx context.Context) error {
	var errs []error
	for cursor := ""; ; {
		call, cancel := outage.Within(ctx)
		page, next, err := f.registry.LaneReads.StoppedLanes(call, cursor)
		cancel()
		f.spent.Add(1)
		if len(page) > 0 {
			f.spent.Add(1) // their versions too
		}
		var copies []dispatcher.LaneVersion
		var disabled []string // recently
		for _, l := range page {
			if l.Mode == dispatcher.LaneCut {
				f.registry.sweeper.put(l.Lane, 0)
			}
			if l.Mode == dispatcher.LaneDisabled && f.registry.Queue.Now().Sub(l.Since) < noticeWithin {
				disabled = append(disabled, string(l.Lane))
			}
			if l.Lane.IsEndpoint() && l.Mode != dispatcher.LaneDeleted {
				copies = append(copies, l.LaneVersion)
			}
		}
		errs = append(errs, err, f.compare(ctx, copies, creationGrace), f.notifyDisabled(ctx, disabled))
		if cursor = next; cursor == "" || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// notifyDisabled publishes the notices of disabled endpoints once more, because the
// instance that disabled them may have died before. A notice that is stored already is
// not stored again.
func (f *finisher) notifyDisabled(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	found, err := f.registry.Cache.Load(ctx, ids...)
	for _, dest := range found {
		f.registry.notify(dest.Endpoint)
	}
	return err
}

// compare gives lanes the limits of their endpoints if these are newer. If an endpoint is
// older than its lane's copy, it raises the endpoint's version. The copies must be read
// before.
//
// If a copy has no endpoint and no deletion is recorded, a creation failed. Then compare
// removes the copy once it is older than age. If deliveries wait in its lane, the store
// lost the endpoint.
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

// raise gives a lane the current limits of its endpoint.
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
	if limits.Mode == dispatcher.LaneDisabled {
		f.registry.sweeper.put(c.Lane, 0)
	}
	return nil
}

// deleted finishes the deletions of endpoints whose lanes may not be empty.
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

// Suspect wakes the finisher, because a change may have stopped half-way.
func (r *Registry) Suspect() { r.finisher.suspect() }

func (f *finisher) suspect() {
	f.requested.Store(f.registry.Store != nil)
	f.wake.Set()
}

// busy reports whether a comparison is running or requested. It returns false just after
// a comparison, because one cause may request several.
func (f *finisher) busy() bool { return f.requested.Load() && !f.resting.Load() || f.working.Load() }

// Compare gives lanes that a trim has read the limits of their endpoints if these are
// newer. An empty lane is never claimed, so no claim would find that out. Without such
// lanes it makes no call and reports nothing about the store.
func (r *Registry) Compare(ctx context.Context, trimmed []dispatcher.LaneVersion) {
	if r.Store != nil && len(trimmed) > 0 {
		r.Outages.Report("trim", r.finisher.compare(ctx, trimmed, 0))
	}
}

// FinishCost returns about how many commands one comparison takes. paused is the number
// of those that read the paused lanes. It is 0 without a store of endpoints.
func (r *Registry) FinishCost(paused int) int {
	if r.Store == nil {
		return 0
	}
	return max(paused+1, int(r.finisher.cost.Load()))
}
