package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Bounds of one call that reads endpoints: a MiB of records, which keeps Redis
// busy for less than a millisecond, and no more than endpointChunk of them.
// endpointsUnasked of the largest there may be, 48 KiB each, are no more than
// that, so that nothing has to be asked of them first. (Measured on one core of
// a server: 64 usual ones take 0.2 ms with their round trip, of which 2 µs each
// to open and decode.)
const (
	endpointChunk    = 256
	endpointsUnasked = 20
	endpointBytes    = 1 << 20
)

// Endpoints reads endpoints by their ids. Where a secret or a header's value
// can't be opened, or the whole record not be read, Secrets is empty: one that
// can be used always has a secret.
func (s *Store) Endpoints(ctx context.Context, ids []string) ([]*dispatcher.Endpoint, error) {
	if err := s.conn.LostHome(); err != nil {
		return nil, err
	}
	out, absent := make([]*dispatcher.Endpoint, 0, len(ids)), false
	for chunk := range slices.Chunk(ids, endpointChunk) {
		parts, err := s.partEndpoints(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			var stored *redis.SliceCmd
			err := s.conn.At(ctx, "read endpoints", conn.Home, func(p redis.Pipeliner) { stored = p.HMGet(ctx, s.home+keys.Endpoints, part...) })
			if err != nil {
				return nil, err
			}
			for i, value := range stored.Val() {
				text, ok := value.(string)
				if !ok {
					out, absent = append(out, nil), true
					continue
				}
				out = append(out, s.readEndpoint(part[i], text))
			}
		}
	}
	if absent || len(ids) == 0 {
		return out, s.conn.Intact(ctx)
	}
	return out, nil
}

// partEndpoints cuts a chunk into parts whose records fit in one answer. One
// that grows meanwhile makes an answer larger by what an endpoint has.
func (s *Store) partEndpoints(ctx context.Context, ids []string) (parts [][]string, err error) {
	if len(ids) <= endpointsUnasked {
		return [][]string{ids}, nil
	}
	sizes := make([]*redis.Cmd, len(ids))
	err = s.conn.At(ctx, "read sizes of endpoints", conn.Home, func(p redis.Pipeliner) {
		for i, id := range ids {
			sizes[i] = p.Do(ctx, "hstrlen", s.home+keys.Endpoints, id)
		}
	})
	if err != nil {
		return nil, err
	}
	from, sum := 0, 0
	for i, size := range sizes {
		n, err := size.Int()
		if err != nil {
			return nil, conn.Failed("read sizes of endpoints", err)
		}
		if sum += n; sum > endpointBytes && i > from {
			parts, from, sum = append(parts, ids[from:i]), i, n
		}
	}
	return append(parts, ids[from:]), nil
}

// readEndpoint reads what is stored of an endpoint. If it can't be read, the log
// is told, once while it stays so, and the answer has no secrets. As missing it
// would end what waits for it. An error would stop all that are read with it.
func (s *Store) readEndpoint(id, stored string) *dispatcher.Endpoint {
	e, err := decode(id, stored, s.seal.Load())
	if err != nil {
		now := maphash.String(unreadSeed, stored)
		if told, _ := s.unread.Swap(id, now); told != now {
			s.log.Warn("endpoint can't be read", "endpoint", id, "err", err)
		}
	}
	return e
}

var unreadSeed = maphash.MakeSeed()

// EndpointID finds the endpoint with a uid.
func (s *Store) EndpointID(ctx context.Context, uid string) (string, error) {
	var id *redis.StringCmd
	err := s.conn.At(ctx, "find endpoint", conn.Home, func(p redis.Pipeliner) { id = p.HGet(ctx, s.home+keys.UIDs, uid) })
	if err == nil && errors.Is(id.Err(), redis.Nil) {
		if err := s.conn.Intact(ctx); err != nil {
			return "", err
		}
		err = fmt.Errorf("uid %q: %w", uid, dispatcher.ErrNoEndpoint)
	}
	return conn.Value(id), err
}

