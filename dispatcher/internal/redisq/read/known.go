package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// DigestsBatch is the number of ids in one call. The call reads at most a MiB of records.
const DigestsBatch = 64

// Known queries all partitions and reports which ids they know.
func (s *Deliveries) Known(ctx context.Context, ids []string) ([]bool, error) {
	known := make([]bool, len(ids))
	var calls []conn.Call
	var froms []int
	conn.Each(len(ids), DigestsBatch, func(from, to int) {
		args := make([]any, 0, to-from)
		for _, id := range ids[from:to] {
			args = append(args, id)
		}
		for _, j := range s.conn.Everywhere(args) {
			calls, froms = append(calls, j), append(froms, from)
		}
	})
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.Digests, Calls: calls}) {
		r.Hint()
		for k := range calls[i].Args {
			if r.Err == nil && r.Text() != "" {
				known[froms[i]+k] = true
			}
		}
		if r.Err != nil {
			return nil, fmt.Errorf("known ids: %w", s.conn.InPartition(r.Partition, r.Err))
		}
	}
	return known, nil
}

// Has reports which deliveries are kept completely, with any status. If a delivery is gone,
// its message may still exist, because other deliveries need it.
func (s *Deliveries) Has(ctx context.Context, ids []dispatcher.DeliveryID) ([]bool, error) {
	sizes, fans := make([]*redis.IntCmd, len(ids)), make([]*redis.StringCmd, len(ids))
	shares := conn.Grouped(len(ids), 0, func(i int) int { return s.conn.PartitionOf(ids[i].Lane) })
	err := s.conn.EachShare(ctx, "find deliveries", shares, func(p redis.Pipeliner, k int) {
		tag := s.conn.Tag(shares[k].Partition)
		for _, i := range shares[k].At {
			sizes[i], fans[i] = p.HStrLen(ctx, tag+keys.Messages, ids[i].Message), p.HGet(ctx, tag+keys.Fan, ids[i].Message)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find deliveries: %w", err)
	}
	has := make([]bool, len(ids))
	for i, id := range ids {
		lanes := strings.Fields(conn.Value(fans[i])) // none: the message has only one lane
		has[i] = conn.Value(sizes[i]) > dispatcher.DigestSize && (len(lanes) == 0 || slices.Contains(lanes, string(id.Lane)))
	}
	return has, nil
}

// Kept queries all partitions for the stored message of an id. It uses plain commands, because
// a record is small and only a caller in conflict needs it.
func (s *Deliveries) Kept(ctx context.Context, batch []dispatcher.Entry) ([]*dispatcher.Message, error) {
	kept := make([]*dispatcher.Message, len(batch))
	var err error
	conn.Each(len(batch), DigestsBatch, func(from, to int) {
		records := make([][]*redis.StringCmd, s.conn.Partitions())
		read := s.conn.EachPartition(ctx, "read messages", s.conn.All(), func(p redis.Pipeliner, n int) {
			records[n] = make([]*redis.StringCmd, to-from)
			for k := range records[n] {
				records[n][k] = p.HGet(ctx, s.conn.Tag(n)+keys.Messages, batch[from+k].Message.ID)
			}
		})
		err = cmp.Or(err, read)
		for n := range s.conn.Partitions() {
			for k := range records[n] {
				record, e := conn.Value(records[n][k]), &batch[from+k]
				if len(record) <= dispatcher.DigestSize || record[:dispatcher.DigestSize] == string(e.Digest[:]) || kept[from+k] != nil {
					continue
				}
				kept[from+k], _ = conn.DecodeRecord(e.Message.ID, record) // an unreadable record counts as none
			}
		}
	})
	return kept, err
}
