package redisq

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

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

// EndpointNames are the constants of keys.go by the names that the scripts give them.
var EndpointNames = map[string]string{
	"ENDPOINTS": keys.Endpoints, "UIDS": keys.UIDs, "TENANT": keys.Tenant, "ALL": keys.All, "PUBLIC": keys.Public, "GONE": keys.Gone, "SEALED": keys.Sealed,
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
