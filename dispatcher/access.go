package dispatcher

// Access with a browser: people of the operator sign in with an API key and get a Session.
// People of a merchant open a Link. An AccessKey signs the tokens and the stored records of
// both, so neither a forged token nor a record that was written into the store by hand is
// accepted. Package redisq/home stores the records.

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
)

const (
	// SessionFor is how long an unused session lasts. Using it renews it if less than
	// half of that time is left.
	SessionFor = 12 * time.Hour
	// SessionMost is the longest lifetime of a session, because a stolen cookie must not
	// open the console for ever.
	SessionMost = 30 * 24 * time.Hour
	// MostSessions is the number of sessions of a key. One more ends the oldest.
	MostSessions = 100
	// SignIns is the limit of sign-ins with one key in a minute.
	SignIns = 30
	// UsualLinkFor is the default lifetime of a link.
	UsualLinkFor = 24 * time.Hour
	// MaxLinkFor is the longest lifetime of a link.
	MaxLinkFor = 30 * 24 * time.Hour
	// LinkCalls is how many changes a link may make in an hour, including tests and
	// resends.
	LinkCalls = 60
	// ShownFor is how long the page after an action can be loaded again.
	ShownFor = time.Minute
	// LinkEndpoints is how many endpoints a tenant may have if a link adds one. Each gets
	// its own delivery of every matching message, so without a limit one link could fill
	// the store.
	LinkEndpoints = 50
	// LinkPrefix is the prefix of a link's id.
	LinkPrefix = "lnk_"
)

var (
	// ErrNoSession means that a cookie belongs to no session, because it has ended or
	// never existed. A store that does not respond returns another error.
	ErrNoSession = errors.New("no such session")
	// ErrNoLink means that there is no such link, because it has expired, was revoked, or
	// never existed.
	ErrNoLink = errors.New("no such link")
	// ErrNotShown means that this session or link has no such page, or that the page has
	// expired.
	ErrNotShown = errors.New("no such page, or it has expired")
	// ErrLinks means that there are too many links.
	ErrLinks = errors.New("too many links: revoke those that are not needed")
	// ErrNoKey means that the API key of the call is not valid any more.
	ErrNoKey = errors.New("this key was removed")
)

// SignInsError means that there were too many sign-ins with a key.
type SignInsError struct{ Wait time.Duration }

// Error returns a sentence with the wait.
func (e *SignInsError) Error() string {
	return fmt.Sprintf("too many sign-ins with this key: the next in %s", ladder.FormatDuration(e.Wait.Round(time.Second)))
}

// Session is a browser that is signed in with an API key.
type Session struct {
	Key   string // the key's owner, which reveals nothing of the key
	Until time.Time
}

// Link lets people of one tenant see its deliveries, and with Manage change its
// endpoints. It does not contain the token that opens it.
type Link struct {
	ID        string // lnk_…
	Tenant    string // never empty
	Endpoint  string // its id; empty: all endpoints of the tenant
	Manage    bool
	Name      string // the purpose, as its maker wrote it; may be empty
	By        string // its maker, as in the audit log
	Key       string // the owner of its maker's key; the link ends with that key
	Ended     string // EndedKey: it opens nothing any more; empty: it is valid
	CreatedAt time.Time
	ExpiresAt time.Time
}

// EndedKey is the value of Link.Ended if the key of the link's maker was removed.
const EndedKey = "key"

// HashToken returns the form of a token that a store has: 64 hex digits.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// linkIDs has only digits that can be read aloud without mistakes.
var linkIDs = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// linkIDLength is long enough to be unique: 100 bits.
const linkIDLength = 20

// LinkID returns the id of the link that a token opens. It reveals nothing of the token.
func LinkID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return LinkPrefix + linkIDs.EncodeToString(sum[:])[:linkIDLength]
}

// ValidLinkID reports whether a text has the form of a link's id.
func ValidLinkID(text string) bool {
	rest, ok := strings.CutPrefix(text, LinkPrefix)
	return ok && len(rest) == linkIDLength && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Browser is the browser for which a call of the API is made inside the process. It is
// signed in, or has a link.
type Browser struct {
	Name string // of the API key, or the id of a link
	Key  string // the API key's owner; empty: a link

	Read, Bodies, Admin bool // the scopes of the key

	View   View // of a link; a key sees everything
	Manage bool // the link may change endpoints of its view
}

// Linked reports whether the caller has a link.
func (c Browser) Linked() bool { return c.Key == "" }

// By returns the caller's name in the audit log.
func (c Browser) By() string {
	if c.Linked() {
		return "link:" + c.Name
	}
	return "key:" + c.Name
}

type insideKey struct{}

// WithBrowser returns a context whose API calls belong to a browser. A request from outside
// never has such a context, whatever it sends.
func WithBrowser(ctx context.Context, c Browser) context.Context {
	return context.WithValue(ctx, insideKey{}, c)
}

// BrowserOf returns the browser of WithBrowser.
func BrowserOf(ctx context.Context) (c Browser, ok bool) {
	c, ok = ctx.Value(insideKey{}).(Browser)
	return c, ok
}

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
	if err != nil || len(token) != TokenLength || len(b) != 2*half { // the decoder skips line breaks
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
