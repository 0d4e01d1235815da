// Package access has the words of looking in with a browser. People of the operator sign
// in with an API key; people of a merchant come by a link.
package access

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/ladder"
)

const (
	// SessionFor is how long a session lasts that is not used. One that is used when
	// less than half is left lasts anew.
	SessionFor = 12 * time.Hour
	// SessionMost is how long a session lasts that is used all the time: a stolen cookie
	// must not open the console for ever.
	SessionMost = 30 * 24 * time.Hour
	// MostSessions is how many sessions a key has. One more ends the oldest.
	MostSessions = 100
	// SignIns is how often a minute people may sign in with one key.
	SignIns = 30
	// UsualLinkFor is how long a link lasts that says nothing else.
	UsualLinkFor = 24 * time.Hour
	// MaxLinkFor is the longest that a link may last.
	MaxLinkFor = 30 * 24 * time.Hour
	// LinkCalls is how many changes a link may make in an hour, tests and resends among them.
	LinkCalls = 60
	// ShownFor is how long a page that answered an action can be loaded again.
	ShownFor = time.Minute
	// LinkEndpoints is how many endpoints a tenant may have for a link to add one. Each gets
	// its own delivery of all that matches, so without an end one link could fill the store.
	LinkEndpoints = 50
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
	// ErrNoKey says that the key is not valid any more, with which something was to be made.
	ErrNoKey = errors.New("this key was taken away")
)

// SignInsError says that people signed in too often with a key.
type SignInsError struct{ Wait time.Duration }

// Error says when they may again.
func (e *SignInsError) Error() string {
	return fmt.Sprintf("too many sign-ins with this key: the next in %s", ladder.FormatDuration(e.Wait.Round(time.Second)))
}

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
	Key       string // the owner text of its maker's key: it ends with this key
	Ended     string // EndedKey: it opens nothing any more; empty: it opens
	CreatedAt time.Time
	ExpiresAt time.Time
}

// EndedKey says of a link that its maker's key was taken away.
const EndedKey = "key"

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
