package postgres_test

import (
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

func TestWhatHappensIsKept(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	require.Equal(t, archive.PartitionLease{Epoch: "e0", Began: true}, l.hold(t, a))
	failed := event(archive.Retry, "b", 1)
	failed.Wait, failed.Attempt.Class, failed.Attempt.Error = time.Minute, dispatcher.ClassTimeout, "too slow"
	require.Equal(t, archive.Written{Messages: 2, Events: 2}, l.write(t, a, accepted("a", "b"), event(archive.Delivered, "a", 1), failed))

	require.Equal(t, []string{"a shop o-1 order.paid 9 head of a body of a", "b shop o-1 order.paid 9 head of b body of b"}, read(t, url, `
		select concat_ws(' ', id, tenant, subject, topic, size, convert_from(head, 'UTF8'), convert_from(body, 'UTF8')) from hookladder.message order by id`))
	require.Equal(t, []string{"a|d|u_1|1|200|1000|0|192.0.2.1:443|order.paid|shop|o-1|\\x6f6b00ff", "b|r|u_1|1|200|1000|60000|timeout|192.0.2.1:443|order.paid|shop|o-1|too slow|\\x6f6b00ff"}, read(t, url, `
		select concat_ws('|', id, kind, lane, n, status, took, wait, class, reason, addr, url, by, mark, topic, tenant, subject, convert_from(error, 'UTF8'), answer)
		from hookladder.event order by pos`))
	require.Equal(t, []string{"b u_1 e0 1 0 0 shop"}, read(t, url, "select concat_ws(' ', id, lane, epoch, attempts, base, beside, tenant, asked, head, body) from hookladder.open"))
	require.Equal(t, []string{fmt.Sprint(now.Add(time.Minute))}, read(t, url, "select due at time zone 'UTC' from hookladder.open"))

	require.Equal(t, archive.Written{Events: 1}, l.write(t, a, nil, event(archive.Delivered, "b", 2)))
	require.Empty(t, read(t, url, "select id from hookladder.open"))
	require.Equal(t, archive.PartitionLease{Epoch: "e0", Began: true, At: l.at, Last: l.last}, l.hold(t, a))
}

func TestWhatARetryAndAResendLeaveIsReadAgain(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	first := event(archive.Retry, "a", 1)
	first.Wait = time.Hour
	l.write(t, a, accepted("a"), first)
	asked := event(archive.Resent, "a", 1)
	asked.Attempt = dispatcher.Attempt{Number: 1}
	asked.Due, asked.By = now.Add(time.Hour), "ops"
	l.write(t, a, nil, asked)
	second := event(archive.Retry, "a", 2)
	second.Attempt.Resend = true
	l.write(t, a, nil, second)
	require.Equal(t, []string{"2 1 t"}, read(t, url, "select concat_ws(' ', attempts, beside, asked is null and due = $1) from hookladder.open", now.Add(time.Hour)), "it waits for its own rung")
	anew := event(archive.Resent, "a", 2)
	anew.Anew = true
	l.write(t, a, nil, anew)
	require.Equal(t, []string{"2 2 0"}, read(t, url, "select concat_ws(' ', attempts, base, beside) from hookladder.open"))
	require.Equal(t, []string{"", fmt.Sprint(now.Add(time.Hour).UnixMilli()), "resend", "anew"}, read(t, url, "select coalesce(mark, '') from hookladder.event order by pos"))
	require.Equal(t, []string{"", "ops", "", ""}, read(t, url, "select coalesce(by, '') from hookladder.event order by pos"))
}

func TestAPartIsKeptOnce(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	p := l.part(accepted("a"), event(archive.Delivered, "a", 1))
	for _, want := range []error{nil, archive.ErrMoved} {
		_, err := a.Write(t.Context(), me, []archive.Part{p})
		require.ErrorIs(t, err, want)
	}
	other := p
	other.From, other.To, other.Epoch = p.To, archive.Position{MS: 9}, "another"
	_, err := a.Write(t.Context(), me, []archive.Part{other})
	require.ErrorIs(t, err, archive.ErrMoved, "of another epoch")
	_, err = a.Write(t.Context(), "other", []archive.Part{l.part(nil, event(archive.Late, "a", 2))})
	require.ErrorIs(t, err, archive.ErrMoved, "not held")
	require.NotErrorIs(t, err, archive.ErrUnavailable)
	require.Equal(t, []string{"1"}, read(t, url, "select count(*) from hookladder.event"))
}

func TestPartsOfSeveralPartitionsAreKeptTogetherOrNotAtAll(t *testing.T) {
	url := pgtest.New(t)
	a := newTestArchive(t, url)
	first, second := newLine(), &line{partition: 1, epoch: "e1"}
	leases, err := a.Lease(t.Context(), me, []archive.Want{{Partition: 0, Epoch: "e0"}, {Partition: 1, Epoch: "e1"}, {Partition: 2, Epoch: "e2", At: archive.Position{MS: 7, Seq: 3}}})
	require.NoError(t, err)
	require.Len(t, leases, 3)
	one, two := first.part(accepted("a")), second.part(accepted("b"))
	moved := two
	moved.From = archive.Position{MS: 5}
	_, err = a.Write(t.Context(), me, []archive.Part{one, moved})
	require.ErrorIs(t, err, archive.ErrMoved)
	require.Empty(t, read(t, url, "select id from hookladder.message"))
	more := first.part(nil, event(archive.Delivered, "a", 1)) // goes on where the first one ends
	w, err := a.Write(t.Context(), me, []archive.Part{one, two, more})
	require.NoError(t, err)
	require.Equal(t, archive.Written{Messages: 2, Events: 1}, w)
	require.Equal(t, []string{"b 1"}, read(t, url, "select concat_ws(' ', id, partition) from hookladder.open"))
	require.Equal(t, []string{"0 2 0", "1 1 0", "2 7 3"}, read(t, url, "select concat_ws(' ', partition, ms, seq) from hookladder.position order by partition"))
}

func TestAMessageOfSeveralPartitionsHasOneRow(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	url := s.URL()
	a := newTestArchive(t, url)
	first, second := newLine(), &line{partition: 1, epoch: "e1"}
	_, err := a.Lease(t.Context(), me, []archive.Want{{Partition: 0, Epoch: "e0"}, {Partition: 1, Epoch: "e1"}})
	require.NoError(t, err)
	fan := func(lane dispatcher.Lane, id string) []archive.Accepted {
		m := acceptedAt(now, id)
		m.Lanes, m.Message.URL = []dispatcher.Lane{lane}, ""
		return []archive.Accepted{m}
	}
	w, err := a.Write(t.Context(), me, []archive.Part{first.part(fan("ep_1", "a")), second.part(fan("ep_2", "a"))})
	require.NoError(t, err)
	require.Equal(t, 1, w.Messages, "in one transaction")
	_, err = a.Write(t.Context(), me, []archive.Part{first.part(fan("ep_1", "b"))})
	require.NoError(t, err)
	w, err = a.Write(t.Context(), me, []archive.Part{second.part(fan("ep_2", "b"))})
	require.NoError(t, err)
	require.Equal(t, 0, w.Messages, "in two")
	again := acceptedAt(now, "b")
	again.Again, again.Lanes = true, []dispatcher.Lane{"ep_3"}
	require.Equal(t, 0, first.write(t, a, []archive.Accepted{again}).Messages, "it has one more delivery")
	require.Equal(t, []string{"a", "b"}, read(t, url, "select id from hookladder.message order by id"))
	require.Len(t, read(t, url, "select id from hookladder.open"), 5)
	require.NotContains(t, s.Log(), "duplicate key", "it is no repeat, which costs more")
}

func TestARowThatIsThereAlreadyIsNoFault(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("a", "b"))
	w := l.write(t, a, accepted("a", "c", "b", "d"), event(archive.Delivered, "a", 1)) // as after a restore
	require.Equal(t, archive.Written{Messages: 2, Events: 1}, w)
	require.Equal(t, []string{"a", "b", "c", "d"}, read(t, url, "select id from hookladder.message order by id"))
	require.Equal(t, []string{"b", "c", "d"}, read(t, url, "select id from hookladder.open order by id"))
	require.Equal(t, []string{"a"}, read(t, url, "select id from hookladder.event"))
}

