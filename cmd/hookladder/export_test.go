package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// newTestArchive is an archive with two messages, of which one was delivered.
func newTestArchive(t *testing.T) app.Options {
	t.Helper()
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	files, err := filepath.Glob("../../dispatcher/internal/postgres/migrations/*.sql") // in their order
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "create schema if not exists hookladder; create table hookladder.version (n int primary key)")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), string(text))
		require.NoError(t, err, file)
	}
	for _, text := range []string{
		"create table hookladder.message_2026_01 partition of hookladder.message for values from ('2026-01-01') to ('2026-02-01')",
		"create table hookladder.event_2026_01 partition of hookladder.event for values from ('2026-01-01') to ('2026-02-01')",
		`insert into hookladder.message values ('2026-01-01', '2026-01-31T12:00:00Z', 'a', 't', '=1+1', 'a.b', 2, null, '\xff00'),
			('2026-01-01', '2026-01-31T12:00:01Z', 'b', null, null, 'a.b', 4, null, 'body')`,
		`insert into hookladder.event values ('2026-01-01', '2026-01-31T12:00:02Z', 1, 0, 'd', 'a', 'u_1', 1, 200, 5, 0, '2026-01-31T12:00:02Z', null, null,
			'192.0.2.1:443', 'https://own.example/', null, null, 'a.b', 't', '=1+1', null, 'ok')`,
	} {
		_, err := conn.Exec(t.Context(), text)
		require.NoError(t, err, text)
	}
	return app.Options{Archive: app.ArchiveOptions{URL: url}}
}

func exportArchive(t *testing.T, o app.Options, e exportRun) string {
	t.Helper()
	var out bytes.Buffer
	e.Stdout = &out
	_, err := e.Run(t.Context(), o)
	require.NoError(t, err)
	return out.String()
}

func TestMessagesAreWrittenAsJSONLines(t *testing.T) {
	o := newTestArchive(t)
	lines := strings.Split(strings.TrimSpace(exportArchive(t, o, exportRun{What: exportMessages, JSON: true, Bodies: true})), "\n")
	require.Len(t, lines, 2)
	got := map[string]map[string]any{}
	for _, line := range lines {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		got[m["id"].(string)] = m
	}
	require.NotContains(t, got["a"], "body", "it is no text")
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte{0xff, 0}), got["a"]["body_base64"])
	require.Equal(t, "body", got["b"]["body"])
	require.Equal(t, "2026-01-31T12:00:01.000Z", got["b"]["created_at"])
	require.NotContains(t, exportArchive(t, o, exportRun{What: exportMessages, JSON: true}), "base64")
}

func TestDeliveriesAreWrittenAsCSV(t *testing.T) {
	o := newTestArchive(t)
	rows, err := csv.NewReader(strings.NewReader(exportArchive(t, o, exportRun{What: exportDeliveries}))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		strings.Split("id,message_id,tenant,subject,topic,destination,url,status,created_at,ended_at,attempts,status_code,dead_reason,error", ","),
		{"u_1:a", "a", "t", "'=1+1", "a.b", "u_1", "https://own.example/", "delivered", "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:02.000Z", "1", "200", "", ""},
	}, rows)
	line := exportArchive(t, o, exportRun{What: exportDeliveries, JSON: true, Bodies: true})
	require.Contains(t, line, `"message_id":"a","created_at":"2026-01-31T12:00:00.000Z","topic":"a.b"`, "as lists show it")
	require.Contains(t, line, `"address":"192.0.2.1:443","duration_ms":5,"response":"ok","response_base64":"b2s="`)
	require.Equal(t, 1, strings.Count(exportArchive(t, o, exportRun{What: exportDeliveries, Of: archive.Selection{Tenant: "other"}}), "\n"), "the headers")
	require.Equal(t, 3, strings.Count(exportArchive(t, o, exportRun{What: exportMessages}), "\n"))
	line = exportArchive(t, o, exportRun{What: exportDeliveries, JSON: true})
	require.Contains(t, line, `"url":"https://own.example/"`)
	require.NotContains(t, line, "b2s=")
}

func TestAFileIsThereOnlyWhenItIsWhole(t *testing.T) {
	o := newTestArchive(t)
	dir := t.TempDir()
	var reported bytes.Buffer
	e := exportRun{What: exportMessages, Out: filepath.Join(dir, "all.csv"), Progress: &reported}
	n, err := e.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Contains(t, reported.String(), "1 of 1 months, 2 rows")
	written, err := os.ReadFile(e.Out)
	require.NoError(t, err)
	require.Equal(t, 3, bytes.Count(written, []byte("\n")))

	ended, stop := context.WithCancel(t.Context())
	stop()
	e.Out = filepath.Join(dir, "none.csv")
	_, err = e.Run(ended, o)
	require.Error(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestAnExportFromAnArchiveThatIsAwaySaysSo(t *testing.T) {
	bound, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e := exportRun{What: exportDeliveries, Stdout: &bytes.Buffer{}}
	_, err := e.Run(bound, app.Options{Archive: app.ArchiveOptions{URL: "postgres://127.0.0.1:1/d?sslmode=disable"}})
	require.ErrorIs(t, err, archive.ErrUnavailable)
	require.NoError(t, bound.Err())
}
