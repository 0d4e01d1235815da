package main

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/outbox"
)

// report is what doctor --before-upgrade --json prints.
type report struct {
	Version                string
	Store, Archive, Outbox struct {
		State, Detail string
		Changes       []struct{ What, Waits, Final string }
	}
	Instances []struct{ Name, Version string }
	Settings  []string
	Rollback  bool
}

func beforeUpgrade(t *testing.T, environ []string, code int) (r report) {
	t.Helper()
	got := command(t, environ, "", "doctor", "--before-upgrade", "--json")
	require.Equal(t, code, got.code, got.err)
	require.NoError(t, json.Unmarshal([]byte(got.out), &r), got.out)
	return r
}

// mustSQL runs statements, and returns the first value of the last one.
func mustSQL(t *testing.T, url, statements string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // all statements have ended
	results, err := conn.PgConn().Exec(t.Context(), statements).ReadAll()
	require.NoError(t, err)
	if rows := results[len(results)-1].Rows; len(rows) > 0 {
		return string(rows[0][0])
	}
	return ""
}

func TestBeforeAnUpgradeNothingIsWritten(t *testing.T) {
	server := redistest.Start(t)
	client := mustOpenRedis(t, server)
	where := pgtest.New(t)
	environ := []string{"REDIS_URL=" + server.URL(), "ARCHIVE_URL=" + where, "OUTBOX_URL=" + where, "ENCRYPTION_KEY=" + testSealKey}

	r := beforeUpgrade(t, environ, exitFailed)
	require.NotEmpty(t, r.Version)
	require.Equal(t, "ok", r.Store.State)
	require.Contains(t, r.Store.Detail, "the project is new")
	require.Contains(t, r.Archive.Detail, "no tables yet")
	require.Equal(t, "attention", r.Outbox.State)
	require.Contains(t, r.Outbox.Changes[0].What, "hookladder_outbox is missing")
	require.Zero(t, client.DBSize(t.Context()).Val(), "not even the project's name")
	require.Equal(t, "0", mustSQL(t, where, "select count(*) from pg_namespace where nspname = 'hookladder'"))

	mustSQL(t, where, outbox.Schema())
	require.Equal(t, exitOK, command(t, environ, "", "doctor", "--upgrade").code)
	require.Equal(t, exitOK, command(t, environ[:1], "", "doctor").code)
	require.NoError(t, client.HSet(t.Context(), "{default}:instances", "other-1", 1, "older-1", 1).Err())
	require.NoError(t, client.HSet(t.Context(), "{default}:about", "older-1", "1024 1700000000000 0.1.9").Err())
	r = beforeUpgrade(t, environ, exitOK)
	require.Equal(t, "ok ok ok", r.Store.State+" "+r.Archive.State+" "+r.Outbox.State)
	require.Contains(t, r.Store.Detail, "the layout is 6, and this version writes 6")
	require.Len(t, r.Instances, 2)
	require.Equal(t, "0.1.9", r.Instances[0].Version)
	require.Empty(t, r.Instances[1].Version, "it is not known")
	require.True(t, r.Rollback)
	got := command(t, environ, "", "doctor", "--before-upgrade")
	require.Contains(t, got.out, "instance  other-1 runs an unknown version\n")
	require.Contains(t, got.out, "rollback  possible")
}

func TestBeforeAnUpgradeEachThingThatNeedsAttentionIsReported(t *testing.T) {
	server := redistest.Start(t)
	client := mustOpenRedis(t, server)
	where := pgtest.New(t)
	mustSQL(t, where, outbox.Schema())
	environ := []string{"REDIS_URL=" + server.URL(), "ARCHIVE_URL=" + where, "OUTBOX_URL=" + where, "ENCRYPTION_KEY=" + testSealKey}
	require.Equal(t, exitOK, command(t, environ, "", "doctor", "--upgrade").code)

	mustSQL(t, where, "delete from hookladder.version where n > 7; alter table hookladder_outbox drop column retry_at; drop function hookladder_seconds")
	r := beforeUpgrade(t, append(environ, "LADER=5s"), exitFailed)
	require.Equal(t, "attention", r.Archive.State, "an index is built")
	require.Len(t, r.Archive.Changes, 2)
	require.Contains(t, r.Archive.Changes[0].Waits, "index")
	require.True(t, r.Rollback)
	require.Equal(t, "attention", r.Outbox.State)
	require.Contains(t, r.Outbox.Changes[0].What, "no column retry_at")
	require.Contains(t, r.Outbox.Changes[1].What, "hookladder_seconds is missing")
	require.Contains(t, r.Outbox.Detail, "hookladder outbox schema")
	require.Len(t, r.Settings, 1)
	require.Contains(t, r.Settings[0], "did you mean LADDER?")

	for layout, why := range map[string]string{"5": "older than the first one that this version reads", "7": "newer than this version's 6"} {
		require.NoError(t, client.HSet(t.Context(), "{default}:meta", "schema", layout).Err())
		r = beforeUpgrade(t, environ[:1], exitFailed)
		require.Equal(t, "attention", r.Store.State)
		require.Contains(t, r.Store.Detail, why)
	}
}

func TestBeforeAnUpgradeItSaysWhatItDidNotExamine(t *testing.T) {
	server := redistest.Start(t)
	r := beforeUpgrade(t, []string{"REDIS_URL=" + server.URL()}, exitOK)
	require.Equal(t, "not_examined", r.Archive.State)
	require.Equal(t, "ARCHIVE_URL is not set", r.Archive.Detail)
	require.Equal(t, "OUTBOX_URL is not set", r.Outbox.Detail)

	const nowhere = "postgres://a:secret@127.0.0.1:1/b"
	r = beforeUpgrade(t, []string{"REDIS_URL=" + server.URL(), "ARCHIVE_URL=" + nowhere, "OUTBOX_URL=" + nowhere, "ENCRYPTION_KEY=" + testSealKey}, exitUnreachable)
	require.Equal(t, "ok not_examined not_examined", r.Store.State+" "+r.Archive.State+" "+r.Outbox.State)
	require.NotContains(t, r.Archive.Detail+r.Outbox.Detail, "secret")
	r = beforeUpgrade(t, []string{"REDIS_URL=redis://127.0.0.1:1"}, exitUnreachable)
	require.Equal(t, "not_examined", r.Store.State)
	require.Contains(t, r.Store.Detail, "REDIS_URL")
	r = beforeUpgrade(t, []string{"DATA_DIR=" + t.TempDir()}, exitUnreachable)
	require.Contains(t, r.Store.Detail, "no instance runs on DATA_DIR")
	require.Equal(t, exitUsage, command(t, []string{"LADDER=x"}, "", "doctor", "--before-upgrade").code)

	for _, wrong := range [][]string{{"--before-upgrade", "--fix"}, {"--upgrade", "--json"}, {"--before-upgrade", "--upgrade"}, {"--accept-loss", "--upgrade"}} {
		require.Equal(t, exitUsage, command(t, []string{"REDIS_URL=" + server.URL()}, "", append([]string{"doctor"}, wrong...)...).code, wrong)
	}
	got := command(t, []string{"REDIS_URL=" + server.URL()}, "", "doctor", "--upgrade")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "ARCHIVE_URL is not set")
}
