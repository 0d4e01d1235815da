package redisq

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limit writes the copy of a lane's limits. The limits for AllLanes are written in every partition.
func (s *Store) Limit(ctx context.Context, by string, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, error) {
	mode := conn.LimitsMode(l.Mode, l.Pull && lane.IsEndpoint())
	args := []any{string(lane), l.Version, l.MaxInFlight, l.Interval.Microseconds(), conn.Flag(l.Ordered), mode, conn.Flag(clear), l.Name, cmp.Or(l.By, dispatcher.System), conn.ToMillis(l.Since)}
	calls := []conn.Call{{Partition: s.conn.PartitionOf(lane), Args: args}}
	if lane == dispatcher.AllLanes {
		calls = s.conn.Everywhere(args)
	}
	n, failed, err := s.changeLane(ctx, by, lane, calls)
	n.Failed = failed
	return n, err
}

// changeLane runs the script. It returns the lane's count before the change. If the change ended a
// failure of the lane, it returns the start of the failure in failed. Otherwise failed is zero.
func (s *Store) changeLane(ctx context.Context, by string, lane dispatcher.Lane, calls []conn.Call) (n dispatcher.LaneCount, failed time.Time, err error) {
	var errs []error
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: laneScript, By: by, Calls: calls}) {
		if h, ok := r.Hint(); ok {
			readChanges(&r.Reply, &h)
			n.InFlight += int(r.Number())
			n.Waiting += int(r.Number())
			failed = r.Time()
			s.observeDeaths(h)
			s.observeBreakers(h, nil)
		}
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("lane %s: %w", lane, s.conn.InPartition(r.Partition, r.Err)))
		}
	}
	return n, failed, conn.JoinErrors(errs...)
}

// Cut gives up a bare URL's lane that has failed since the given time, unless the lane is paused.
// Deliveries accepted until now end. It reports whether it cut the lane.
func (s *Store) Cut(ctx context.Context, by string, lane dispatcher.Lane, since time.Time) (waiting int, cut bool, err error) {
	args := []any{string(lane), conn.ToMillis(since), 0, 0, 0, conn.LimitsMode(dispatcher.LaneCut, false), 0, "", dispatcher.System, 0}
	n, failed, err := s.changeLane(ctx, by, lane, []conn.Call{{Partition: s.conn.PartitionOf(lane), Args: args}})
	return n.Waiting, !failed.IsZero(), err
}

// worked is the argument for a successful attempt that belongs to no delivery.
const worked = 2

// Works marks a lane as working again because an attempt succeeded that belongs to no delivery.
func (s *Store) Works(ctx context.Context, by string, lane dispatcher.Lane) error {
	args := []any{string(lane), 0, 0, 0, 0, conn.LimitsMode(dispatcher.LaneNormal, false), worked, "", dispatcher.System, 0}
	_, failed, err := s.changeLane(ctx, by, lane, []conn.Call{{Partition: s.conn.PartitionOf(lane), Args: args}})
	if !failed.IsZero() {
		s.events.Failing(dispatcher.LaneFailing{Lane: lane, Since: failed, Recovered: true})
	}
	return err
}

// endWaitsBatch is the number of lanes that one call of the script reads.
const endWaitsBatch = 200

// EndWaits makes lanes that wait for our own network ready to be attempted at once.
func (s *Store) EndWaits(ctx context.Context, by string, lanes []dispatcher.Lane) error {
	return s.endWaits(ctx, by, lanes, false)
}

// TryNow makes lanes ready to be attempted at once, whatever they wait for. A lane whose breaker is open
// gets one attempt, and the others follow its success.
func (s *Store) TryNow(ctx context.Context, by string, lanes []dispatcher.Lane) error {
	return s.endWaits(ctx, by, lanes, true)
}

func (s *Store) endWaits(ctx context.Context, by string, lanes []dispatcher.Lane, all bool) error {
	var calls []conn.Call
	for _, share := range conn.Grouped(len(lanes), endWaitsBatch, func(i int) int { return s.conn.PartitionOf(lanes[i]) }) {
		call := conn.Call{Partition: share.Partition, Args: []any{conn.Flag(all)}}
		for _, i := range share.At {
			call.Args = append(call.Args, string(lanes[i]))
		}
		calls = append(calls, call)
	}
	err := s.conn.SendEach(ctx, conn.Batch{Script: endWaitsScript, By: by, Calls: calls}, func(_ int, r *conn.Call) error {
		if h, ok := r.Hint(); ok {
			s.observe(h)
		}
		return r.Err
	})
	s.partitions.Fail(err)
	return err
}

