package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// localKey is the key of a project that has no API keys, by the id of the project's data.
type localKey struct {
	id  string
	all access.Keys
}

// UseKeys sets where the keys come from that are valid now. It is called before any other
// method.
func (s *Store) UseKeys(now func() access.Keys) { s.keys = now }

// keysNow are the keys that are valid now. Without API keys a random key of the project
// stands in for them: then only this host may call.
func (s *Store) keysNow(ctx context.Context) (access.Keys, error) {
	if s.keys != nil {
		if all := s.keys(); len(all) > 0 {
			return all, nil
		}
	}
	if k := s.local.Load(); k != nil && k.id == s.conn.ID() {
		return k.all, nil
	}
	k := &localKey{id: s.conn.ID()}
	raw, err := s.conn.Secret(ctx, conn.MetaLocal)
	if err != nil {
		return nil, err
	}
	k.all = access.Keys{access.NewKey(dispatcher.Local, [sha256.Size]byte(raw))}
	s.local.Store(k)
	return k.all, nil
}

// maker is the key with which something is made.
func (s *Store) maker(ctx context.Context, owner string) (access.Key, error) {
	all, err := s.keysNow(ctx)
	if err != nil {
		return access.Key{}, err
	}
	if key, ok := all.Of(owner); ok {
		return key, nil
	}
	if key, ok := all.Of(dispatcher.Local); ok {
		return key, nil
	}
	return access.Key{}, access.ErrNoKey
}

// storeTime is the store's time. A record that is signed here has its times from there.
func (s *Store) storeTime(ctx context.Context) (time.Time, error) {
	r, err := s.conn.RunHome(ctx, s.clock)
	if err != nil {
		return time.Time{}, fmt.Errorf("read clock: %w", err)
	}
	return r.Time(), r.Err
}
