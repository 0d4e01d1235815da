package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// beginPositions inserts rows for partitions that were never archived.
const beginPositions = `
insert into hookladder.position (partition, epoch, ms, seq, last)
select partition, epoch, ms, seq, 0
from unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[]) as want (partition, epoch, ms, seq)
where not exists (select from hookladder.position p where p.partition = want.partition)
order by partition
on conflict do nothing`

// releaseUnwanted releases partitions that the instance does not want any more.
const releaseUnwanted = `
update hookladder.position set holder = null, until = null
where holder = $1 and partition >= 0 and partition <> all ($2::int[])`

// leasePartitions leases free partitions and renews leases. It skips a locked row, because a writer is
// using it. With a new epoch a partition starts from the beginning. The last position of
// the lost data is kept until KeepHome; for a severed partition it was saved before.
const leasePartitions = `
with want as (
  select * from unnest($2::int[], $3::text[], $4::bigint[], $5::bigint[]) as want (partition, epoch, ms, seq)
), free as (
  select p.partition, p.epoch <> want.epoch as other
  from hookladder.position p join want using (partition)
  where (p.holder = $1 or p.holder is null or p.until < clock_timestamp()) and (not $7 or p.epoch = want.epoch)
  order by p.partition
  for update of p skip locked
)
update hookladder.position p set
  holder = $1, until = clock_timestamp() + make_interval(secs => $6::float8), epoch = want.epoch,
  ms = case when other then want.ms else p.ms end,
  seq = case when other then want.seq else p.seq end,
  left_last = case when other and p.epoch <> '' then coalesce(p.left_last, greatest(p.last, p.ms << 20)) else p.left_last end,
  left_gap = case when other and p.epoch <> '' and p.left_last is null then p.gap_ms else p.left_gap end,
  began = case when other then now() else p.began end,
  walk_ms = case when other then null else p.walk_ms end,
  walk_seq = case when other then null else p.walk_seq end,
  gap_ms = case when other then null else p.gap_ms end,
  gap_seq = case when other then null else p.gap_seq end,
  dropped = case when other then 0 else p.dropped end,
  walk_left = case when other then null else p.walk_left end
from want join free using (partition)
where p.partition = want.partition
returning p.partition, p.epoch, p.ms, p.seq, p.last, p.walk_ms, p.walk_seq, p.gap_ms, p.gap_seq, p.dropped`

// epochMoved reports whether a free partition has another epoch than the wanted one.
const epochMoved = `
select exists (
  select from hookladder.position p join unnest($2::int[], $3::text[]) as want (partition, epoch) using (partition)
  where p.epoch <> want.epoch and (p.holder = $1 or p.holder is null or p.until < clock_timestamp())
)`

