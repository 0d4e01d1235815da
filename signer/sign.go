package signer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The headers of a signed request. They are written in lower case, as the
// standard does; http.Header's methods take them in any case.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// version begins each signature: v1 is HMAC-SHA256 with a shared secret.
const version = "v1,"

const (
	macSize  = sha256.Size
	macText  = (macSize + 2) / 3 * 4 // in base64, padded
	signSize = len(version) + macText
)

// Signer signs with the same secrets again and again. It may be used by any
// number of goroutines at once.
type Signer struct {
	pool sync.Pool // of *tools; keyed anew, a signature over 1 KiB takes twice as long
}

// tools is what one call of Sign needs, kept for the next one.
type tools struct {
	macs []hash.Hash // one for each secret, keyed
	head []byte      // id.timestamp. before the body
	sum  [macSize]byte
	out  []byte
}

// NewSigner makes a Signer. With several secrets every signature is made by each
// of them, so that a receiver may know any: that is how secrets are rotated. It
// fails with ErrNoSecret when there is none or one of them is zero.
func NewSigner(secrets ...Secret) (*Signer, error) {
	if len(secrets) == 0 {
		return nil, ErrNoSecret
	}
	if len(secrets) > MaxSecrets {
		return nil, fmt.Errorf("more than %d secrets", MaxSecrets)
	}
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		if s.IsZero() {
			return nil, fmt.Errorf("secret %d: %w", i+1, ErrNoSecret)
		}
		keys[i] = []byte(*s.key)
	}
	s := &Signer{}
	s.pool.New = func() any {
		t := &tools{macs: make([]hash.Hash, len(keys))}
		for i, key := range keys {
			t.macs[i] = hmac.New(sha256.New, key)
		}
		return t
	}
	return s, nil
}

// Sign is the value of the header webhook-signature for a body sent at a time:
// one signature for each secret, with a space between two. Of the time only its
// whole Unix seconds count, which the header webhook-timestamp must repeat.
//
// For an id that no receiver may accept (see ErrID) there is no signature, and
// Sign returns an empty text.
func (s *Signer) Sign(id string, at time.Time, body []byte) string {
	if checkID(id) != nil {
		return ""
	}
	t := s.pool.Get().(*tools)
	defer s.pool.Put(t)

	t.head = append(t.head[:0], id...)
	t.head = append(t.head, '.')
	t.head = strconv.AppendInt(t.head, at.Unix(), 10)
	t.head = append(t.head, '.')

	t.out = t.out[:0]
	for i, mac := range t.macs {
		if i > 0 {
			t.out = append(t.out, ' ')
		}
		mac.Reset()
		mac.Write(t.head)
		mac.Write(body)
		t.out = append(t.out, version...)
		t.out = base64.StdEncoding.AppendEncode(t.out, mac.Sum(t.sum[:0]))
	}
	return string(t.out)
}

// Sign is Signer.Sign for a single call: slower, but with nothing to keep. The
// zero Secret signs nothing, and the text is empty as for an id that can't be signed.
func Sign(secret Secret, id string, at time.Time, body []byte) string {
	s, err := NewSigner(secret)
	if err != nil {
		return ""
	}
	return s.Sign(id, at, body)
}

// sum is the signature of a secret over what a receiver was sent, with the time
// as the header spelled it.
func (s Secret) sum(id, timestamp string, body []byte) [macSize]byte {
	mac := hmac.New(sha256.New, []byte(*s.key))
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	var sum [macSize]byte
	mac.Sum(sum[:0])
	return sum
}

// maxID is the longest id, in bytes. Hookladder's own have at most 128; other
// senders of the standard may have longer ones.
const maxID = 256

// checkID refuses what would blur where the id ends in id.timestamp.body: with a
// dot in it, a part of a signed body could be passed off as another timestamp.
func checkID(id string) error {
	switch {
	case id == "":
		return ErrNoID
	case len(id) > maxID:
		return fmt.Errorf("%w: longer than %d characters", ErrID, maxID)
	case strings.Contains(id, "."):
		return fmt.Errorf("%w: it has a dot", ErrID)
	default:
		return nil
	}
}
