package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/outbox"
)

// long is later than any row of a test is tried again.
const long = time.Hour

func newTestOutbox(t *testing.T, url string) *postgres.Outbox {
	t.Helper()
	o, err := postgres.NewOutbox(url, 1<<20)
	require.NoError(t, err)
	t.Cleanup(o.Close)
	return o
}

func mustConnect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), query, args...)
	require.NoError(t, err)
}

func mustCount(t *testing.T, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&n))
	return n
}

// newTestRig is a database with an outbox, a caller's connection and a relay's.
func newTestRig(t *testing.T) (url string, caller *pgx.Conn, o *postgres.Outbox) {
	t.Helper()
	url = pgtest.New(t)
	caller = mustConnect(t, url)
	mustExec(t, caller, outbox.Schema())
	return url, caller, newTestOutbox(t, url)
}

func publish(t *testing.T, conn *pgx.Conn, id, message string) {
	t.Helper()
	mustExec(t, conn, `select hookladder_publish($1, '1', $2)`, message, id)
}

// mustRelay relays one batch, of which each row ends as said, and answers it.
func mustRelay(t *testing.T, o *postgres.Outbox, most int, fate func(dispatcher.OutboxRow) dispatcher.RowFate) (b dispatcher.OutboxBatch) {
	t.Helper()
	require.NoError(t, o.Relay(t.Context(), most, func(_ context.Context, got dispatcher.OutboxBatch) (done dispatcher.OutboxDone, err error) {
		b = got
		for _, r := range got.Rows {
			f := fate(r)
			if f.Seq = r.Seq; f.Result != 0 {
				done.Fates = append(done.Fates, f)
			}
		}
		return done, nil
	}))
	return b
}

func ends(r dispatcher.RowResult) func(dispatcher.OutboxRow) dispatcher.RowFate {
	return func(dispatcher.OutboxRow) dispatcher.RowFate {
		return dispatcher.RowFate{Result: r, Problem: []byte(`{}`), Wait: long}
	}
}

func ids(rows []dispatcher.OutboxRow) (all []string) {
	for _, r := range rows {
		all = append(all, r.ID)
	}
	return all
}

func TestEachRowEndsInItsOwnWay(t *testing.T) {
	_, caller, o := newTestRig(t)
	for n, id := range []string{"new", "again", "bad", "later", "left"} {
		publish(t, caller, id, fmt.Sprintf(`{"topic":"t%d","ordering_key":"k"}`, n))
	}
	b := mustRelay(t, o, 500, func(r dispatcher.OutboxRow) dispatcher.RowFate {
		return map[string]dispatcher.RowFate{
			"new": {Result: dispatcher.RowAccepted}, "again": {Result: dispatcher.RowDuplicate},
			"bad":   {Result: dispatcher.RowRejected, Problem: []byte(`{"type":"/problems/invalid","detail":"a\u0000b"}`)},
			"later": {Result: dispatcher.RowWaits, Wait: long},
		}[r.ID]
	})
	require.Equal(t, []string{"new", "again", "bad", "later", "left"}, ids(b.Rows))
	require.JSONEq(t, `{"topic":"t0","ordering_key":"k"}`, string(b.Rows[0].Message))
	require.Equal(t, "1", string(b.Rows[0].Body))
	require.Less(t, b.Rows[0].Age, time.Minute)
	require.Equal(t, "k", b.Rows[0].Key)
	require.True(t, b.Asleep)
	require.Empty(t, b.Waiting)

	b = mustRelay(t, o, 500, ends(0))
	require.Equal(t, []string{"left"}, ids(b.Rows))
	require.Equal(t, []string{"later"}, ids(b.Waiting), "of the same key")
	require.InDelta(t, long.Seconds(), b.Waiting[0].Wait.Seconds(), 60)
	require.Equal(t, "k", b.Waiting[0].Key)
	require.Equal(t, "null", string(b.Waiting[0].Body), "a publish needs one")
	var id, problem, body string
	require.NoError(t, caller.QueryRow(t.Context(), `select id, problem, convert_from(body, 'UTF8') from hookladder_rejected`).Scan(&id, &problem, &body))
	require.Equal(t, []string{"bad", "1"}, []string{id, body})
	require.JSONEq(t, `{"type":"/problems/invalid","detail":"a\ufffdb"}`, problem)

	mustExec(t, caller, `with r as (delete from hookladder_rejected returning *)
insert into hookladder_outbox (id, message, body) select id, message, body from r`) // as the schema tells
	require.Equal(t, []string{"left", "bad"}, ids(mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows))
	require.Equal(t, 1, mustCount(t, caller, `select count(*) from hookladder_outbox`))
}

