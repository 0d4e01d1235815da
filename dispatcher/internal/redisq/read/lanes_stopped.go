package read

import (
	"context"
	"fmt"
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
