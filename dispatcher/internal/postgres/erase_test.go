package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

// forget takes out a selection, as the command does, and answers which ids were chosen.
func forget(t testing.TB, url string, s archive.Selection) (chosen []string, all archive.Erased) {
	t.Helper()
	e, err := postgres.OpenEraser(t.Context(), postgres.Options{URL: url})
	require.NoError(t, err)
	defer e.Close()
	for cursor := ""; ; {
		page, next, err := e.Choose(t.Context(), s, cursor)
		require.NoError(t, err)
		for _, c := range page {
			chosen = append(chosen, c.ID)
		}
		some, err := e.Erase(t.Context(), s, page)
		require.NoError(t, err)
		all.Messages, all.Events, all.Open = all.Messages+some.Messages, all.Events+some.Events, all.Open+some.Open
		if cursor = next; cursor == "" {
			break
		}
	}
	all, err = e.Finish(t.Context(), s, "hmac of "+s.Tenant[:min(1, len(s.Tenant))], all)
	require.NoError(t, err)
	return chosen, all
}

// left are the ids in all tables.
func left(t testing.TB, url string) (all []string) {
	for _, table := range []string{"message", "event", "open"} {
		all = append(all, fmt.Sprint(table, read(t, url, "select distinct id from hookladder."+table+" order by id")))
	}
	return all
}

func TestATenantIsForgottenAndNobodyElse(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	for tenant, prefix := range map[string]string{"shop": "s", "other": "o"} {
		var all []archive.Accepted
		var events []archive.Event
		for n := range 1100 {
			m := acceptedAt(now.Add(time.Duration(n)*time.Microsecond), fmt.Sprint(prefix, n))
			m.Message.Tenant, m.Message.Subject = tenant, fmt.Sprint("subject-", n%2)
			all = append(all, m)
			if n >= 10 {
				events = append(events, event(archive.Retry, m.ID, 1), event(archive.Delivered, m.ID, 2))
			}
		}
		l.write(t, a, all, events...)
	}
	_, all := forget(t, url, archive.Selection{Tenant: "shop", Subject: "subject-1", Before: now.Add(21 * time.Microsecond)})
	require.Equal(t, archive.Erased{Messages: 10, Events: 10, Open: 5}, all)
	_, all = forget(t, url, archive.Selection{Subject: "subject-1", Since: now.Add(21 * time.Microsecond), Before: now.Add(23 * time.Microsecond)})
	require.Equal(t, archive.Erased{Messages: 2, Events: 4}, all, "of both tenants")
	chosen, all := forget(t, url, archive.Selection{Tenant: "shop"})
	require.Len(t, chosen, 1089)
	require.Equal(t, archive.Erased{Messages: 1089, Events: 2 * 1084, Open: 5}, all)
	require.Equal(t, []string{"1099"}, read(t, url, "select count(*) from hookladder.message where id like 'o%'"))
	require.Empty(t, read(t, url, "select id from hookladder.message where id like 's%' union select id from hookladder.event where id like 's%' union select id from hookladder.open where id like 's%'"))
	require.Equal(t, []string{"system forget hmac of s 10", "system forget hmac of  2", "system forget hmac of s 1089"}, read(t, url, `
		select concat_ws(' ', by, what, detail->>'arguments_hmac', detail->'erased'->'messages')
		from hookladder.audit order by at`))
	require.Empty(t, read(t, url, "select detail from hookladder.audit where detail::text like '%shop%' or detail::text like '%subject-%'"))
}

