package redisq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// heldPage is how many held lanes one call reads: some 10 KiB.
const heldPage = 100

// pageOf is the partition of a cursor, <partition>-<cursor in it>, and the cursor
// in it.
func (s *Store) pageOf(cursor string) (partition int, inside string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	number, inside, ok := strings.Cut(cursor, "-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || n >= len(s.tags) {
		return 0, "", fmt.Errorf("%w: %q", dispatcher.ErrCursor, cursor)
	}
	return n, inside, nil
}

// pageAfter is the cursor behind a page of a partition; empty: it was the last one.
func (s *Store) pageAfter(partition int, inside string) string {
	if inside == "" {
		partition++
	}
	if partition == len(s.tags) {
		return ""
	}
	return strconv.Itoa(partition) + "-" + inside
}

// HeldLanes reads a page of the lanes that are held, one partition after the other.
func (s *Store) HeldLanes(ctx context.Context, cursor string) (list []dispatcher.HeldLane, next string, err error) {
	n, at, err := s.pageOf(cursor)
	if err != nil {
		return nil, "", err
	}
	list, next, err = s.heldLanesIn(ctx, n, at)
	return list, s.pageAfter(n, next), s.conn.InPartition(n, err)
}

// heldLanesIn reads a page of one partition. Of lanes of endpoints it reads the
// versions of their limits behind that: never older ones.
func (s *Store) heldLanesIn(ctx context.Context, partition int, cursor string) (list []dispatcher.HeldLane, next string, err error) {
	tag := s.tags[partition]
	found, next, err := s.conn.Scan(ctx, "read held lanes", partition, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, tag+keys.Held, at, "", heldPage)
	})
	if err != nil {
		return nil, "", err
	}
	var names []string
	for i := 0; i+1 < len(found); i += 2 {
		if found[i] == string(dispatcher.AllLanes) {
			continue
		}
		l, ok := codec.ParseHeld(found[i+1])
		if !ok {
			continue // doctor reports it
		}
		l.Lane = dispatcher.Lane(found[i])
		list, names = append(list, l), append(names, found[i])
	}
	if len(names) == 0 {
		return nil, next, nil
	}
	var limits *redis.SliceCmd
	err = s.conn.At(ctx, "read held lanes", partition, func(p redis.Pipeliner) { limits = p.HMGet(ctx, tag+keys.Limits, names...) })
	if err != nil {
		return nil, "", err
	}
	for i, value := range limits.Val() {
		text, _ := value.(string)
		if l, err := codec.ParseLimits(text); err == nil {
			list[i].Version = l.Version
		}
	}
	return list, next, nil
}

// namesPage is how many names one call reads. Each has 2.4 KB at most, with the
// longest URL and tenant, so together they have less than a MiB.
const namesPage = 256

// LaneNames reads a page of the names of lanes, one partition after the other.
func (s *Store) LaneNames(ctx context.Context, cursor string) (list []dispatcher.LaneName, next string, err error) {
	n, at, err := s.pageOf(cursor)
	if err != nil {
		return nil, "", err
	}
	list, next, err = s.laneNamesIn(ctx, n, at)
	return list, s.pageAfter(n, next), s.conn.InPartition(n, err)
}

// laneNamesIn reads a page of one partition.
func (s *Store) laneNamesIn(ctx context.Context, partition int, cursor string) (list []dispatcher.LaneName, next string, err error) {
	found, next, err := s.conn.Scan(ctx, "read lane names", partition, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, s.tags[partition]+keys.LaneNames, at, "", namesPage)
	})
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(found); i += 2 {
		list = append(list, dispatcher.LaneName{Lane: dispatcher.Lane(found[i]), Name: found[i+1]})
	}
	return list, next, nil
}

// ForgetLane removes the copy of limits of an endpoint that never existed.
func (s *Store) ForgetLane(ctx context.Context, by string, copied dispatcher.LaneVersion, age time.Duration) (forgotten bool, err error) {
	n := s.partition(copied.Lane)
	r := s.conn.Send(ctx, conn.Batch{Script: s.scripts.forget, By: by, Calls: []conn.Call{{Partition: n, Args: []any{string(copied.Lane), copied.Version, age.Milliseconds()}}}})[0]
	r.Hint()
	forgotten = r.Err == nil && r.Number() == 1
	if r.Err != nil {
		return false, fmt.Errorf("forget lane %s: %w", copied.Lane, s.conn.InPartition(n, r.Err))
	}
	return forgotten, nil
}

