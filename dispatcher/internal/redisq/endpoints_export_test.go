package redisq

import "context"

// What the tests of the endpoints look at from outside.
var (
	EncodeEndpoint = encodeEndpoint
	DecodeEndpoint = decodeEndpoint
)

// EndpointScripts are the texts of the endpoints' scripts.
var EndpointScripts = map[string]string{
	"create": endpointCreateSrc, "change": endpointChangeSrc, "delete": endpointDeleteSrc, "versions": endpointVersionsSrc,
	"index": endpointIndexSrc, "astray": endpointAstraySrc,
}

// SetMostEndpoints sets another bound until it is called again.
func SetMostEndpoints(n int) (before int) {
	before, mostEndpoints = mostEndpoints, n
	return before
}

// TenantIDs are the ids of a tenant's endpoints.
func (s *Store) TenantIDs(ctx context.Context, tenant string) ([]string, error) {
	return s.tenantIDs(ctx, tenant)
}
