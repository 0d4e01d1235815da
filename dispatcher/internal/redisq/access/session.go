package access

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// OpenSession begins a session of an API key, by its owner text. The token is for the
// browser only.
func (s *Store) OpenSession(ctx context.Context, key string) (token string, err error) {
	token = access.NewToken()
	if _, err := s.conn.RunHome(ctx, s.openSession, access.HashToken(token), key, access.SessionFor.Milliseconds()); err != nil {
		return "", err
	}
	return token, nil
}

// Session is that of a token. It answers access.ErrNoSession where there is none; any
// other error is the store's.
func (s *Store) Session(ctx context.Context, token string) (access.Session, error) {
	r, err := s.conn.RunHome(ctx, s.readSession, access.HashToken(token), access.SessionFor.Milliseconds())
	switch {
	case err != nil:
		return access.Session{}, err
	case !r.More():
		return access.Session{}, access.ErrNoSession
	}
	found := access.Session{Key: r.Text(), Until: r.Time()}
	return found, r.Err
}

// CloseSession ends the session of a token, if there is one.
func (s *Store) CloseSession(ctx context.Context, token string) error {
	return s.conn.At(ctx, "close session", conn.Home, func(p redis.Pipeliner) { p.Del(ctx, s.home+keys.Session+access.HashToken(token)) })
}
