package e2e_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestADeliveredMessageShowsItsProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, n int) {
		if id == "second" && n == 1 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(rw, "thanks for "+id+strings.Repeat(".", 300))
	})
	i := w.serve("LADDER=100ms")
	e := i.endpoint("/e", wire.Endpoint{UID: "shop"})
	i.publish(wire.Message{ID: "first", URL: w.receiver.URL(0) + "/hook?x=1"})
	i.publish(wire.Message{ID: "second", URL: w.receiver.URL(0)})
	i.publish(wire.Message{ID: "third", Endpoint: "shop"})
	at, err := url.Parse(w.receiver.URL(0))
	require.NoError(t, err)
	for id, called := range map[string]string{"first": w.receiver.URL(0) + "/hook?x=1", "second": w.receiver.URL(0), "third": e.URL} {
		history := i.until(id, "delivered").History
		last := history[len(history)-1]
		require.Equal(t, "delivered", last.Outcome, id)
		require.Equal(t, called, last.URL)
		require.Equal(t, at.Host, last.Address)
		require.Equal(t, http.StatusOK, last.StatusCode)
		require.True(t, strings.HasPrefix(last.ResponseExcerpt, "thanks for "+id+"..."), last.ResponseExcerpt)
		require.GreaterOrEqual(t, len(last.ResponseExcerpt), 128)
		require.False(t, last.Resend)
	}
	_, err = i.Retry(t.Context(), "first", e.ID)
	require.Error(t, err, "it does not go there")
	_, err = i.Resend(t.Context(), "first")
	require.NoError(t, err)
	d := i.untilIt("first", "sent again", func(d wire.Delivery) bool { return d.Status == "delivered" && d.Attempts == 2 })
	require.Len(t, d.History, 2, "the first success and the last")
	require.True(t, d.History[1].Resend)
	require.Equal(t, at.Host, d.History[0].Address)
}

func TestAttemptsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, n int) {
		if id == "m1" && n == 1 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve("PARTITIONS=4", "LADDER=10ms")
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL(0), Tenant: "acme"})
	i.until("m1", "delivered")
	i.publish(wire.Message{ID: "m2", URL: w.receiver.URL(0), Tenant: "other"})
	i.until("m2", "delivered")
	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0), Tenant: "acme", Delay: 1 << 40})
	_, err := i.Cancel(t.Context(), "later", "")
	require.NoError(t, err)

	reported := func(f client.AttemptFilter) (all []string) {
		for {
			page, err := i.Attempts(t.Context(), f)
			require.NoError(t, err)
			require.True(t, page.CompleteSince.IsZero())
			for _, a := range page.Data {
				all = append(all, a.MessageID+" "+a.Outcome)
			}
			if page.NextCursor == nil {
				return all
			}
			f.Cursor = *page.NextCursor
		}
	}
	all := []string{"later cancelled", "m2 delivered", "m1 delivered", "m1 retry"}
	require.Equal(t, all, reported(client.AttemptFilter{}))
	require.Equal(t, all, reported(client.AttemptFilter{Limit: 1}))
	require.Equal(t, []string{"m1 delivered", "m1 retry"}, reported(client.AttemptFilter{Messages: []string{"m1"}}))
	require.Equal(t, []string{"later cancelled", "m1 delivered", "m1 retry"}, reported(client.AttemptFilter{Tenants: []string{"acme"}}))
	require.Equal(t, []string{"m1 retry"}, reported(client.AttemptFilter{Outcomes: []string{"retry"}}))
	require.Equal(t, []string{"m2 delivered"}, reported(client.AttemptFilter{Tenants: []string{"other"}, Destinations: []string{w.receiver.URL(0)}}))
}
