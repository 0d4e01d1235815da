// Package cursor seals where a page of a list ended, so that a cursor tells nothing and
// fits its own list only.
package cursor

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync/atomic"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Sealer seals cursors of a project. Those of one instance open at all others.
type Sealer struct {
	conn  *conn.Client
	known atomic.Pointer[known]
}

// known is the key of a project's data, by their id: data that were lost take it with
// them.
type known struct {
	id   string
	aead cipher.AEAD
}

// New makes a Sealer.
func New(c *conn.Client) *Sealer { return &Sealer{conn: c} }

// Seal seals a place. list names the list, with its filter and the view of its caller.
func (s *Sealer) Seal(ctx context.Context, list, place string) (string, error) {
	aead, err := s.key(ctx)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(place)+aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(place), []byte(list))), nil
}

// Open opens a cursor. One of another list, or of another project, is ErrCursor.
func (s *Sealer) Open(ctx context.Context, list, text string) (place string, err error) {
	aead, err := s.key(ctx)
	if err != nil {
		return "", err
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < aead.NonceSize() {
		return "", fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], []byte(list))
	if err != nil {
		return "", fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	return string(plain), nil
}

// key reads the project's key, and makes it where there is none.
func (s *Sealer) key(ctx context.Context) (cipher.AEAD, error) {
	id := s.conn.ID()
	if k := s.known.Load(); k != nil && k.id == id {
		return k.aead, nil
	}
	raw, err := s.conn.Secret(ctx, conn.MetaCursors)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, fmt.Errorf("seal cursors: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal cursors: %w", err)
	}
	s.known.Store(&known{id: id, aead: aead})
	return aead, nil
}
