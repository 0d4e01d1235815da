package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// keepRecords stores records that are newer, and the store that they are from. It keeps the
// last record of a deleted endpoint. A store that lost its last second may use a version
// twice; then the record of the present store wins.
const keepRecords = `
insert into hookladder.endpoint as e (id, version, record, deleted, home)
select id, version, coalesce(record, ''), case when deleted then now() end, home
from unnest($1::text[], $2::bigint[], $3::bytea[], $4::bool[], $5::text[]) as new (id, version, record, deleted, home)
on conflict (id) do update set version = greatest(e.version, excluded.version), 
  deleted = case when e.version < excluded.version then excluded.deleted else coalesce(e.deleted, excluded.deleted) end, home = excluded.home,
  record = case when excluded.record = '' then e.record else excluded.record end
where e.version < excluded.version or excluded.deleted is not null and e.deleted is null
  or e.version = excluded.version and (e.home <> excluded.home or e.deleted is null and excluded.record <> '' and e.record <> excluded.record)`

// keepPausedLanes stores paused lanes.
const keepPausedLanes = `
insert into hookladder.hold as h (lane, since, by, name, epoch)
select lane, since, by, name, epoch
from unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[]) as new (lane, since, by, name, epoch)
on conflict (lane) do update set since = excluded.since, by = excluded.by, name = excluded.name, epoch = excluded.epoch
where (h.since, h.by, h.name, h.epoch) is distinct from (excluded.since, excluded.by, excluded.name, excluded.epoch)`

// KeepEndpoints stores the records that are newer than the archive's.
func (a *Archive) KeepEndpoints(ctx context.Context, page []archive.Endpoint) error {
	if len(page) == 0 {
		return nil
	}
	return a.in(ctx, "archive endpoints", func(ctx context.Context, s *session) error { return s.keepEndpoints(ctx, page) })
}

// keepEndpoints stores records. If an endpoint occurs several times, the last one wins.
func (s *session) keepEndpoints(ctx context.Context, list []archive.Endpoint) error {
	var ids, homes []string
	var versions []int64
	var records [][]byte
	var deleted []bool
	at := map[string]int{}
	for i := range list {
		at[list[i].ID] = i
	}
	for i := range list {
		e := &list[i]
		if at[e.ID] != i {
			continue
		}
		ids, homes, versions = append(ids, e.ID), append(homes, e.Home), append(versions, e.Version)
		records, deleted = append(records, e.Record), append(deleted, e.Deleted)
	}
	return s.exec(ctx, keepRecords, ids, versions, records, deleted, homes)
}

// namesAtOnce is the size of a page of endpoints without their records.
const namesAtOnce = 256

// Endpoints reads a page of the endpoints that were not deleted, without their records.
func (a *Archive) Endpoints(ctx context.Context, behind string) (page []archive.Endpoint, err error) {
	err = a.in(ctx, "read archived endpoints", func(ctx context.Context, s *session) error {
		rows, err := s.conn.Query(ctx, s.schema.sql(
			"select id, version, home from hookladder.endpoint where deleted is null and id > $1 order by id limit $2"), behind, namesAtOnce)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e archive.Endpoint, err error) {
			return e, row.Scan(&e.ID, &e.Version, &e.Home)
		})
		return err
	})
	return page, err
}

// PausedLanes reads the paused lanes whose epoch is the given one or unknown.
func (a *Archive) PausedLanes(ctx context.Context, epoch string) (holds []archive.PausedLane, err error) {
	err = a.in(ctx, "read archived holds", func(ctx context.Context, s *session) error {
		rows, err := s.conn.Query(ctx, s.schema.sql("select "+pausedColumns+" from hookladder.hold where epoch in ('', $1) order by lane"), epoch)
		if err != nil {
			return err
		}
		holds, err = pgx.CollectRows(rows, scanPausedLane)
		return err
	})
	return holds, err
}

const pausedColumns = "lane, since, by, name, epoch"

// scanPausedLane scans a row of pausedColumns.
func scanPausedLane(row pgx.CollectableRow) (h archive.PausedLane, err error) {
	var lane string
	err = row.Scan(&lane, &h.Since, &h.By, &h.Name, &h.Epoch)
	h.Lane, h.Since = dispatcher.Lane(lane), h.Since.UTC()
	return h, err
}

// KeepPausedLanes stores which lanes of a partition were paused and resumed.
func (a *Archive) KeepPausedLanes(ctx context.Context, by string, h archive.PausedLanes) error {
	return a.in(ctx, "archive holds", func(ctx context.Context, s *session) error {
		tag, err := s.conn.Exec(ctx, s.schema.sql(
			"select from hookladder.position where partition = $1 and epoch = $2 and holder = $3 for share"), h.Partition, h.Epoch, by)
		if err == nil && tag.RowsAffected() != 1 {
			err = archive.ErrMoved
		}
		if err != nil {
			return err
		}
		return s.keepPausedLanes(ctx, h.Lanes)
	})
}

// keepPausedLanes stores paused lanes and deletes resumed ones. If a lane occurs several times,
// the last one wins.
func (s *session) keepPausedLanes(ctx context.Context, list []archive.PausedLane) error {
	at := map[dispatcher.Lane]int{}
	for i := range list {
		at[list[i].Lane] = i
	}
	var resumed, lanes, by, names, epochs []string
	var since []time.Time
	for i := range list {
		h := &list[i]
		switch {
		case at[h.Lane] != i:
		case h.Resumed:
			resumed = append(resumed, string(h.Lane))
		default:
			lanes, since, by = append(lanes, string(h.Lane)), append(since, h.Since), append(by, mended(h.By))
			names, epochs = append(names, mended(h.Name)), append(epochs, h.Epoch)
		}
	}
	if len(resumed) > 0 {
		if err := s.exec(ctx, "delete from hookladder.hold where lane = any ($1::text[])", resumed); err != nil {
			return err
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	return s.exec(ctx, keepPausedLanes, lanes, since, by, names, epochs)
}

// keepChanges stores the endpoints and lanes that changed.
func (c *copier) keepChanges(ctx context.Context) error {
	var endpoints []archive.Endpoint
	var holds []archive.PausedLane
	for i := range c.parts {
		endpoints, holds = append(endpoints, c.parts[i].Endpoints...), append(holds, c.parts[i].PausedLanes...)
	}
	if len(endpoints) > 0 {
		if err := c.session.keepEndpoints(ctx, endpoints); err != nil {
			return err
		}
	}
	return c.session.keepPausedLanes(ctx, holds)
}
