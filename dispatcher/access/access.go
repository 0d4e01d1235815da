// Package access has the words of looking in with a browser. People of the operator sign
// in with an API key; people of a merchant come by a link.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// SessionFor is how long a session lasts that is not used. One that is used when
	// less than half is left lasts anew.
	SessionFor = 12 * time.Hour
	// UsualLinkFor is how long a link lasts that says nothing else.
	UsualLinkFor = 24 * time.Hour
	// MaxLinkFor is the longest that a link may last.
	MaxLinkFor = 30 * 24 * time.Hour
	// LinkCalls is how many tests and resends a link may ask for in an hour, together.
	LinkCalls = 60
	// ShownFor is how long a page that answered an action can be loaded again.
	ShownFor = time.Minute
	// LinkPrefix begins the id of a link.
	LinkPrefix = "lnk_"
)

var (
	// ErrNoSession says that a cookie belongs to no session: it has ended, or there was
	// none. A store that can't be asked answers another error.
	ErrNoSession = errors.New("no such session")
	// ErrNoLink says that there is no such link: it has expired, was revoked, or never was.
	ErrNoLink = errors.New("no such link")
	// ErrNotShown says that there is no such page for this session or link, or no more.
	ErrNotShown = errors.New("no such page, or no more")
	// ErrLinks says that there are too many links.
	ErrLinks = errors.New("too many links: revoke those that are not needed")
)

// Session is a browser that is signed in with an API key.
type Session struct {
	Key   string // the key's owner text, which tells nothing of the key
	Until time.Time
}

// Link lets people of one tenant see its deliveries, and with Manage its endpoints
// changed. It holds nothing that opens it.
type Link struct {
	ID        string // lnk_…
	Tenant    string // never empty
	Endpoint  string // its id; empty: all of the tenant's
	Manage    bool
	Name      string // what it is for, in the words of its maker; may be empty
	By        string // its maker, as the audit has it
	CreatedAt time.Time
	ExpiresAt time.Time
}

// NewToken makes what opens a session or a link: 32 random bytes.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// HashToken is what a store keeps of a token: 64 hex digits.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// linkIDs has digits that are read aloud without mistakes.
var linkIDs = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// linkIDLength is so long that no two ids are ever the same: 100 bits.
const linkIDLength = 20

// LinkID is the id of the link that a token opens. It tells nothing of the token.
func LinkID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return LinkPrefix + linkIDs.EncodeToString(sum[:])[:linkIDLength]
}

// ValidLinkID reports whether a text may be the id of a link.
func ValidLinkID(text string) bool {
	rest, ok := strings.CutPrefix(text, LinkPrefix)
	return ok && len(rest) == linkIDLength && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Caller is on whose behalf a call of the API is made inside the process: of a browser
// that is signed in, or came by a link.
type Caller struct {
	Name string // of the API key, or the id of a link
	Key  string // the API key's owner text; empty: a link

	Read, Bodies, Admin bool // what the key's scopes allow; of a link its page decides that

	View dispatcher.View // of a link; a key sees everything
}

// Linked reports whether the caller came by a link.
func (c Caller) Linked() bool { return c.Key == "" }

// By is how the audit names the caller.
func (c Caller) By() string {
	if c.Linked() {
		return "link:" + c.Name
	}
	return "key:" + c.Name
}

type insideKey struct{}

// WithCaller makes the calls of the API under a context those of a caller. A request
// from outside has no such context, whatever it sends.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, insideKey{}, c)
}

// CallerOf is the caller of WithCaller.
func CallerOf(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(insideKey{}).(Caller)
	return c, ok
}