// eachHeld calls do for the entries of :held, a page of each partition at a
// time. It may tell of one twice. A partition that does not answer is left out, and its
// error is answered.
func (s *Store) eachHeld(ctx context.Context, do func(partition int, lane, text string)) error {
	var errs []error
	for w := s.conn.Walk("read held lanes", s.all()); len(w.Left) > 0; {
		errs = append(errs, w.Pages(ctx, func(p redis.Pipeliner, n int, at uint64) *redis.ScanCmd {
			return p.HScan(ctx, s.tags[n]+keys.Held, at, "", scanPage)
		}, func(n int, page []string) {
			for k := 0; k+1 < len(page); k += 2 {
				do(n, page[k], page[k+1])
			}
		}))
	}
	return partitions.Join(errs...)
}

// paused finds all paused lanes, the last paused first, and whether all are
// paused.
func (s *Store) paused(ctx context.Context) (list []dispatcher.HeldLane, all *dispatcher.HeldLane, err error) {
	err = s.eachHeld(ctx, func(_ int, lane, text string) {
		h, ok := codec.ParseHeld(text)
		switch h.Lane = dispatcher.Lane(lane); {
		case !ok || h.Held != dispatcher.HeldPaused: // doctor reports it
		case h.Lane != dispatcher.AllLanes:
			list = append(list, h)
		case all == nil || h.Since.Before(all.Since): // the partitions were changed one after another
			all = &h
		}
	})
	slices.SortFunc(list, comparePaused)
	return slices.CompactFunc(list, func(a, b dispatcher.HeldLane) bool { return a.Lane == b.Lane }), all, err
}

func comparePaused(a, b dispatcher.HeldLane) int {
	return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Lane, b.Lane))
}

// pausedPage reads a page of the paused lanes. next is empty at the end.
func (s *Store) pausedPage(ctx context.Context, limit int, at lanePlace) (states []dispatcher.LaneState, next string, err error) {
	list, all, err := s.paused(ctx)
	if err != nil {
		return nil, "", err
	}
	if at.Lane == "" && all != nil {
		states = append(states, heldLanes(all))
	}
	if at.Lane != "" {
		last := dispatcher.HeldLane{LaneVersion: dispatcher.LaneVersion{Lane: dispatcher.Lane(at.Lane)}, Since: conn.FromMillis(int64(at.Score))}
		from, there := slices.BinarySearchFunc(list, last, comparePaused)
		if list = list[from:]; there {
			list = list[1:]
		}
	}
	if len(list) > limit {
		list = list[:limit]
		last := lanePlace{Score: float64(conn.ToMillis(list[limit-1].Since)), Lane: string(list[limit-1].Lane)}
		if next, err = s.sealer.Seal(ctx, laneList, last); err != nil {
			return nil, "", err
		}
	}
	found, err := s.LaneStates(ctx, lanesOf(list))
	if err != nil {
		return nil, "", err
	}
	for _, st := range found {
		if st.Limits.Held == dispatcher.HeldPaused { // else it was resumed meanwhile, and comes among the others
			states = append(states, st)
		}
	}
	return states, next, nil
}

func lanesOf(list []dispatcher.HeldLane) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, len(list))
	for i, h := range list {
		lanes[i] = h.Lane
	}
	return lanes
}

// PausedLanes reads the paused lanes.
func (s *Store) PausedLanes(ctx context.Context, most int) (states []dispatcher.LaneState, total int, err error) {
	list, all, err := s.paused(ctx)
	total = len(list)
	if all != nil {
		states = append(states, heldLanes(all))
		total++
	}
	found, readErr := s.LaneStates(ctx, lanesOf(list[:min(most, len(list))]))
	return append(states, found...), total, partitions.Join(err, readErr)
}

// deletedLanes finds the lanes of deleted endpoints that may have waiting
// deliveries, by partition.
func (s *Store) deletedLanes(ctx context.Context) (map[int][]string, error) {
	deleted := make(map[int][]string)
	err := s.eachHeld(ctx, func(partition int, lane, text string) {
		if h, _ := codec.ParseHeld(text); h.Held == dispatcher.HeldDeleted {
			deleted[partition] = append(deleted[partition], lane)
		}
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}
