package console

import (
	"errors"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/ladder"
)

var (
	// ErrForbidden says that the visitor's key lacks a scope.
	ErrForbidden = errors.New("this key lacks the scope")
	// ErrHidden says that a name does not exist, or not for this visitor.
	ErrHidden = errors.New("there is nothing of that name")
	// ErrSignIn says that the visitor is not signed in.
	ErrSignIn = errors.New("not signed in")
	// ErrDisabled says that the operator disabled an endpoint, so a link may not resume it.
	ErrDisabled = errors.New("the operator switched this endpoint off; ask them to switch it on")
	// ErrEnough says that a link may create no more endpoints.
	ErrEnough = fmt.Errorf("there are %d endpoints already; ask the operator for more", dispatcher.LinkEndpoints)
)

// SpentError says that a link made too many changes.
type SpentError struct{ Wait time.Duration }

// Error says when the next change is allowed.
func (e *SpentError) Error() string {
	return fmt.Sprintf("too many changes by this link: one more in %s", ladder.FormatDuration(e.Wait.Round(time.Second)))
}

// Visitor is the person who uses a page. The zero value is not signed in.
type Visitor struct {
	Key  *dispatcher.Browser // of the API key; nil: none
	Link *dispatcher.Link    // nil: none
}

// Known reports whether the visitor is signed in or uses a link.
func (v Visitor) Known() bool { return v.Key != nil || v.Link != nil }

// browser returns the caller of the visitor's API calls.
func (v Visitor) browser() dispatcher.Browser {
	switch {
	case v.Link != nil:
		return dispatcher.Browser{
			Name: v.Link.ID, View: dispatcher.View{Tenant: v.Link.Tenant, Endpoint: v.Link.Endpoint}, Manage: v.Link.Manage,
		}
	case v.Key != nil:
		return *v.Key
	}
	return dispatcher.Browser{Key: "nobody"} // no key has this owner
}

// may reports whether a visitor may call an operation of the API, by its id. The API checks each
// call by the same table (httpapi.May), so this only decides what a page offers.
func (s *server) may(v Visitor, operation string) bool {
	may, known := s.May(v.browser(), operation)
	if !known {
		panic("the API has no operation " + operation)
	}
	return may
}

// May reports whether the visitor may call an operation of the API.
func (v *visit) May(operation string) bool { return v.srv.may(v.Visitor, operation) }

// refusal returns the error for a visitor who may not call the operation that a route needs, or
// nil. It does not reveal to a link which other pages exist.
func (v *visit) refusal(needs string) error {
	switch {
	case needs == "" || v.May(needs):
		return nil
	case v.Link != nil:
		return ErrHidden
	case v.Key == nil:
		return ErrSignIn
	}
	return ErrForbidden
}
