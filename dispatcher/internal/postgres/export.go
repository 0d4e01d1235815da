package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Limits of an export. It runs as long as its reader needs, but not forever, because an
// open transaction blocks vacuum and the dropping of a month.
const exportIdle = 4 * time.Hour // of one month

// exportChunk is how many ends one query reads. Tests set it lower.
var exportChunk = 1000

// ProgressFunc is called with the progress of an export: months done, and their total.
type ProgressFunc func(done, months int)

// ExportEnds calls each with the newest end of every selected delivery that ended in the
// selection's time. With a tenant or subject they are ordered by the time of the end,
// oldest first; otherwise only the months are in order. Each month is read in one snapshot.
func (r *Reader) ExportEnds(ctx context.Context, of archive.Selection, each func(*archive.End) error, progress ProgressFunc) error {
	return r.export(ctx, of, progress, func(ctx context.Context, s *session, m month) error {
		q := exported{of: of, month: m, order: "id, partition, pos"}
		if of.Tenant+of.Subject != "" {
			q.order = "at, partition, pos"
		}
		for more := true; more; {
			ends, err := q.ends(ctx, s)
			if err != nil {
				return err
			}
			if more = len(ends) == exportChunk; more {
				q.after = &ends[len(ends)-1]
			}
			list := make([]archive.End, len(ends))
			for i := range ends {
				list[i].Event = ends[i].Event
			}
			if err := eachNewest(ctx, s, list, m, each); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachNewest calls each with the ends of a month that are the newest of their deliveries.
func eachNewest(ctx context.Context, s *session, list []archive.End, m month, each func(*archive.End) error) error {
	if len(list) == 0 {
		return nil
	}
	since, err := s.fillMessages(ctx, list, m)
	if err == nil {
		list, err = s.newest(ctx, list, since)
	}
	if err == nil {
		err = s.fillAttempts(ctx, list)
	}
	if err != nil {
		return err
	}
	for i := range list {
		if err := each(&list[i]); err != nil {
			return callerError{err}
		}
	}
	return nil
}

// callerError is an error of the caller's function, not of the archive.
type callerError struct{ error }

// Unwrap returns the cause.
func (e callerError) Unwrap() error { return e.error }

// exported reads the ends of a month in chunks.
type exported struct {
	of    archive.Selection
	month month
	order string
	after *partitioned
}

// partitioned is an event with its partition, because two partitions may use the same Pos.
type partitioned struct {
	archive.Event
	partition int16
}

func (q *exported) ends(ctx context.Context, s *session) ([]partitioned, error) {
	values := []any{q.month.first(), exportChunk}
	where, values := selected(q.of, "at", values)
	if q.of.Subject != "" {
		n := len(values)
		where += fmt.Sprintf(" and %s in ($%d, $%d)", foundBy, n+1, n+2)
		values = append(values, dispatcher.SubjectToken(q.of.Subject), q.of.Subject)
	}
	if q.after != nil {
		first := any(q.after.ID.Message)
		if q.order[0] == 'a' {
			first = q.after.At
		}
		n := len(values)
		where += fmt.Sprintf(" and (%s) > ($%d, $%d, $%d)", q.order, n+1, n+2, n+3)
		values = append(values, first, q.after.partition, q.after.Pos)
	}
	rows, err := s.conn.Query(ctx, s.schema.sql("select "+eventColumns+", partition from hookladder.event where month = $1 and "+ended+where+
		" order by "+q.order+" limit $2"), values...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p partitioned, err error) {
		p.Event, err = scanEvent(withExtraColumn{row, &p.partition})
		return p, err
	})
}

// withExtraColumn is a row with one column more than the scan function expects.
type withExtraColumn struct {
	pgx.CollectableRow
	last any
}

// Scan scans the last column too.
func (r withExtraColumn) Scan(to ...any) error { return r.CollectableRow.Scan(append(to, r.last)...) }

// selected returns the SQL conditions of a selection. at is the column of its times.
func selected(of archive.Selection, at string, values []any) (string, []any) {
	where := ""
	add := func(condition string, value any) {
		values = append(values, value)
		where += " and " + condition + strconv.Itoa(len(values))
	}
	if of.Tenant != "" {
		add("tenant = $", of.Tenant)
	}
	if of.Subject != "" {
		add("subject = $", of.Subject)
	}
	if !of.Since.IsZero() {
		add(at+" >= $", of.Since)
	}
	if !of.Before.IsZero() {
		add(at+" < $", of.Before)
	}
	return where, values
}

// ExportMessages calls each with the selected messages, with their bodies if bodies is
// true. The order is as in ExportEnds.
func (r *Reader) ExportMessages(ctx context.Context, of archive.Selection, bodies bool, each func(*archive.Found) error, progress ProgressFunc) error {
	return r.export(ctx, of, progress, func(ctx context.Context, s *session, m month) error {
		columns, order := "id, created, tenant, subject, topic, size, head, body", ""
		if !bodies {
			columns = "id, created, tenant, subject, topic, size, head, null::bytea"
		}
		if of.Tenant+of.Subject != "" {
			order = " order by created"
		}
		where, values := selected(of, "created", []any{m.first()})
		rows, err := s.conn.Query(ctx, s.schema.sql("select "+columns+" from hookladder.message where month = $1"+where+order), values...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() { // pgx reads each row when Next is called
			var f archive.Found
			var tenant, subject *string
			n := &f.Message
			if err := rows.Scan(&n.ID, &n.CreatedAt, &tenant, &subject, &n.Topic, &f.Size, &f.Head, &n.Body); err != nil {
				return err
			}
			n.CreatedAt, n.Tenant, n.Subject, f.HasBody = n.CreatedAt.UTC(), value(tenant), value(subject), n.Body != nil
			if err := each(&f); err != nil {
				return callerError{err}
			}
		}
		return rows.Err()
	})
}

// export runs a function for each month of a selection, each in its own transaction.
func (r *Reader) export(ctx context.Context, of archive.Selection, progress ProgressFunc, do func(context.Context, *session, month) error) error {
	const verb = "export"
	var list months
	err := r.inSnapshot(ctx, r.timeout, func(ctx context.Context, s *session) error {
		err := s.readMonths(ctx)
		list = slices.Clone(s.months)
		return err
	})
	if err != nil {
		return fault(verb, err)
	}
	list = monthsOf(list, of)
	for i, m := range list {
		progress(i, len(list))
		err := r.inSnapshot(ctx, exportIdle, func(ctx context.Context, s *session) error {
			s.months = list
			return do(ctx, s, m)
		})
		var failed callerError
		switch {
		case errors.As(err, &failed):
			return failed.error
		case err != nil:
			return fault(verb, err)
		}
	}
	progress(len(list), len(list))
	return ctx.Err()
}

// monthsOf returns the months that may have selected rows. The first and the last month
// also have rows of earlier and later times.
func monthsOf(list months, of archive.Selection) months {
	first, last := list[0], list[len(list)-1]
	return slices.DeleteFunc(list, func(m month) bool {
		return m != last && !of.Since.IsZero() && !(m+1).first().After(of.Since) ||
			m != first && !of.Before.IsZero() && !m.first().Before(of.Before)
	})
}
