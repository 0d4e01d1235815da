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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// helds are the letters by which :limits says why a lane is held.
var helds = map[dispatcher.Held]string{
	dispatcher.HeldNone: "-", dispatcher.HeldPaused: "p", dispatcher.HeldDisabled: "d", dispatcher.HeldDeleted: "x",
}

// Limit writes the copy of a lane's limits. Those of AllLanes are written in
// every partition.
func (s *Store) Limit(ctx context.Context, by string, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, error) {
	args := []any{string(lane), l.Version, l.MaxInFlight, l.Interval.Microseconds(), conn.Flag(l.Ordered), helds[l.Held], conn.Flag(clear), l.Name, cmp.Or(l.By, dispatcher.System)}
	calls := []conn.Call{{Partition: s.partition(lane), Args: args}}
	if lane == dispatcher.AllLanes {
		calls = s.conn.Everywhere(args)
	}
	var n dispatcher.LaneCount
	var errs []error
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.lane, By: by, Calls: calls}) {
		if h, ok := r.Hint(); ok {
			readChanges(&r.Reply, &h)
			n.InFlight += int(r.Number())
			n.Waiting += int(r.Number())
			s.observeDeaths(h)
			s.observeBreakers(h)
		}
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("lane %s: %w", lane, s.conn.InPartition(r.Partition, r.Err)))
		}
	}
	return n, partitions.Join(errs...)
}

// readChanges reads which breakers a script opened and closed: a lane, and until
// when it is left alone, 0 where it closed.
func readChanges(a *conn.Reply, h *partitions.Hint) {
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

// Bounds of a sweep. One call reads sweepPage entries of :due. Another ends up
// to sweepBatch of those found, for which it reads a MiB of records at most.
const (
	sweepPage  = 1000
	sweepBatch = 64
)

// Sweep ends a page of the deliveries that wait for a time in a disabled or
// deleted lane. Those in line behind them follow by themselves.
func (s *Store) Sweep(ctx context.Context, by string, lane dispatcher.Lane, cursor string) (ended int, next string, err error) {
	at, err := conn.ParsePage(cursor)
	if err != nil {
		return 0, "", fmt.Errorf("sweep %s: %w", lane, err)
	}
	n := s.partition(lane)
	var scan *redis.ScanCmd
	err = s.conn.At(ctx, "sweep "+string(lane), n, func(p redis.Pipeliner) {
		scan = p.ZScan(ctx, s.tags[n]+keys.Due, at, string(lane)+":*", sweepPage)
	})
	if err != nil {
		return 0, cursor, err
	}
	found, at := scan.Val()
	var calls []conn.Call
	each(len(found)/2, sweepBatch, func(from, to int) {
		args := make([]any, 1, 1+to-from)
		args[0] = string(lane)
		for i := from; i < to; i++ {
			args = append(args, found[2*i]) // each is followed by its score
		}
		calls = append(calls, conn.Call{Partition: n, Args: args})
	})
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.sweep, By: by, Calls: calls}) {
		if h, ok := r.Hint(); ok {
			some := int(r.Number())
			ended += some
			s.observeDeaths(h)
			s.observeEnds(n, some)
		}
		if r.Err != nil {
			return ended, cursor, fmt.Errorf("sweep %s: %w", lane, r.Err)
		}
	}
	return ended, conn.PageText(at), nil
}

// ParseLimits reads a text of :limits: version, most in flight, interval in
// µs, 1 for an ordered lane, why it is held.
func ParseLimits(text string) (l dispatcher.LaneLimits, err error) {
	if text == "" {
		return l, nil
	}
	var micros, ordered int64
	var held string
	if _, err := fmt.Sscanf(text, "%d %d %d %d %s", &l.Version, &l.MaxInFlight, &micros, &ordered, &held); err != nil {
		return l, fmt.Errorf("limits %q: %w", text, conn.ErrReply)
	}
	l.Interval, l.Ordered = time.Duration(micros)*time.Microsecond, ordered == 1
	for h, letter := range helds {
		if letter == held {
			l.Held = h
			return l, nil
		}
	}
	return l, fmt.Errorf("limits %q: %w", text, conn.ErrReply)
}
