package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The headers of a request signed by Standard or StandardEd25519. They are
// written in lower case, as the standard does; http.Header's methods take them in
// any case.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// The headers of the other schemes.
const (
	HeaderStripe  = "stripe-signature"
	HeaderGitHub  = "x-hub-signature-256"
	HeaderHMACHex = "x-signature"
)

// What stands before the parts of a signature.
const (
	version      = "v1,"     // HMAC-SHA256 with a shared secret
	versionEd    = "v1a,"    // Ed25519
	stripeTime   = "t="      // Unix seconds
	stripeV1     = "v1="     // HMAC-SHA256
	githubPrefix = "sha256=" // HMAC-SHA256
)

const macSize = sha256.Size

// maxKept is the largest head that is kept for the next call, in bytes. Only
// Ed25519 has the body in it, which may be a mebibyte once and then no more.
const maxKept = 64 << 10

// Signer signs with the same secrets again and again. It may be used by any
// number of goroutines at once.
type Signer struct {
	scheme Scheme
	layout *layout
	pool   sync.Pool // of *tools; keyed anew, a signature over 1 KiB takes twice as long
}

// tools is what one call of Sign needs, kept for the next one.
type tools struct {
	macs     []hash.Hash          // one for each secret, keyed
	privates []ed25519.PrivateKey // instead of macs where the scheme is StandardEd25519; shared
	head     []byte               // what is signed before the body, for Ed25519 with it
	sum      [macSize]byte
	out      []byte
}

// NewSigner makes a Signer for Standard: Scheme.NewSigner has the rest.
func NewSigner(secrets ...Secret) (*Signer, error) { return Standard.NewSigner(secrets...) }

// NewSigner makes a Signer. With several secrets every signature is made by each
// of them, so that a receiver may know any: that is how secrets are rotated. GitHub
// and HMACHex have room for one signature only, which the first secret makes.
//
// It fails with ErrNoSecret when there is none or one of them is zero, and with
// ErrMisfit when one is not of the kind that the scheme signs with.
func (s Scheme) NewSigner(secrets ...Secret) (*Signer, error) {
	if err := s.check(secrets); err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, ErrNoSecret
	}
	if len(secrets) > MaxSecrets {
		return nil, fmt.Errorf("more than %d secrets", MaxSecrets)
	}
	if !s.Rotates() {
		secrets = secrets[:1]
	}
	l := s.layout()
	made := &Signer{scheme: s.orStandard(), layout: &l}
	if s == StandardEd25519 {
		privates := make([]ed25519.PrivateKey, len(secrets))
		for i, secret := range secrets {
			privates[i] = secret.private()
		}
		made.pool.New = func() any { return &tools{privates: privates} }
		return made, nil
	}
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		keys[i] = []byte(*secret.key)
	}
	made.pool.New = func() any {
		t := &tools{macs: make([]hash.Hash, len(keys))}
		for i, key := range keys {
			t.macs[i] = hmac.New(sha256.New, key)
		}
		return t
	}
	return made, nil
}

// Header is the header that Sign makes the value of, in the spelling under which
// http.Header keeps it.
func (s *Signer) Header() string { return s.layout.canonical }

// Sign is the value of the header for a body sent at a time: one signature for
// each secret. Of the time only its whole Unix seconds count, which the header
// webhook-timestamp must repeat.
//
// Where the scheme signs the id, there is no signature for one that no receiver
// may accept (see ErrID), and Sign returns an empty text.
func (s *Signer) Sign(id string, at time.Time, body []byte) string {
	if s.layout.id && checkID(id) != nil {
		return ""
	}
	t := s.pool.Get().(*tools)
	t.head, t.out = t.head[:0], t.out[:0]
	if s.layout.id {
		t.head = append(t.head, id...)
		t.head = append(t.head, '.')
	}
	if s.layout.time {
		t.head = strconv.AppendInt(t.head, at.Unix(), 10)
		t.head = append(t.head, '.')
	}
	switch s.scheme {
	case Standard:
		t.standard(body)
	case StandardEd25519:
		t.ed25519(body)
	case Stripe:
		t.stripe(body)
	case GitHub:
		t.out = append(t.out, githubPrefix...)
		fallthrough
	case HMACHex:
		t.out = hex.AppendEncode(t.out, t.over(t.macs[0], body))
	}
	value := string(t.out)
	s.pool.Put(t)
	return value
}

func (t *tools) standard(body []byte) {
	for i, mac := range t.macs {
		if i > 0 {
			t.out = append(t.out, ' ')
		}
		t.out = append(t.out, version...)
		t.out = base64.StdEncoding.AppendEncode(t.out, t.over(mac, body))
	}
}

func (t *tools) ed25519(body []byte) {
	t.head = append(t.head, body...)
	for i, private := range t.privates {
		if i > 0 {
			t.out = append(t.out, ' ')
		}
		t.out = append(t.out, versionEd...)
		t.out = base64.StdEncoding.AppendEncode(t.out, ed25519.Sign(private, t.head))
	}
	if cap(t.head) > maxKept {
		t.head = nil
	}
}

func (t *tools) stripe(body []byte) {
	t.out = append(t.out, stripeTime...)
	t.out = append(t.out, t.head[:len(t.head)-1]...) // without the dot
	for _, mac := range t.macs {
		t.out = append(t.out, ',')
		t.out = append(t.out, stripeV1...)
		t.out = hex.AppendEncode(t.out, t.over(mac, body))
	}
}

// over is the sum of head and body, until the next one is made.
func (t *tools) over(mac hash.Hash, body []byte) []byte {
	mac.Reset()
	mac.Write(t.head)
	mac.Write(body)
	return mac.Sum(t.sum[:0])
}

// Sign is Signer.Sign by Standard for a single call: slower, but with nothing to
// keep. The zero Secret, and one that is not a standard secret, signs nothing, and
// the text is empty as for an id that can't be signed.
func Sign(secret Secret, id string, at time.Time, body []byte) string {
	if secret.kind != kindShared || checkID(id) != nil {
		return ""
	}
	sum := secret.sum(id+"."+strconv.FormatInt(at.Unix(), 10)+".", body)
	return version + base64.StdEncoding.EncodeToString(sum[:])
}

// sum is the HMAC of a body and what is signed before it.
func (s Secret) sum(head string, body []byte) (sum [macSize]byte) {
	mac := hmac.New(sha256.New, []byte(*s.key))
	mac.Write([]byte(head))
	mac.Write(body)
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
