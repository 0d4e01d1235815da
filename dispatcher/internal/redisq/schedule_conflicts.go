package redisq

import (
	"context"
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// compare finds conflicts among entries that have lanes in several partitions. Such an entry
// conflicts if it differs from a message with the same id. The message may be stored in one of
// these partitions or be earlier in the batch. No part of a conflicting entry is written in any
// partition. An entry is not written either if a partition does not reply. compare removes the
// shares of these entries from the lists.
func (s *Store) compare(ctx context.Context, by string, batch []dispatcher.Entry, lists map[int][]shard, out []dispatcher.ScheduleResult) {
	parts := make([]int, len(batch)) // number of partitions of each entry
	for _, list := range lists {
		for k, p := range list {
			if k == 0 || list[k-1].entry != p.entry {
				parts[p.entry]++
			}
		}
	}
	var calls []conn.Call
	var shares [][]int
	for n, list := range lists {
		args, share := []any{}, []int{}
		for k, p := range list {
			if parts[p.entry] > 1 && (k == 0 || list[k-1].entry != p.entry) {
				args, share = append(args, batch[p.entry].Message.ID), append(share, p.entry)
			}
		}
		conn.Each(len(share), read.DigestsBatch, func(from, to int) {
			calls, shares = append(calls, conn.Call{Partition: n, Args: args[from:to:to]}), append(shares, share[from:to])
		})
	}
	if len(calls) == 0 {
		return
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: read.DigestsScript, By: by, Calls: calls}) {
		r.Hint()
		for _, at := range shares[i] {
			text := ""
			if r.Err == nil {
				text = r.Text()
			}
			switch {
			case r.Err != nil:
				out[at].Err = fmt.Errorf("message %s: %w", batch[at].Message.ID, s.conn.InPartition(r.Partition, r.Err))
			case text != "" && text != string(batch[at].Digest[:]):
				out[at].Result = dispatcher.Conflict
			}
		}
	}
	refuseTwins(batch, parts, out)
	for n, list := range lists {
		lists[n] = slices.DeleteFunc(list, func(p shard) bool {
			return out[p.entry].Err != nil || out[p.entry].Result != 0
		})
	}
}

// refuseTwins marks conflicts within the batch. An entry with lanes in several partitions conflicts
// with an earlier message of the same id. The reason is that only one of the two might be written
// in every partition.
func refuseTwins(batch []dispatcher.Entry, parts []int, out []dispatcher.ScheduleResult) {
	first := make(map[string]dispatcher.Digest, len(batch))
	for i, e := range batch {
		digest, ok := first[e.Message.ID]
		switch {
		case ok && parts[i] > 1 && digest != e.Digest:
			out[i].Result = dispatcher.Conflict
		case !ok && out[i].Result == 0 && out[i].Err == nil:
			first[e.Message.ID] = e.Digest
		}
	}
}
