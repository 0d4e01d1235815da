package postgres

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// keepRecords takes records that are newer. Of a deleted one the last record stays.
const keepRecords = `
insert into hookladder.endpoint as e (id, version, record, deleted)
select id, version, coalesce(record, ''), case when deleted then now() end
from unnest($1::text[], $2::bigint[], $3::bytea[], $4::bool[]) as new (id, version, record, deleted)
on conflict (id) do update set version = excluded.version, deleted = excluded.deleted,
  record = case when excluded.record = '' then e.record else excluded.record end
where e.version < excluded.version or e.deleted is null and excluded.deleted is not null`

// keepHolds takes what is held.
const keepHolds = `
insert into hookladder.hold as h (lane, since, by)
select lane, since, by from unnest($1::text[], $2::timestamptz[], $3::text[]) as new (lane, since, by)
on conflict (lane) do update set since = excluded.since, by = excluded.by
where (h.since, h.by) is distinct from (excluded.since, excluded.by)`

// dropHolds lets go what is not held any more. A store that was emptied is known by what
// the archive has of it: that is left for a restore.
const dropHolds = `
delete from hookladder.hold where lane <> all ($1::text[])
and ($2 or not exists (select from hookladder.endpoint where deleted is null))
and not exists (select from hookladder.open o join hookladder.position p on p.partition = o.partition where o.epoch <> p.epoch)`

// KeepEndpoints keeps records that are newer than those it has.
func (a *Archive) KeepEndpoints(ctx context.Context, page []archive.Endpoint) error {
	page = a.unknown(page)
	if len(page) == 0 {
		return nil
	}
	err := a.in(ctx, "archive endpoints", func(ctx context.Context, s *session) error {
		var ids []string
		var versions []int64
		var records [][]byte
		var deleted []bool
		for _, e := range page {
			ids, versions = append(ids, e.ID), append(versions, e.Version)
			records, deleted = append(records, e.Record), append(deleted, e.Deleted)
		}
		return s.exec(ctx, keepRecords, ids, versions, records, deleted)
	})
	if err == nil {
		a.remember(page)
	}
	return err
}

// KeepHolds keeps all that is held.
func (a *Archive) KeepHolds(ctx context.Context, holds []archive.Hold, empty bool) error {
	lanes, since, by := []string{}, []time.Time{}, []string{}
	for _, h := range holds {
		lanes, since, by = append(lanes, string(h.Lane)), append(since, h.Since), append(by, mended(h.By))
	}
	return a.in(ctx, "archive holds", func(ctx context.Context, s *session) error {
		if err := s.exec(ctx, dropHolds, lanes, !empty); err != nil {
			return err
		}
		return s.exec(ctx, keepHolds, lanes, since, by)
	})
}

// knownAs is what is remembered of an endpoint that is kept: 100,000 take 10 MB.
func knownAs(e *archive.Endpoint) int64 {
	if e.Deleted {
		return e.Version<<1 | 1
	}
	return e.Version << 1
}

// unknown are those of a page that this connection has not kept yet, each once.
func (a *Archive) unknown(page []archive.Endpoint) (list []archive.Endpoint) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := map[string]int{}
	for i := range page {
		e := &page[i]
		if a.session != nil {
			if known, was := a.session.kept[e.ID]; was && known>>1 >= e.Version && known&1 == knownAs(e)&1 {
				continue
			}
		}
		if k, met := at[e.ID]; met {
			list[k] = *e
			continue
		}
		at[e.ID] = len(list)
		list = append(list, *e)
	}
	return list
}

// remember spares sending the same records each time.
func (a *Archive) remember(page []archive.Endpoint) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range page {
		if a.session != nil {
			a.session.kept[page[i].ID] = knownAs(&page[i])
		}
	}
}
