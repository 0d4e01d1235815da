package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// later publishes messages that are not due yet, each for a subject.
func later(t *testing.T, c *client.Client, subjects map[string]string) {
	t.Helper()
	for id, subject := range subjects {
		m := message(id, "http://127.0.0.1:9/")
		m.Tenant, m.Subject, m.Delay = "shop", subject, wire.Duration(time.Hour)
		_, err := c.Publish(t.Context(), m)
		require.NoError(t, err)
	}
}

// gone reports whether a message is not in the store.
func gone(t *testing.T, c *client.Client, id string) bool {
	t.Helper()
	_, err := c.Message(t.Context(), id)
	if err == nil {
		return false
	}
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, http.StatusNotFound, p.Status)
	return true
}

func TestOnlyTheSelectedMessagesAreForgotten(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	c := start(t, o).client()
	later(t, c, map[string]string{"a1": "alice", "a2": "alice", "b1": "bob"})
	forget := func(of archive.Selection) app.Forgotten {
		out, err := app.Forget(t.Context(), o, app.ForgetOptions{Of: of})
		require.NoError(t, err)
		require.False(t, out.Archived)
		return out
	}
	now := time.Now()
	for _, of := range []archive.Selection{{Subject: "carol"}, {Subject: "alice", Since: now.Add(time.Hour)}, {Subject: "alice", Before: now.Add(-time.Hour)}, {Subject: "alice", Tenant: "other"}} {
		require.Zero(t, forget(of).Deliveries, of)
	}
	out := forget(archive.Selection{Subject: "alice", Since: now.Add(-time.Hour), Before: now.Add(time.Hour)})
	require.Equal(t, []int64{2, 2, 0}, []int64{out.Deliveries, out.Cancelled, out.Left})
	require.Equal(t, []bool{true, true, false}, []bool{gone(t, c, "a1"), gone(t, c, "a2"), gone(t, c, "b1")})
	require.Zero(t, forget(archive.Selection{Subject: "alice"}).Deliveries)
}

// archivedIDs are the messages in an archive. It has no tables before the first instance.
func archivedIDs(t *testing.T, url string) (ids []string, err error) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(context.Background())) }()
	rows, err := db.Query(t.Context(), "select id from hookladder_test.message order by id")
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return ids, err
}

// Nothing archives the log while no instance runs. So the archive keeps the messages, and a
// later run deletes them there.
func TestForgettingThatIsInterruptedIsFinishedByAnotherRun(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	o.Archive = app.ArchiveOptions{URL: pgtest.New(t), Bodies: "all", Backlog: 64 << 20, QueryTimeout: 20 * time.Second}
	p := start(t, o)
	later(t, p.client(), map[string]string{"a1": "alice", "b1": "bob"})
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	require.NoError(t, kit.Until(ctx, "both are archived", func() error {
		ids, err := archivedIDs(t, o.Archive.URL)
		if err == nil && len(ids) < 2 {
			err = errors.New("one is missing")
		}
		return err
	}))
	require.NoError(t, p.end())

	for _, phase := range []string{"store", "wait"} {
		cut, cancel := context.WithCancel(t.Context())
		_, err := app.Forget(cut, o, app.ForgetOptions{Of: archive.Selection{Subject: "alice"}, Progress: func(s app.ForgetStep) {
			if s.Phase == phase {
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled, phase)
		ids, err := archivedIDs(t, o.Archive.URL)
		require.NoError(t, err)
		require.Equal(t, []string{"a1", "b1"}, ids, phase)
	}
	c := start(t, o).client()
	out, err := app.Forget(t.Context(), o, app.ForgetOptions{Of: archive.Selection{Subject: "alice"}})
	require.NoError(t, err)
	require.Equal(t, []any{true, int64(1)}, []any{out.Archived, out.Archive.Messages})
	ids, err := archivedIDs(t, o.Archive.URL)
	require.NoError(t, err)
	require.Equal(t, []string{"b1"}, ids)
	require.True(t, gone(t, c, "a1"))
	page, err := c.Audit(t.Context(), client.AuditFilter{What: []string{"forget"}})
	require.NoError(t, err)
	require.Len(t, page.Data, 3, "each run")
	require.Contains(t, page.Data[1].Detail, "it stopped before its end")
}

func TestWithoutItsArchiveNothingIsForgottenRestoredOrGivenUp(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	c := start(t, o).client()
	later(t, c, map[string]string{"a1": "alice"})
	var log logged
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Archive = app.ArchiveOptions{URL: "postgres://127.0.0.1:1/none?sslmode=disable", Bodies: "all", Backlog: 64 << 20, QueryTimeout: 20 * time.Second}
	_, err := app.Forget(t.Context(), o, app.ForgetOptions{Of: archive.Selection{Subject: "alice"}})
	require.ErrorContains(t, err, "ARCHIVE_URL: ")
	_, err = app.Restore(t.Context(), o, app.RestoreOptions{IntoRunning: true})
	require.ErrorContains(t, err, "ARCHIVE_URL: ")
	_, err = app.AcceptLoss(t.Context(), o, app.LossOptions{Accept: true, Discard: true})
	require.ErrorContains(t, err, "ARCHIVE_URL: ")

	var check dispatcher.Check
	_, err = app.Doctor(t.Context(), o, true, func(i dispatcher.StoreInfo) { check = i.Checks[len(i.Checks)-1] }, func(app.Finding) {})
	require.NoError(t, err, "the store is examined without it")
	require.Equal(t, []any{"archive", dispatcher.Unknown}, []any{check.Name, check.Holds})
	require.Contains(t, check.Detail, "it is not known whether the archive was compared")
	require.Contains(t, log.String(), "the archive does not answer")
	require.False(t, gone(t, c, "a1"))
}