func TestARowThatIsNotTakenKeepsBackNoOther(t *testing.T) {
	url := pgtest.New(t)
	notes := &notes{}
	a, l := mustOpen(t, postgres.Options{URL: url, Log: notes.log()}), newLine()
	l.hold(t, a)
	for _, table := range []string{"message", "event", "open"} {
		run(t, url, "alter table hookladder."+table+" add check (id not like 'poison%')")
	}
	var ids []string
	var events []archive.Event
	for n := range 300 {
		ids = append(ids, fmt.Sprint("a", n))
		if n == 17 || n == 211 {
			ids[n] = fmt.Sprint("poison", n)
		}
		if n%2 == 1 {
			events = append(events, event(archive.Delivered, ids[n], 1))
		}
	}
	w := l.write(t, a, append(accepted(ids...), accepted("poison-open")...), events...)
	require.Equal(t, archive.Written{Messages: 298, Events: 148, Passed: 6}, w, "two messages, two events, and of what is open one message and one row")
	require.Equal(t, []string{"298 148 150"}, read(t, url, `select concat_ws(' ', (select count(*) from hookladder.message),
		(select count(*) from hookladder.event), (select count(*) from hookladder.open))`))
	require.Contains(t, notes.String(), "id=poison17 ")
	require.Contains(t, notes.String(), "id=u_1:poison211 ")
	require.NotContains(t, notes.String(), "body of")
	l.write(t, a, nil, event(archive.Delivered, "a0", 1)) // it goes on
}

