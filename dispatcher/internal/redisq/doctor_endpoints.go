package redisq

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

//go:embed lua/endpoint_index.lua
var endpointIndexSrc string

//go:embed lua/endpoint_astray.lua
var endpointAstraySrc string

var (
	endpointIndex  = script.New("compare indexes of endpoints", endpointIndexSrc)
	endpointAstray = script.New("look for endpoints astray", endpointAstraySrc)
)

// astrayChunk is how many entries of an index one call compares: whole records,
// each of 32 KiB at most, pass through Redis for them.
const astrayChunk = endpointsUnasked

// indexes compares what endpoints are found by with what their records say: an
// endpoint that an index leaves out gets nothing, or is not listed. Each page is
// judged, and repaired, in one script.
func (d *doctor) indexes(ctx context.Context) error {
	if err := d.eachEndpoint(ctx); err != nil {
		return err
	}
	if err := d.sealed(ctx); err != nil {
		return err
	}
	if err := d.astrayUIDs(ctx); err != nil {
		return err
	}
	if err := d.astrayIn(ctx, "all", ""); err != nil {
		return err
	}
	if err := d.astrayIn(ctx, "public", ""); err != nil {
		return err
	}
	var tenants []string
	prefix := d.s.home() + keys.Tenant
	err := d.eachKey(ctx, prefix+"*", func(key string) { tenants = append(tenants, strings.TrimPrefix(key, prefix)) })
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		if err := d.astrayIn(ctx, "tenant", tenant); err != nil {
			return err
		}
	}
	return nil
}

// eachEndpoint goes through the records, and looks for each in the indexes.
func (d *doctor) eachEndpoint(ctx context.Context) error {
	key := d.s.home() + keys.Endpoints
	for cursor := uint64(0); ; {
		var scan *redis.ScanCmd
		if err := d.s.conn.At(ctx, "read "+key, conn.Home, func(p redis.Pipeliner) { scan = p.HScan(ctx, key, cursor, "", astrayChunk) }); err != nil {
			return err
		}
		found, next := scan.Val()
		for page := range slices.Chunk(found, 2*astrayChunk) {
			args := []any{conn.Flag(d.e.Fix)}
			for i := 0; i+1 < len(page); i += 2 {
				args = append(args, d.indexOf(page[i], page[i+1])...)
			}
			a, err := d.s.conn.RunHome(ctx, endpointIndex, args...)
			if err != nil {
				return err
			}
			if err := readFaults(a, func(id, kind, detail string) { d.find(-1, id, kind, detail, d.e.Fix) }); err != nil {
				return fmt.Errorf("%s: %w", endpointIndex.Name, err)
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// indexOf is what the indexes are to say of a record: of one that can't be read,
// opened or proved only that it is there.
func (d *doctor) indexOf(id, stored string) []any {
	version, text, _ := strings.Cut(stored, " ")
	e, err := decodeEndpoint(id, stored, d.s.seal.Load())
	if err == nil {
		return []any{id, version, toMillis(e.CreatedAt), conn.Flag(len(e.PublicKeys()) > 0), e.UID, e.Tenant}
	}
	var r endpointRecord
	_ = json.Unmarshal([]byte(text), &r) // the oldest of all where it can't be read
	return []any{id, version, max(r.Created, 0), "-", "", ""}
}

// astrayUIDs looks for uids that name nothing, or what has another.
func (d *doctor) astrayUIDs(ctx context.Context) error {
	key := d.s.home() + keys.UIDs
	for cursor := uint64(0); ; {
		var scan *redis.ScanCmd
		if err := d.s.conn.At(ctx, "read "+key, conn.Home, func(p redis.Pipeliner) { scan = p.HScan(ctx, key, cursor, "", gonePage) }); err != nil {
			return err
		}
		found, next := scan.Val()
		var uids []string
		for i := 0; i+1 < len(found); i += 2 {
			uids = append(uids, found[i])
		}
		if err := d.astray(ctx, "uids", "", uids); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// astrayIn looks for ids in an index that name nothing, or what is another tenant's.
func (d *doctor) astrayIn(ctx context.Context, index, tenant string) error {
	key := d.s.home() + map[string]string{"all": keys.All, "public": keys.Public, "tenant": keys.Tenant + tenant}[index]
	for cursor := uint64(0); ; {
		var scan *redis.ScanCmd
		if err := d.s.conn.At(ctx, "read "+key, conn.Home, func(p redis.Pipeliner) { scan = p.ZScan(ctx, key, cursor, "", gonePage) }); err != nil {
			return err
		}
		found, next := scan.Val()
		var ids []string
		for i := 0; i+1 < len(found); i += 2 {
			ids = append(ids, found[i])
		}
		if err := d.astray(ctx, index, tenant, ids); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (d *doctor) astray(ctx context.Context, index, tenant string, names []string) error {
	for chunk := range slices.Chunk(names, astrayChunk) {
		args := []any{conn.Flag(d.e.Fix), index, tenant}
		for _, name := range chunk {
			args = append(args, name)
		}
		a, err := d.s.conn.RunHome(ctx, endpointAstray, args...)
		if err != nil {
			return err
		}
		for a.More() {
			d.find(-1, a.Text()+" in :"+strings.TrimSuffix(index+":"+tenant, ":"), "astray", "", d.e.Fix)
		}
		if a.Err != nil {
			return fmt.Errorf("%s: %w", endpointAstray.Name, a.Err)
		}
	}
	return nil
}
