package redisq

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// trimBatch bounds one call of the script.
const trimBatch = 64

// logBytes is the default memory of :attempts in the whole project. It holds some 700,000 attempts
// if receivers always return the same reply. leastLog is the minimum for each partition.
const (
	logBytes = 64 << 20
	leastLog = 1 << 20
)

// backlogBytes is the default memory, in the whole project, for deliveries that are not archived
// yet. That is some 140,000 deliveries of 1 KiB. The limit is never more than 1/backlogPart of the
// memory that there is.
const (
	backlogBytes = 256 << 20
	backlogPart  = 4
	memoryFor    = time.Minute // how long the limit read from Redis is cached
)

// Trim removes at most one batch from each partition that the parameter where selects.
func (s *Store) Trim(ctx context.Context, by string, keep dispatcher.Keep, where dispatcher.TrimWhere) (dispatcher.Trimmed, error) {
	if where == dispatcher.TrimFull {
		return s.makeRoom(ctx, by, keep)
	}
	in, left := s.partitions.ToTrim(where)
	t, more, err := s.TrimIn(ctx, by, in, keep, false)
	t.Left = left
	s.partitions.Trimmed(more, err)
	return t, err
}

// makeRoom removes the oldest finished deliveries when memory is full.
func (s *Store) makeRoom(ctx context.Context, by string, keep dispatcher.Keep) (dispatcher.Trimmed, error) {
	in := s.partitions.ToEmpty(s.nodes > 1)
	t, _, err := s.TrimIn(ctx, by, in, keep, true)
	if err == nil && t.Finished+t.Seen == 0 {
		s.partitions.Emptied(in)
	}
	return t, err
}

// TrimIn trims some partitions. It returns the partitions that have more to remove.
func (s *Store) TrimIn(ctx context.Context, by string, in []int, keep dispatcher.Keep, room bool) (t dispatcher.Trimmed, more []int, err error) {
	t.Asked = len(in)
	calls := make([]conn.Call, len(in))
	backlog := int64(0)
	if s.conn.Archives() {
		backlog = s.shareOfBacklog(ctx, keep.Backlog)
	}
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Args: []any{
			keep.Finished.Milliseconds(), s.share(keep.FinishedMax), s.share(keep.SeenMax),
			keep.Dead.Milliseconds(), s.share(keep.DeadMax), trimBatch, conn.Flag(room), s.shareOfLog(keep.LogBytes), backlog,
		}}
	}
	err = s.conn.SendEach(ctx, conn.Batch{Script: trimScript, By: by, Calls: calls}, func(_ int, r *conn.Call) error {
		if h, ok := r.Hint(); ok {
			t.Finished += int(r.Number())
			t.Seen += int(r.Number())
			t.Dead += int(r.Number())
			t.DeadCut += int(r.Number())
			t.Lanes += int(r.Number())
			if r.Number() == 1 {
				t.More, more = true, append(more, h.Partition)
			}
			if age := time.Duration(r.Number()) * time.Millisecond; age > 0 && (t.CutAge == 0 || age < t.CutAge) {
				t.CutAge = age
			}
			for stay := (conn.Reply{Values: r.List()}); stay.More(); {
				t.Unused = append(t.Unused, dispatcher.LaneVersion{Lane: dispatcher.Lane(stay.Text()), Version: stay.Number()})
			}
			if r.Number() == 1 {
				s.observeDeaths(h) // a lane was placed again, because its time came from another clock
			}
		}
		return r.Err
	})
	return t, more, err
}

// shareOfLog returns one partition's part of the memory for :attempts.
func (s *Store) shareOfLog(bytes int) int {
	all := cmp.Or(bytes, logBytes)
	return max(all/s.conn.Partitions(), min(all, leastLog))
}

// shareOfBacklog returns one partition's part of the memory for deliveries that wait to be
// archived.
func (s *Store) shareOfBacklog(ctx context.Context, bytes int64) int64 {
	all := cmp.Or(bytes, backlogBytes)
	if limit := s.memory.limit(ctx, s.conn); limit > 0 {
		all = min(all, limit*int64(max(s.nodes, 1))/backlogPart)
	}
	return max(all/int64(s.conn.Partitions()), 1)
}

// memory caches how much memory a node may use.
type memory struct {
	mu    sync.Mutex // guards the fields below
	most  int64      // 0: no limit, or the limit is not known
	until time.Time  // when the cached limit expires
}

func (m *memory) limit(ctx context.Context, c *conn.Client) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.until) {
		return m.most
	}
	var info *redis.StringCmd
	if c.At(ctx, "read the limit of memory", conn.Home, func(p redis.Pipeliner) { info = p.Info(ctx, "memory") }) == nil {
		_, text, _ := strings.Cut(info.Val(), "\nmaxmemory:")
		text, _, _ = strings.Cut(text, "\r")
		m.most, _ = strconv.ParseInt(text, 10, 64)
	}
	m.until = time.Now().Add(memoryFor)
	return m.most
}

// share returns one partition's part of a limit for the project.
func (s *Store) share(limit int) int { return conn.ShareOf(limit, s.conn.Partitions()) }

// TrimFrom sets the partition at which trims by age begin.
func (s *Store) TrimFrom(partition int) { s.partitions.TrimFrom(partition) }
