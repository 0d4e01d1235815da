package home

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of one call that reads endpoints: a MiB of records, which takes Redis less than
// a millisecond, and endpointChunk records. endpointsUnasked of the largest possible
// records, 48 KiB each, are no more than a MiB, so their sizes need no query. (Measured
// on one core of a server: 64 usual ones take 0.2 ms with their round trip, of which 2 µs
// each to decrypt and decode.)
const (
	endpointChunk    = 256
	endpointsUnasked = 20
	endpointBytes    = 1 << 20
)

// Endpoints returns endpoints by id. If a secret or a header's value can't be decrypted,
// or the record can't be decoded, Secrets is empty. A usable endpoint always has a
// secret.
func (s *Endpoints) Endpoints(ctx context.Context, ids []string) ([]*dispatcher.Endpoint, error) {
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

// partEndpoints divides a chunk into parts whose records fit into one response. An endpoint
// that grows in the meantime makes its response larger.
func (s *Endpoints) partEndpoints(ctx context.Context, ids []string) (parts [][]string, err error) {
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

// readEndpoint decodes a stored endpoint. If it can't be read, it is logged once while
// that lasts, and returned without secrets. If it were missing, its waiting deliveries
// would end. An error would fail all endpoints of the call.
func (s *Endpoints) readEndpoint(id, stored string) *dispatcher.Endpoint {
	e, err := decode(id, stored, s.seal.Load())
	if err != nil {
		now := maphash.String(unreadSeed, stored)
		if last, _ := s.unread.Swap(id, now); last != now {
			s.log.Warn("endpoint can't be read", "endpoint", id, "err", err)
		}
	}
	return e
}

var unreadSeed = maphash.MakeSeed()

// EndpointID returns the id of the endpoint with a uid.
func (s *Endpoints) EndpointID(ctx context.Context, uid string) (string, error) {
	var id *redis.StringCmd
	err := s.conn.At(ctx, "find endpoint", conn.Home, func(p redis.Pipeliner) { id = p.HGet(ctx, s.home+keys.UIDs, uid) })
	if err == nil && errors.Is(id.Err(), redis.Nil) {
		return "", fmt.Errorf("uid %q: %w", uid, s.gone(ctx))
	}
	return conn.Value(id), err
}

// TenantEndpoints returns all endpoints of a tenant.
func (s *Endpoints) TenantEndpoints(ctx context.Context, tenant string) ([]*dispatcher.Endpoint, error) {
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
			return nil, fmt.Errorf("endpoint %s: %w", ids[i], errEndpoint) // it is unknown whether a message matches
		}
	}
	// The index is not protected by a MAC, so endpoints of other tenants are removed.
	return slices.DeleteFunc(there(all), func(e *dispatcher.Endpoint) bool { return e.Tenant != tenant }), nil
}

// tenantPage is how many ids of a tenant's endpoints one call reads: some 700 KiB with
// their times.
const tenantPage = 16384

