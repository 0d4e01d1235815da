package endpoints

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Each record of an endpoint says by which key it is sealed and proved. The
// scripts count them in :sealed, so that a start learns at once whether it has
// all keys that are needed, with a million endpoints too. The records are the
// truth: where there are not as many as are counted, some of them are looked at.

// noKey stands in :sealed for records that were stored without a key.
const noKey = "-"

// sealedSample is how many records are looked at where the counts are not whole.
const sealedSample = 1024

// Locked tells of endpoints that this store can't open.
type Locked struct {
	Endpoints int      // sealed with keys that are not here
	Keys      []string // their ids
	Plain     int      // stored without a key, though there is one here: they count as changed by others
	Least     bool     // there may be more: only some were looked at
}

// LockedEndpoints counts the endpoints that none of the store's keys opens.
func (s *Store) LockedEndpoints(ctx context.Context) (Locked, error) {
	counts, whole, err := s.SealedCounts(ctx)
	if err != nil {
		return Locked{}, err
	}
	if !whole {
		counts = map[string]int{}
		whole, err = s.EachRecord(ctx, sealedSample, func(_, stored string) { counts[SealedBy(stored)]++ })
		if err != nil {
			return Locked{}, err
		}
	}
	l, box := Locked{Least: !whole}, s.seal.Load()
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		switch {
		case id == noKey && box != nil:
			l.Plain += counts[id]
		case id != noKey && !box.Has(id):
			l.Endpoints += counts[id]
			l.Keys = append(l.Keys, id)
		}
	}
	return l, nil
}

// BrokenCount stands for a count that is none.
const BrokenCount = -1

// SealedCounts reads what :sealed counts, and whether that is all endpoints.
func (s *Store) SealedCounts(ctx context.Context) (counts map[string]int, whole bool, err error) {
	var texts *redis.MapStringStringCmd
	var all *redis.IntCmd
	err = s.conn.At(ctx, "count endpoints by key", conn.Home, func(p redis.Pipeliner) {
		texts, all = p.HGetAll(ctx, s.home+keys.Sealed), p.HLen(ctx, s.home+keys.Endpoints)
	})
	if err != nil {
		return nil, false, err
	}
	counts = make(map[string]int, len(texts.Val()))
	sum := 0
	for id, text := range texts.Val() {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			n = BrokenCount
		}
		counts[id] = n
		sum += n
	}
	return counts, sum == int(all.Val()), nil
}

// EachRecord goes through the records of endpoints until it has seen so many, and
// reports whether these were all. One may come twice.
func (s *Store) EachRecord(ctx context.Context, most int, do func(id, stored string)) (all bool, err error) {
	key := s.home + keys.Endpoints
	for cursor, seen := "", 0; seen < most; {
		found, next, err := s.conn.Scan(ctx, "read "+key, conn.Home, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
			return p.HScan(ctx, key, at, "", endpointsUnasked)
		})
		if err != nil {
			return false, err
		}
		for i := 0; i+1 < len(found); i += 2 {
			do(found[i], found[i+1])
			seen++
		}
		if cursor = next; cursor == "" {
			return true, nil
		}
	}
	return false, nil
}

// SealedBy is the id of the key that a record says it was sealed with.
func SealedBy(stored string) string {
	if _, proof, ok := cutProof(stored); ok {
		if id := seal.ProofKey(proof); id != "" {
			return id
		}
	}
	return noKey
}
