package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

// month is the first moment of a month, counted from this one.
func month(n int) time.Time {
	y, m, _ := now.Date()
	return time.Date(y, m+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
}

func tableOf(table string, n int) string { return table + month(n).Format("_2006_01") }

// tables are those of months that are attached.
func tables(t testing.TB, url string) []string {
	return read(t, url, "select relname from pg_inherits join pg_class on oid = inhrelid where relkind = 'r' and not inhdetachpending order by 1")
}

// addMonth makes the tables of a month of the past.
func addMonth(t testing.TB, url string, n int) {
	t.Helper()
	for _, table := range []string{"message", "event"} {
		run(t, url, fmt.Sprintf("create table hookladder.%[1]s partition of hookladder.%[2]s for values from ('%[3]s') to ('%[4]s')",
			tableOf(table, n), table, month(n).Format(time.DateOnly), month(n+1).Format(time.DateOnly)))
	}
}

func TestAtTheEdgeOfAMonthEachRowIsInItsOwn(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	edge := month(1)
	before, after := event(archive.Retry, "old", 1), event(archive.Delivered, "new", 1)
	before.At, after.At = edge.Add(-time.Millisecond), edge
	l.write(t, a, []archive.Accepted{acceptedAt(edge.Add(-time.Microsecond), "old"), acceptedAt(edge, "new")}, before, after)
	want := []string{"new " + tableOf("message", 1), "old " + tableOf("message", 0)}
	require.Equal(t, want, read(t, url, "select id || ' ' || c.relname from hookladder.message m join pg_class c on c.oid = m.tableoid order by id"))
	want = []string{"new " + tableOf("event", 1), "old " + tableOf("event", 0)}
	require.Equal(t, want, read(t, url, "select id || ' ' || c.relname from hookladder.event e join pg_class c on c.oid = e.tableoid order by id"))
}

func TestNoClockRefusesARow(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	times := []time.Time{{}, time.Unix(0, 0), month(-1), month(0), month(9), time.UnixMilli(1 << 62)}
	var all []archive.Accepted
	var events []archive.Event
	for i, at := range times {
		id := fmt.Sprint(i)
		all = append(all, acceptedAt(at, id))
		e := event(archive.Retry, id, 1)
		e.At, e.Wait = at, 1<<62
		events = append(events, e)
	}
	all[5].Message.URL = "" // it is looked for first
	require.Equal(t, archive.Written{Messages: 6, Events: 6}, l.write(t, a, all, events...))
	first, last := month(0).Format("2006-01"), month(3).Format("2006-01")
	want := []string{"0 0001-01-01 " + first, "1 1970-01-01 " + first, "2 " + month(-1).Format(time.DateOnly) + " " + first,
		"3 " + month(0).Format(time.DateOnly) + " " + first, "4 " + month(9).Format(time.DateOnly) + " " + last, "5 9999-12-31 " + last}
	for table, at := range map[string]string{"message": "created", "event": "at"} {
		require.Equal(t, want, read(t, url, "select concat_ws(' ', id, to_char("+at+" at time zone 'UTC', 'YYYY-MM-DD'), to_char(month, 'YYYY-MM')) from hookladder."+table+" order by id"))
	}
}

// reader is a connection in the middle of reading a table.
func reader(t testing.TB, url, table string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	_, err = c.Exec(t.Context(), "begin isolation level repeatable read")
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), "select count(*) from hookladder."+table)
	require.NoError(t, err)
	return c
}

func TestMonthsToComeAreMadeBesideReadersAndWriters(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	all := tables(t, url)
	require.Len(t, all, 8)
	require.Contains(t, all, tableOf("event", 3))
	run(t, url, "drop table hookladder."+tableOf("event", 3), "drop table hookladder."+tableOf("message", 3),
		"alter table hookladder.event detach partition hookladder."+tableOf("event", 2)) // as one that was interrupted
	for _, table := range []string{"message", "event"} {
		reader(t, url, table)
	}
	writer := reader(t, url, "event")
	_, err := writer.Exec(t.Context(), "insert into hookladder.event select $1::text::date, now(), 0, 9, 'd', 'x', 'l', 0, 0, 0, 0", month(0).Format(time.DateOnly))
	require.NoError(t, err)
	require.NoError(t, a.Maintain(t.Context(), 0))
	require.Equal(t, all, tables(t, url))
	require.Equal(t, []string{"5"}, read(t, url, "select count(*) from pg_indexes where tablename = $1 and indexname not like '%pkey'", tableOf("event", 3)))
	require.NoError(t, a.Maintain(t.Context(), 0), "again")
}

