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
)

const (
	topLanes = 50   // lanes that stats tells of
	scanPage = 1000 // fields that one HSCAN reads
)

// laneState is one field of :in.
type laneState struct {
	partition       int
	lane            string
	flying, waiting int
}

// eachLane goes through the lanes of all partitions in pages. A lane that
// comes or goes meanwhile may be missed, one may come twice.
func (s *Store) eachLane(ctx context.Context, do func(laneState)) error {
	for n, tag := range s.tags {
		for page := uint64(0); ; {
			fields, next, err := s.rdb.HScan(ctx, tag+keyIn, page, "", scanPage).Result()
			if err != nil {
				return s.failed("read lanes", err)
			}
			for i := 0; i+1 < len(fields); i += 2 {
				l := laneState{partition: n, lane: fields[i]}
				if _, err := fmt.Sscanf(fields[i+1], "%d %d", &l.flying, &l.waiting); err == nil {
					do(l)
				}
			}
			if page = next; page == 0 {
				break
			}
		}
	}
	return nil
}

// Stats counts over all partitions.
func (s *Store) Stats(ctx context.Context) (dispatcher.Stats, error) {
	st := dispatcher.Stats{Counts: map[dispatcher.Status]int64{}, Dead: map[dispatcher.DeadReason]int64{}}
	counts := make([]*redis.MapStringStringCmd, len(s.tags))
	buried := make([]*redis.MapStringStringCmd, len(s.tags))
	var instances *redis.IntCmd
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n, tag := range s.tags {
			counts[n], buried[n] = p.HGetAll(ctx, tag+keyCounts), p.HGetAll(ctx, tag+keyBuried)
		}
		instances = p.HLen(ctx, s.instances())
		return nil
	})
	if err != nil {
		return st, s.failed("stats", err)
	}
	st.Instances = int(instances.Val())
	for n := range s.tags {
		for status, text := range counts[n].Val() {
			k, _ := strconv.ParseInt(text, 10, 64)
			st.Counts[dispatcher.Status(status)] += k
		}
		for field, text := range buried[n].Val() {
			_, reason, _ := strings.Cut(field, " ")
			k, _ := strconv.ParseInt(text, 10, 64)
			st.Dead[dispatcher.DeadReason(reason)] += k
		}
	}
	if st.Now, err = s.now(ctx); err != nil {
		return st, err
	}
	if err := s.lanesOf(ctx, &st); err != nil {
		return st, err
	}
	st.Store, err = s.Store(ctx)
	return st, err
}

// lanesOf adds the lanes with the most work, and the oldest thing that is due:
// the heads of their lists, and of what the mover has not come to.
func (s *Store) lanesOf(ctx context.Context, st *dispatcher.Stats) error {
	var lanes []laneState
	err := s.eachLane(ctx, func(l laneState) {
		if l.flying+l.waiting == 0 {
			return
		}
		lanes = append(lanes, l)
		if len(lanes) >= 20*topLanes {
			lanes = busiest(lanes)
		}
	})
	if err != nil {
		return err
	}
	lanes = busiest(lanes)
	heads := make([]*redis.StringCmd, len(lanes))
	dues := make([]*redis.ZSliceCmd, len(s.tags))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range lanes {
			heads[i] = p.LIndex(ctx, s.tags[l.partition]+keyReady+l.lane, 0)
		}
		for n, tag := range s.tags {
			dues[n] = p.ZRangeWithScores(ctx, tag+keyDue, 0, 0)
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return s.failed("stats", err)
	}
	oldest := func(t time.Time) {
		if !t.IsZero() && !t.After(st.Now) && (st.OldestDue.IsZero() || t.Before(st.OldestDue)) {
			st.OldestDue = t
		}
	}
	for _, due := range dues {
		if head := due.Val(); len(head) > 0 {
			oldest(fromMillis(int64(head[0].Score)))
		}
	}
	for i, l := range lanes {
		out := dispatcher.LaneStats{Lane: dispatcher.Lane(l.lane), InFlight: l.flying, Waiting: l.waiting}
		if due, id, ok := strings.Cut(heads[i].Val(), ":"); ok {
			ms, _ := strconv.ParseInt(due, 10, 64)
			oldest(fromMillis(ms))
			out.URL = s.origin(ctx, l.partition, id)
		}
		st.Lanes = append(st.Lanes, out)
	}
	return nil
}

func busiest(lanes []laneState) []laneState {
	slices.SortFunc(lanes, func(a, b laneState) int {
		return cmp.Or(cmp.Compare(b.waiting, a.waiting), cmp.Compare(b.flying, a.flying), strings.Compare(a.lane, b.lane))
	})
	return lanes[:min(len(lanes), topLanes)]
}

// origin is where a message goes, empty where that is not known.
func (s *Store) origin(ctx context.Context, partition int, id string) string {
	record, err := s.rdb.HGet(ctx, s.tags[partition]+keyMessages, id).Result()
	if err != nil {
		return ""
	}
	return originOf(id, record)
}

// Store reads what Redis tells of itself. Managed kinds hide much of it: what
// they hide stays nil.
func (s *Store) Store(ctx context.Context) (dispatcher.StoreInfo, error) {
	info := dispatcher.StoreInfo{Kind: "redis"}
	text, err := s.rdb.Info(ctx).Result()
	if err != nil {
		if meaningOf(err) != nil {
			return info, s.failed("info", err)
		}
		info.Kind = "unknown" // it answers, but does not tell
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[k] = v
		}
	}
	if v, ok := fields["valkey_version"]; ok {
		info.Kind, info.Version = "valkey", v
	} else if v, ok := fields["redis_version"]; ok {
		info.Version = v
	} else {
		info.Kind = "unknown"
	}
	info.UsedBytes, info.MaxBytes = number(fields["used_memory"]), number(fields["maxmemory"])
	info.Eviction = fields["maxmemory_policy"]
	if v, ok := fields["aof_enabled"]; ok {
		on := v == "1"
		info.AppendOnly = &on
	}
	if set, err := s.rdb.ConfigGet(ctx, "appendfsync").Result(); err == nil {
		info.Fsync = set["appendfsync"]
	}
	return info, nil
}

func number(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
