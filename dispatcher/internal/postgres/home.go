package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// home is the row of positions whose epoch is the id of the store's data.
const home = -2

// severed is the epoch of a partition whose data were lost and are being restored or given up,
// until an instance archives the present ones.
const severed = ""

const (
	readHome = "select partition, epoch from hookladder.position where partition >= 0 or partition = $1"
	keepHome = `insert into hookladder.position (partition, epoch, ms, seq, last) values ($1, $2, 0, 0, 0)
on conflict (partition) do update set epoch = excluded.epoch`
)

// Home is the id of the data that are archived, and the epochs of the partitions.
func (a *Archive) Home(ctx context.Context) (id string, epochs map[int]string, err error) {
	err = a.in(ctx, "read which store is archived", func(ctx context.Context, s *session) error {
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

// KeepHome keeps that id.
func (a *Archive) KeepHome(ctx context.Context, id string) error {
	return a.in(ctx, "note which store is archived", func(ctx context.Context, s *session) error {
		return s.exec(ctx, keepHome, home, id)
	})
}

// Home is the id of the data that are archived, and the epochs of the partitions.
func (v *Vault) Home(ctx context.Context) (id string, epochs map[int]string, err error) {
	rows, err := v.pool.Query(ctx, v.schema.sql(readHome), home)
	if err == nil {
		id, epochs, err = scanHome(rows)
	}
	if err != nil {
		return "", nil, fault("read which store is archived", err)
	}
	return id, epochs, nil
}

const sever = `
update hookladder.position set
  left_last = coalesce(left_last, last), left_gap = case when left_last is null then gap_ms else left_gap end,
  epoch = '', holder = null, until = null
where partition >= 0 and epoch <> '' and epoch <> all ($1::text[])`

// Sever ends the archiving of what a store lost, which are the data of other epochs than the
// present ones. An instance may still have lines of them that it read before the loss. It can't
// write them any more: they would come behind what is restored.
func (v *Vault) Sever(ctx context.Context, present []string) error {
	if _, err := v.pool.Exec(ctx, v.schema.sql(sever), list(present)); err != nil {
		return fault("end the archiving of what was lost", err)
	}
	return nil
}

// KeepHome keeps that id. What was lost before is restored or given up.
func (v *Vault) KeepHome(ctx context.Context, id string) error {
	_, err := v.pool.Exec(ctx, v.schema.sql(keepHome), home, id)
	if err == nil {
		_, err = v.pool.Exec(ctx, v.schema.sql("update hookladder.position set left_last = null, left_gap = null where left_last is not null"))
	}
	if err != nil {
		return fault("note which store is archived", err)
	}
	return nil
}

// Discard gives up what the archive has of a lost store: its unfinished deliveries but
// those of some epochs, and with home its endpoints and holds. What happened stays. It
// counts the deliveries and endpoints.
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
		return 0, 0, fault("give up what the store lost", err)
	}
	return open, endpoints, nil
}
