package home

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// EndpointBack is an endpoint from an archive.
type EndpointBack struct {
	ID      string
	Version int64
	Record  []byte
	Deleted bool
	Lane    dispatcher.LaneLimits // the current limits of the endpoint's lane, which may still exist
}

// PutBack stores an endpoint's record from an archive, or records that the endpoint was
// deleted, unless the store knows the endpoint. It returns the limits of its lane, and
// whether the endpoint was missing.
func (s *Endpoints) PutBack(ctx context.Context, b EndpointBack) (l dispatcher.LaneLimits, fresh bool, err error) {
	newer := b.Lane.Version > b.Version
	if newer && b.Lane.Mode == dispatcher.LaneDeleted {
		b.Deleted, b.Version = true, b.Lane.Version
	}
	if b.Deleted {
		l = dispatcher.LaneLimits{Version: b.Version, Mode: dispatcher.LaneDeleted}
		fresh, err = s.putEnd(ctx, b.ID, b.Version)
		return l, fresh, err
	}
	// A record that no key decrypts is restored too, because the key may be added later.
	box := s.seal.Load()
	e, err := decode(b.ID, strconv.FormatInt(b.Version, 10)+" "+string(b.Record), box)
	if e.CreatedAt.IsZero() {
		return l, false, err
	}
	l = e.Limits()
	if newer && err == nil {
		e.Overtake(b.Lane)
		if b.Record, err = encode(e, box); err != nil {
			return l, false, err
		}
		b.Version = e.Version
	}
	a, err := s.conn.RunHome(ctx, createScript, b.ID, b.Version, b.Record, e.UID, e.Tenant, conn.ToMillis(e.CreatedAt), s.announceAs(), conn.Flag(len(e.PublicKeys()) > 0), mostEndpoints, 0)
	if err != nil {
		return l, false, err
	}
	switch word := a.Text(); word {
	case "ok":
		return e.Limits(), true, nil
	case "id":
		return l, false, nil
	case "uid":
		if a.Text() == b.ID {
			return l, false, nil
		}
		return l, false, fmt.Errorf("%w: another one has its uid %s", dispatcher.ErrTaken, e.UID)
	case "full":
		return l, false, dispatcher.ErrEndpoints
	}
	return l, false, conn.ErrReply
}

// putEnd records the deletion of an endpoint that the store does not know.
func (s *Endpoints) putEnd(ctx context.Context, id string, end int64) (fresh bool, err error) {
	var there, noted *redis.BoolCmd
	err = s.conn.At(ctx, "read endpoint", conn.Home, func(p redis.Pipeliner) { there = p.HExists(ctx, s.home+keys.Endpoints, id) })
	if err != nil || there.Val() {
		return false, err
	}
	err = s.conn.At(ctx, "note deleted endpoint", conn.Home, func(p redis.Pipeliner) { noted = p.HSetNX(ctx, s.home+keys.Gone, id, end) })
	return conn.Value(noted), err
}
