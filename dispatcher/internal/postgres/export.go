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

// Bounds of an export. It takes as long as its reader, but not for ever: a transaction
// that is open keeps old rows, and a month that is to be dropped.
const exportIdle = 4 * time.Hour // of one month

// exportChunk is how many ends one statement reads; tests have it read fewer.
var exportChunk = 1000

// Exporting is told how far an export is: months done, of how many.
type Exporting func(done, months int)

// ExportEnds calls each for the newest end of each delivery of a selection that ended in
// its time. Those of one tenant, or subject, come by the time of the end, the oldest first;
// else the months do. Each month is read as it was at one moment.
func (r *Reader) ExportEnds(ctx context.Context, of archive.Selection, each func(*archive.End) error, tell Exporting) error {
	return r.export(ctx, of, tell, func(ctx context.Context, s *session, m month) error {
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
			if err := tellEach(ctx, s, list, m, each); err != nil {
				return err
			}
		}
		return nil
	})
}

// tellEach calls each for those of a month's ends that are the newest of their deliveries.
func tellEach(ctx context.Context, s *session, list []archive.End, m month, each func(*archive.End) error) error {
	if len(list) == 0 {
		return nil
	}
	since, err := s.tellMessages(ctx, list, m)
	if err == nil {
		list, err = s.newest(ctx, list, since)
	}
	if err == nil {
		err = s.tellAttempts(ctx, list)
	}
	if err != nil {
		return err
	}
	for i := range list {
		if err := each(&list[i]); err != nil {
			return toldErr{err}
		}
	}
	return nil
}

// toldErr is an error of the function that takes what is exported, and none of the archive.
type toldErr struct{ error }

// Unwrap is the error itself.
func (e toldErr) Unwrap() error { return e.error }

// exported reads a month's ends, some at a time.
type exported struct {
	of    archive.Selection
	month month
	order string
	after *partitioned
}

// partitioned is an event with its partition, which tells two of one Pos apart.
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
		p.Event, err = scanEvent(lessOne{row, &p.partition})
		return p, err
	})
}

// lessOne is a row with a column more than is scanned.
type lessOne struct {
	pgx.CollectableRow
	last any
}

// Scan reads the last column too.
func (r lessOne) Scan(to ...any) error { return r.CollectableRow.Scan(append(to, r.last)...) }

// selected are the conditions of a selection, whose times are those of a column.
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

// ExportMessages calls each for the messages of a selection that were accepted in its
// time, with their bodies where they are asked for. They come as ExportEnds has them.
func (r *Reader) ExportMessages(ctx context.Context, of archive.Selection, bodies bool, each func(*archive.Found) error, tell Exporting) error {
	return r.export(ctx, of, tell, func(ctx context.Context, s *session, m month) error {
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
		for rows.Next() { // each comes from the connection when it is asked for
			var f archive.Found
			var tenant, subject *string
			n := &f.Message
			if err := rows.Scan(&n.ID, &n.CreatedAt, &tenant, &subject, &n.Topic, &f.Size, &f.Head, &n.Body); err != nil {
				return err
			}
			n.CreatedAt, n.Tenant, n.Subject, f.HasBody = n.CreatedAt.UTC(), value(tenant), value(subject), n.Body != nil
			if err := each(&f); err != nil {
				return toldErr{err}
			}
		}
		return rows.Err()
	})
}

// export goes through the months of a selection, each in a transaction of its own.
func (r *Reader) export(ctx context.Context, of archive.Selection, tell Exporting, do func(context.Context, *session, month) error) error {
	const verb = "export"
	var list months
	err := r.inSnapshot(ctx, r.lookTime, func(ctx context.Context, s *session) error {
		err := s.readMonths(ctx)
		list = slices.Clone(s.months)
		return err
	})
	if err != nil {
		return fault(verb, err)
	}
	list = monthsOf(list, of)
	for i, m := range list {
		tell(i, len(list))
		err := r.inSnapshot(ctx, exportIdle, func(ctx context.Context, s *session) error {
			s.months = list
			return do(ctx, s, m)
		})
		var told toldErr
		switch {
		case errors.As(err, &told):
			return told.error
		case err != nil:
			return fault(verb, err)
		}
	}
	tell(len(list), len(list))
	return ctx.Err()
}

// monthsOf are the months that may have something of a selection. The first and the last
// one have also rows of times before and after.
func monthsOf(list months, of archive.Selection) months {
	first, last := list[0], list[len(list)-1]
	return slices.DeleteFunc(list, func(m month) bool {
		return m != last && !of.Since.IsZero() && !(m+1).first().After(of.Since) ||
			m != first && !of.Before.IsZero() && !m.first().Before(of.Before)
	})
}
