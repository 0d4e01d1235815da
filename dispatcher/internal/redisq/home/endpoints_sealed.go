package home

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

// Each record of an endpoint names the key that encrypted and signed it. The scripts count the
// keys in :sealed. So a start checks quickly whether it has all needed keys, even with a
// million endpoints. If the counts do not match the number of records, a sample of the records
// is read, because only the records are reliable.

// NoKey is the entry in :sealed, and the result of EndpointSealedBy, for records that were stored without a key.
const NoKey = "-"

// sealedSample is the number of records to read if the counts are incomplete.
const sealedSample = 1024

// LockedEndpoint reports endpoints that this store can't decrypt.
type LockedEndpoint struct {
	Endpoints int      // encrypted with keys that this store lacks
	Keys      []string // their ids
	Plain     int      // stored without a key, although the store has one: others may have changed them
	Least     bool     // there may be more: only a sample was read
}

// Count returns the number of endpoints.
func (s *Endpoints) Count(ctx context.Context) (n int64, err error) {
	var all *redis.IntCmd
	err = s.conn.At(ctx, "count endpoints", conn.Home, func(p redis.Pipeliner) { all = p.HLen(ctx, s.home+keys.Endpoints) })
	return conn.Value(all), err
}

// LockedEndpoints counts the endpoints that none of the store's keys decrypts.
func (s *Endpoints) LockedEndpoints(ctx context.Context) (LockedEndpoint, error) {
	counts, whole, err := s.SealedCounts(ctx)
	if err != nil {
		return LockedEndpoint{}, err
	}
	if !whole {
		counts = map[string]int{}
		whole, err = s.EachRecord(ctx, sealedSample, func(_, stored string) { counts[EndpointSealedBy(stored)]++ })
		if err != nil {
			return LockedEndpoint{}, err
		}
	}
	l, box := LockedEndpoint{Least: !whole}, s.seal.Load()
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		switch {
		case id == NoKey && box != nil:
			l.Plain += counts[id]
		case id != NoKey && !box.Has(id):
			l.Endpoints += counts[id]
			l.Keys = append(l.Keys, id)
		}
	}
	return l, nil
}

// BrokenCount marks an invalid count.
const BrokenCount = -1

// SealedCounts returns the counts of :sealed, and whether they cover all endpoints.
func (s *Endpoints) SealedCounts(ctx context.Context) (counts map[string]int, whole bool, err error) {
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

// EachRecord calls do for the records of endpoints, until it has read `most` of them. It
// reports whether these were all. It may read one twice.
func (s *Endpoints) EachRecord(ctx context.Context, most int, do func(id, stored string)) (all bool, err error) {
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

// EndpointSealedBy returns the id of the key that a record names.
func EndpointSealedBy(stored string) string {
	if _, proof, ok := cutProof(stored); ok {
		if id := seal.ProofKey(proof); id != "" {
			return id
		}
	}
	return NoKey
}
