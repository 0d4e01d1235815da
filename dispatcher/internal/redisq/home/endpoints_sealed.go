package home

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
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

// With a box, the last member of a record's JSON is a MAC of all members before it, with
// the endpoint's id and version. So a person with write access to Redis, but without a
// key, can't change where its headers and secrets are sent. A restored old record with
// its old version is not detected.

// macMember is the prefix of that member.
const macMember = `,"mac":"`

// errUnproved is the error of a record without a valid MAC.
var errUnproved = fmt.Errorf("%w: its record is not proved: it was stored without ENCRYPTION_KEY, or changed by somebody else; "+
	"hookladder doctor --seal takes it as it is", dispatcher.ErrSealed)

func recordPlace(id string, version int64) seal.Place {
	return seal.Place{Owner: id, Field: "record " + strconv.FormatInt(version, 10)}
}

// prove appends the MAC to a record.
func prove(box *seal.Box, record []byte, at seal.Place) []byte {
	out := make([]byte, 0, len(record)+80)
	out = append(append(out, record[:len(record)-1]...), macMember...)
	return append(append(out, box.Sign(record, at)...), `"}`...)
}

// cutProof separates a record and its MAC. ok is false if it has none.
func cutProof(text string) (record, proof string, ok bool) {
	at := strings.LastIndex(text, macMember)
	if at < 0 || !strings.HasSuffix(text, `"}`) || at+len(macMember) > len(text)-2 {
		return text, "", false
	}
	proof = text[at+len(macMember) : len(text)-2]
	return text[:at] + "}", proof, !strings.ContainsAny(proof, `"\`)
}

// proved checks the MAC of a record. Without a box there is nothing to check.
func proved(box *seal.Box, text string, at seal.Place) error {
	if box == nil {
		return nil
	}
	record, proof, ok := cutProof(text)
	if !ok {
		return errUnproved
	}
	if err := box.Verify(proof, []byte(record), at); err != nil {
		return fmt.Errorf("%w: %w", dispatcher.ErrSealed, err)
	}
	return nil
}

// SealEndpoints writes each endpoint again that has no MAC with the first key, because it
// was stored without a key or with an older one. It accepts records without a MAC as they
// are, so only a person may request it. It calls changed for each endpoint that was
// written, and report for each that was or should have been.
func (s *Endpoints) SealEndpoints(ctx context.Context, changed func(*dispatcher.Endpoint) error, report func(id string, err error)) error {
	if s.seal.Load() == nil {
		return fmt.Errorf("seal endpoints: %w: set ENCRYPTION_KEY", seal.ErrNoKey)
	}
	_, err := s.EachRecord(ctx, math.MaxInt, func(id, _ string) {
		e, err := s.sealEndpoint(ctx, id)
		if e != nil {
			err = changed(e)
		}
		if e != nil || err != nil {
			report(id, err)
		}
	})
	return err
}

// sealTries is how many times a changing endpoint is read again.
const sealTries = 5

// sealEndpoint returns the endpoint that it wrote; nil: there was nothing to do.
func (s *Endpoints) sealEndpoint(ctx context.Context, id string) (*dispatcher.Endpoint, error) {
	for range sealTries {
		var stored *redis.StringCmd
		if err := s.conn.At(ctx, "read endpoint", conn.Home, func(p redis.Pipeliner) { stored = p.HGet(ctx, s.home+keys.Endpoints, id) }); err != nil {
			return nil, err
		}
		if stored.Val() == "" {
			return nil, nil // deleted in the meantime
		}
		if s.current(stored.Val()) {
			return nil, nil
		}
		_, _, claims := cutProof(stored.Val())
		e, err := decodeStored(id, stored.Val(), s.seal.Load(), !claims)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", id, err)
		}
		e.Version++
		if err = s.ChangeEndpoint(ctx, e); err == nil {
			return e, nil
		}
		if !errors.Is(err, dispatcher.ErrStale) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("endpoint %s: %w", id, dispatcher.ErrStale)
}

// current reports whether a record claims a MAC with the first key.
func (s *Endpoints) current(stored string) bool {
	_, proof, ok := cutProof(stored)
	return ok && s.seal.Load().Current(proof)
}
