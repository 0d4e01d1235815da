package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// newTestDB is a database with an outbox.
func newTestDB(t *testing.T) (url string, conn *pgx.Conn) {
	t.Helper()
	url = pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	mustExec(t, conn, outbox.Schema())
	return url, conn
}

func mustExec(t *testing.T, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), query, args...)
	require.NoError(t, err)
}

// kept is a row of the outbox.
type kept struct {
	Seq     int64
	ID      string
	Message map[string]any
	Body    []byte
	Key     *string
	At      time.Time
	RetryAt *time.Time
}

func mustRows(t *testing.T, conn *pgx.Conn) []kept {
	t.Helper()
	rows, err := conn.Query(t.Context(), `select * from hookladder_outbox order by seq`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[kept])
	require.NoError(t, err)
	return all
}

// A person who pipes it into psql looks at each line that psql prints.
func TestTheSchemaIsAppliedWithoutANotice(t *testing.T) {
	config, err := pgx.ParseConfig(pgtest.New(t))
	require.NoError(t, err)
	var notices []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for range 2 {
		mustExec(t, conn, outbox.Schema())
		require.Empty(t, notices)
	}
	var level string
	require.NoError(t, conn.QueryRow(t.Context(), "show client_min_messages").Scan(&level))
	require.Equal(t, "notice", level, "the session is as it was")
}

func TestAMessageExistsIfTheTransactionCommits(t *testing.T) {
	url, conn := newTestDB(t)
	m := &wire.Message{Topic: "order.paid", Body: json.RawMessage(`{"a": 1.0}`)}
	for _, commit := range []bool{false, true} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		id, err := outbox.Publish(t.Context(), tx, m)
		require.NoError(t, err)
		require.True(t, dispatcher.ValidID(id))
		if !commit {
			require.NoError(t, tx.Rollback(t.Context()))
			require.Empty(t, mustRows(t, conn))
			continue
		}
		require.NoError(t, tx.Commit(t.Context()))
		rows := mustRows(t, conn)
		require.Len(t, rows, 1)
		require.Equal(t, id, rows[0].ID)
		require.Equal(t, map[string]any{"topic": "order.paid", "require_match": true}, rows[0].Message)
		require.Equal(t, `{"a": 1.0}`, string(rows[0].Body), "byte for byte")
	}
	require.Empty(t, m.ID, "the caller's own stays as it is")

	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	id, err := outbox.PublishSQL(t.Context(), tx, &wire.Message{ID: "by-sql", Topic: "t", OrderingKey: "order-1", RawBodyBase64: []byte{0, 0xff}})
	require.NoError(t, err)
	require.Equal(t, "by-sql", id)
	require.NoError(t, tx.Commit())
	rows := mustRows(t, conn)
	require.Len(t, rows, 2)
	require.Equal(t, []byte{0, 0xff}, rows[1].Body)
	require.Equal(t, "application/octet-stream", rows[1].Message["content_type"])
	require.Nil(t, rows[0].Key)
	require.Equal(t, "order-1", *rows[1].Key)
}

func TestTheSchemaMayBeAppliedAgain(t *testing.T) {
	_, conn := newTestDB(t)
	mustExec(t, conn, `select hookladder_publish('{"topic":"t"}', '1')`)
	mustExec(t, conn, outbox.Schema())
	require.Len(t, mustRows(t, conn), 1)
	var relays int
	require.NoError(t, conn.QueryRow(t.Context(), `select count(*) from hookladder_relay`).Scan(&relays))
	require.Equal(t, 1, relays)
}

func TestAnyLanguagePublishesWithTheFunction(t *testing.T) {
	_, conn := newTestDB(t)
	ids := map[string]bool{}
	for range 2000 {
		var id string
		require.NoError(t, conn.QueryRow(t.Context(), `select hookladder_id()`).Scan(&id))
		require.Regexp(t, `^msg_[0-7][0-9A-HJKMNP-TV-Z]{25}$`, id)
		ids[id] = true
	}
	require.Len(t, ids, 2000)

	for _, call := range []struct{ name, args, id, message, body string }{
		{"text and bytes", `'{"topic":"t","id":"a"}', convert_to('{"a":1}', 'UTF8')`, "a", `{"topic":"t"}`, `{"a":1}`},
		{"by name", `message => '{"topic":"t","id":"no"}', body => 'x', id => 'b'`, "b", `{"topic":"t"}`, "x"},
		{"all in JSON", `jsonb_build_object('topic', 't', 'body', jsonb_build_object('a', 1)), id => 'c'`, "c", `{"body":{"a":1},"topic":"t"}`, ""},
		{"without a delay", `'{"topic":"t","delay":null,"id":null}', '', 'd'`, "d", `{"topic":"t","delay":null}`, ""},
	} {
		t.Run(call.name, func(t *testing.T) {
			mustExec(t, conn, `truncate hookladder_outbox`)
			var id string
			require.NoError(t, conn.QueryRow(t.Context(), `select hookladder_publish(`+call.args+`)`).Scan(&id))
			require.Equal(t, call.id, id)
			rows := mustRows(t, conn)
			require.Len(t, rows, 1)
			require.Equal(t, call.id, rows[0].ID)
			text, err := json.Marshal(rows[0].Message)
			require.NoError(t, err)
			require.JSONEq(t, call.message, string(text))
			require.Equal(t, call.body, string(rows[0].Body))
		})
	}
}

