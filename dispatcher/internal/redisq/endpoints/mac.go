package endpoints

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Where there is a box, the last member of a record's JSON proves all before
// it, with the endpoint's id and version. So a person that can write to Redis,
// but has no key, can't change where its headers and secrets go. An old record
// that is put back together with its old version is not noticed.

// macMember begins that member.
const macMember = `,"mac":"`

// errUnproved says that a record was written without a key.
var errUnproved = fmt.Errorf("%w: its record is not proved: it was stored without ENCRYPTION_KEY, or changed by somebody else; "+
	"hookladder doctor --seal takes it as it is", dispatcher.ErrSealed)

func recordPlace(id string, version int64) seal.Place {
	return seal.Place{Owner: id, Field: "record " + strconv.FormatInt(version, 10)}
}

// prove puts the proof of a record behind it.
func prove(box *seal.Box, record []byte, at seal.Place) []byte {
	out := make([]byte, 0, len(record)+80)
	out = append(append(out, record[:len(record)-1]...), macMember...)
	return append(append(out, box.Sign(record, at)...), `"}`...)
}

// cutProof takes a record apart; ok: it has a proof.
func cutProof(text string) (record, proof string, ok bool) {
	at := strings.LastIndex(text, macMember)
	if at < 0 || !strings.HasSuffix(text, `"}`) || at+len(macMember) > len(text)-2 {
		return text, "", false
	}
	proof = text[at+len(macMember) : len(text)-2]
	return text[:at] + "}", proof, !strings.ContainsAny(proof, `"\`)
}

// proved judges a record; without a box there is nothing to prove.
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

// SealEndpoints writes each endpoint anew that is not proved by the first key:
// that was stored without one, or with an older one. Those without a proof are
// taken as they are, so a person has to ask for it. changed is called for each
// that was written, and tell for each that was or should have been.
func (s *Store) SealEndpoints(ctx context.Context, changed func(*dispatcher.Endpoint) error, tell func(id string, err error)) error {
	if s.seal.Load() == nil {
		return fmt.Errorf("seal endpoints: %w: set ENCRYPTION_KEY", seal.ErrNoKey)
	}
	_, err := s.EachRecord(ctx, math.MaxInt, func(id, _ string) {
		e, err := s.sealEndpoint(ctx, id)
		if e != nil {
			err = changed(e)
		}
		if e != nil || err != nil {
			tell(id, err)
		}
	})
	return err
}

// sealTries is how often an endpoint is read again that changes meanwhile.
const sealTries = 5

// sealEndpoint answers the endpoint that it wrote; nil: it had not to.
func (s *Store) sealEndpoint(ctx context.Context, id string) (*dispatcher.Endpoint, error) {
	for range sealTries {
		var stored *redis.StringCmd
		if err := s.conn.At(ctx, "read endpoint", conn.Home, func(p redis.Pipeliner) { stored = p.HGet(ctx, s.home+keys.Endpoints, id) }); err != nil {
			return nil, err
		}
		if stored.Val() == "" {
			return nil, nil // deleted meanwhile
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

// current reports whether a record claims to be proved by the first key.
func (s *Store) current(stored string) bool {
	_, proof, ok := cutProof(stored)
	return ok && s.seal.Load().Current(proof)
}
