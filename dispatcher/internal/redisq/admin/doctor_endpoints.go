package admin

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/endpoints"
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
// each of 48 KiB at most, pass through Redis for them.
const astrayChunk = 20

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
	for _, index := range []string{keys.UIDs, keys.All, keys.Public} {
		if err := d.astray(ctx, keys.Find(index), ""); err != nil {
			return err
		}
	}
	prefix := d.s.home() + keys.Tenant
	for key, err := range d.matching(ctx, prefix+"*") {
		if err == nil {
			err = d.astray(ctx, keys.Find(keys.Tenant), strings.TrimPrefix(key, prefix))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachEndpoint goes through the records, and looks for each in the indexes.
func (d *doctor) eachEndpoint(ctx context.Context) error {
	for found, err := range d.pages(ctx, conn.Home, keys.Find(keys.Endpoints), "", astrayChunk) {
		if err != nil {
			return err
		}
		for page := range slices.Chunk(found, astrayChunk) {
			args := []any{conn.Flag(d.e.Fix)}
			for _, e := range page {
				args = append(args, d.indexOf(e.name, e.value)...)
			}
			a, err := d.s.conn.RunHome(ctx, endpointIndex, args...)
			if err != nil {
				return err
			}
			if err := readFaults(a, func(id, kind, detail string) { d.find(-1, id, kind, detail, d.e.Fix) }); err != nil {
				return fmt.Errorf("%s: %w", endpointIndex.Name, err)
			}
		}
	}
	return nil
}

// indexOf is what the indexes are to say of a record: of one that can't be read,
// opened or proved only that it is there.
func (d *doctor) indexOf(id, stored string) []any {
	version, text, _ := strings.Cut(stored, " ")
	e, err := d.s.Decode(id, stored)
	if err == nil {
		return []any{id, version, conn.ToMillis(e.CreatedAt), conn.Flag(len(e.PublicKeys()) > 0), e.UID, e.Tenant}
	}
	return []any{id, version, endpoints.CreatedAt(text), "-", "", ""}
}

// astray looks for names in an index that name nothing, or what is found by
// another.
func (d *doctor) astray(ctx context.Context, index keys.Kind, tenant string) error {
	word := strings.Trim(index.Name, ":")
	for page, err := range d.pages(ctx, conn.Home, index, tenant, entriesAtOnce) {
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(page, astrayChunk) {
			args := []any{conn.Flag(d.e.Fix), word, tenant}
			for _, e := range chunk {
				args = append(args, e.name)
			}
			a, err := d.s.conn.RunHome(ctx, endpointAstray, args...)
			if err != nil {
				return err
			}
			for a.More() {
				d.find(-1, a.Text()+" in :"+strings.TrimSuffix(word+":"+tenant, ":"), "astray", "", d.e.Fix)
			}
			if a.Err != nil {
				return fmt.Errorf("%s: %w", endpointAstray.Name, a.Err)
			}
		}
	}
	return nil
}
