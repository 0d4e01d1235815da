package read

import (
	"context"
	"slices"
	"strconv"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// readyLanes returns a page of the lanes of a partition.
func (l *lister) readyLanes(ctx context.Context, at *listCursor) (lanes []string, next uint64, err error) {
	args := append(slices.Clip(l.names), strconv.FormatUint(at.scan, 10), lanesChunk, conn.Flag(!l.asks(dispatcher.StatusReady)))
	r := l.s.conn.Send(ctx, conn.Batch{Script: l.s.scripts.ReadyLanes, Calls: []conn.Call{{Partition: at.partition, Args: args}}})[0]
	r.Hint()
	if r.Err != nil {
		return nil, 0, r.Err
	}
	next, err = strconv.ParseUint(r.Text(), 10, 64)
	if err != nil {
		return nil, 0, conn.ErrReply
	}
	if server := conn.ProcessName(r.Text()); r.Err == nil && !goesOn(at, server) {
		return l.readyLanes(ctx, at)
	}
	l.cost += costOfScan*int(r.Number()) + costOfScript
	for r.More() {
		lanes = append(lanes, r.Text())
	}
	slices.Sort(lanes)
	return lanes, next, r.Err
}

// lanesChunk is the number of lanes that one call searches for ready deliveries.
const lanesChunk = 1000

// ready reads the ready lists of lanes one after another: the lanes of the filter, or all
// lanes with ready deliveries in the order of a scan.
func (l *lister) ready(ctx context.Context, at listCursor) (*listCursor, error) {
	if len(l.of) > 0 {
		lanes := make([]string, len(l.of))
		for i, lane := range l.of {
			lanes[i] = string(lane)
		}
		slices.Sort(lanes)
		return l.lists(ctx, &at, slices.Compact(lanes))
	}
	for ; at.partition < l.s.conn.Partitions(); at.partition, at.scan = at.partition+1, 0 {
		for {
			if l.spent() {
				return &at, nil
			}
			lanes, next, err := l.readyLanes(ctx, &at)
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

// lists reads the ready lists of lanes, in order, from the cursor. It moves the cursor behind
// them.
func (l *lister) lists(ctx context.Context, at *listCursor, lanes []string) (*listCursor, error) {
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
				after = conn.ScoreText(at.score)
			}
			args := l.args("ready", lane, l.want(), after, at.name)
			chunks, err := l.read(ctx, conn.Call{Partition: l.s.conn.PartitionOf(dispatcher.Lane(lane)), Args: args})
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
	*at = listCursor{section: sectionReady, partition: at.partition, scan: at.scan, server: at.server}
	return nil, nil
}
