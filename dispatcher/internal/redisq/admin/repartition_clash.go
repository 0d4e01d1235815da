package admin

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// clashIDs bounds what the look for clashes remembers at a time, some 40 bytes
// each; with more messages it goes through them more than once.
const clashIDs = 1_000_000

// clashesTold is how many messages an error names.
const clashesTold = 5

// mustNotClash refuses if two messages with one id would come to lie in one
// partition: only one of them could be kept. In two partitions there may be both,
// since no script sees them together.
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
	told := strings.Join(clashes[:min(len(clashes), clashesTold)], ", ")
	return fmt.Errorf("%d ids are of two messages each, to different destinations, that would come to lie in one partition: %s; "+
		"wait until one of the two is forgotten, or choose another number", len(clashes), told)
}

// clashes looks at those messages whose id falls into one of several rounds.
func (r *repartition) clashes(ctx context.Context, round, rounds uint64) (ids []string, err error) {
	seed := maphash.MakeSeed()
	digests := map[uint64]uint64{} // of an id in a partition to come; parts of hashes that are long enough
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

// place is an id in a partition to come.
type place struct {
	id        string
	partition int
}
