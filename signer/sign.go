package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The headers of a request signed by Standard or StandardEd25519. They are in lower case,
// as in the standard. The methods of http.Header accept any case.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// The headers of the other schemes.
const (
	HeaderStripe = "stripe-signature"
	HeaderGitHub = "x-hub-signature-256"
	HeaderHMAC   = "x-signature" // of HMACHex and HMAC
)

// The prefixes of the parts of a signature.
const (
	version   = "v1,"  // HMAC-SHA256 with a shared secret
	versionEd = "v1a," // Ed25519
	formTime  = "t="   // Unix seconds, in a Form with a time
	formV1    = "v1="  // HMAC, in a Form with a time
)

const macSize = sha256.Size // of Standard

// maxKept is the largest head that is kept for the next call, in bytes. Only for Ed25519
// it contains the body, which may have a mebibyte once and never again.
const maxKept = 64 << 10

// Signer signs many requests with the same secrets. It is safe for concurrent use.
type Signer struct {
	scheme Scheme
	layout *layout
	pool   sync.Pool // of *tools; setting the key anew makes a signature over 1 KiB take twice as long
}

// tools has the buffers and hashes of one call of Sign. It is pooled.
type tools struct {
	macs     []hash.Hash          // one for each secret, with its key set
	privates []ed25519.PrivateKey // replaces macs for StandardEd25519; shared
	head     []byte               // the bytes signed before the body; for Ed25519 with the body
	sum      [sha512.Size]byte    // the largest sum
	out      []byte
}

// NewSigner returns a Signer for Standard, see Scheme.NewSigner.
func NewSigner(secrets ...Secret) (*Signer, error) { return Standard.NewSigner(secrets...) }

// NewSigner returns a Signer. With several secrets each of them makes a signature, so
// that a receiver needs only one of them while the secrets are rotated. The headers of
// GitHub, HMACHex and most forms of HMAC have one signature only, which is made by the
// first secret.
//
// It returns ErrNoSecret if there is no secret or one of them is zero, and ErrMisfit if
// one is not of the scheme's kind.
func (s Scheme) NewSigner(secrets ...Secret) (*Signer, error) {
	return s.NewSignerIn(Form{}, secrets...)
}

// NewSignerIn is NewSigner for a form of HMAC. It returns ErrForm if the form is not
// valid, or if the scheme is not HMAC. HMACHex accepts another header.
func (s Scheme) NewSignerIn(f Form, secrets ...Secret) (*Signer, error) {
	l, err := s.formed(f)
	if err != nil {
		return nil, err
	}
	if err := s.check(secrets); err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, ErrNoSecret
	}
	if len(secrets) > MaxSecrets {
		return nil, fmt.Errorf("more than %d secrets", MaxSecrets)
	}
	if !l.rotates {
		secrets = secrets[:1]
	}
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
			t.macs[i] = hmac.New(l.form.hash(), key)
		}
		return t
	}
	return made, nil
}

// Header returns the header for the value of Sign, in the canonical form of http.Header.
// It is empty for the zero Signer.
func (s *Signer) Header() string {
	if s == nil || s.layout == nil {
		return ""
	}
	return s.layout.canonical
}

// Sign returns the value of the header for a body sent at a time: one signature for each
// secret. Only the whole Unix seconds of the time are signed, and the header
// webhook-timestamp must repeat them.
//
// If the scheme signs the id, Sign returns "" for an id that no receiver may accept (see
// ErrID). The zero Signer returns "" too.
func (s *Signer) Sign(id string, at time.Time, body []byte) string {
	if s == nil || s.layout == nil || s.layout.id && checkID(id) != nil {
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
		t.head = append(t.head, s.layout.form.separator())
	}
	switch s.scheme {
	case Standard:
		t.standard(body)
	case StandardEd25519:
		t.ed25519(body)
	default:
		t.formed(&s.layout.form, body)
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

func (t *tools) formed(f *Form, body []byte) {
	if !f.timed() {
		t.out = append(t.out, f.Prefix...)
		t.out = f.append(t.out, t.over(t.macs[0], body))
		return
	}
	t.out = append(t.out, formTime...)
	t.out = append(t.out, t.head[:len(t.head)-1]...) // without the separator
	for _, mac := range t.macs {
		t.out = append(t.out, ',')
		t.out = append(t.out, formV1...)
		t.out = f.append(t.out, t.over(mac, body))
	}
}

// over returns the sum of head and body. It is valid until the next call.
func (t *tools) over(mac hash.Hash, body []byte) []byte {
	mac.Reset()
	mac.Write(t.head)
	mac.Write(body)
	return mac.Sum(t.sum[:0])
}

// Sign signs one request with Standard. It is slower than a Signer, but needs no setup.
// It returns "" for the zero Secret, for one that is not a standard secret, and for an id
// that can't be signed.
func Sign(secret Secret, id string, at time.Time, body []byte) string {
	if secret.kind != kindShared || checkID(id) != nil {
		return ""
	}
	sum := secret.sum(sha256.New, id+"."+strconv.FormatInt(at.Unix(), 10)+".", body)
	return version + base64.StdEncoding.EncodeToString(sum)
}

// sum returns the HMAC of head and body.
func (s Secret) sum(of func() hash.Hash, head string, body []byte) []byte {
	mac := hmac.New(of, []byte(*s.key))
	mac.Write([]byte(head))
	mac.Write(body)
	return mac.Sum(nil)
}

// maxID is the longest id in bytes. Hookladder's ids have at most 128, but other senders
// of the standard may have longer ones.
const maxID = 256

// checkID returns an error for an id that hides its own end in id.timestamp.body. With a
// dot in the id, a part of a signed body could be used as another timestamp.
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
