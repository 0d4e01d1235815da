package access

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/hookladder/hookladder/dispatcher/access"
)

const (
	// shownMost is how many pages an owner has at once: a person reloads the last few.
	shownMost = 8
	// shownBytes bounds a page that is kept. Those of the console have 1 to 10 KiB when
	// they are compressed.
	shownBytes = 64 << 10
	// shownPlain bounds a page before it is compressed.
	shownPlain = 1 << 20
)

// PutShown keeps a page for access.ShownFor. Owner is the session or the link that may see
// it. The id is for its browser only: it is the key of the page, and Redis has its hash.
func (s *Store) PutShown(ctx context.Context, owner string, page []byte) (id string, err error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(page) // a buffer takes all
	_ = zip.Close()
	if len(page) > shownPlain || packed.Len() > shownBytes {
		return "", fmt.Errorf("keep page: it has %d bytes, %d compressed, and at most %d and %d are kept", len(page), packed.Len(), shownPlain, shownBytes)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	id = base64.RawURLEncoding.EncodeToString(random[:])
	lock, err := shownLock(id, owner)
	if err != nil {
		return "", err
	}
	sealed := lock.Seal(nil, make([]byte, lock.NonceSize()), packed.Bytes(), nil) // the key is used once
	_, err = s.conn.RunHome(ctx, s.putShown, access.HashToken(owner), access.HashToken(id), sealed, access.ShownFor.Milliseconds(), shownMost)
	return id, err
}

// Shown is the page with this id. It answers access.ErrNotShown if the owner has none.
func (s *Store) Shown(ctx context.Context, owner, id string) ([]byte, error) {
	r, err := s.conn.RunHome(ctx, s.readShown, access.HashToken(owner), access.HashToken(id))
	switch {
	case err != nil:
		return nil, err
	case !r.More():
		return nil, access.ErrNotShown
	}
	sealed := []byte(r.Text())
	if r.Err != nil {
		return nil, r.Err
	}
	lock, err := shownLock(id, owner)
	if err != nil {
		return nil, err
	}
	packed, err := lock.Open(nil, make([]byte, lock.NonceSize()), sealed, nil)
	if err != nil {
		return nil, access.ErrNotShown // Redis was changed
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return io.ReadAll(io.LimitReader(zip, shownPlain))
}

// shownLock seals and opens the page with this id. Its key can't be made without the id,
// nor for another owner.
func shownLock(id, owner string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(id), nil, "hookladder page shown to "+owner, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
