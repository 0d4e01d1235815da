package dispatcher

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// AccessKey binds sessions and links to an API key. It signs with the whole hash of that key,
// which is in no store. So a record that was written into a store by hand opens nothing.
type AccessKey struct {
	Owner string // identifies the API key in the store, and reveals nothing of it
	sum   [sha256.Size]byte
}

// NewAccessKey returns the AccessKey for the SHA-256 of an API key.
func NewAccessKey(owner string, sum [sha256.Size]byte) AccessKey { return AccessKey{owner, sum} }

// Bound returns the key for one project, with the project's secret. Without it, anyone
// with a token could guess the API key offline, as fast as a machine hashes.
func (k AccessKey) Bound(secret [sha256.Size]byte) AccessKey {
	mac := hmac.New(sha256.New, k.sum[:])
	mac.Write(secret[:])
	return AccessKey{k.Owner, [sha256.Size]byte(mac.Sum(nil))}
}

// AccessKeys are the keys for all valid API keys.
type AccessKeys []AccessKey

const (
	// TokenLength is the length of the token of a session or of a link.
	TokenLength = 43
	// half is the number of random bytes in a token. The other half is an HMAC of them,
	// so a token without a valid key is refused without a query to the store.
	half = 16
)

// The first words of every signed text. They separate the purposes.
const (
	sessionToken  = "hookladder session token"
	linkToken     = "hookladder link token"
	sessionRecord = "hookladder session record"
	linkRecord    = "hookladder link record"
)

// NewSession returns the token of a new session.
func (k AccessKey) NewSession() string { return k.newToken(sessionToken) }

// NewLink returns the token of a new link.
func (k AccessKey) NewLink() string { return k.newToken(linkToken) }

// OfSession returns the key that made the token of a session.
func (all AccessKeys) OfSession(token string) (AccessKey, bool) {
	return all.ofToken(sessionToken, token)
}

// OfLink returns the key that made the token of a link.
func (all AccessKeys) OfLink(token string) (AccessKey, bool) { return all.ofToken(linkToken, token) }

// Of returns a key by its owner.
func (all AccessKeys) Of(owner string) (AccessKey, bool) {
	for _, k := range all {
		if k.Owner == owner {
			return k, true
		}
	}
	return AccessKey{}, false
}

// SignSession returns the MAC of a session's record. Its parts are all fields that decide
// anything.
func (k AccessKey) SignSession(parts ...string) string {
	return encode(k.sign(sessionRecord, parts...))
}

// SignLink returns the MAC of a link's record.
func (k AccessKey) SignLink(parts ...string) string { return encode(k.sign(linkRecord, parts...)) }

// SameToken compares two MACs in constant time.
func SameToken(one, other string) bool {
	return subtle.ConstantTimeCompare([]byte(one), []byte(other)) == 1
}

func (k AccessKey) newToken(purpose string) string {
	var b [half]byte
	_, _ = rand.Read(b[:]) // never fails
	return encode(append(b[:], k.sign(purpose, string(b[:]))...))
}

func (all AccessKeys) ofToken(purpose, token string) (found AccessKey, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(token) != TokenLength { // the decoder skips line breaks
		return AccessKey{}, false
	}
	for _, k := range all {
		if subtle.ConstantTimeCompare(b[half:], k.sign(purpose, string(b[:half]))) == 1 {
			found, ok = k, true
		}
	}
	return found, ok
}

// sign returns the HMAC of texts. Only the last one may contain a line break.
func (k AccessKey) sign(purpose string, parts ...string) []byte {
	mac := hmac.New(sha256.New, k.sum[:])
	mac.Write([]byte(purpose + "\n" + strings.Join(parts, "\n")))
	return mac.Sum(nil)[:half]
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
