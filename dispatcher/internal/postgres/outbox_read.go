package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
)

// readDue reads rows that are due.
func (o *Outbox) readDue(ctx context.Context, tx pgx.Tx, query string, values ...any) ([]dispatcher.OutboxRow, error) {
	rows, err := tx.Query(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r dispatcher.OutboxRow, err error) {
		var age float64
		var key *string
		err = row.Scan(&r.Seq, &r.ID, &r.Message, &r.Body, &age, &key)
		if r.Age = seconds(age); key != nil {
			r.Key = *key
		}
		return r, err
	})
}

const (
	// singlyMost limits a batch that is read row by row, each in its own savepoint.
	singlyMost = 50
	// unreadableWait is the delay of a row that could not be read. An operator has to fix
	// it.
	unreadableWait = time.Minute
)

// readSingly reads rows one by one, so that an unreadable row does not block the others.
func (o *Outbox) readSingly(ctx context.Context, tx pgx.Tx, most int) (all []dispatcher.OutboxRow, unreadable []int64, err error) {
	rows, err := tx.Query(ctx, `select seq from hookladder_outbox
where retry_at is null or retry_at <= now() or not isfinite(retry_at) order by seq limit $1 for update skip locked`, min(most, singlyMost))
	if err != nil {
		return nil, nil, err
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, nil, err
	}
	bytes := 0
	for _, seq := range due {
		if bytes >= batchBytes {
			break
		}
		point, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return nil, nil, err
		}
		one, err := o.readDue(ctx, point, readOne, seq, o.most)
		if err == nil {
			err = point.Commit(ctx)
		} else if errors.Is(outboxError(err), dispatcher.ErrOutboxData) {
			unreadable = append(unreadable, seq)
			err = point.Rollback(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, r := range one {
			all, bytes = append(all, r), bytes+len(r.Message)+len(r.Body)
		}
	}
	return all, unreadable, nil
}