// readChanges reads which breakers a script opened and closed. Each entry is a lane and the time
// until which the lane is skipped, or 0 if the breaker closed.
func readChanges(a *conn.Reply, h *conn.Hint) {
	list := conn.Reply{Values: a.List()}
	for a.Err == nil && list.More() {
		lane, until := dispatcher.Lane(list.Text()), list.Time()
		switch {
		case list.Err != nil:
			a.Err = list.Err
		case until.IsZero():
			h.Closed = append(h.Closed, lane)
		default:
			h.Opened = append(h.Opened, dispatcher.Opening{Lane: lane, Until: until})
		}
	}
}

// Limits of a sweep. One call reads sweepPage entries of :due. Another call ends up to sweepBatch
// of the deliveries found, and reads at most 1 MiB of their records.
const (
	sweepPage  = 1000
	sweepBatch = 64
)

// pageReady is the cursor of a sweep that is still in the ready list of a cut lane. One page ends
// sweepReady batches of the list.
const (
	pageReady  = "ready"
	sweepReady = 16
)

// Sweep ends a page of the waiting deliveries of a cut lane. In a disabled or deleted lane it ends
// a page of the deliveries that wait for a time. The deliveries in line behind them end later
// without another call.
func (s *Store) Sweep(ctx context.Context, by string, lane dispatcher.Lane, cursor string) (ended int, next string, err error) {
	if !lane.IsEndpoint() && (cursor == "" || cursor == pageReady) {
		var more bool
		if ended, more, err = s.sweepReady(ctx, by, lane); more || err != nil {
			return ended, pageReady, err
		}
		cursor = ""
	}
	n := s.conn.PartitionOf(lane)
	found, next, err := s.conn.Scan(ctx, "sweep "+string(lane), n, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.ZScan(ctx, s.conn.Tag(n)+keys.Due, at, string(lane)+":*", sweepPage)
	})
	if err != nil {
		return ended, cursor, err
	}
	var calls []conn.Call
	conn.Each(len(found)/2, sweepBatch, func(from, to int) {
		args := make([]any, 2, 2+to-from)
		args[0], args[1] = string(lane), "t"
		for i := from; i < to; i++ {
			args = append(args, found[2*i]) // each is followed by its score
		}
		calls = append(calls, conn.Call{Partition: n, Args: args})
	})
	some, _, err := s.sweep(ctx, by, lane, calls)
	if ended += some; err != nil {
		return ended, cursor, err
	}
	return ended, next, nil
}

// sweepReady ends a page of the ready list of a cut lane.
func (s *Store) sweepReady(ctx context.Context, by string, lane dispatcher.Lane) (ended int, more bool, err error) {
	calls := make([]conn.Call, sweepReady)
	for i := range calls {
		calls[i] = conn.Call{Partition: s.conn.PartitionOf(lane), Args: []any{string(lane), "r"}}
	}
	ended, last, err := s.sweep(ctx, by, lane, calls)
	return ended, last > 0, err
}

// sweep runs the script. It returns how many deliveries ended in all calls, and how many in the
// last call.
func (s *Store) sweep(ctx context.Context, by string, lane dispatcher.Lane, calls []conn.Call) (ended, last int, err error) {
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: sweepScript, By: by, Calls: calls}) {
		if h, ok := r.Hint(); ok {
			last = int(r.Number())
			ended += last
			s.observeDeaths(h)
			s.observeEnds(r.Partition, last)
		}
		if r.Err != nil {
			return ended, 0, fmt.Errorf("sweep %s: %w", lane, r.Err)
		}
	}
	return ended, last, nil
}

// Uncut removes the cut of a lane after a sweep found no more deliveries in it.
func (s *Store) Uncut(ctx context.Context, by string, lane dispatcher.Lane) error {
	_, _, err := s.sweep(ctx, by, lane, []conn.Call{{Partition: s.conn.PartitionOf(lane), Args: []any{string(lane), "u"}}})
	return err
}

// ForgetLane removes the copy of limits of an endpoint that never existed.
func (s *Store) ForgetLane(ctx context.Context, by string, copied dispatcher.LaneVersion, age time.Duration) (forgotten bool, err error) {
	n := s.conn.PartitionOf(copied.Lane)
	r := s.conn.Send(ctx, conn.Batch{Script: forgetScript, By: by, Calls: []conn.Call{{Partition: n, Args: []any{string(copied.Lane), copied.Version, age.Milliseconds()}}}})[0]
	r.Hint()
	forgotten = r.Err == nil && r.Number() == 1
	if r.Err != nil {
		return false, fmt.Errorf("forget lane %s: %w", copied.Lane, s.conn.InPartition(n, r.Err))
	}
	return forgotten, nil
}
