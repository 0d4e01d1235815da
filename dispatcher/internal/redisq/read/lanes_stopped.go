package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// stoppedPage is the number of entries of :held in one call: some 10 KiB.
const stoppedPage = 100

// stoppedAtOnce is the number of entries of all paused lanes in one command.
const stoppedAtOnce = 1000

// pageOf returns the partition of a cursor, <partition>-<cursor in it>, and the cursor in it.
func (s *LaneReader) pageOf(cursor string) (partition int, inside string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	number, inside, ok := strings.Cut(cursor, "-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || n >= s.conn.Partitions() {
		return 0, "", fmt.Errorf("%w: %q", dispatcher.ErrCursor, cursor)
	}
	return n, inside, nil
}

// pageAfter returns the cursor after a page of a partition; empty: it was the last page.
func (s *LaneReader) pageAfter(partition int, inside string) string {
	if inside == "" {
		partition++
	}
	if partition == s.conn.Partitions() {
		return ""
	}
	return strconv.Itoa(partition) + "-" + inside
}

// StoppedLanes returns a page of the lanes that are paused or ended, one partition after the
// other.
func (s *LaneReader) StoppedLanes(ctx context.Context, cursor string) (list []dispatcher.StoppedLane, next string, err error) {
	n, at, err := s.pageOf(cursor)
	if err != nil {
		return nil, "", err
	}
	list, next, err = s.stoppedLanesIn(ctx, n, at)
	return list, s.pageAfter(n, next), s.conn.InPartition(n, err)
}

// stoppedLanesIn reads a page of one partition. It reads the versions of endpoints' limits after
// that, so they are never older.
func (s *LaneReader) stoppedLanesIn(ctx context.Context, partition int, cursor string) (list []dispatcher.StoppedLane, next string, err error) {
	tag := s.conn.Tag(partition)
	found, next, err := s.conn.Scan(ctx, "read stopped lanes", partition, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, tag+keys.Held, at, "", stoppedPage)
	})
	if err != nil {
		return nil, "", err
	}
	var names []string
	for i := 0; i+1 < len(found); i += 2 {
		if found[i] == string(dispatcher.AllLanes) {
			continue
		}
		l, ok := conn.ParseStopped(found[i+1])
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
	err = s.conn.At(ctx, "read stopped lanes", partition, func(p redis.Pipeliner) { limits = p.HMGet(ctx, tag+keys.Limits, names...) })
	if err != nil {
		return nil, "", err
	}
	for i, value := range limits.Val() {
		text, _ := value.(string)
		if l, err := conn.ParseLimits(text); err == nil {
			list[i].Version = l.Version
		}
	}
	return list, next, nil
}

// eachStopped calls do for the entries of :held, a page of each partition at a time. It may
// report an entry twice. It skips a partition that does not reply, and returns its error.
func (s *LaneReader) eachStopped(ctx context.Context, do func(partition int, lane, text string)) error {
	var errs []error
	for w := s.conn.Walk("read stopped lanes", s.conn.All()); len(w.Left) > 0; {
		errs = append(errs, w.Pages(ctx, func(p redis.Pipeliner, n int, at uint64) *redis.ScanCmd {
			return p.HScan(ctx, s.conn.Tag(n)+keys.Held, at, "", stoppedAtOnce)
		}, func(n int, page []string) {
			for k := 0; k+1 < len(page); k += 2 {
				do(n, page[k], page[k+1])
			}
		}))
	}
	return conn.JoinErrors(errs...)
}

// Deleted returns the lanes of deleted endpoints that may have waiting deliveries, by
// partition.
func (s *LaneReader) Deleted(ctx context.Context) (map[int][]string, error) {
	deleted := make(map[int][]string)
	err := s.eachStopped(ctx, func(partition int, lane, text string) {
		if h, _ := conn.ParseStopped(text); h.Mode == dispatcher.LaneDeleted {
			deleted[partition] = append(deleted[partition], lane)
		}
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

// paused returns all paused lanes, the last paused first, and whether all are paused.
func (s *LaneReader) paused(ctx context.Context) (list []dispatcher.StoppedLane, all *dispatcher.StoppedLane, err error) {
	err = s.eachStopped(ctx, func(_ int, lane, text string) {
		h, ok := conn.ParseStopped(text)
		switch h.Lane = dispatcher.Lane(lane); {
		case !ok || h.Mode != dispatcher.LanePaused: // doctor reports it
		case h.Lane != dispatcher.AllLanes:
			list = append(list, h)
		case all == nil || h.Since.Before(all.Since): // the partitions were changed one after another
			all = &h
		}
	})
	slices.SortFunc(list, comparePaused)
	return slices.CompactFunc(list, func(a, b dispatcher.StoppedLane) bool { return a.Lane == b.Lane }), all, err
}

func comparePaused(a, b dispatcher.StoppedLane) int {
	return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Lane, b.Lane))
}

// pausedPage returns a page of the paused lanes. next is empty at the end.
func (s *LaneReader) pausedPage(ctx context.Context, limit int, at lanePlace) (states []dispatcher.LaneState, next string, err error) {
	list, all, err := s.paused(ctx)
	if err != nil {
		return nil, "", err
	}
	if at.Lane == "" && all != nil {
		states = append(states, allLanesPaused(all))
	}
	if at.Lane != "" {
		last := dispatcher.StoppedLane{LaneVersion: dispatcher.LaneVersion{Lane: dispatcher.Lane(at.Lane)}, Since: conn.FromMillis(int64(at.Score))}
		from, there := slices.BinarySearchFunc(list, last, comparePaused)
		if list = list[from:]; there {
			list = list[1:]
		}
	}
	list, next, err = conn.CutPage(ctx, s.conn, laneList, list, limit, func(l dispatcher.StoppedLane) lanePlace {
		return lanePlace{Score: float64(conn.ToMillis(l.Since)), Lane: string(l.Lane)}
	})
	if err != nil {
		return nil, "", err
	}
	found, err := s.LaneStates(ctx, lanesOf(list))
	if err != nil {
		return nil, "", err
	}
	for _, st := range found {
		if st.Limits.Mode == dispatcher.LanePaused { // if not, it was resumed in the meantime, and is among the other lanes
			states = append(states, st)
		}
	}
	return states, next, nil
}

func lanesOf(list []dispatcher.StoppedLane) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, len(list))
	for i, h := range list {
		lanes[i] = h.Lane
	}
	return lanes
}

// PausedLanes returns the paused lanes.
func (s *LaneReader) PausedLanes(ctx context.Context, most int) (states []dispatcher.LaneState, total int, err error) {
	list, all, err := s.paused(ctx)
	total = len(list)
	if all != nil {
		states = append(states, allLanesPaused(all))
		total++
	}
	found, readErr := s.LaneStates(ctx, lanesOf(list[:min(most, len(list))]))
	return append(states, found...), total, conn.JoinErrors(err, readErr)
}