func TestABatchIsBoundedInRowsAndBytes(t *testing.T) {
	_, caller, o := newTestRig(t)
	for n := range 8 {
		mustExec(t, caller, `select hookladder_publish('{"topic":"t"}', convert_to(repeat('x', $1), 'UTF8'), $2)`, 1000<<10, fmt.Sprint("m", n))
	}
	mustExec(t, caller, `select hookladder_publish('{"topic":"t"}', convert_to(repeat('x', $1), 'UTF8'), 'huge')`, 5<<20)
	mustExec(t, caller, `select hookladder_publish(jsonb_build_object('topic', 't', 'raw_body', repeat('x', $1)), null, 'wide')`, 2<<20)
	publish(t, caller, "last", `{"topic":"t"}`)
	require.Len(t, mustRelay(t, o, 3, ends(dispatcher.RowAccepted)).Rows, 3)
	require.Len(t, mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows, 4, "4 MiB at most")
	require.Equal(t, []string{"m7"}, ids(mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows))
	b := mustRelay(t, o, 500, ends(dispatcher.RowAccepted))
	require.Equal(t, []string{"huge"}, ids(b.Rows), "or one")
	require.Nil(t, b.Rows[0].Message, "too large to be read")
	require.Nil(t, b.Rows[0].Body)
	b = mustRelay(t, o, 500, ends(dispatcher.RowAccepted))
	require.Equal(t, []string{"wide", "last"}, ids(b.Rows))
	require.Nil(t, b.Rows[0].Message)
	require.NotNil(t, b.Rows[1].Message)
}

func TestAnErrorChangesNothing(t *testing.T) {
	_, caller, o := newTestRig(t)
	publish(t, caller, "a", `{"topic":"t"}`)
	ours := errors.New("the store is away")
	require.ErrorIs(t, o.Relay(t.Context(), 500, func(context.Context, dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		return dispatcher.OutboxDone{}, ours
	}), ours)
	bad := func(r dispatcher.OutboxRow) dispatcher.RowFate {
		return dispatcher.RowFate{Seq: r.Seq, Result: dispatcher.RowRejected, Problem: []byte(`no JSON`)}
	}
	require.ErrorIs(t, o.Relay(t.Context(), 500, func(_ context.Context, b dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		return dispatcher.OutboxDone{Fates: []dispatcher.RowFate{bad(b.Rows[0])}}, nil
	}), dispatcher.ErrOutboxData)
	require.Equal(t, []string{"a"}, ids(mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows))
}

func TestOneRelayWorksAtATime(t *testing.T) {
	url, caller, o := newTestRig(t)
	other := newTestOutbox(t, url)
	publish(t, caller, "a", `{"topic":"t"}`)
	none := func(context.Context, dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		return dispatcher.OutboxDone{}, nil
	}
	require.NoError(t, o.Relay(t.Context(), 500, func(ctx context.Context, _ dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		require.ErrorIs(t, other.Relay(ctx, 500, none), dispatcher.ErrOutboxBusy)
		require.NoError(t, other.Sleep(ctx), "it waits for no lock")
		_, err := other.State(ctx)
		require.NoError(t, err)
		return dispatcher.OutboxDone{}, nil
	}))
	require.NoError(t, other.Relay(t.Context(), 500, none))

	mustExec(t, caller, `delete from hookladder_relay`)
	require.ErrorIs(t, o.Relay(t.Context(), 500, none), dispatcher.ErrOutboxMissing, "not busy for ever")
}

