package client

import (
	"context"
	"net/http"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Audit returns a page of the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (wire.AuditPage, error) {
	return call[wire.AuditPage](ctx, c, apiRequest{verb: "list audit", method: http.MethodGet, path: "/v1/audit", query: listQuery(f)})
}
