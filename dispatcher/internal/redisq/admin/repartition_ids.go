package admin

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// class returns the new partitions of the lanes of the old partition n. CRC-16 leaves the
// same remainder for the common divisor of both numbers.
func (r *repartition) class(n int) []int {
	step := divisor(r.mark.From, r.mark.To)
	var all []int
	for q := n % step; q < r.mark.To; q += step {
		all = append(all, q)
	}
	return all
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// moveIDs copies data without a lane to every partition that may need them: the pause of
// all lanes, the dead instances, the mark of a torn partition, and the known ids of
// forgotten messages. The lanes of such an id are not stored, so a repeat must be
// recognized in each partition that its destination may be in.
func (r *repartition) moveIDs(ctx context.Context) error {
	for n := range r.mark.From {
		if !r.options.DryRun {
			if err := r.copyShared(ctx, n); err != nil {
				return err
			}
		}
		if err := r.copyIDs(ctx, n); err != nil {
			return err
		}
		r.report(conn.PhaseIDs, n)
	}
	return nil
}

// copyShared copies all but the ids. What a torn script left half done moves with its lanes, so each
// partition that gets them is marked too, and the next instance repairs it.
func (r *repartition) copyShared(ctx context.Context, n int) error {
	var fenced *redis.ZSliceCmd
	var limits, paused *redis.StringCmd
	var torn *redis.IntCmd
	err := r.s.conn.At(ctx, "read fenced", n, func(p redis.Pipeliner) {
		fenced = p.ZRangeWithScores(ctx, r.s.tags[n]+keys.Fenced, 0, -1)
		limits, paused = p.HGet(ctx, r.s.tags[n]+keys.Limits, "*"), p.HGet(ctx, r.s.tags[n]+keys.Held, "*")
		torn = p.Exists(ctx, r.s.tags[n])
	})
	if err != nil {
		return err
	}
	var copies []conn.Call
	for q := range r.mark.To {
		if q == n {
			continue
		}
		copies = append(copies, conn.Call{Partition: q, Fill: func(p redis.Pipeliner) {
			if len(fenced.Val()) > 0 {
				p.ZAdd(ctx, r.s.tags[q]+keys.Fenced, fenced.Val()...)
			}
			if limits.Val() != "" {
				p.HSet(ctx, r.s.tags[q]+keys.Limits, "*", limits.Val())
			}
			if paused.Val() != "" {
				p.HSet(ctx, r.s.tags[q]+keys.Held, "*", paused.Val())
			}
			if torn.Val() > 0 && slices.Contains(r.class(n), q) {
				p.Set(ctx, r.s.tags[q], "-", 0)
			}
		}})
	}
	return r.trip(ctx, conn.Batch{Doing: "copy fenced", Durable: true, Calls: copies})
}

// idsKept returns how many of a partition's ids are copied. If each goes to one partition
// only, all are copied. Otherwise only the newest, so that no new partition gets more
// than its share.
func (r *repartition) idsKept(all int) int {
	step := divisor(r.mark.From, r.mark.To)
	if r.mark.To == step {
		return all
	}
	return min(all, max(conn.ShareOf(r.known, r.mark.To)*step/r.mark.From, 1))
}

// copyIDs copies a partition's ids, newest first. The originals are removed at the end,
// or by a trim.
func (r *repartition) copyIDs(ctx context.Context, n int) error {
	seen := r.s.tags[n] + keys.Seen
	var size *redis.IntCmd
	if err := r.s.conn.At(ctx, "read "+seen, n, func(p redis.Pipeliner) { size = p.ZCard(ctx, seen) }); err != nil {
		return err
	}
	all := int(size.Val())
	kept := r.idsKept(all)
	r.out.Moved.Forgotten += all - kept
	for start := 0; start < kept; start += int(r.page) {
		var page *redis.ZSliceCmd
		err := r.s.conn.At(ctx, "read "+seen, n, func(p redis.Pipeliner) {
			page = p.ZRevRangeWithScores(ctx, seen, int64(start), int64(min(start+int(r.page), kept)-1))
		})
		if err == nil {
			err = r.copyPageOfIDs(ctx, n, page.Val())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *repartition) copyPageOfIDs(ctx context.Context, n int, page []redis.Z) error {
	ids := make([]string, len(page))
	for i, z := range page {
		ids[i], _ = z.Member.(string)
	}
	if len(ids) == 0 {
		return nil
	}
	records, err := r.records(ctx, n, ids)
	if err != nil {
		return err
	}
	puts := map[int][]any{}
	for i, z := range page {
		record, _ := records[i].(string)
		if len(record) != dispatcher.DigestSize {
			continue // not the id of a forgotten message
		}
		for _, q := range r.class(n) {
			if q != n {
				puts[q] = append(puts[q], ids[i], record, othersGone, int64(z.Score))
				r.out.Moved.IDs++
			}
		}
	}
	if r.options.DryRun {
		return nil
	}
	return r.put(ctx, puts)
}

// clashIDs bounds the ids in memory at once, some 40 bytes each. With more messages they
// are read more than once.
const clashIDs = 1_000_000

// maxClashes is how many messages an error names.
const maxClashes = 5

// mustNotClash returns an error if two messages with one id would be in one partition,
// because only one of them could be kept. Two partitions may have one each, because no
// script reads both.
func (r *repartition) mustNotClash(ctx context.Context) error {
	if r.mark.From == 1 {
		return nil
	}
	total := int64(0)
	for n := range r.mark.From {
		var size *redis.IntCmd
		err := r.s.conn.At(ctx, "read messages", n, func(p redis.Pipeliner) { size = p.HLen(ctx, r.s.tags[n]+keys.Messages) })
		if err != nil {
			return err
		}
		total += size.Val()
	}
	rounds := uint64(total/clashIDs) + 1
	var clashes []string
	for round := range rounds {
		found, err := r.clashes(ctx, round, rounds)
		if err != nil {
			return err
		}
		clashes = append(clashes, found...)
	}
	if len(clashes) == 0 {
		return nil
	}
	slices.Sort(clashes)
	clashes = slices.Compact(clashes)
	some := strings.Join(clashes[:min(len(clashes), maxClashes)], ", ")
	return fmt.Errorf("%d ids have two messages each, which would be in one partition: %s; "+
		"wait until one of the two is forgotten, or choose another number", len(clashes), some)
}

// clashes checks the messages whose ids belong to one of several rounds.
func (r *repartition) clashes(ctx context.Context, round, rounds uint64) (ids []string, err error) {
	seed := maphash.MakeSeed()
	digests := map[uint64]uint64{} // by id and new partition; the digests are parts of hashes that are long enough
	for n := range r.mark.From {
		err := r.eachPage(ctx, n, func(page []stored) error {
			for _, m := range page {
				if !m.whole() || uint64(keys.CRC16(m.id))%rounds != round {
					continue
				}
				digest := binary.BigEndian.Uint64([]byte(m.digest()))
				for q, lanes := range r.targets(n, m) {
					if living(lanes) == 0 {
						continue
					}
					at := maphash.Comparable(seed, place{m.id, q})
					if other, there := digests[at]; there && other != digest {
						ids = append(ids, m.id)
					}
					digests[at] = digest
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// place is an id in a new partition.
type place struct {
	id        string
	partition int
}
