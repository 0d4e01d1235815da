package endpoints

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// sweeper ends the scheduled deliveries of disabled and deleted lanes, and all waiting
// deliveries of lanes that were given up. If this process ends first, the others end when
// they become due.
type sweeper struct {
	registry *Registry

	mu      sync.Mutex // guards the fields below
	lanes   []dispatcher.LaneVersion
	working bool // a lane is being swept

	wake wait.Signal
}

func newSweeper(r *Registry) *sweeper { return &sweeper{registry: r, wake: wait.NewSignal()} }

// put requests a sweep of a lane. end is the last version of a deleted endpoint, which is
// forgotten when its lane is empty; otherwise 0. A lane that waits for its sweep is not
// added again.
func (s *sweeper) put(lane dispatcher.Lane, end int64) {
	s.mu.Lock()
	if next := (dispatcher.LaneVersion{Lane: lane, Version: end}); !slices.Contains(s.lanes, next) {
		s.lanes = append(s.lanes, next)
	}
	s.mu.Unlock()
	s.wake.Set()
}

func (s *sweeper) take() (lane dispatcher.LaneVersion, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working = len(s.lanes) > 0; !s.working {
		return dispatcher.LaneVersion{}, false
	}
	lane, s.lanes = s.lanes[0], s.lanes[1:]
	return lane, true
}

func (s *sweeper) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working || len(s.lanes) > 0
}

// delete marks the lane of a deleted endpoint as deleted and returns the number of
// waiting deliveries. If there are none, the endpoint is forgotten at once.
func (s *sweeper) delete(ctx context.Context, id string, end int64) (waiting int, err error) {
	r := s.registry
	count, err := r.setLimits(ctx, dispatcher.Lane(id), dispatcher.LaneLimits{Version: end, Mode: dispatcher.LaneDeleted, By: dispatcher.CallerOf(ctx)}, "")
	switch {
	case err != nil:
		return 0, err
	case count.Waiting > 0:
		s.put(dispatcher.Lane(id), end)
		return count.Waiting, nil
	}
	return 0, r.Store.ForgetDeleted(ctx, id)
}

// Run sweeps lanes until ctx ends.
func (s *sweeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		lane, ok := s.take()
		if !ok {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		s.sweep(ctx, lane.Lane)
		if lane.Version > 0 && ctx.Err() == nil {
			s.settle(ctx, lane)
		}
	}
	return nil
}

func (s *sweeper) sweep(ctx context.Context, lane dispatcher.Lane) {
	r := s.registry
	cursor, total := "", 0
	for failures := 0; ctx.Err() == nil; {
		call, cancel := outage.Within(ctx)
		ended, next, err := r.Queue.Sweep(call, r.Name(), lane, cursor)
		cancel()
		if total += ended; ended > 0 {
			r.OnActivity()
		}
		if failures = r.Outages.Repeat(ctx, "sweep", failures, err); failures > 0 {
			continue
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if total == 0 && !lane.IsEndpoint() && ctx.Err() == nil {
		r.Outages.Report("sweep", r.uncut(ctx, lane))
	}
	if total > 0 {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "lane swept", slog.String("lane", string(lane)), slog.Int("deliveries", total))
	}
}

// uncut removes the cut of a lane that was given up, once it has no deliveries left to
// end.
func (r *Registry) uncut(ctx context.Context, lane dispatcher.Lane) error {
	call, cancel := outage.Within(ctx)
	defer cancel()
	return r.Queue.Uncut(call, r.Name(), lane)
}

// settle forgets a deleted endpoint if its lane is empty. Otherwise the finisher retries
// later.
func (s *sweeper) settle(ctx context.Context, lane dispatcher.LaneVersion) {
	r := s.registry
	call, cancel := outage.Within(ctx)
	defer cancel()
	states, err := r.LaneReads.LaneStates(call, []dispatcher.Lane{lane.Lane})
	if err == nil && states[0].Waiting == 0 && states[0].Limits.Mode == dispatcher.LaneDeleted {
		err = r.Store.ForgetDeleted(call, string(lane.Lane))
	}
	r.Outages.Report("sweep", err)
}
