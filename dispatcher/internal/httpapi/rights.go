package httpapi

import (
	"sync"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// rows are the operations by their ids, for what does not depend on a process.
var rows = sync.OnceValue(func() map[string]api.Operation {
	all := map[string]api.Operation{}
	for _, o := range (&server{}).operations() {
		all[o.ID] = o
	}
	return all
})

// May reports whether a person may call an operation from the pages. These offer less to a key
// than the API: reading to the scope read, and everything else to the scope admin. known is
// false if there is no such operation.
func May(c dispatcher.Browser, operation string) (may, known bool) {
	o, known := rows()[operation]
	switch {
	case !known:
		return false, false
	case c.Linked():
		return o.ForLink(c), true
	case o.Scope == callers.Read:
		return c.Read || c.Admin, true
	}
	return c.Admin, true
}
