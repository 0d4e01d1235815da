package home

import (
	"context"
	"time"
)

// What records are made of, for fuzzing.
var (
	SessionText   = sessionText
	DecodeSession = decodeSession
	EncodeLink    = encodeLink
	DecodeLink    = decodeLink
)

// SetClock has the log read another clock.
func (l *Audit) SetClock(now func() time.Time) { l.now = now }

// Count ends the minutes that are over.
func (l *Audit) Count(ctx context.Context) { l.count(ctx, minute) }

// What the tests look at from outside.
var (
	EncodeEndpoint = encode
	DecodeEndpoint = decode
)

// EndpointScripts are the texts of the scripts.
var EndpointScripts = map[string]string{
	"common": lua("endpoint_common"), "create": lua("endpoint_create"), "change": lua("endpoint_change"), "delete": lua("endpoint_delete"), "versions": lua("endpoint_versions"),
}

// SetMostEndpoints sets another bound until it is called again.
func SetMostEndpoints(n int) (before int) {
	before, mostEndpoints = mostEndpoints, n
	return before
}

// TenantIDs are the ids of a tenant's endpoints.
func (s *Endpoints) TenantIDs(ctx context.Context, tenant string) ([]string, error) {
	return s.tenantIDs(ctx, tenant)
}
