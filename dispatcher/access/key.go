package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// Key binds sessions and links to an API key. It signs with the whole hash of that key,
// which no store has: what somebody writes into a store by hand opens nothing.
type Key struct {
	Owner string // stands for the API key in the store, and reveals nothing of it
	sum   [sha256.Size]byte
}

// NewKey makes a Key of the SHA-256 of an API key.
func NewKey(owner string, sum [sha256.Size]byte) Key { return Key{owner, sum} }

// Bound is the key for one project, by the project's secret. Without that, a person with a
// token could try API keys that a person thought of, as fast as a machine hashes.
func (k Key) Bound(secret [sha256.Size]byte) Key {
	mac := hmac.New(sha256.New, k.sum[:])
	mac.Write(secret[:])
	return Key{k.Owner, [sha256.Size]byte(mac.Sum(nil))}
}

// Keys are those of all API keys that are valid now.
type Keys []Key

const (
	// TokenLength is how long the token of a session or of a link is.
	TokenLength = 43
	// half of a token's bytes are random. The other half are the tag, an HMAC of the random
	// ones. So a token is refused without a query to the store if no valid key made it.
	half = 16
)

// The first words of all that a Key signs. They keep the purposes apart.
const (
	sessionToken  = "hookladder session token"
	linkToken     = "hookladder link token"
	sessionRecord = "hookladder session record"
	linkRecord    = "hookladder link record"
)

// NewSession makes the token of a session.
func (k Key) NewSession() string { return k.newToken(sessionToken) }

// NewLink makes the token of a link.
func (k Key) NewLink() string { return k.newToken(linkToken) }

// OfSession finds the key that made the token of a session.
func (all Keys) OfSession(token string) (Key, bool) { return all.ofToken(sessionToken, token) }

// OfLink finds the key that made the token of a link.
func (all Keys) OfLink(token string) (Key, bool) { return all.ofToken(linkToken, token) }

// Of finds a key by its owner text.
func (all Keys) Of(owner string) (Key, bool) {
	for _, k := range all {
		if k.Owner == owner {
			return k, true
		}
	}
	return Key{}, false
}

// SignSession is the MAC of a session's record: of each part that decides.
func (k Key) SignSession(parts ...string) string { return encode(k.sign(sessionRecord, parts...)) }

// SignLink is the MAC of a link's record.
func (k Key) SignLink(parts ...string) string { return encode(k.sign(linkRecord, parts...)) }

// Same reports whether two MACs are equal, in a time that reveals nothing.
func Same(one, other string) bool { return subtle.ConstantTimeCompare([]byte(one), []byte(other)) == 1 }

func (k Key) newToken(purpose string) string {
	var b [half]byte
	_, _ = rand.Read(b[:]) // it never fails
	return encode(append(b[:], k.sign(purpose, string(b[:]))...))
}

func (all Keys) ofToken(purpose, token string) (found Key, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(token) != TokenLength { // the decoder skips line ends
		return Key{}, false
	}
	for _, k := range all {
		if subtle.ConstantTimeCompare(b[half:], k.sign(purpose, string(b[:half]))) == 1 {
			found, ok = k, true
		}
	}
	return found, ok
}

// sign is an HMAC of texts, of which none but the last has a line end.
func (k Key) sign(purpose string, parts ...string) []byte {
	mac := hmac.New(sha256.New, k.sum[:])
	mac.Write([]byte(purpose + "\n" + strings.Join(parts, "\n")))
	return mac.Sum(nil)[:half]
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
