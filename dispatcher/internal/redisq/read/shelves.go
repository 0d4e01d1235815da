package read

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits on the shelves that one call reads. A name has 35 characters at most.
// So one reply of Redis has 700 KiB at most, and takes 2 ms.
const (
	shelvesMost = 20_000 // of all tenants together
	leastEach   = 64     // of each tenant and partition, if the filter has many tenants
)

// ErrMore reports that tenants have more shelves than one call reads.
var ErrMore = errors.New("too many destinations to look through")

// ShelfLane returns the lane of a shelf. The shelf of a tenant in a queue has ~ and
// a hash of 16 characters after the lane. A lane has 16 characters at most, so it
// can't be mistaken for such a shelf.
func ShelfLane(shelf string) (lane string, ofTenant bool) {
	if at := len(shelf) - hashLength - 1; at > 0 && shelf[at] == '~' {
		return shelf[:at], true
	}
	return shelf, false
}

// hashLength is the length of the hash of a tenant.
const hashLength = 16

// Shelves returns the names of the shelves of tenants, by partition. Such a
// shelf has deliveries, which may have ended. A shelf is a lane. In a queue,
// which mixes tenants, it is the part of one tenant: <lane>~<hash of the
// tenant>. All partitions are read in one round trip, at most 20,000 names in
// all. If there are more, it returns the names that it read with ErrMore.
func (r *ShelfReader) Shelves(ctx context.Context, tenants []string) (map[int][]string, error) {
	tenants = slices.Compact(slices.Sorted(slices.Values(tenants)))
	tenants = slices.DeleteFunc(tenants, func(tenant string) bool { return tenant == "" })
	if len(tenants) == 0 {
		return nil, nil
	}
	partitions := r.conn.Partitions()
	most := max(shelvesMost/len(tenants)/max(partitions/4, 1), leastEach) // lanes are spread over the partitions, if not evenly
	read, calls := make([]*redis.StringSliceCmd, partitions*len(tenants)), make([]conn.Call, partitions)
	for n := range calls {
		calls[n] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for i, tenant := range tenants {
				read[n*len(tenants)+i] = p.ZRange(ctx, r.conn.Tag(n)+keys.Tenant+r.conn.TenantHash(tenant), 0, int64(most))
			}
		}}
	}
	for _, a := range r.conn.Send(ctx, conn.Batch{Doing: "read shelves", Calls: calls}) {
		if a.Err != nil {
			return nil, r.conn.InPartition(a.Partition, a.Err)
		}
	}
	shelves, all, more := map[int][]string{}, 0, false
	for i, names := range read {
		list := names.Val()
		fits := min(len(list), most, shelvesMost-all)
		more = more || fits < len(list)
		if fits > 0 {
			shelves[i/len(tenants)] = append(shelves[i/len(tenants)], list[:fits]...)
		}
		all += fits
	}
	if more {
		return shelves, fmt.Errorf("more than %d: %w", all, ErrMore)
	}
	return shelves, nil
}
