package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// month is a month of the calendar in UTC: the year times twelve plus the month.
type month int

func monthOf(t time.Time) month {
	y, m, _ := t.UTC().Date()
	return month(y*12 + int(m) - 1)
}

func (m month) first() time.Time {
	return time.Date(int(m)/12, time.Month(int(m)%12+1), 1, 0, 0, 0, 0, time.UTC)
}

// String returns its first day, as SQL writes a date.
func (m month) String() string { return m.first().Format(time.DateOnly) }

// of returns the name of the month's part of a table.
func (m month) of(table string) string { return table + m.first().Format("_2006_01") }

// monthIn parses the name of a part of a table.
func monthIn(table, part string) (m month, ok bool) {
	y, text, _ := strings.Cut(strings.TrimPrefix(part, table+"_"), "_")
	year, err := strconv.Atoi(y)
	n, err2 := strconv.Atoi(text)
	m = month(year*12 + n - 1)
	return m, err == nil && err2 == nil && m.of(table) == part
}

// months are the months with a part of both tables, in order. There is at least one.
type months []month

// clamp returns the month in which rows of a time are stored: their own, else the nearest
// earlier one, else the first. So a wrong clock never makes a write fail.
func (ms months) clamp(t time.Time) month {
	m := monthOf(t)
	i, found := slices.BinarySearch(ms, m)
	if found {
		return m
	}
	return ms[max(i-1, 0)]
}

// ahead is the number of coming months for which tables are created.
const ahead = 3

// divided are the tables with a part for each month.
var divided = []string{"message", "event"}

// monthTable is a table of one month: a part, a former part or one that is not attached
// yet.
type monthTable struct {
	table, name string
	month       month
	state       string // attached, pending (a detach was interrupted) or loose
}

// parts reads the parts of both tables.
func (s *session) parts(ctx context.Context) ([]monthTable, error) {
	rows, err := s.conn.Query(ctx, `
		select c.relname, case when i.inhrelid is null then 'loose' when i.inhdetachpending then 'pending' else 'attached' end
		from pg_class c left join pg_inherits i on i.inhrelid = c.oid
		where c.relnamespace = to_regnamespace($1) and c.relkind = 'r' order by c.relname`, string(s.schema))
	if err != nil {
		return nil, err
	}
	var all []monthTable
	var name, state string
	_, err = pgx.ForEachRow(rows, []any{&name, &state}, func() error {
		for _, table := range divided {
			if m, ok := monthIn(table, name); ok {
				all = append(all, monthTable{table: table, name: name, month: m, state: state})
			}
		}
		return nil
	})
	return all, err
}

// readMonths reads which months exist.
func (s *session) readMonths(ctx context.Context) error {
	parts, err := s.parts(ctx)
	if err != nil {
		return err
	}
	count := map[month]int{}
	s.months, s.read = nil, time.Now()
	for _, p := range parts {
		if p.state == attached {
			if count[p.month]++; count[p.month] == len(divided) {
				s.months = append(s.months, p.month)
			}
		}
	}
	if len(s.months) == 0 {
		return errors.New("there is no table for any month")
	}
	slices.Sort(s.months)
	return nil
}

// The states of a part.
const (
	attached = "attached"
	pending  = "pending"
	loose    = "loose"
)

// makeMonths creates the tables of this month and the coming ones, by the server's clock.
func (s *session) makeMonths(ctx context.Context) error {
	var now time.Time
	if err := s.conn.QueryRow(ctx, "select now()").Scan(&now); err != nil {
		return err
	}
	parts, err := s.parts(ctx)
	if err != nil {
		return err
	}
	for m := monthOf(now); m <= monthOf(now)+ahead; m++ {
		for _, table := range divided {
			there := func(p monthTable) bool { return p.table == table && p.month == m && p.state != loose }
			if slices.ContainsFunc(parts, there) {
				continue
			}
			if err := s.makePart(ctx, table, m); err != nil {
				return fmt.Errorf("make the table %s: %w", m.of(table), err)
			}
		}
	}
	return nil
}

