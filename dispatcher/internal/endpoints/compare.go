package endpoints

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// A change of an endpoint has two steps: first the endpoint itself, then the lane's copy
// of its limits. They may be on two servers, and the instance may die between the steps.
// If the lane can be claimed, the next claim finds the stale copy (see CheckVersions). A
// lane that is paused, or whose endpoint was disabled or deleted, is never claimed. Every
// instance compares such lanes with their endpoints: at its start, after another instance
// died, and at each poll.

const (
	// creationGrace is how long a lane's copy may exist before its endpoint, because the
	// endpoint is being created. It is far longer than any call.
	creationGrace = 10 * time.Minute
	// noticeWithin is how long after the disabling of an endpoint its notice may be
	// missing. It is longer than the detection of a dead instance, or the wait for the
	// next poll.
	noticeWithin = 10 * time.Minute
	// versionsCost is the number of commands that read versionsAtOnce versions.
	versionsCost, versionsAtOnce = 3, 64
	// everyAtOnce is the number of endpoints that are compared at once after a loss.
	everyAtOnce = 256
)

// paused compares the paused lanes, including the disabled and deleted ones, with their
// endpoints. It reads the copies first. So an endpoint may be newer than its copy if the copy
// was updated in the meantime. This is harmless, because an older version never replaces a
// copy.
func (q *repairs) paused(ctx context.Context) error {
	var errs []error
	for cursor := ""; ; {
		call, cancel := outage.Within(ctx)
		page, next, err := q.registry.LaneReads.StoppedLanes(call, cursor)
		cancel()
		q.spent.Add(1)
		if len(page) > 0 {
			q.spent.Add(1) // their versions too
		}
		var copies []dispatcher.LaneVersion
		var disabled []string // recently
		for _, l := range page {
			if l.Mode == dispatcher.LaneCut {
				q.sweep(l.Lane, 0)
			}
			if l.Mode == dispatcher.LaneDisabled && q.registry.Queue.Now().Sub(l.Since) < noticeWithin {
				disabled = append(disabled, string(l.Lane))
			}
			if l.Lane.IsEndpoint() && l.Mode != dispatcher.LaneDeleted {
				copies = append(copies, l.LaneVersion)
			}
		}
		errs = append(errs, err, q.compare(ctx, copies, creationGrace), q.notifyDisabled(ctx, disabled))
		if cursor = next; cursor == "" || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// copies reads the versions of the limits that the lanes of a page of endpoints have.
func (q *repairs) copies(ctx context.Context, cursor string) (copies []dispatcher.LaneVersion, next string, err error) {
	r := q.registry
	call, cancel := outage.Within(ctx)
	defer cancel()
	page, next, err := r.Store.ListEndpoints(call, dispatcher.EndpointFilter{Limit: everyAtOnce, Cursor: cursor})
	if err != nil {
		return nil, "", err
	}
	lanes := make([]dispatcher.Lane, len(page))
	for i, e := range page {
		lanes[i] = e.Lane()
	}
	states, err := r.LaneReads.LaneStates(call, lanes)
	for i, s := range states {
		copies = append(copies, dispatcher.LaneVersion{Lane: lanes[i], Version: s.Limits.Version})
	}
	return copies, next, err
}

// notifyDisabled publishes the notices of disabled endpoints once more, because the
// instance that disabled them may have died before. A notice that is stored already is
// not stored again.
func (q *repairs) notifyDisabled(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	found, err := q.registry.Cache.Load(ctx, ids...)
	for _, dest := range found {
		q.registry.notify(dest.Endpoint)
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
func (q *repairs) compare(ctx context.Context, copies []dispatcher.LaneVersion, age time.Duration) error {
	if len(copies) == 0 {
		return nil
	}
	r := q.registry
	ids := make([]string, len(copies))
	for i, c := range copies {
		ids[i] = string(c.Lane)
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	q.spent.Add(versionsCost * int64(1+len(ids)/versionsAtOnce))
	truth, err := r.Store.EndpointVersions(call, ids)
	if err != nil {
		return err
	}
	var errs []error
	for i, c := range copies {
		switch t := truth[i]; {
		case t.End > 0:
			errs = append(errs, q.end(ctx, ids[i], t.End))
		case t.Version > c.Version:
			errs = append(errs, q.raise(ctx, c))
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
func (q *repairs) raise(ctx context.Context, c dispatcher.LaneVersion) error {
	r := q.registry
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
		q.sweep(c.Lane, 0)
	}
	return nil
}

// deleted finishes the deletions of endpoints whose lanes may not be empty.
func (q *repairs) deleted(ctx context.Context) error {
	var errs []error
	for cursor := ""; ; {
		call, cancel := outage.Within(ctx)
		page, next, err := q.registry.Store.DeletedEndpoints(call, cursor)
		cancel()
		q.spent.Add(1)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for id, end := range page {
			errs = append(errs, q.end(ctx, id, end))
		}
		if cursor = next; cursor == "" {
			return errors.Join(errs...)
		}
	}
}

func (q *repairs) end(ctx context.Context, id string, end int64) error {
	if _, going := q.registry.deleting.Load(id); going {
		return nil
	}
	call, cancel := outage.Within(ctx)
	defer cancel()
	_, err := q.registry.deleteLane(call, id, end)
	return err
}

// Suspect requests a comparison, because a change may have stopped half-way.
func (r *Registry) Suspect() { r.repairs.suspect() }

// SuspectAll requests a comparison of all endpoints, because the store lost data.
func (r *Registry) SuspectAll() { r.repairs.suspectAll() }

// Compare gives lanes that a trim has read the limits of their endpoints if these are
// newer. An empty lane is never claimed, so no claim would find that out. Without such
// lanes it makes no call and reports nothing about the store.
func (r *Registry) Compare(ctx context.Context, trimmed []dispatcher.LaneVersion) {
	if r.Store != nil && len(trimmed) > 0 {
		r.Outages.Report("trim", r.repairs.compare(ctx, trimmed, 0))
	}
}

// FinishCost returns about how many commands one comparison takes. paused is the number
// of those that read the paused lanes. It is 0 without a store of endpoints.
func (r *Registry) FinishCost(paused int) int {
	if r.Store == nil {
		return 0
	}
	return max(paused+1, int(r.repairs.cost.Load()))
}
