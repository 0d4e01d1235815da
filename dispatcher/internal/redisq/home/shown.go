package home

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

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// shownMost is the most pages that an owner has at once. It is enough because a person reloads
	// only the last few pages.
	shownMost = 8
	// shownBytes is the maximum size of a stored page. Compressed pages of the console have 1 to 10
	// KiB.
	shownBytes = 64 << 10
	// shownPlain is the maximum size of a page before it is compressed.
	shownPlain = 1 << 20
)

// PutShown stores a page for access.ShownFor. The owner is the session or the link that may read
// it. Only the browser of the page may get the id, because the id is the key of the page. Redis has
// only the hash of the id.
func (s *Access) PutShown(ctx context.Context, owner string, page []byte) (id string, err error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(page) // a write to a buffer never fails
	_ = zip.Close()
	if len(page) > shownPlain || packed.Len() > shownBytes {
		return "", fmt.Errorf("keep page: it has %d bytes, %d compressed, and at most %d and %d are kept", len(page), packed.Len(), shownPlain, shownBytes)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never returns an error
	id = base64.RawURLEncoding.EncodeToString(random[:])
	lock, err := shownLock(id, owner)
	if err != nil {
		return "", err
	}
	sealed := lock.Seal(nil, make([]byte, lock.NonceSize()), packed.Bytes(), nil) // the key is used only once
	_, err = s.conn.RunHome(ctx, s.putShown, dispatcher.HashToken(owner), dispatcher.HashToken(id), sealed, dispatcher.ShownFor.Milliseconds(), shownMost)
	return id, err
}

// Shown returns the page with this id. If the owner has no such page, it returns
// access.ErrNotShown.
func (s *Access) Shown(ctx context.Context, owner, id string) ([]byte, error) {
	r, err := s.conn.RunHome(ctx, s.readShown, dispatcher.HashToken(owner), dispatcher.HashToken(id))
	switch {
	case err != nil:
		return nil, err
	case !r.More():
		return nil, dispatcher.ErrNotShown
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
		return nil, dispatcher.ErrNotShown // the record in Redis was changed
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return io.ReadAll(io.LimitReader(zip, shownPlain))
}

// shownLock returns the cipher that seals and opens the page with this id. Its key depends on the
// id and on the owner.
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