// makePart creates a table and attaches it. With PARTITION OF the statement would wait for
// every reader of the whole table, and writers would wait behind it.
func (s *session) makePart(ctx context.Context, table string, m month) error {
	err := s.transaction(ctx, func(ctx context.Context, s *session) error {
		name := m.of(table)
		for _, text := range []string{
			"set local lock_timeout = '2s'",
			"create table if not exists hookladder." + name + " (like hookladder." + table + " including defaults including constraints)",
			fmt.Sprintf("alter table hookladder.%s attach partition hookladder.%s for values from ('%s') to ('%s')", table, name, m, m+1),
		} {
			if err := s.exec(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	if rollback := s.rollback(ctx); rollback != nil {
		return err
	}
	// Another instance may have created it in the meantime.
	if parts, reading := s.parts(ctx); reading == nil && slices.ContainsFunc(parts, func(p monthTable) bool {
		return p.table == table && p.month == m && p.state == attached
	}) {
		return nil
	}
	return err
}

// maintainTime is the timeout of Maintain, which copies at most the messages of a month.
const maintainTime = 10 * time.Minute

// detachTime is how long to wait for readers of a month. A later call finishes an
// interrupted detach.
const detachTime = 4 * time.Second

// Maintain creates the tables of the coming months, and drops months whose last day is
// older than retention; 0 keeps all. It uses its own connection, because it waits for
// readers and must not block writers.
func (a *Archive) Maintain(ctx context.Context, retention time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, maintainTime)
	defer cancel()
	s, err := a.dial(ctx)
	if err == nil {
		defer s.close()
		err = s.maintain(ctx, retention)
	}
	if err != nil {
		return fault("maintain the archive's months", err)
	}
	return a.in(ctx, "read the archive's months", func(ctx context.Context, s *session) error { return s.readMonths(ctx) })
}

func (s *session) maintain(ctx context.Context, retention time.Duration) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if err := s.makeMonths(ctx); err != nil {
		return err
	}
	if retention <= 0 {
		return nil
	}
	var now time.Time
	if err := s.conn.QueryRow(ctx, "select now()").Scan(&now); err != nil {
		return err
	}
	parts, err := s.parts(ctx)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if (p.month + 1).first().After(now.Add(-retention)) || p.month >= monthOf(now) {
			continue
		}
		err := s.dropPart(ctx, p, next(parts, p))
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			s.log.WarnContext(ctx, "an expired month of the archive is still being read, it is dropped later", "table", p.name, "err", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("drop the table %s: %w", p.name, err)
		}
		s.log.InfoContext(ctx, "month of the archive dropped", "table", p.name)
	}
	return nil
}

// next returns the month that takes the rows of a dropped month; see clamp.
func next(parts []monthTable, p monthTable) month {
	after := monthOf(time.Unix(1<<40, 0))
	for _, other := range parts {
		if other.table == p.table && other.state == attached && other.month > p.month {
			after = min(after, other.month)
		}
	}
	return after
}

// dropPart detaches a month's table and drops it. It takes only a short lock, so writers do
// not wait. Messages of unfinished deliveries are copied to another month.
func (s *session) dropPart(ctx context.Context, p monthTable, to month) error {
	if p.state == attached { // before the detach too, so that no unfinished delivery lacks its message
		if err := s.copyUnfinished(ctx, p, to); err != nil {
			return err
		}
	}
	wait, cancel := context.WithTimeout(ctx, detachTime) // in Go, because a setting would stay on a pooled connection
	defer cancel()
	if err := s.detach(wait, p); err != nil {
		return err
	}
	// Something may have been resent in the meantime.
	if err := s.copyUnfinished(ctx, p, to); err != nil {
		return err
	}
	return s.exec(ctx, "drop table hookladder."+p.name)
}

// detach makes a month's table independent. It finishes a detach that was interrupted.
func (s *session) detach(ctx context.Context, p monthTable) error {
	text := "alter table hookladder." + p.table + " detach partition hookladder." + p.name
	switch p.state {
	case attached:
		return s.exec(ctx, text+" concurrently")
	case pending:
		return s.exec(ctx, text+" finalize")
	}
	return nil
}

// copyUnfinished copies the messages of unfinished deliveries to another month.
func (s *session) copyUnfinished(ctx context.Context, p monthTable, to month) error {
	if p.table != "message" {
		return nil
	}
	return s.exec(ctx, `
		insert into hookladder.message (`+messageColumns+`)
		select '`+to.String()+`', created, id, tenant, subject, topic, size, head, body from hookladder.`+p.name+` m
		where exists (select from hookladder.open o where o.id = m.id)
		on conflict do nothing`)
}
