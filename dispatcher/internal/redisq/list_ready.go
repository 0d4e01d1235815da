package redisq

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// lanesChunk is how many lanes one call searches for ready deliveries.
const lanesChunk = 1000

// ready reads the ready lists of lanes one after another. These are the lanes
// of the filter, or all lanes with ready deliveries in the order of a scan.
func (l *lister) ready(ctx context.Context, at cursor) (*cursor, error) {
	if len(l.f.Lanes) > 0 {
		lanes := make([]string, len(l.f.Lanes))
		for i, lane := range l.f.Lanes {
			lanes[i] = string(lane)
		}
		slices.Sort(lanes)
		return l.lists(ctx, &at, slices.Compact(lanes))
	}
	for ; at.partition < len(l.s.tags); at.partition, at.scan = at.partition+1, 0 {
		for {
			if l.spent() {
				return &at, nil
			}
			lanes, next, err := l.readyLanes(ctx, at)
			if err != nil {
				return nil, err
			}
			if next, err := l.lists(ctx, &at, lanes); next != nil || err != nil {
				return next, err
			}
			if at.scan = next; next == 0 {
				break
			}
		}
	}
	return nil, nil
}

// readyLanes searches a page of the lanes of a partition.
func (l *lister) readyLanes(ctx context.Context, at cursor) (lanes []string, next uint64, err error) {
	args := append(slices.Clip(l.names), strconv.FormatUint(at.scan, 10), lanesChunk, conn.Flag(!l.asks(dispatcher.StatusReady)))
	r := l.s.conn.Run(ctx, l.s.scripts.readyLanes, "", []conn.ScriptCall{{Partition: at.partition, Args: args}})[0]
	r.HintIf(at.partition)
	if r.Err != nil {
		return nil, 0, r.Err
	}
	next, err = strconv.ParseUint(r.Text(), 10, 64)
	if err != nil {
		return nil, 0, conn.ErrReply
	}
	l.cost += costOfLane*int(r.Number()) + costOfScript
	for r.More() {
		lanes = append(lanes, r.Text())
	}
	slices.Sort(lanes)
	return lanes, next, r.Err
}

// lists reads the ready lists of lanes, in order, from the cursor on. It leaves
// the cursor after them.
func (l *lister) lists(ctx context.Context, at *cursor, lanes []string) (*cursor, error) {
	from, _ := slices.BinarySearch(lanes, at.lane)
	for _, lane := range lanes[from:] {
		if lane != at.lane {
			at.lane, at.score, at.name, at.key, at.last = lane, 0, "", "", 0
		}
		for more := true; more; {
			if l.spent() {
				return at, nil
			}
			after := ""
			if at.name != "" {
				after = scoreText(at.score)
			}
			args := l.args("ready", lane, l.want(), after, at.name)
			chunks, err := l.read(ctx, conn.ScriptCall{Partition: l.s.partition(dispatcher.Lane(lane)), Args: args})
			if err != nil {
				return nil, err
			}
			if next, err := l.take(ctx, chunks[0], at); next != nil || err != nil {
				return next, err
			}
			if more = chunks[0].more; more {
				at.score, at.name = chunks[0].last.score, chunks[0].last.name
			}
		}
	}
	*at = cursor{section: sectionReady, partition: at.partition, scan: at.scan}
	return nil, nil
}

// marks reads deliveries that ended and are still in their place. Their mark
// says how they ended.
func (l *lister) marks(ctx context.Context, at cursor) (*cursor, error) {
	sizes := make([]*redis.IntCmd, len(l.s.tags))
	err := l.s.conn.EachPartition(ctx, "read marks", l.s.all(), func(p redis.Pipeliner, n int) {
		sizes[n] = p.HLen(ctx, l.s.tags[n]+keys.Marks)
	})
	if err != nil {
		return nil, err
	}
	for _, n := range l.partitions() {
		if n < at.partition || sizes[n].Val() == 0 {
			continue
		}
		if n > at.partition {
			at = cursor{section: sectionMarks, partition: n}
		}
		for more := true; more; {
			if l.spent() {
				return &at, nil
			}
			args := l.args("marks", "", l.want(), strconv.FormatUint(at.scan, 10), at.name)
			chunks, err := l.read(ctx, conn.ScriptCall{Partition: n, Args: args})
			if err != nil {
				return nil, err
			}
			for _, e := range chunks[0].entries {
				at.name = e.name
				if l.put(e); l.full() {
					return &at, nil
				}
			}
			at.scan, at.name, more = chunks[0].last.scan, chunks[0].last.name, chunks[0].more
		}
	}
	return nil, nil
}

// deletedLanes finds the lanes of deleted endpoints that may have waiting
// deliveries, by partition.
func (s *Store) deletedLanes(ctx context.Context) (map[int][]string, error) {
	deleted := make(map[int][]string)
	err := s.eachHeld(ctx, func(partition int, lane, text string) {
		if strings.HasPrefix(text, helds[dispatcher.HeldDeleted]) {
			deleted[partition] = append(deleted[partition], lane)
		}
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}
