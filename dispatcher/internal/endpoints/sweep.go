package endpoints

import (
	"context"
	"log/slog"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// sweep ends the scheduled deliveries of a disabled or deleted lane, or all waiting deliveries
// of a lane that was given up.
type sweep struct {
	dispatcher.LaneVersion
	begun    bool
	cursor   string
	total    int
	failures int // of the same page, in a row
}

// deleteLane marks the lane of a deleted endpoint as deleted and returns the number of
// waiting deliveries. If there are none, the endpoint is forgotten at once.
func (r *Registry) deleteLane(ctx context.Context, id string, end int64) (waiting int, err error) {
	count, err := r.setLimits(ctx, dispatcher.Lane(id), dispatcher.LaneLimits{Version: end, Mode: dispatcher.LaneDeleted, By: dispatcher.CallerOf(ctx)}, "")
	switch {
	case err != nil:
		return 0, err
	case count.Waiting > 0:
		r.repairs.sweep(dispatcher.Lane(id), end)
		return count.Waiting, nil
	}
	return 0, r.Store.ForgetDeleted(ctx, id)
}

// sweepPage ends a page of deliveries. It reports whether the sweep goes on.
func (r *Registry) sweepPage(ctx context.Context, s *sweep) (more bool) {
	call, cancel := outage.Within(ctx)
	ended, next, err := r.Queue.Sweep(call, r.Name(), s.Lane, s.cursor)
	cancel()
	if s.total += ended; ended > 0 {
		r.OnActivity()
	}
	if s.failures = r.Outages.Repeat(ctx, "sweep", s.failures, err); s.failures > 0 {
		return true
	}
	if s.cursor = next; s.cursor != "" {
		return true
	}
	if s.total == 0 && !s.Lane.IsEndpoint() && ctx.Err() == nil {
		r.Outages.Report("sweep", r.uncut(ctx, s.Lane))
	}
	if s.total > 0 {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "lane swept", slog.String("lane", string(s.Lane)), slog.Int("deliveries", s.total))
	}
	if s.Version > 0 && ctx.Err() == nil {
		r.settle(ctx, s.LaneVersion)
	}
	return false
}

// uncut removes the cut of a lane that was given up, once it has no deliveries left to
// end.
func (r *Registry) uncut(ctx context.Context, lane dispatcher.Lane) error {
	call, cancel := outage.Within(ctx)
	defer cancel()
	return r.Queue.Uncut(call, r.Name(), lane)
}

// settle forgets a deleted endpoint if its lane is empty. Otherwise a comparison retries
// later.
func (r *Registry) settle(ctx context.Context, lane dispatcher.LaneVersion) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	states, err := r.LaneReads.LaneStates(call, []dispatcher.Lane{lane.Lane})
	if err == nil && states[0].Waiting == 0 && states[0].Limits.Mode == dispatcher.LaneDeleted {
		err = r.Store.ForgetDeleted(call, string(lane.Lane))
	}
	r.Outages.Report("sweep", err)
}
