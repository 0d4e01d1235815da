package endpoints

import (
	"context"
)

// What the tests look at from outside.
var (
	Encode = encode
	Decode = decode
)

// Scripts are the texts of the scripts.
var Scripts = map[string]string{"common": commonSrc, "create": createSrc, "change": changeSrc, "delete": deleteSrc, "versions": versionsSrc}

// SetMost sets another bound until it is called again.
func SetMost(n int) (before int) {
	before, mostEndpoints = mostEndpoints, n
	return before
}

// TenantIDs are the ids of a tenant's endpoints.
func (s *Store) TenantIDs(ctx context.Context, tenant string) ([]string, error) {
	return s.tenantIDs(ctx, tenant)
}