func TestTextsThatNoColumnTakesAreChangedAndBytesAreNot(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	m := acceptedAt(now, "a")
	m.Message.Subject, m.Body, m.Head = "nul\x00 and \xff", []byte("\x00\xff\xfe"), []byte("\x00")
	m.ID, m.Message.URL = "\x00a", "" // it is looked for first
	e := event(archive.Delivered, m.ID, 1)
	e.Attempt.URL, e.Attempt.Error, e.By = "https://example.com/\x00", "\x00\xff", "\xc3("
	left := acceptedAt(now, "b")
	left.Message.Subject = "\x00"
	w := l.write(t, a, []archive.Accepted{m, left}, e)
	require.Equal(t, archive.Written{Messages: 2, Events: 1, Changed: 3}, w)
	require.Equal(t, []string{`nul? and ? \x00fffe \x00`}, read(t, url, "select concat_ws(' ', subject, body, head) from hookladder.message where id = '?a'"))
	require.Equal(t, []string{`https://example.com/? ?( \x00ff nul? and ?`}, read(t, url, "select concat_ws(' ', url, by, error, subject) from hookladder.event"))
	require.Equal(t, []string{"?"}, read(t, url, "select subject from hookladder.open"))
}

func TestALargeBodyIsKept(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	m := acceptedAt(now, "large")
	m.Body = []byte(strings.Repeat("\x00\xff\x80a", 1<<20))
	l.write(t, a, []archive.Accepted{m})
	require.Equal(t, []string{"4194304 true"}, read(t, url, "select size || ' ' || (body = $1) from hookladder.message", m.Body))
}

func TestNumbersThatNoColumnHoldsAreCut(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	e := event(archive.Retry, "a", 1<<40)
	e.Attempt.Status, e.Attempt.Duration, e.Wait = 70_000, 1<<62, 1<<62
	l.write(t, a, accepted("a"), e)
	require.Equal(t, []string{"2147483647 32767 2147483647 4611686018427"}, read(t, url, "select concat_ws(' ', n, status, took, wait) from hookladder.event"))
}

func TestBodiesOfDeadOnesAloneAreKept(t *testing.T) {
	for bodies, want := range map[string][]string{
		"all":    {"at once true", "delivered true", "later true", "open true"},
		"failed": {"at once true", "delivered false", "later true", "open false"},
		"none":   {"at once false", "delivered false", "later false", "open false"},
	} {
		t.Run(bodies, func(t *testing.T) {
			url := pgtest.New(t)
			a, l := mustOpen(t, postgres.Options{URL: url, Bodies: bodies}), newLine()
			l.hold(t, a)
			l.write(t, a, accepted("at once", "later", "delivered", "open"), event(archive.Dead, "at once", 1))
			l.write(t, a, nil, event(archive.Retry, "later", 1))
			require.Equal(t, fmt.Sprint(bodies != "all"), read(t, url, "select bool_and(body is not null) from hookladder.open")[0], "a restore needs it")
			l.write(t, a, nil, event(archive.Dead, "later", 2), event(archive.Delivered, "delivered", 1))
			require.Equal(t, want, read(t, url, "select id || ' ' || (body is not null) from hookladder.message order by id"))
		})
	}
}

// An error ended the script that settled an attempt, after the script had logged it and the archive had read that.
func TestAnAttemptThatIsSettledAgainIsKeptOnce(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("a", "b", "c"), event(archive.Delivered, "a", 1), event(archive.Delivered, "b", 1), event(archive.Dead, "c", 1))
	late, another, otherwise := event(archive.Late, "a", 1), event(archive.Delivered, "b", 1), event(archive.Delivered, "c", 1)
	another.Attempt.At, otherwise.Attempt.At = now, now
	l.write(t, a, nil, event(archive.Delivered, "a", 1), late, another, otherwise)
	require.Equal(t, []string{"a d", "b d", "b l", "c d", "c x"}, read(t, url, "select concat(id, ' ', kind) from hookladder.event order by id, kind"))

	resent := event(archive.Resent, "a", 1)
	resent.Attempt, resent.Anew = dispatcher.Attempt{Number: 1}, true
	again := accepted("a")
	again[0].Again, again[0].Message = true, nil
	l.write(t, a, again, resent)
	l.write(t, a, nil, event(archive.Delivered, "a", 2))
	require.Equal(t, []string{"d", "s", "d"}, read(t, url, "select concat(kind) from hookladder.event where id = 'a' order by pos"), "it was resent")
}
