package endpoints

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// PutBack stores an endpoint's record again as an archive kept it, or notes that the
// endpoint was deleted, unless the store knows the endpoint. It answers the limits of
// its lane, and whether it was not there.
func (s *Store) PutBack(ctx context.Context, id string, version int64, record []byte, deleted bool) (l dispatcher.LaneLimits, fresh bool, err error) {
	if deleted {
		l = dispatcher.LaneLimits{Version: version, Held: dispatcher.HeldDeleted}
		fresh, err = s.putEnd(ctx, id, version)
		return l, fresh, err
	}
	// A record that no key here opens is put back too: the key may come.
	e, err := decode(id, strconv.FormatInt(version, 10)+" "+string(record), s.seal.Load())
	if e.CreatedAt.IsZero() {
		return l, false, err
	}
	a, err := s.conn.RunHome(ctx, createScript, id, version, record, e.UID, e.Tenant, conn.ToMillis(e.CreatedAt), s.announceAs(), conn.Flag(len(e.PublicKeys()) > 0), mostEndpoints)
	if err != nil {
		return l, false, err
	}
	switch word := a.Text(); word {
	case "ok", "id":
		return heldSince(e), word == "ok", nil
	case "uid":
		if a.Text() == id {
			return heldSince(e), false, nil
		}
		return l, false, fmt.Errorf("%w: another one has its uid %s", dispatcher.ErrTaken, e.UID)
	case "full":
		return l, false, dispatcher.ErrEndpoints
	}
	return l, false, conn.ErrReply
}

// heldSince are an endpoint's limits, with the time since when it is paused or disabled.
func heldSince(e *dispatcher.Endpoint) dispatcher.LaneLimits {
	l := e.Limits()
	l.Since = e.HeldAt
	return l
}

// putEnd notes that an endpoint was deleted which the store does not know.
func (s *Store) putEnd(ctx context.Context, id string, end int64) (fresh bool, err error) {
	var there, noted *redis.BoolCmd
	err = s.conn.At(ctx, "read endpoint", conn.Home, func(p redis.Pipeliner) { there = p.HExists(ctx, s.home+keys.Endpoints, id) })
	if err != nil || there.Val() {
		return false, err
	}
	err = s.conn.At(ctx, "note deleted endpoint", conn.Home, func(p redis.Pipeliner) { noted = p.HSetNX(ctx, s.home+keys.Gone, id, end) })
	return conn.Value(noted), err
}