func TestOldMonthsGoAndWhatHasNotFinishedStays(t *testing.T) {
	url := pgtest.New(t)
	newTestArchive(t, url).Maintain(t.Context(), 0) //nolint:errcheck // the tables tell
	for _, n := range []int{-5, -4, -1} {
		addMonth(t, url, n)
	}
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	old := month(-5).Add(time.Hour)
	event := event(archive.Delivered, "done", 1)
	event.At = old
	l.write(t, a, []archive.Accepted{acceptedAt(old, "done"), acceptedAt(old, "waits"), acceptedAt(month(-1), "young")}, event)
	require.NoError(t, a.Maintain(t.Context(), now.Sub(month(-4))), "a month whose last day is in time stays")
	require.NotContains(t, tables(t, url), tableOf("message", -5))
	require.NotContains(t, tables(t, url), tableOf("event", -5))
	require.Contains(t, tables(t, url), tableOf("message", -4))
	require.Equal(t, []string{"waits body of waits " + month(-4).Format(time.DateOnly), "young body of young " + month(-1).Format(time.DateOnly)},
		read(t, url, "select concat_ws(' ', id, convert_from(body, 'UTF8'), month) from hookladder.message order by id"))
	require.Empty(t, read(t, url, "select id from hookladder.event"))

	again := acceptedAt(old, "waits") // it is found where it is now
	again.Again = true
	l.write(t, a, []archive.Accepted{again})
	require.NoError(t, a.Maintain(t.Context(), time.Hour))
	require.Equal(t, []string{"waits " + month(0).Format(time.DateOnly), "young " + month(0).Format(time.DateOnly)},
		read(t, url, "select concat_ws(' ', id, month) from hookladder.message order by id"), "once, in what there is")
	require.Empty(t, read(t, url, "select relname from pg_class where relname like '%"+month(-5).Format("2006_01")+"'"))
}

func TestAMonthThatIsReadGoesAnotherTimeAndNobodyWaits(t *testing.T) {
	url := pgtest.New(t)
	require.NoError(t, newTestArchive(t, url).Maintain(t.Context(), 0))
	addMonth(t, url, -5)
	notes := &notes{}
	a, l := mustOpen(t, postgres.Options{URL: url, Log: notes.log()}), newLine()
	l.hold(t, a)
	l.write(t, a, []archive.Accepted{acceptedAt(month(-5), "done"), acceptedAt(month(-5), "waits")}, event(archive.Delivered, "done", 1))
	long := reader(t, url, "event")
	done := make(chan error)
	go func() { done <- a.Maintain(t.Context(), 24*time.Hour) }()
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
			l.write(t, a, []archive.Accepted{acceptedAt(month(-5), fmt.Sprint("beside", l.at.MS))})
		}
	}
	require.Contains(t, notes.String(), "still being read")
	require.Equal(t, []string{tableOf("event", -5)}, read(t, url, "select relname from pg_inherits join pg_class on oid = inhrelid where inhdetachpending"), "new statements have left it already")
	_, err := long.Exec(t.Context(), "rollback")
	require.NoError(t, err)
	l.write(t, a, nil, event(archive.Retry, "waits", 1))
	require.NoError(t, a.Maintain(t.Context(), 24*time.Hour))
	require.Empty(t, read(t, url, "select relname from pg_class where relname like '%"+month(-5).Format("2006_01")+"'"))
	require.Empty(t, read(t, url, "select id from hookladder.open where not exists (select from hookladder.message m where m.id = open.id)"))
	require.Equal(t, read(t, url, "select count(*) from hookladder.open"), read(t, url, "select count(*) from hookladder.message"))
}

func TestAMonthThatSomebodyDroppedHoldsUpNothing(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	run(t, url, "drop table hookladder."+tableOf("message", 1), "drop table hookladder."+tableOf("event", 1))
	e := event(archive.Delivered, "a", 1)
	e.At = month(1)
	require.Equal(t, archive.Written{Messages: 1, Events: 1}, l.write(t, a, []archive.Accepted{acceptedAt(month(1), "a")}, e))
	require.NoError(t, a.Maintain(t.Context(), 0))
	require.Contains(t, tables(t, url), tableOf("event", 1))
}

func TestMonthsThatAnotherInstanceMadeAreFound(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	addMonth(t, url, 4)
	postgres.ReadMonthsAlways(t)
	e := event(archive.Delivered, "a", 1)
	e.At = month(4)
	l.write(t, a, []archive.Accepted{acceptedAt(month(4), "a")}, e)
	require.Equal(t, []string{"true"}, read(t, url, "select e.month = $1::text::date and m.month = e.month from hookladder.event e join hookladder.message m using (id)", month(4).Format(time.DateOnly)))
}

func TestWhatIsAskedForAnewWhileItsMonthGoesKeepsItsMessage(t *testing.T) {
	url := pgtest.New(t)
	require.NoError(t, newTestArchive(t, url).Maintain(t.Context(), 0))
	addMonth(t, url, -5)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, []archive.Accepted{acceptedAt(month(-5), "done"), acceptedAt(month(-5), "over")}, event(archive.Dead, "done", 9), event(archive.Dead, "over", 9))
	long := reader(t, url, "message")
	require.NoError(t, a.Maintain(t.Context(), 24*time.Hour))
	again := acceptedAt(now, "done") // its record had gone before it was read
	again.Again, again.Message, again.Head, again.Body = true, nil, nil, nil
	l.write(t, a, []archive.Accepted{again})
	_, err := long.Exec(t.Context(), "rollback")
	require.NoError(t, err)
	require.NoError(t, a.Maintain(t.Context(), 24*time.Hour))
	require.Equal(t, []string{"done body of done " + month(0).Format(time.DateOnly)}, read(t, url, "select concat_ws(' ', id, convert_from(body, 'UTF8'), month) from hookladder.message"))
}
