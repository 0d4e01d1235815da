package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// What Redis forgot comes from PostgreSQL: the caller need not care which one has it.
func TestWhatTheStoreForgotIsFoundInTheArchive(t *testing.T) {
	pg := pgtest.Start(t, pgtest.Options{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("thanks")) }))
	t.Cleanup(receiver.Close)
	o := newTestOptions(redistest.Start(t).URL())
	var err error
	o.Seal, err = app.ParseEncryptionKeys("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	require.NoError(t, err)
	o.Archive = app.ArchiveOptions{URL: pg.URL(), Bodies: "all", Backlog: 64 << 20, QueryTimeout: 20 * time.Second}
	o.Engine.Keep = dispatcher.Keep{Finished: time.Second, FinishedMax: 1, SeenMax: 1000, Dead: time.Hour, DeadMax: 1000}
	p := start(t, o)
	c := p.client()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const n = 7
	for i := range n {
		m := message(fmt.Sprint("m", i), receiver.URL)
		m.Tenant, m.Subject = "shop", "order 17"
		m.Headers = map[string]string{"x-secret": "s3cret"}
		_, err := c.Publish(ctx, m)
		require.NoError(t, err)
	}
	later := message("newest", receiver.URL) // behind the others also where it came in the same ms
	later.Tenant, later.Subject, later.Delay = "shop", "order 17", wire.Duration(time.Hour)
	_, err = c.Publish(ctx, later)
	require.NoError(t, err)

	require.NoError(t, kit.Until(ctx, "all are delivered", func() error { // until then cancelling would end them
		for i := range n {
			m, err := c.Message(ctx, fmt.Sprint("m", i))
			if err != nil {
				return err
			}
			if len(m.Deliveries) != 1 || m.Deliveries[0].Status != "delivered" {
				return fmt.Errorf("m%d: %+v", i, m.Deliveries)
			}
		}
		return nil
	}))
	// Redis has forgotten all that ended once cancelling says so. It forgets where others end.
	others := 0
	require.NoError(t, kit.Until(ctx, "only the archive has them", func() error {
		others++
		if _, err := c.Publish(ctx, message(fmt.Sprint("other", others), receiver.URL)); err != nil {
			return err
		}
		for i := range n {
			_, err := c.Cancel(ctx, fmt.Sprint("m", i), "")
			if err == nil {
				return fmt.Errorf("m%d is there still", i)
			}
			require.ErrorIs(t, err, client.ErrConflict)
			require.ErrorContains(t, err, "Only the archive has it")
		}
		return nil
	}))
	for i, limit := range []int{1, 3, 50, 1, 3, 50} {
		f := client.Filter{Subjects: []string{"order 17"}, Limit: limit}
		if i >= 3 {
			f.Subjects, f.SubjectLike = nil, []string{"ORDER_17"}
		}
		seen := map[string]bool{}
		for more := true; more; {
			page, err := c.Deliveries(ctx, f)
			require.NoError(t, err)
			require.False(t, page.CompleteSince.IsZero(), "since the archive began")
			for _, d := range page.Data {
				require.False(t, seen[d.ID], d.ID)
				seen[d.ID] = true
				require.Equal(t, d.Status == "scheduled", len(seen) == 1, "it was accepted last")
				if d.Status != "scheduled" {
					require.Equal(t, "delivered", d.Status)
					require.Equal(t, receiver.URL, d.URL)
				}
			}
			if more = page.NextCursor != nil; more {
				f.Cursor = *page.NextCursor
			}
		}
		require.Len(t, seen, n+1)
	}
	m, err := c.Message(ctx, "m3")
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, string(m.Body))
	require.Equal(t, map[string]string{"x-secret": "***"}, m.Headers)
	require.Len(t, m.Deliveries, 1)
	require.Equal(t, "delivered", m.Deliveries[0].Status)
	require.Len(t, m.Deliveries[0].History, 1)
	require.Equal(t, "thanks", m.Deliveries[0].History[0].ResponseExcerpt)
	require.Equal(t, receiver.URL, m.Deliveries[0].History[0].URL)
	_, err = c.Retry(ctx, "m3", receiver.URL)
	require.ErrorContains(t, err, "Only the archive has it")
	_, err = c.Message(ctx, "never")
	require.ErrorIs(t, err, client.ErrNotFound)

	pg.Kill()
	page, err := c.Deliveries(ctx, client.Filter{Subjects: []string{"order 17"}, Limit: 50})
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	require.False(t, page.CompleteSince.IsZero(), "what ended before is missing")
	_, err = c.Message(ctx, "m3")
	require.ErrorIs(t, err, client.ErrUnavailable)
	_, err = c.Message(ctx, "newest")
	require.NoError(t, err)
	require.NoError(t, p.end())
}
