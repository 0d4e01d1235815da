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

// month is a month of the calendar, in UTC: years times twelve, and months.
type month int

func monthOf(t time.Time) month {
	y, m, _ := t.UTC().Date()
	return month(y*12 + int(m) - 1)
}

func (m month) first() time.Time {
	return time.Date(int(m)/12, time.Month(int(m)%12+1), 1, 0, 0, 0, 0, time.UTC)
}

// String is its first day, as SQL has it.
func (m month) String() string { return m.first().Format(time.DateOnly) }

// of is the name of its part of a table.
func (m month) of(table string) string { return table + m.first().Format("_2006_01") }

// monthIn reads the name of a part of a table.
func monthIn(table, part string) (m month, ok bool) {
	y, text, _ := strings.Cut(strings.TrimPrefix(part, table+"_"), "_")
	year, err := strconv.Atoi(y)
	n, err2 := strconv.Atoi(text)
	m = month(year*12 + n - 1)
	return m, err == nil && err2 == nil && m.of(table) == part
}

// months are those that have a part of both tables, in order. There is one at least.
type months []month

// clamp is where rows of a time are kept: in their own month, else the next one below
// that there is, else the first one. So no clock refuses a row.
func (ms months) clamp(t time.Time) month {
	m := monthOf(t)
	i, found := slices.BinarySearch(ms, m)
	if found {
		return m
	}
	return ms[max(i-1, 0)]
}

// ahead is for how many months to come there are tables.
const ahead = 3

// divided are the tables that have a part for each month.
var divided = []string{"message", "event"}

// monthTable is a part of a table, or a table that was one, or was to become one.
type monthTable struct {
	table, name string
	month       month
	state       string // attached, pending (its detaching was interrupted) or loose
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

// readMonths reads which months there are.
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

// makeMonths makes the tables of this month and those to come, by the server's clock.
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

// makePart makes a table and attaches it. PARTITION OF would wait for every reader of
// the whole table, and writers would wait behind it.
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
	// Another instance may have made it meanwhile.
	if parts, reading := s.parts(ctx); reading == nil && slices.ContainsFunc(parts, func(p monthTable) bool {
		return p.table == table && p.month == m && p.state == attached
	}) {
		return nil
	}
	return err
}