// tenantIDs returns the ids of all endpoints of a tenant. Pages begin at a time of creation,
// not at a number, so a deletion between two pages does not shift them.
func (s *Endpoints) tenantIDs(ctx context.Context, tenant string) (ids []string, err error) {
	key := s.home + keys.Tenant + tenant
	for first := "-inf"; ; {
		page, err := s.indexed(ctx, key, &redis.ZRangeBy{Min: first, Max: "+inf", Count: tenantPage})
		if err != nil {
			return nil, err
		}
		whole := page
		if len(page) == tenantPage { // the last millisecond may have more, so the next page begins with it
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
func (s *Endpoints) indexed(ctx context.Context, key string, by *redis.ZRangeBy) ([]redis.Z, error) {
	var list *redis.ZSliceCmd
	err := s.conn.At(ctx, "list endpoints", conn.Home, func(p redis.Pipeliner) { list = p.ZRangeByScoreWithScores(ctx, key, by) })
	if err != nil {
		return nil, err
	}
	return list.Val(), nil
}

// ListEndpoints returns a page, newest first.
func (s *Endpoints) ListEndpoints(ctx context.Context, f dispatcher.EndpointFilter) (page []*dispatcher.Endpoint, next string, err error) {
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
	limit := input.PageSize(f.Limit, input.MaxPage)
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
	if entries, next, err = conn.CutPage(ctx, s.conn, list, entries, limit, func(e indexEntry) indexEntry { return e }); err != nil {
		return nil, "", err
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

// behind returns the last endpoint of the page before; nil: none.
func (s *Endpoints) behind(ctx context.Context, list, cursor string) (*indexEntry, error) {
	if cursor == "" {
		return nil, nil
	}
	at := &indexEntry{}
	return at, s.conn.Cursors().Open(ctx, list, cursor, at)
}

// endpointsBefore returns at most n entries of an index, newest first, that come after at
// in that order. It reads the other entries of the same millisecond again and skips them,
// because the cursor's own entry may be deleted.
func (s *Endpoints) endpointsBefore(ctx context.Context, key string, at *indexEntry, n int) ([]indexEntry, error) {
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

// there removes endpoints that were deleted after their ids were read.
func there(all []*dispatcher.Endpoint) []*dispatcher.Endpoint {
	return slices.DeleteFunc(all, func(e *dispatcher.Endpoint) bool { return e == nil })
}

// indexEntry is an entry of the indexes.
type indexEntry struct {
	Created int64 // ms
	ID      string
}

// storedAtOnce is the number of records in one command. Each has at most 48 KiB, so together a
// MiB.
const storedAtOnce = 20

// StoredEndpoint has the stored values of an endpoint, not decoded.
type StoredEndpoint struct {
	ID      string
	Version int64  // 0: there is no record, or its version can't be read
	Record  []byte // encrypted
	End     int64  // the version of its deletion, if still known; 0: it was not deleted
	there   bool
}

// There reports whether the store has a record of the endpoint, even one that can't be read.
func (s *StoredEndpoint) There() bool { return s.there }

// StoredByID returns the stored values of some endpoints. After that it checks the id of the
// project's data. A missing endpoint is deleted only if that is still the id from the start of
// this instance.
func (s *Endpoints) StoredByID(ctx context.Context, ids []string) (list []StoredEndpoint, home string, err error) {
	for some := range slices.Chunk(ids, storedAtOnce) {
		var records, ends *redis.SliceCmd
		var meta *redis.MapStringStringCmd
		err := s.conn.At(ctx, "read endpoints", conn.Home, func(p redis.Pipeliner) {
			records, ends = p.HMGet(ctx, s.home+keys.Endpoints, some...), p.HMGet(ctx, s.home+keys.Gone, some...)
			meta = s.conn.QueueMeta(ctx, p)
		})
		if err != nil {
			return nil, "", err
		}
		for i, one := range some {
			stored := StoredEndpoint{ID: one}
			text, there := records.Val()[i].(string)
			if version, record, ok := strings.Cut(text, " "); ok {
				stored.Version, _ = strconv.ParseInt(version, 10, 64)
				stored.Record = []byte(record)
			}
			end, _ := ends.Val()[i].(string)
			stored.End, _ = strconv.ParseInt(end, 10, 64)
			stored.there = there
			list = append(list, stored)
		}
		if home = conn.ParseMeta(meta.Val()).ID; home != s.conn.ID() {
			return list, home, nil
		}
	}
	return list, home, nil
}

// storedList is the name of the list of StoredPage.
var storedList = dispatcher.ListName("stored endpoints", nil)

// StoredPage returns a page of all endpoints, newest first. Its cursor is a place in that
// order, so it stays valid if a server restarts or another takes over.
func (s *Endpoints) StoredPage(ctx context.Context, cursor string) (page []StoredEndpoint, home, next string, err error) {
	at, err := s.behind(ctx, storedList, cursor)
	if err != nil {
		return nil, "", "", err
	}
	entries, err := s.endpointsBefore(ctx, s.home+keys.All, at, storedAtOnce)
	if err != nil || len(entries) == 0 {
		return nil, s.conn.ID(), "", err
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	if len(entries) == storedAtOnce {
		if next, err = s.conn.Cursors().Seal(ctx, storedList, entries[len(entries)-1]); err != nil {
			return nil, "", "", err
		}
	}
	page, home, err = s.StoredByID(ctx, ids)
	return page, home, next, err
}
