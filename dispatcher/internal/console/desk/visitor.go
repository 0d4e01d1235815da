// Package desk is what the pages of the console work with: the API, as far as their
// visitor may use it. visitor.go decides every right, and is asked for each call and
// each route. read.go and change.go make the calls.
//
// People of the operator see all that their API key may. People of a merchant come by a
// link: each of their calls carries the link's tenant, and its endpoint where it has one,
// whatever a page asks for. What is not theirs is not there for them.
package desk

import (
	"errors"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
)

// Right is one thing that a visitor may do, or not.
type Right uint8

// The rights.
const (
	Open      Right = iota // pages that anybody gets: sign-in, what a page is made of
	See                    // deliveries, messages, endpoints: for a link its own
	Contents               // bodies and answers
	Survey                 // what concerns all: figures, lanes, instances, the dead, jobs, the tail
	Attempt                // attempt now, send again, test
	Hold                   // pause and resume an endpoint
	Edit                   // add an endpoint, change its URL, topics and description, rotate its secret
	Configure              // an endpoint's ladder, limits, headers, success; delete it, show its secret
	Operate                // cancel, replay, purge, stop a job, pause a lane or all of them
	Govern                 // make, list and revoke links; the audit
)

// Rights are all of them, in order.
var Rights = []Right{Open, See, Contents, Survey, Attempt, Hold, Edit, Configure, Operate, Govern}

var (
	// ErrForbidden says that the visitor's key lacks a scope.
	ErrForbidden = errors.New("this key lacks the scope")
	// ErrHidden says that there is nothing of that name, for this visitor at least.
	ErrHidden = errors.New("there is nothing of that name")
	// ErrSignIn says that the visitor is not known.
	ErrSignIn = errors.New("not signed in")
)

// Visitor is one that looks at a page. The zero value is not signed in.
type Visitor struct {
	Key  *access.Caller // of the API key that it signed in with; nil: with none
	Link *access.Link   // by which it came; nil: by none
}

// Known reports whether the visitor may see anything at all.
func (v Visitor) Known() bool { return v.Key != nil || v.Link != nil }

// May reports whether the visitor has a right. Of a link it holds for what Owns says.
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

// Owns reports whether what is of a tenant and at a destination is for this visitor. The
// destination is a lane, which is the id where it is an endpoint. A message of a tenant
// goes to no endpoint of another one. Queues are the operator's own, whatever the tenant.
func (v Visitor) Owns(tenant, destination string) bool {
	switch {
	case v.Link == nil:
		return v.Key != nil
	case v.Link.Tenant == "" || tenant != v.Link.Tenant || dispatcher.Lane(destination).IsQueue():
		return false
	}
	return v.Link.Endpoint == "" || destination == v.Link.Endpoint
}

// Refusal is the error of a visitor that lacks a right; nil: it has it. One that came by
// a link is not told what else there is.
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

// caller is on whose behalf the visitor's calls are made.
func (v Visitor) caller() access.Caller {
	switch {
	case v.Link != nil:
		return access.Caller{Name: v.Link.ID, View: dispatcher.View{Tenant: v.Link.Tenant, Endpoint: v.Link.Endpoint}}
	case v.Key != nil:
		return *v.Key
	}
	return access.Caller{Key: "nobody"} // no key has this owner
}
