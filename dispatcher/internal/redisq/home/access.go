package home

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Access keeps the sessions and links of a project.
type Access struct {
	conn *conn.Client
	home string // tag of the keys

	keys func() dispatcher.AccessKeys // nil or empty: there are no API keys
	own  atomic.Pointer[ownSecret]
}

// NewAccess returns an Access that uses a connection.
func NewAccess(c *conn.Client) *Access { return &Access{conn: c, home: c.Tag(conn.Home)} }

// ownSecret is the cached secret of a project, with the id of the project's data.
type ownSecret struct {
	id  string
	sum [sha256.Size]byte
}

// UseKeys sets the function that returns the valid keys. It must be called before any other method.
func (s *Access) UseKeys(now func() dispatcher.AccessKeys) { s.keys = now }

// keysNow returns the valid keys, bound to the project's secret. Without API keys it returns only
// that secret as a key, because then only this host may call.
func (s *Access) keysNow(ctx context.Context) (all dispatcher.AccessKeys, err error) {
	own := s.own.Load()
	if own == nil || own.id != s.conn.ID() {
		own = &ownSecret{id: s.conn.ID()}
		raw, err := s.conn.Secret(ctx, conn.MetaLocal)
		if err != nil {
			return nil, err
		}
		own.sum = [sha256.Size]byte(raw)
		s.own.Store(own)
	}
	if s.keys != nil {
		for _, k := range s.keys() {
			all = append(all, k.Bound(own.sum))
		}
	}
	if len(all) == 0 {
		all = dispatcher.AccessKeys{dispatcher.NewAccessKey(dispatcher.Local, own.sum)}
	}
	return all, nil
}

// maker returns the key that signs new records of an owner.
func (s *Access) maker(ctx context.Context, owner string) (dispatcher.AccessKey, error) {
	all, err := s.keysNow(ctx)
	if err != nil {
		return dispatcher.AccessKey{}, err
	}
	if key, ok := all.Of(owner); ok {
		return key, nil
	}
	if key, ok := all.Of(dispatcher.Local); ok {
		return key, nil
	}
	return dispatcher.AccessKey{}, dispatcher.ErrNoKey
}

// storeTime returns the store's time. Records that are signed here have times of this clock.
func (s *Access) storeTime(ctx context.Context) (time.Time, error) {
	r, err := s.conn.RunHome(ctx, clockScript)
	if err != nil {
		return time.Time{}, fmt.Errorf("read clock: %w", err)
	}
	return r.Time(), r.Err
}