func TestAnIdThatWasUsedTwiceIsForgottenOnce(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	first, second := acceptedAt(now, "a"), acceptedAt(now.Add(time.Hour), "a")
	second.Message.Tenant = "other"
	end := event(archive.Delivered, "a", 1)
	later := end
	end.At, later.At = now.Add(time.Minute), now.Add(2*time.Hour)
	l.write(t, a, []archive.Accepted{first}, end)
	l.write(t, a, []archive.Accepted{second}, later)
	_, all := forget(t, url, archive.Selection{Tenant: "shop"})
	require.Equal(t, archive.Erased{Messages: 1, Events: 1}, all)
	require.Equal(t, []string{"other"}, read(t, url, "select tenant from hookladder.message"))
	require.Equal(t, []string{"other"}, read(t, url, "select tenant from hookladder.event"))
	_, all = forget(t, url, archive.Selection{Tenant: "other"})
	require.Equal(t, archive.Erased{Messages: 1, Events: 1}, all)
	require.Equal(t, []string{"message[]", "event[]", "open[]"}, left(t, url))
}

func TestOldMonthsAreForgottenWhole(t *testing.T) {
	url := pgtest.New(t)
	require.NoError(t, newTestArchive(t, url).Maintain(t.Context(), 0))
	for _, n := range []int{-3, -2, -1} {
		addMonth(t, url, n)
	}
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	var all []archive.Accepted
	for _, n := range []int{-3, -2, -1, 0} {
		for _, end := range []string{"done", "waits", "late"} {
			all = append(all, acceptedAt(month(n), fmt.Sprint(end, -n)))
		}
	}
	var many []archive.Accepted // more than is read at once
	for n := range 2000 {
		m := acceptedAt(month(0), fmt.Sprint("many", n))
		m.Body, m.Lanes = make([]byte, 1024), nil
		many = append(many, m)
	}
	l.write(t, a, many)
	var events []archive.Event
	for n := range 4 {
		done, late := event(archive.Delivered, fmt.Sprint("done", n), 1), event(archive.Delivered, fmt.Sprint("late", n), 1)
		done.At, late.At = month(-n), now
		events = append(events, done, late)
	}
	l.write(t, a, all, events...)
	chosen, gone := forget(t, url, archive.Selection{Before: month(-2).Add(time.Hour)})
	require.ElementsMatch(t, []string{"done3", "waits3", "late3", "done2", "waits2", "late2"}, chosen, "the store is told of all")
	require.Equal(t, archive.Erased{Messages: 6, Events: 3, Open: 2, Months: 2}, gone, "two tables of the month before, and by name what is of a part of a month, or came later")
	require.NotContains(t, tables(t, url), tableOf("message", -3))
	require.Contains(t, tables(t, url), tableOf("message", -2))
	require.Equal(t, []string{"event[done0 done1 late0 late1]", "open[waits0 waits1]"}, left(t, url)[1:])
	require.Equal(t, []string{"done0", "done1", "late0", "late1", "waits0", "waits1"}, read(t, url, "select id from hookladder.message where id not like 'many%' order by id"))

	chosen, gone = forget(t, url, archive.Selection{Since: month(-1), Before: month(0)})
	require.ElementsMatch(t, []string{"done1", "waits1", "late1"}, chosen)
	require.Equal(t, archive.Erased{Messages: 3, Events: 2, Open: 1}, gone)
	chosen, gone = forget(t, url, archive.Selection{Since: month(0), Before: month(0).Add(time.Second)})
	require.Len(t, chosen, 2003)
	require.Equal(t, archive.Erased{Messages: 2003, Events: 2, Open: 1}, gone)
	require.Equal(t, []string{"message[]", "event[]", "open[]"}, left(t, url))
	l.write(t, a, accepted("goes on"), event(archive.Delivered, "goes on", 1))
}

// died is a message of which no delivery was ever open, with its end.
func died(id string) ([]archive.Accepted, archive.Event) {
	all := accepted(id)
	all[0].Lanes = nil
	end := event(archive.Dead, id, 0)
	end.Reason, end.Attempt = dispatcher.ReasonOverflow, dispatcher.Attempt{}
	return all, end
}

