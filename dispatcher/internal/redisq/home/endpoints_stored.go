package home

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

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