// Lease renews the instance's leases, leases free partitions that it wants, and releases the
// others.
func (a *Archive) Lease(ctx context.Context, by string, want []archive.Want) (leases []archive.PartitionLease, err error) {
	partitions, epochs := []int32{}, []string{} // not nil, because nil is encoded as null
	var ms, seq []int64
	old := false
	for _, w := range want {
		old = old || w.Old
		partitions, epochs = append(partitions, int32(w.Partition)), append(epochs, w.Epoch)
		ms, seq = append(ms, w.At.MS), append(seq, int64(w.At.Seq))
	}
	err = a.in(ctx, "lease partitions of the archive", func(ctx context.Context, s *session) error {
		if err := s.exec(ctx, beginPositions, partitions, epochs, ms, seq); err != nil {
			return err
		}
		if err := s.exec(ctx, releaseUnwanted, by, partitions); err != nil {
			return err
		}
		rows, err := s.conn.Query(ctx, s.schema.sql(leasePartitions), by, partitions, epochs, ms, seq, archive.LeaseTime.Seconds(), old)
		if err != nil {
			return err
		}
		if leases, err = pgx.CollectRows(rows, scanLease); err != nil {
			return err
		}
		if old && len(leases) < len(want) {
			var other bool
			if err := s.conn.QueryRow(ctx, s.schema.sql(epochMoved), by, partitions, epochs).Scan(&other); err != nil {
				return err
			} else if other {
				return archive.ErrMoved
			}
		}
		return s.countOrphans(ctx, leases)
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}

func scanLease(row pgx.CollectableRow) (archive.PartitionLease, error) { return scanLeaseAnd(row) }

// scanLeaseAnd scans such a row with more columns at its end.
func scanLeaseAnd(row pgx.CollectableRow, more ...any) (h archive.PartitionLease, err error) {
	var seq int64
	var walkMS, walkSeq, gapMS, gapSeq *int64
	err = row.Scan(append([]any{&h.Partition, &h.Epoch, &h.At.MS, &seq, &h.Last, &walkMS, &walkSeq, &gapMS, &gapSeq, &h.Dropped}, more...)...)
	h.At.Seq = uint64(seq)
	h.Began = walkMS == nil
	h.Walked = archive.Position{MS: value(walkMS), Seq: uint64(value(walkSeq))}
	h.Gap = archive.Position{MS: value(gapMS), Seq: uint64(value(gapSeq))}
	return h, err
}

// countEvery is how often orphans are counted, because the query reads all of table open.
const countEvery = time.Minute

// countOrphans sets how many unfinished deliveries have another epoch. It counts when a
// partition's epoch is new to this connection, and repeats that until there are none.
func (s *session) countOrphans(ctx context.Context, leases []archive.PartitionLease) error {
	stale := time.Since(s.counted) > countEvery
	count := false
	for _, h := range leases {
		count = count || s.epochs[h.Partition] != h.Epoch || stale && s.orphans[h.Partition] > 0
	}
	if count {
		if err := s.readOrphans(ctx, leases); err != nil {
			return err
		}
	}
	for i := range leases {
		leases[i].Orphans = s.orphans[leases[i].Partition]
	}
	return nil
}

func (s *session) readOrphans(ctx context.Context, leases []archive.PartitionLease) error {
	s.epochs, s.orphans, s.counted = map[int]string{}, map[int]int64{}, time.Now()
	var partitions []int32
	for _, h := range leases {
		s.epochs[h.Partition] = h.Epoch
		partitions = append(partitions, int32(h.Partition))
	}
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select o.partition, count(*) from hookladder.open o join hookladder.position p on p.partition = o.partition
		where o.epoch <> p.epoch and p.partition = any ($1::int[]) group by o.partition`), partitions)
	if err != nil {
		return err
	}
	var partition int
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &n}, func() error {
		s.orphans[partition] = n
		return nil
	})
	return err
}

// Release releases all partitions of an instance.
func (a *Archive) Release(ctx context.Context, by string) error {
	return a.in(ctx, "release partitions of the archive", func(ctx context.Context, s *session) error {
		return s.exec(ctx, releaseUnwanted, by, []int32{})
	})
}

// home is the row of table position whose epoch column has the id of the store's data.
const home = -2

// severed is the epoch of a partition whose data were lost, until an instance archives the
// new data.
const severed = ""

const (
	readHome = "select partition, epoch from hookladder.position where partition >= 0 or partition = $1"
	keepHome = `insert into hookladder.position (partition, epoch, ms, seq, last) values ($1, $2, 0, 0, 0)
on conflict (partition) do update set epoch = excluded.epoch`
)

// Home reads the id of the archived data and the epochs of the partitions.
func (a *Archive) Home(ctx context.Context) (id string, epochs map[int]string, err error) {
	err = a.in(ctx, "read the archived store's id", func(ctx context.Context, s *session) error {
		rows, err := s.conn.Query(ctx, s.schema.sql(readHome), home)
		if err == nil {
			id, epochs, err = scanHome(rows)
		}
		return err
	})
	return id, epochs, err
}

func scanHome(rows pgx.Rows) (id string, epochs map[int]string, err error) {
	epochs = map[int]string{}
	var partition int
	var epoch string
	_, err = pgx.ForEachRow(rows, []any{&partition, &epoch}, func() error {
		switch {
		case partition == home:
			id = epoch
		case epoch != severed:
			epochs[partition] = epoch
		}
		return nil
	})
	return id, epochs, err
}

// KeepHome stores the id of the archived data.
func (a *Archive) KeepHome(ctx context.Context, id string) error {
	return a.in(ctx, "save the archived store's id", func(ctx context.Context, s *session) error {
		return s.exec(ctx, keepHome, home, id)
	})
}

// Home reads the id of the archived data and the epochs of the partitions.
func (v *Vault) Home(ctx context.Context) (id string, epochs map[int]string, err error) {
	rows, err := v.pool.Query(ctx, v.schema.sql(readHome), home)
	if err == nil {
		id, epochs, err = scanHome(rows)
	}
	if err != nil {
		return "", nil, fault("read the archived store's id", err)
	}
	return id, epochs, nil
}

const sever = `
update hookladder.position set
  left_last = coalesce(left_last, greatest(last, ms << 20)), left_gap = case when left_last is null then gap_ms else left_gap end,
  epoch = '', holder = null, until = null
where partition >= 0 and epoch <> '' and epoch <> all ($1::text[])`

// Sever stops instances from archiving lost data, which have other epochs than the present
// ones. An instance may still have lines in memory that it read before the loss. Written
// now, they would come after the restored data.
func (v *Vault) Sever(ctx context.Context, present []string) error {
	if _, err := v.pool.Exec(ctx, v.schema.sql(sever), list(present)); err != nil {
		return fault("sever the lost partitions", err)
	}
	return nil
}

// KeepHome stores the id of the archived data. The earlier loss is then restored or given
// up.
func (v *Vault) KeepHome(ctx context.Context, id string) error {
	_, err := v.pool.Exec(ctx, v.schema.sql(keepHome), home, id)
	if err == nil {
		_, err = v.pool.Exec(ctx, v.schema.sql("update hookladder.position set left_last = null, left_gap = null where left_last is not null"))
	}
	if err != nil {
		return fault("save the archived store's id", err)
	}
	return nil
}

// Discard deletes the unfinished deliveries of a lost store, except those with the epochs
// in but. With home it also deletes its endpoints and paused lanes. Events stay. It returns
// the number of deliveries and endpoints.
func (v *Vault) Discard(ctx context.Context, but []string, home bool) (open, endpoints int64, err error) {
	err = pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, v.schema.sql("delete from hookladder.open where epoch <> all ($1::text[])"), list(but))
		if err != nil {
			return err
		}
		if open = tag.RowsAffected(); !home {
			return nil
		}
		if tag, err = tx.Exec(ctx, v.schema.sql("delete from hookladder.endpoint where deleted is null")); err != nil {
			return err
		}
		endpoints = tag.RowsAffected()
		_, err = tx.Exec(ctx, v.schema.sql("delete from hookladder.hold"))
		return err
	})
	if err != nil {
		return 0, 0, fault("give up the lost data", err)
	}
	return open, endpoints, nil
}
