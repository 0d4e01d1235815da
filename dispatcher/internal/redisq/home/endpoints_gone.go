package home

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of one call: Lua reads versionsChunk whole records, each of at most 48 KiB, for
// their versions, and gonePage deleted endpoints are listed.
const (
	versionsChunk = 20
	gonePage      = 100
)

// DeleteEndpoint deletes an endpoint, records its last version, and notifies all
// instances.
func (s *Endpoints) DeleteEndpoint(ctx context.Context, id string) (end int64, err error) {
	if err := s.conn.Intact(ctx); err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	a, err := s.conn.RunHome(ctx, deleteScript, id, s.announceAs())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", id, err)
	}
	switch a.Text() {
	case "ok":
		if end = a.Number(); a.Err == nil && end > 0 {
			return end, nil
		}
		return 0, fmt.Errorf("delete endpoint %s: %w", id, conn.ErrReply)
	case "gone":
		return 0, fmt.Errorf("delete endpoint %s: %w", id, s.gone(ctx))
	default:
		return 0, fmt.Errorf("delete endpoint %s: %w", id, conn.ErrReply)
	}
}

// EndpointVersions returns versions without the records.
func (s *Endpoints) EndpointVersions(ctx context.Context, ids []string) ([]dispatcher.EndpointVersion, error) {
	if err := s.conn.LostHome(); err != nil {
		return nil, err
	}
	out, absent := make([]dispatcher.EndpointVersion, 0, len(ids)), false
	for chunk := range slices.Chunk(ids, versionsChunk) {
		args := make([]any, len(chunk))
		for i, id := range chunk {
			args[i] = id
		}
		a, err := s.conn.RunHome(ctx, versionsScript, args...)
		if err != nil {
			return nil, err
		}
		for range chunk {
			v := dispatcher.EndpointVersion{Version: a.Number(), End: a.Number()}
			out, absent = append(out, v), absent || v.Version == 0
		}
		if a.Err != nil {
			return nil, fmt.Errorf("%s: %w", versionsScript.Name, a.Err)
		}
	}
	if absent {
		return out, s.conn.Intact(ctx)
	}
	return out, nil
}

// DeletedEndpoints returns a page of the deleted endpoints.
func (s *Endpoints) DeletedEndpoints(ctx context.Context, cursor string) (ends map[string]int64, next string, err error) {
	found, next, err := s.conn.Scan(ctx, "read deleted endpoints", conn.Home, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, s.home+keys.Gone, at, "", gonePage)
	})
	if err != nil {
		return nil, "", err
	}
	ends = make(map[string]int64, len(found)/2)
	for i := 0; i+1 < len(found); i += 2 {
		// An invalid version was not written by this program, and doctor reports it.
		if end, err := strconv.ParseInt(found[i+1], 10, 64); err == nil && end > 0 {
			ends[found[i]] = end
		}
	}
	return ends, next, nil
}

// ForgetDeleted removes the record of a deleted endpoint.
func (s *Endpoints) ForgetDeleted(ctx context.Context, id string) error {
	return s.conn.At(ctx, "forget deleted endpoint", conn.Home, func(p redis.Pipeliner) { p.HDel(ctx, s.home+keys.Gone, id) })
}
