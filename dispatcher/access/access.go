// Package access has the words of looking in with a browser. People of the operator sign
// in with an API key; people of a merchant come by a link.
package access

import (
	"errors"
	"time"
)

const (
	// SessionFor is how long a session lasts that is not used. One that is used when
	// less than half is left lasts anew.
	SessionFor = 12 * time.Hour
	// MaxLinkFor is the longest that a link may last.
	MaxLinkFor = 30 * 24 * time.Hour
	// LinkCalls is how many tests and resends a link may ask for in an hour, together.
	LinkCalls = 60
	// LinkPrefix begins the id of a link.
	LinkPrefix = "lnk_"
)

var (
	// ErrNoSession says that a cookie belongs to no session: it has ended, or there was
	// none. A store that can't be asked answers another error.
	ErrNoSession = errors.New("no such session")
	// ErrNoLink says that there is no such link: it has expired, was revoked, or never was.
	ErrNoLink = errors.New("no such link")
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
	By        string // key:<name> of its maker
	CreatedAt time.Time
	ExpiresAt time.Time
}