// A transaction that was begun first may commit last. What it published comes then.
func TestATransactionLeftOpenHoldsUpNoOther(t *testing.T) {
	url, caller, o := newTestRig(t)
	slow := mustConnect(t, url)
	tx, err := slow.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select hookladder_publish('{"topic":"t"}', '1', 'slow')`)
	require.NoError(t, err)
	publish(t, caller, "fast", `{"topic":"t"}`)
	require.Equal(t, []string{"fast"}, ids(mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows))
	state, err := o.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, dispatcher.OutboxState{Asleep: true}, state)
	require.NoError(t, tx.Commit(t.Context()))
	b := mustRelay(t, o, 500, ends(dispatcher.RowAccepted))
	require.Equal(t, []string{"slow"}, ids(b.Rows))
	require.Equal(t, int64(1), b.Rows[0].Seq)
}

func TestCallersWakeTheRelayOnlyWhileItSleeps(t *testing.T) {
	_, caller, o := newTestRig(t)
	require.NoError(t, o.Relay(t.Context(), 500, func(context.Context, dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		return dispatcher.OutboxDone{Awake: true}, nil
	}))
	state, err := o.State(t.Context())
	require.NoError(t, err)
	require.False(t, state.Asleep)
	require.NoError(t, o.Wait(t.Context(), long), "it begins to listen, so it has to be looked again")
	const listening = `select pid from pg_stat_activity where query = 'listen hookladder_outbox'`
	ear := mustCount(t, caller, listening)
	publish(t, caller, "a", `{"topic":"t"}`)
	require.NoError(t, o.Wait(t.Context(), time.Millisecond), "nobody notified")
	require.NoError(t, o.Sleep(t.Context()))
	require.NoError(t, o.Sleep(t.Context()))
	state, err = o.State(t.Context())
	require.NoError(t, err)
	require.True(t, state.Asleep)
	require.True(t, state.Due, "a second query finds the deliveries that came before it slept")
	publish(t, caller, "b", `{"topic":"t"}`)
	require.NoError(t, o.Wait(t.Context(), long))
	require.Equal(t, ear, mustCount(t, caller, listening), "a wait that ends keeps its connection")
}

func TestTheAgeOfTheOldestRowIsKnown(t *testing.T) {
	_, caller, o := newTestRig(t)
	publish(t, caller, "a", `{"topic":"t"}`)
	mustExec(t, caller, `update hookladder_outbox set at = at - interval '1 day', retry_at = now() + interval '1 hour'`)
	publish(t, caller, "b", `{"topic":"t"}`)
	state, err := o.State(t.Context())
	require.NoError(t, err)
	require.True(t, state.Due)
	require.InDelta(t, (24 * time.Hour).Seconds(), state.Oldest.Seconds(), 60, "also of one that waits")
	require.Equal(t, []string{"b"}, ids(mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows))
	state, err = o.State(t.Context())
	require.NoError(t, err)
	require.False(t, state.Due)
	mustExec(t, caller, `update hookladder_outbox set retry_at = now() - interval '1 second'`)
	b := mustRelay(t, o, 500, ends(dispatcher.RowAccepted))
	require.Equal(t, []string{"a"}, ids(b.Rows))
	require.InDelta(t, (24 * time.Hour).Seconds(), b.Rows[0].Age.Seconds(), 60)
}

func TestADatabaseWithoutTheTablesSaysHowToMakeThem(t *testing.T) {
	url := pgtest.New(t)
	o := newTestOutbox(t, url)
	_, err := o.State(t.Context())
	require.ErrorIs(t, err, dispatcher.ErrOutboxMissing)
	require.ErrorContains(t, err, `hookladder outbox schema | psql "$OUTBOX_URL"`)
	require.ErrorIs(t, o.Relay(t.Context(), 500, nil), dispatcher.ErrOutboxMissing)
	mustExec(t, mustConnect(t, url), outbox.Schema())
	require.Empty(t, mustRelay(t, o, 500, ends(0)).Rows)
}

func TestABadURLIsRefusedWithoutItsPassword(t *testing.T) {
	for _, url := range []string{"postgres://u:Geheim@%zz/d", "postgres://u:Geheim@h:x/d", "postgres://u:Geheim@h/d?sslmode=Geheim"} {
		_, err := postgres.NewOutbox(url, 1)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "Geheim")
	}
}

func TestALostDatabaseComesBack(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	server.Exec(outbox.Schema())
	url := strings.Replace(server.URL(), "postgres@", "postgres:Geheim@", 1)
	require.Contains(t, url, "Geheim")
	o := newTestOutbox(t, url)
	require.NoError(t, o.Wait(t.Context(), long))
	server.Exec(`select hookladder_publish('{"topic":"t"}', '1', 'a')`)
	err := o.Relay(t.Context(), 500, func(_ context.Context, b dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		server.Kill() // after the message was accepted
		return dispatcher.OutboxDone{Fates: []dispatcher.RowFate{{Seq: b.Rows[0].Seq, Result: dispatcher.RowAccepted}}}, nil
	})
	require.Error(t, err)
	_, err = o.State(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "Geheim")
	if err = o.Wait(t.Context(), long); err == nil { // the notification came before the server died
		err = o.Wait(t.Context(), long)
	}
	require.Error(t, err)
	server.Restart()
	require.Equal(t, []string{"a"}, ids(mustRelay(t, o, 500, ends(dispatcher.RowDuplicate)).Rows))
	require.NoError(t, o.Wait(t.Context(), long))
	_, _, err = o.OldestTransaction(t.Context())
	require.NoError(t, err)
}

func TestAnOldTransactionIsSeen(t *testing.T) {
	url, caller, o := newTestRig(t)
	open := mustConnect(t, url)
	tx, err := open.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	var pid int64
	require.NoError(t, tx.QueryRow(t.Context(), `select pg_backend_pid()`).Scan(&pid))
	for n := range 5 {
		publish(t, caller, fmt.Sprint(n), `{"topic":"t"}`)
	}
	age, of, err := o.OldestTransaction(t.Context())
	require.NoError(t, err)
	require.Equal(t, pid, of)
	require.GreaterOrEqual(t, age, int64(5))
	require.NoError(t, tx.Rollback(t.Context()))
}

// older makes of the tables what an older schema printed: any role with INSERT sets every
// column.
const older = `alter table hookladder_outbox drop constraint hookladder_outbox_times`

func TestARowWithAnInfiniteTimeHurtsNoOther(t *testing.T) {
	for _, column := range []string{"at", "retry_at"} {
		for _, value := range []string{"infinity", "-infinity", "294276-01-01", "4712-01-01 BC"} {
			t.Run(column+" "+value, func(t *testing.T) {
				_, caller, o := newTestRig(t)
				mustExec(t, caller, older)
				mustExec(t, caller, `insert into hookladder_outbox (id, message, body, `+column+`) values ('odd', '{"topic":"a.b","ordering_key":"k"}', '1', $1)`, value)
				publish(t, caller, "good", `{"topic":"a.b","ordering_key":"k"}`)
				state, err := o.State(t.Context())
				require.NoError(t, err)
				require.True(t, state.Due)
				require.GreaterOrEqual(t, state.Oldest, time.Duration(0))
				b := mustRelay(t, o, 10, ends(dispatcher.RowAccepted))
				require.Contains(t, ids(b.Rows), "good")
				for _, r := range b.Rows {
					require.Less(t, r.Age, 201*365*24*long)
				}
			})
		}
	}
}

func TestTheSchemaTakesNoInfiniteTimeAndMendsOlderTables(t *testing.T) {
	_, caller, o := newTestRig(t)
	mustExec(t, caller, older)
	mustExec(t, caller, `insert into hookladder_outbox (id, message, body, at, retry_at) values ('odd', '{"topic":"a.b"}', '1', 'infinity', 'infinity')`)
	mustExec(t, caller, outbox.Schema())
	require.Equal(t, []string{"odd"}, ids(mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows))
	_, err := caller.Exec(t.Context(), `insert into hookladder_outbox (id, message, body, at) values ('x', '{"topic":"a.b"}', '1', 'infinity')`)
	require.ErrorContains(t, err, "hookladder_outbox_times")
	_, err = caller.Exec(t.Context(), `insert into hookladder_outbox (id, message, body, retry_at) values ('x', '{"topic":"a.b"}', '1', '-infinity')`)
	require.ErrorContains(t, err, "hookladder_outbox_times")
}

// The grants are those of the schema's comment.
func TestARolePublishesWithThreeColumns(t *testing.T) {
	url, caller, o := newTestRig(t)
	mustExec(t, caller, `create role shop`)
	mustExec(t, caller, `grant insert (id, message, body) on hookladder_outbox to shop`)
	mustExec(t, caller, `grant select on hookladder_relay to shop`)
	shop := mustConnect(t, url)
	mustExec(t, shop, `set role shop`)
	publish(t, shop, "good", `{"topic":"a.b"}`)
	for _, column := range []string{"at", "retry_at"} {
		_, err := shop.Exec(t.Context(), `insert into hookladder_outbox (id, message, body, `+column+`) values ('x', '{"topic":"a.b"}', '1', now())`)
		require.ErrorContains(t, err, "permission denied")
	}
	_, err := shop.Exec(t.Context(), `insert into hookladder_outbox (seq, id, message, body) overriding system value values (-1, 'x', '{"topic":"a.b"}', '1')`)
	require.ErrorContains(t, err, "permission denied")
	require.Equal(t, []string{"good"}, ids(mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows))
	mustExec(t, caller, `drop owned by shop`)
	mustExec(t, caller, `drop role shop`)
}

// A view stands for whatever else can't be read of one row: its column fails.
func TestARowThatCanNotBeReadKeepsBackNoOther(t *testing.T) {
	url := pgtest.New(t)
	caller := mustConnect(t, url)
	mustExec(t, caller, outbox.Schema())
	mustExec(t, caller, `alter table hookladder_outbox rename to rows_of_it`)
	mustExec(t, caller, `create view hookladder_outbox as select seq, id,
	case when id = 'odd' then (1 / (length(id) - 3))::text::jsonb else message end as message, body, key, at, retry_at from rows_of_it`)
	for _, id := range []string{"a", "odd", "b"} {
		mustExec(t, caller, `insert into rows_of_it (id, message, body) values ($1, '{"topic":"a.b"}', '1')`, id)
	}
	o := newTestOutbox(t, url)
	require.ErrorIs(t, o.Relay(t.Context(), 10, nil), dispatcher.ErrOutboxData)
	require.Equal(t, []string{"a", "b"}, ids(mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows))
	require.Equal(t, 1, mustCount(t, caller, `select count(*)::int from rows_of_it where id = 'odd' and retry_at > now()`))
	require.Empty(t, mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows)
}