// TenantEndpoints reads all endpoints of a tenant.
func (s *Store) TenantEndpoints(ctx context.Context, tenant string) ([]*dispatcher.Endpoint, error) {
	ids, err := s.tenantIDs(ctx, tenant)
	if err != nil {
		return nil, err
	}
	all, err := s.Endpoints(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, e := range all {
		if e != nil && e.URL == "" && !e.Pull {
			return nil, fmt.Errorf("endpoint %s: %w", ids[i], errEndpoint) // whether a message matches is unknown
		}
	}
	// The index proves nothing: one that is another tenant's has no business here.
	return slices.DeleteFunc(there(all), func(e *dispatcher.Endpoint) bool { return e.Tenant != tenant }), nil
}

// tenantPage is how many ids of a tenant's endpoints are read in one call: with
// their times some 700 KiB.
const tenantPage = 16384

// tenantIDs reads the ids of all endpoints of a tenant. Pages begin at a time of
// creation, not at a number: one that is deleted meanwhile moves no other.
func (s *Store) tenantIDs(ctx context.Context, tenant string) (ids []string, err error) {
	key := s.home + keys.Tenant + tenant
	for first := "-inf"; ; {
		page, err := s.indexed(ctx, key, &redis.ZRangeBy{Min: first, Max: "+inf", Count: tenantPage})
		if err != nil {
			return nil, err
		}
		whole := page
		if len(page) == tenantPage { // of the last millisecond there may be more: the next page begins with it
			last := page[len(page)-1].Score
			whole = slices.DeleteFunc(page, func(z redis.Z) bool { return z.Score == last })
			first = strconv.FormatFloat(last, 'f', -1, 64)
			if len(whole) == 0 {
				if whole, err = s.indexed(ctx, key, &redis.ZRangeBy{Min: first, Max: first}); err != nil {
					return nil, err
				}
				first = "(" + first
			}
		}
		for _, z := range whole {
			ids = append(ids, z.Member.(string))
		}
		if len(page) < tenantPage {
			return ids, nil
		}
	}
}

// indexed reads a part of an index of endpoints.
func (s *Store) indexed(ctx context.Context, key string, by *redis.ZRangeBy) ([]redis.Z, error) {
	var list *redis.ZSliceCmd
	err := s.conn.At(ctx, "list endpoints", conn.Home, func(p redis.Pipeliner) { list = p.ZRangeByScoreWithScores(ctx, key, by) })
	if err != nil {
		return nil, err
	}
	return list.Val(), nil
}

// ListEndpoints reads a page, newest first.
func (s *Store) ListEndpoints(ctx context.Context, f dispatcher.EndpointFilter) (page []*dispatcher.Endpoint, next string, err error) {
	list := dispatcher.ListName("endpoints", f)
	at, err := s.behind(ctx, list, f.Cursor)
	if err != nil {
		return nil, "", err
	}
	sets := []string{s.home + keys.All}
	switch {
	case f.Public:
		sets[0] = s.home + keys.Public
	case len(f.Tenants) > 0:
		sets = nil
		for _, tenant := range slices.Compact(slices.Sorted(slices.Values(f.Tenants))) {
			sets = append(sets, s.home+keys.Tenant+tenant)
		}
	}
	limit := cmp.Or(f.Limit, 50)
	var entries []indexEntry
	for _, key := range sets {
		more, err := s.endpointsBefore(ctx, key, at, limit+1)
		if err != nil {
			return nil, "", err
		}
		entries = append(entries, more...)
	}
	if len(sets) > 1 {
		slices.SortFunc(entries, func(a, b indexEntry) int {
			return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(b.ID, a.ID))
		})
	}
	if len(entries) > limit {
		entries = entries[:limit]
		if next, err = s.sealer.Seal(ctx, list, entries[limit-1]); err != nil {
			return nil, "", err
		}
	}
	ids := make([]string, len(entries))
	for i, entry := range entries {
		ids[i] = entry.ID
	}
	page, err = s.Endpoints(ctx, ids)
	if err != nil {
		return nil, "", err
	}
	return there(page), next, nil
}

// behind is the last endpoint of the page before; nil: there is none.
func (s *Store) behind(ctx context.Context, list, cursor string) (*indexEntry, error) {
	if cursor == "" {
		return nil, nil
	}
	at := &indexEntry{}
	return at, s.sealer.Open(ctx, list, cursor, at)
}

// endpointsBefore reads at most n entries of an index, newest first, that come
// behind at in that order. Those made in its own millisecond are read again
// and passed over: a cursor's own entry may be gone, so it can't be looked for.
func (s *Store) endpointsBefore(ctx context.Context, key string, at *indexEntry, n int) ([]indexEntry, error) {
	var out []indexEntry
	by := redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(n)}
	if at != nil {
		by.Max = strconv.FormatInt(at.Created, 10)
	}
	for {
		var list *redis.ZSliceCmd
		err := s.conn.At(ctx, "list endpoints", conn.Home, func(p redis.Pipeliner) { list = p.ZRevRangeByScoreWithScores(ctx, key, &by) })
		if err != nil {
			return nil, err
		}
		found := list.Val()
		for _, z := range found {
			entry := indexEntry{Created: int64(z.Score), ID: z.Member.(string)}
			if at == nil || entry.Created < at.Created || entry.ID < at.ID {
				out = append(out, entry)
			}
		}
		if len(out) >= n || int64(len(found)) < by.Count {
			return out[:min(n, len(out))], nil
		}
		by.Offset += by.Count
	}
}

// there leaves out those that were deleted after their ids were read.
func there(all []*dispatcher.Endpoint) []*dispatcher.Endpoint {
	return slices.DeleteFunc(all, func(e *dispatcher.Endpoint) bool { return e == nil })
}

// indexEntry is an endpoint as the indexes have it.
type indexEntry struct {
	Created int64 // ms
	ID      string
}