func TestADelayCountsFromThePublish(t *testing.T) {
	_, conn := newTestDB(t)
	for text, want := range map[string]time.Duration{
		`"1h30m"`: 90 * time.Minute, `"1d12h"`: 36 * time.Hour, `"10"`: 10 * time.Second, `90`: 90 * time.Second, `0.5`: 500 * time.Millisecond,
		`"1500ms"`: 1500 * time.Millisecond, `"365d"`: 365 * 24 * time.Hour, `"1.5h"`: 90 * time.Minute, `".5s"`: 500 * time.Millisecond, `0`: 0, `"0s"`: 0,
	} {
		mustExec(t, conn, `truncate hookladder_outbox`)
		mustExec(t, conn, `select hookladder_publish($1, '1')`, `{"topic":"t","delay":`+text+`}`)
		rows := mustRows(t, conn)
		require.NotContains(t, rows[0].Message, "delay")
		due, err := time.Parse(time.RFC3339, rows[0].Message["deliver_at"].(string))
		require.NoError(t, err)
		require.Less(t, rows[0].At.Add(want).Sub(due).Abs(), time.Second, text) // the insert comes right after it
	}
	for _, text := range []string{`"1h 30m"`, `"-5s"`, `-5`, `"366d"`, `"soon"`, `""`, `true`, `{}`, `"5"`, `"5x"`, `"1h5"`} {
		_, err := conn.Exec(t.Context(), `select hookladder_publish($1, '1')`, `{"topic":"t","delay":`+text+`}`)
		if text == `"5"` {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "delay must be a text such as 15s", text)
	}
}

func TestAMistakeFailsTheTransaction(t *testing.T) {
	_, conn := newTestDB(t)
	for args, want := range map[string]string{
		`'[]', '1'`:                       "must be an object",
		`null, '1'`:                       "must be an object",
		`'{}', '1'`:                       "topic must be words",
		`'{"topic":"a b"}', '1'`:          "topic must be words",
		`'{"topic":"a..b"}', '1'`:         "topic must be words",
		`'{"topic":"hookladder.x"}', '1'`: "topic must be words",
		`'{"topic":"t"}'`:                 "a body is needed",
		`'{"topic":"t","body":1}', '1'`:   "not both",
		`'{"topic":"t"}', '1', 'a.b'`:     "id must be 1 to 128",
		`'{"topic":"t"}', '1', ''`:        "id must be 1 to 128",
		`'{"topic":"t","delay":1,"deliver_at":"2030-01-01T00:00:00Z"}', '1'`: "delay or deliver_at",
	} {
		_, err := conn.Exec(t.Context(), `select hookladder_publish(`+args+`)`)
		require.ErrorContains(t, err, want, args)
	}
	_, err := outbox.Publish(t.Context(), conn, &wire.Message{ID: "none", Topic: "t"})
	require.EqualError(t, err, "publish none: one of Body, RawBody and RawBodyBase64 is needed")
	_, err = outbox.Publish(t.Context(), conn, &wire.Message{ID: strings.Repeat("x", 129), Topic: "t", Body: json.RawMessage("1")})
	require.ErrorContains(t, err, "id must be 1 to 128")
	require.Empty(t, mustRows(t, conn))
}

// The outbox may lie in a schema that callers do not search.
func TestCallersNeedNotSearchTheSchemaOfTheOutbox(t *testing.T) {
	_, conn := newTestDB(t)
	mustExec(t, conn, `drop schema public cascade; create schema events; set search_path = events`)
	mustExec(t, conn, outbox.Schema())
	mustExec(t, conn, `set search_path = pg_catalog`)
	mustExec(t, conn, `select events.hookladder_publish('{"topic":"t"}', '1')`)
	mustExec(t, conn, `set search_path = events`)
	require.Len(t, mustRows(t, conn), 1)
}

// While the relay is asleep publishing wakes it, and only then: to notify has commits wait
// for each other.
func TestPublishingNotifiesWhileTheRelayIsAsleep(t *testing.T) {
	url, conn := newTestDB(t)
	ear, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer ear.Close(context.Background())
	mustExec(t, ear, `listen hookladder_outbox; listen marks`)
	heard := func() (channels []string) {
		mustExec(t, conn, `notify marks`)
		for {
			n, err := ear.WaitForNotification(t.Context())
			require.NoError(t, err)
			if n.Channel == "marks" {
				return channels
			}
			channels = append(channels, n.Channel)
		}
	}
	mustExec(t, conn, `select hookladder_publish('{"topic":"t"}', '1')`)
	require.Equal(t, []string{"hookladder_outbox"}, heard(), "no relay has run yet: it is asleep")
	mustExec(t, conn, `update hookladder_relay set asleep = false`)
	mustExec(t, conn, `select hookladder_publish('{"topic":"t"}', '1')`)
	require.Empty(t, heard())
}

// written is a transaction that keeps the arguments of its last statement.
type written struct{ args []any }

func (w *written) Exec(_ context.Context, _ string, args ...any) (int, error) {
	w.args = args
	return 1, nil
}

func TestARowThatNamesNoDestinationHasToMatchAnEndpoint(t *testing.T) {
	t.Parallel()
	tx := &written{}
	for message, m := range map[string]wire.Message{
		`{"topic":"t","require_match":true}`:  {Topic: "t"},
		`{"topic":"t","require_match":false}`: {Topic: "t", RequireMatch: new(false)},
		`{"topic":"t","endpoint":"shop"}`:     {Topic: "t", Endpoint: "shop"},
	} {
		m.Body = json.RawMessage(`1`)
		_, err := outbox.Publish(t.Context(), tx, &m)
		require.NoError(t, err)
		require.Equal(t, message, tx.args[0])
	}
}

func TestAnOutboxWithoutAMessageOrATransactionReturnsErrors(t *testing.T) {
	t.Parallel()
	_, err := outbox.PublishSQL(t.Context(), nil, nil)
	require.ErrorContains(t, err, "is nil")
	_, err = outbox.Publish[any](t.Context(), nil, nil)
	require.ErrorContains(t, err, "is nil")
}
