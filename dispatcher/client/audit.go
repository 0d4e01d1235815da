package client

import (
	"context"
	"net/http"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// AuditFilter selects entries of the audit log. An empty field matches everything, and a
// field with several values matches any of them.
type AuditFilter struct {
	By           []string // key:<name>, or system
	What         []string // such as endpoint.delete
	Targets      []string // ids of endpoints or messages, lanes, origins of URLs
	Tenants      []string
	Since, Until time.Time
	Limit        int    // 0: the API's default
	Cursor       string // NextCursor of the page before
}

// Audit returns a page of the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (wire.AuditPage, error) {
	q := page(f.Limit, f.Cursor)
	for name, values := range map[string][]string{"by": f.By, "what": f.What, "target": f.Targets, "tenant": f.Tenants} {
		for _, v := range values {
			q.Add(name, v)
		}
	}
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	return call[wire.AuditPage](ctx, c, apiRequest{verb: "list audit", method: http.MethodGet, path: "/v1/audit", query: q})
}
