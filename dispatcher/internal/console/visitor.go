package console

import (
	"errors"

	"github.com/hookladder/hookladder/dispatcher"
)

// Right is one kind of action that a visitor may be allowed.
type Right uint8

// The rights.
const (
	Open      Right = iota // public pages: sign-in and static files
	See                    // deliveries, messages, endpoints; a link sees its own
	Contents               // bodies of messages and responses
	Survey                 // figures of the whole queue, lanes, instances, dead deliveries, jobs, the tail
	Attempt                // attempt now, send again, test
	Hold                   // pause and resume an endpoint
	Edit                   // add an endpoint, change its URL, topics and description, rotate its secret
	Configure              // an endpoint's ladder, limits, headers, success; delete it, show its secret
	Operate                // cancel, replay, purge, stop a job, pause a lane or all of them
	Govern                 // create, list and revoke links; read the audit
)

// Rights are all rights, in order.
var Rights = []Right{Open, See, Contents, Survey, Attempt, Hold, Edit, Configure, Operate, Govern}

var (
	// ErrForbidden says that the visitor's key lacks a scope.
	ErrForbidden = errors.New("this key lacks the scope")
	// ErrHidden says that a name does not exist, or not for this visitor.
	ErrHidden = errors.New("there is nothing of that name")
	// ErrSignIn says that the visitor is not signed in.
	ErrSignIn = errors.New("not signed in")
)

// Visitor is the person who uses a page. The zero value is not signed in.
type Visitor struct {
	Key  *dispatcher.Browser // of the API key; nil: none
	Link *dispatcher.Link    // nil: none
}

// Known reports whether the visitor is signed in or uses a link.
func (v Visitor) Known() bool { return v.Key != nil || v.Link != nil }

// May reports whether the visitor has a right. A link has it only for its own data, see
// Owns.
func (v Visitor) May(r Right) bool {
	switch {
	case r == Open:
		return true
	case v.Link != nil:
		if v.Link.Tenant == "" {
			return false
		}
		switch r {
		case See, Contents:
			return true
		case Attempt, Hold, Edit:
			return v.Link.Manage
		}
		return false
	case v.Key == nil || !v.Key.Read && !v.Key.Admin:
		return false
	case v.Key.Admin:
		return true
	}
	return r == See || r == Survey || r == Contents && v.Key.Bodies
}

// Owns reports whether data of a tenant and a destination belong to the visitor. The
// destination is a lane, which is the id of an endpoint. A message of a tenant never goes
// to another tenant's endpoint. Queues belong to the operator only.
func (v Visitor) Owns(tenant, destination string) bool {
	switch {
	case v.Link == nil:
		return v.Key != nil
	case v.Link.Tenant == "" || tenant != v.Link.Tenant || dispatcher.Lane(destination).IsQueue():
		return false
	}
	return v.Link.Endpoint == "" || destination == v.Link.Endpoint
}

// Refusal returns the error for a visitor without a right, or nil. It does not reveal to a
// link which other pages exist.
func (v Visitor) Refusal(r Right) error {
	switch {
	case v.May(r):
		return nil
	case v.Link != nil:
		return ErrHidden
	case v.Key == nil:
		return ErrSignIn
	}
	return ErrForbidden
}

// caller returns the caller of the visitor's API calls.
func (v Visitor) caller() dispatcher.Browser {
	switch {
	case v.Link != nil:
		return dispatcher.Browser{Name: v.Link.ID, View: dispatcher.View{Tenant: v.Link.Tenant, Endpoint: v.Link.Endpoint}}
	case v.Key != nil:
		return *v.Key
	}
	return dispatcher.Browser{Key: "nobody"} // no key has this owner
}