func TestWhatDiedAsItWasAcceptedIsFoundByItsTenantAndForgotten(t *testing.T) {
	const unnamed = "update hookladder.event set topic = null, tenant = null, subject = null where id = 'unnamed'"
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	together, end := died("together")
	l.write(t, a, together, end)
	apart, end := died("apart")
	l.write(t, a, apart)
	l.write(t, a, nil, end)
	before, end := died("before")
	l.write(t, a, before, end)
	run(t, url, strings.ReplaceAll(unnamed, "unnamed", "before"))
	run(t, url, postgres.Migration(t, "002.sql"))
	require.Equal(t, []string{"together order.paid shop o-1", "apart order.paid shop o-1", "before order.paid shop o-1"},
		read(t, url, "select concat_ws(' ', id, topic, tenant, subject) from hookladder.event order by pos"))

	lost, end := died("unnamed")
	l.write(t, a, lost, end)
	run(t, url, unnamed)
	other, end := died("other")
	other[0].Message.Tenant = "another"
	l.write(t, a, other, end)
	chosen, all := forget(t, url, archive.Selection{Tenant: "shop", Subject: "o-1", Since: now, Before: now.Add(time.Second)})
	require.ElementsMatch(t, []string{"together", "apart", "before", "unnamed"}, chosen)
	require.Equal(t, archive.Erased{Messages: 4, Events: 4}, all)
	require.Equal(t, []string{"message[other]", "event[other]", "open[]"}, left(t, url))
	_, all = forget(t, url, archive.Selection{Tenant: "shop"})
	require.Equal(t, archive.Erased{}, all)
}

func TestAnArchiveThatDoesNotAnswerForgetsNothing(t *testing.T) {
	url := pgtest.New(t)
	_, err := postgres.OpenEraser(t.Context(), postgres.Options{URL: url})
	require.ErrorIs(t, err, archive.ErrVersion, "it has no tables yet")
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	m := acceptedAt(now, "m")
	m.Message.Tenant = "shop"
	l.write(t, a, []archive.Accepted{m})
	all := left(t, url)
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = postgres.OpenEraser(cut, postgres.Options{URL: url})
	require.Error(t, err)
	_, err = postgres.OpenEraser(t.Context(), postgres.Options{URL: "no URL"})
	require.Error(t, err)

	tenant, time := archive.Selection{Tenant: "shop"}, archive.Selection{Before: now.AddDate(1, 0, 0)}
	page := []archive.Chosen{{ID: "m", Created: m.Message.CreatedAt}}
	choose := func(s archive.Selection, cursor string) func(*postgres.Eraser) error {
		return func(e *postgres.Eraser) error { _, _, err := e.Choose(cut, s, cursor); return err }
	}
	for name, step := range map[string]func(*postgres.Eraser) error{
		"choose the ended":      choose(tenant, ""),
		"choose the messages":   choose(tenant, `{"a":true}`),
		"choose the unfinished": choose(tenant, `{"o":true}`),
		"choose by time":        choose(time, ""),
		"a cursor that is none": choose(tenant, "no JSON"),
		"erase":                 func(e *postgres.Eraser) error { _, err := e.Erase(cut, tenant, page); return err },
		"erase by time":         func(e *postgres.Eraser) error { _, err := e.Erase(cut, time, page); return err },
		"finish":                func(e *postgres.Eraser) error { _, err := e.Finish(cut, tenant, "", archive.Erased{}); return err },
		"finish by time":        func(e *postgres.Eraser) error { _, err := e.Finish(cut, time, "", archive.Erased{}); return err },
	} {
		e, err := postgres.OpenEraser(t.Context(), postgres.Options{URL: url})
		require.NoError(t, err)
		require.Error(t, step(e), name)
		e.Close()
		require.Equal(t, all, left(t, url), name)
		require.Empty(t, read(t, url, "select what from hookladder.audit"), name)
	}
	_, erased := forget(t, url, tenant)
	require.Equal(t, archive.Erased{Messages: 1, Open: 1}, erased)
}
