package redisq

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// eachHeld calls do for the entries of :held, a page of each partition at a
// time. A partition that does not answer is left out, and its error is
// answered.
func (s *Store) eachHeld(ctx context.Context, do func(partition int, lane, text string)) error {
	pages := make([]uint64, len(s.tags))
	var errs []error
	for left := s.all(); len(left) > 0; {
		scans := make([]*redis.ScanCmd, len(left))
		errs = append(errs, s.conn.EachPartition(ctx, "read held lanes", left, func(p redis.Pipeliner, i int) {
			scans[i] = p.HScan(ctx, s.tags[left[i]]+keys.Held, pages[left[i]], "", scanPage)
		}))
		var more []int
		for i, n := range left {
			if scans[i] == nil || scans[i].Err() != nil {
				continue
			}
			fields, next := scans[i].Val()
			for k := 0; k+1 < len(fields); k += 2 {
				do(n, fields[k], fields[k+1])
			}
			if pages[n] = next; next != 0 {
				more = append(more, n)
			}
		}
		left = more
	}
	return partitions.Join(errs...)
}

// paused finds all paused lanes, the last paused first, and whether all are
// paused.
func (s *Store) paused(ctx context.Context) (list []dispatcher.HeldLane, all *dispatcher.HeldLane, err error) {
	err = s.eachHeld(ctx, func(_ int, lane, text string) {
		h, ok := parseHeld(text)
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
func (s *Store) pausedPage(ctx context.Context, limit int, at cursor) (states []dispatcher.LaneState, next string, err error) {
	list, all, err := s.paused(ctx)
	if err != nil {
		return nil, "", err
	}
	if at.name == "" && all != nil {
		states = append(states, heldLanes(all))
	}
	if at.name != "" {
		last := dispatcher.HeldLane{LaneVersion: dispatcher.LaneVersion{Lane: dispatcher.Lane(at.name)}, Since: time.UnixMilli(int64(at.score)).UTC()}
		from, there := slices.BinarySearchFunc(list, last, comparePaused)
		if list = list[from:]; there {
			list = list[1:]
		}
	}
	if len(list) > limit {
		list = list[:limit]
		next = cursor{section: sectionPaused, score: float64(conn.ToMillis(list[limit-1].Since)), name: string(list[limit-1].Lane)}.String()
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
