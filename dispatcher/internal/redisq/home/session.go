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
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// signInsWithin is the minute of access.SignIns.
const signInsWithin = time.Minute

// OpenSession begins a session of an API key, given by its owner text. Only the browser may get the
// token. If there are too many sign-ins, it returns an access.SignInsError.
func (s *Access) OpenSession(ctx context.Context, owner string) (token string, err error) {
	key, err := s.maker(ctx, owner)
	if err != nil {
		return "", err
	}
	now, err := s.storeTime(ctx)
	if err != nil {
		return "", err
	}
	token = key.NewSession()
	hash, until := dispatcher.HashToken(token), now.Add(dispatcher.SessionFor)
	r, err := s.conn.RunHome(ctx, openSessionScript, key.Owner, hash, sessionText(key, hash, now, until), conn.ToMillis(until),
		dispatcher.MostSessions, dispatcher.SignIns, signInsWithin.Milliseconds())
	if err != nil {
		return "", err
	}
	if wait := r.Number(); wait > 0 && r.Err == nil {
		return "", &dispatcher.SignInsError{Wait: time.Duration(wait) * time.Millisecond}
	}
	return token, r.Err
}

// Session returns the session of a token. If there is none, it returns access.ErrNoSession. Any
// other error comes from the store. A token that was not made by a valid key costs no query.
func (s *Access) Session(ctx context.Context, token string) (dispatcher.Session, error) {
	all, err := s.keysNow(ctx)
	if err != nil {
		return dispatcher.Session{}, err
	}
	key, ok := all.OfSession(token)
	if !ok {
		return dispatcher.Session{}, dispatcher.ErrNoSession
	}
	hash := dispatcher.HashToken(token)
	r, err := s.conn.RunHome(ctx, readSessionScript, key.Owner, hash)
	if err != nil {
		return dispatcher.Session{}, err
	}
	now, text := r.Time(), ""
	if r.More() {
		text = r.Text()
	}
	if r.Err != nil {
		return dispatcher.Session{}, r.Err
	}
	began, until, ok := decodeSession(key, hash, text)
	if !ok || !until.After(now) {
		return dispatcher.Session{}, dispatcher.ErrNoSession
	}
	if anew, ok := lastsAnew(now, began, until); ok { // the script writes nothing if another instance wrote a new end, or if the session was closed
		until = anew
		_, err = s.conn.RunHome(ctx, renewSessionScript, key.Owner, hash, text, sessionText(key, hash, began, until), conn.ToMillis(until))
	}
	return dispatcher.Session{Key: key.Owner, Until: until}, err
}

// lastsAnew returns the new end of a session that is used. It returns false in ok while more than
// half of the time is left.
func lastsAnew(now, began, until time.Time) (end time.Time, ok bool) {
	left := until.Sub(now)
	if left >= dispatcher.SessionFor/2 && left <= dispatcher.SessionFor { // the clock of another master may have been ahead
		return until, false
	}
	end = now.Add(dispatcher.SessionFor)
	if last := began.Add(dispatcher.SessionMost); end.After(last) {
		end = last
	}
	return end, !end.Equal(until)
}

// CloseSession ends the session of a token, if there is one.
func (s *Access) CloseSession(ctx context.Context, token string) error {
	all, err := s.keysNow(ctx)
	if err != nil {
		return err
	}
	key, ok := all.OfSession(token)
	if !ok {
		return dispatcher.ErrNoSession
	}
	return s.conn.At(ctx, "close session", conn.Home, func(p redis.Pipeliner) {
		p.HDel(ctx, s.home+keys.Session+key.Owner, dispatcher.HashToken(token))
	})
}

// sessionText returns the record of a session. Its MAC covers the hash of the token and both times.
// So a record that was written or extended by hand is not valid. The begin limits the whole life of
// the session.
func sessionText(key dispatcher.AccessKey, hash string, began, until time.Time) string {
	from, to := strconv.FormatInt(conn.ToMillis(began), 10), strconv.FormatInt(conn.ToMillis(until), 10)
	return from + " " + to + " " + key.SignSession(hash, from, to)
}

// decodeSession parses a record. It returns false in ok if the key did not sign the record.
func decodeSession(key dispatcher.AccessKey, hash, text string) (began, until time.Time, ok bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 || !dispatcher.SameToken(parts[2], key.SignSession(hash, parts[0], parts[1])) {
		return began, until, false
	}
	from, err1 := strconv.ParseInt(parts[0], 10, 64)
	to, err2 := strconv.ParseInt(parts[1], 10, 64)
	return conn.FromMillis(from), conn.FromMillis(to), errors.Join(err1, err2) == nil
}

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
	_, err = s.conn.RunHome(ctx, putShownScript, dispatcher.HashToken(owner), dispatcher.HashToken(id), sealed, dispatcher.ShownFor.Milliseconds(), shownMost)
	return id, err
}

// Shown returns the page with this id. If the owner has no such page, it returns
// access.ErrNotShown.
func (s *Access) Shown(ctx context.Context, owner, id string) ([]byte, error) {
	r, err := s.conn.RunHome(ctx, readShownScript, dispatcher.HashToken(owner), dispatcher.HashToken(id))
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
