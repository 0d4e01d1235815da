// Package api is the base of the HTTP API's calls: the row of an operation, the request and
// its checks, the response, and the table of problems. Each noun has a package beside it,
// with its rows, its handlers, and the interface of the part of the process that it calls.
package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

// Operation is one row of the API: its name, the scope that it needs, its request and its
// responses.
type Operation struct {
	ID, Method, Path string
	Summary          string
	Scope            callers.Scope                    // 0: needs no key
	Link             LinkRight                        // the links that may call it
	Subject          *Subject                         // the noun in the path; nil: none
	Query            []*Param                         // parameters of the query
	AnyQuery         bool                             // unknown parameters are ignored
	Headers          []*huma.Param                    // headers that are read
	Body             any                              // of a POST or PATCH, as an example; nil: none
	Draw             func(huma.Registry) *huma.Schema // the schema of the body; nil: Input draws it
	Limit            int64                            // most bytes of the request
	Cure             string                           // added to the refusal of a larger one
	Optional         bool                             // the body may be left out
	Media            string                           // of the body, besides JSON
	Answers          map[int]any                      // examples by status; nil: without a body
	Produces         string                           // media type of the responses; empty: JSON
	CSV              bool                             // it can respond with CSV too, with cursors in headers
	Events           string                           // content of its event stream, the response to Accept: text/event-stream; empty: there is none
	Problems         []*Kind                          // besides those that follow from the other fields
	Audit            string                           // its word there, one of dispatcher.AuditWords; empty: it changes nothing
	FastPath         bool                             // one of the POSTs that most requests are: it needs no mux

	Do func(context.Context, *Request) (*Response, error) // nil, nil: it has written the response
}

// LinkRight says which links of merchants may call an operation. They call it from the pages
// of this process only, and get nothing but the data of their view.
type LinkRight uint8

// The rights of links.
const (
	NoLink       LinkRight = iota // none
	AnyLink                       // all, because it changes nothing
	ManagingLink                  // those that may manage
)

// ForLink reports whether a link may call the operation. A link without a tenant may call none.
func (o Operation) ForLink(c dispatcher.Browser) bool {
	return c.View.Tenant != "" && (o.Link == AnyLink || o.Link == ManagingLink && c.Manage)
}

// Subject is the noun in a path.
type Subject struct {
	Name, Doc string // of the parameter in the path
	Schema    *huma.Schema
	Example   string
	Check     func(value string) error
}

// Known checks a name. A thing without a valid name does not exist.
func Known(valid func(string) bool, missing error) func(string) error {
	return func(name string) error {
		if !valid(name) {
			return missing
		}
		return nil
	}
}

// Kinds returns all problems that an operation may return.
func (o Operation) Kinds() []*Kind {
	all := []*Kind{internal, Forbidden} // 403: without keys only this host may call
	if o.Scope != 0 {
		all = append(all, Unauthorized)
	}
	if o.Body != nil {
		all = append(all, Malformed, tooSlow, TooLarge, BadMedia)
	}
	if o.Subject != nil {
		all = append(all, NotFound)
	}
	if !o.AnyQuery { // it checks its request, and asks the store
		all = append(all, Invalid, Unavailable, slowStore)
	}
	return append(all, o.Problems...)
}

// OK returns the responses of an operation whose only success is 200.
func OK(answer any) map[int]any { return map[int]any{http.StatusOK: answer} }
