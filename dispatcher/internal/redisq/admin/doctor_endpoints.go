package admin

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// astrayChunk is how many entries of an index one call compares. The script reads a whole
// record for each, with at most 48 KiB.
const astrayChunk = 20

// indexes compares the indexes of endpoints with their records. An endpoint that is
// missing in an index gets no deliveries, or is not listed. One script checks and repairs
// each page.
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
	prefix := d.s.conn.Tag(conn.Home) + keys.Tenant
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

// eachEndpoint reads all records, and checks each in the indexes.
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
			a, err := d.s.conn.RunHome(ctx, endpointIndexScript, args...)
			if err != nil {
				return err
			}
			if err := readFaults(a, func(id, kind, detail string) { d.report(-1, id, kind, detail, d.e.Fix) }); err != nil {
				return fmt.Errorf("%s: %w", endpointIndexScript.Name, err)
			}
		}
	}
	return nil
}

// indexOf returns the index entries that a record should have. If it can't be decoded or
// decrypted, only its existence is checked.
func (d *doctor) indexOf(id, stored string) []any {
	version, text, _ := strings.Cut(stored, " ")
	e, err := d.s.Endpoints.Decode(id, stored)
	if err == nil {
		return []any{id, version, conn.ToMillis(e.CreatedAt), conn.Flag(len(e.PublicKeys()) > 0), e.UID, e.Tenant}
	}
	return []any{id, version, home.EndpointCreatedAt(text), "-", "", ""}
}

// astray checks an index for entries without an endpoint, or with an endpoint that does
// not match.
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
			a, err := d.s.conn.RunHome(ctx, endpointAstrayScript, args...)
			if err != nil {
				return err
			}
			for a.More() {
				d.report(-1, a.Text()+" in :"+strings.TrimSuffix(word+":"+tenant, ":"), "astray", "", d.e.Fix)
			}
			if a.Err != nil {
				return fmt.Errorf("%s: %w", endpointAstrayScript.Name, a.Err)
			}
		}
	}
	return nil
}

// sealed compares the counts of endpoints for each encryption key with the records. It reports
// nothing if the counts change in the meantime.
func (d *doctor) sealed(ctx context.Context) error {
	before, _, err := d.s.Endpoints.SealedCounts(ctx)
	if err != nil {
		return err
	}
	seen, found := map[string]bool{}, map[string]int{}
	_, err = d.s.Endpoints.EachRecord(ctx, math.MaxInt, func(id, stored string) {
		if !seen[id] {
			seen[id] = true
			found[home.EndpointSealedBy(stored)]++
		}
	})
	if err != nil {
		return err
	}
	after, _, err := d.s.Endpoints.SealedCounts(ctx)
	if err != nil || !maps.Equal(before, after) {
		return err
	}
	all := maps.Clone(found)
	maps.Copy(all, before)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if found[id] == before[id] && found[id] > 0 {
			continue
		}
		if d.e.Fix {
			if err := d.tally(ctx, id, found[id], before[id]); err != nil {
				return err
			}
		}
		d.report(-1, keys.Sealed, "index", fmt.Sprintf("key %s: %d endpoints, but the count is %d", id, found[id], before[id]), d.e.Fix)
	}
	return nil
}

// tally corrects a count by the difference, because an instance may change it at the same
// time.
func (d *doctor) tally(ctx context.Context, id string, found, counted int) error {
	return d.s.conn.At(ctx, "count endpoints by key", conn.Home, func(p redis.Pipeliner) {
		key := d.s.conn.Tag(conn.Home) + keys.Sealed
		if counted == home.BrokenCount || found == 0 {
			p.HDel(ctx, key, id)
			counted = 0
		}
		if found > 0 {
			p.HIncrBy(ctx, key, id, int64(found-counted))
		}
	})
}
