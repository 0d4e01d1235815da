package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

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
