package client_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// lists are all of them, each as a sequence of errors.
var lists = map[string]func(context.Context, *client.Client) iter.Seq[error]{
	"/v1/deliveries": func(ctx context.Context, c *client.Client) iter.Seq[error] {
		return errorsOf(c.EachDelivery(ctx, client.Filter{Statuses: []string{"dead"}}))
	},
	"/v1/attempts": func(ctx context.Context, c *client.Client) iter.Seq[error] {
		return errorsOf(c.EachAttempt(ctx, client.AttemptFilter{Outcomes: []string{"dead"}}))
	},
	"/v1/dead": func(ctx context.Context, c *client.Client) iter.Seq[error] {
		return errorsOf(c.EachDead(ctx, client.DeadFilter{Reasons: []string{"gone"}}))
	},
	"/v1/endpoints": func(ctx context.Context, c *client.Client) iter.Seq[error] {
		return errorsOf(c.EachEndpoint(ctx, client.EndpointFilter{Tenants: []string{"acme"}}))
	},
	"/v1/endpoints/a:b/deliveries": func(ctx context.Context, c *client.Client) iter.Seq[error] {
		return errorsOf(c.EachEnded(ctx, "a:b", client.EndedFilter{Statuses: []string{"dead"}}))
	},
	"/v1/audit": func(ctx context.Context, c *client.Client) iter.Seq[error] {
		return errorsOf(c.EachAuditEntry(ctx, client.AuditFilter{What: []string{"job.stop"}}))
	},
	"/.well-known/webhook-keys": func(ctx context.Context, c *client.Client) iter.Seq[error] {
		return errorsOf(c.EachWebhookKey(ctx, "a"))
	},
	"/v1/lanes":     func(ctx context.Context, c *client.Client) iter.Seq[error] { return errorsOf(c.EachLane(ctx)) },
	"/v1/jobs":      func(ctx context.Context, c *client.Client) iter.Seq[error] { return errorsOf(c.EachJob(ctx)) },
	"/v1/instances": func(ctx context.Context, c *client.Client) iter.Seq[error] { return errorsOf(c.EachInstance(ctx)) },
}

func errorsOf[T any](all iter.Seq2[T, error]) iter.Seq[error] {
	return func(yield func(error) bool) {
		for _, err := range all {
			if !yield(err) {
				return
			}
		}
	}
}

// newTestPages has lists of two entries, none and one, on three pages. It counts the
// pages that were read, and answers 404 in place of the one that is missing.
func newTestPages(t testing.TB, missing int) (c *client.Client, path *string, read *int) {
	t.Helper()
	path, read = new(string), new(int)
	var filters string
	c = newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		*path = r.URL.Path
		if page := []string{"", "p1", "p2"}[*read]; q.Get("cursor") != page {
			w.WriteHeader(http.StatusTeapot)
		}
		if q.Del("cursor"); *read == 0 {
			filters = q.Encode()
		} else if q.Encode() != filters {
			w.WriteHeader(http.StatusTeapot) // a cursor goes with its filters only
		}
		*read++
		if *read == missing {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, []string{`{"data":[{},{}],"next_cursor":"p1"}`, `{"data":[],"next_cursor":"p2"}`, `{"data":[{}],"next_cursor":null}`}[*read-1])
	})
	return c, path, read
}

func TestEachListIsReadPageByPage(t *testing.T) {
	for want, list := range lists {
		c, path, read := newTestPages(t, 0)
		seen := 0
		all := list(t.Context(), c)
		require.Zero(t, *read, "%s: nobody asked for it yet", want)
		for err := range all {
			require.NoError(t, err, want)
			seen++
			require.Equal(t, []int{1, 1, 3}[seen-1], *read, "%s: entry %d needs no other page", want, seen)
		}
		require.Equal(t, 3, seen, want)
		require.Equal(t, want, *path)
	}
}

func TestAnErrorEndsAList(t *testing.T) {
	for path, list := range lists {
		c, _, read := newTestPages(t, 2)
		var got []error
		for err := range list(t.Context(), c) {
			got = append(got, err)
		}
		require.Len(t, got, 3, path)
		require.NoError(t, got[1], path)
		require.ErrorIs(t, got[2], client.ErrNotFound, path)
		require.Equal(t, 2, *read, path)
	}
}

func TestAListThatIsLeftReadsNoMore(t *testing.T) {
	for path, list := range lists {
		c, _, read := newTestPages(t, 0)
		for range list(t.Context(), c) {
			break
		}
		require.Equal(t, 1, *read, path)
	}
}

func TestAListBeginsWhereItsFilterSays(t *testing.T) {
	var asked []string
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		fmt.Fprint(w, `{"data":[{}],"next_cursor":null}`)
	})
	all := c.EachDelivery(t.Context(), client.Filter{Limit: 7, Cursor: "c1", Tenants: []string{"acme"}})
	for range 2 {
		for d, err := range all {
			require.NoError(t, err)
			require.Equal(t, wire.Delivery{}, d)
		}
	}
	require.Equal(t, []string{"cursor=c1&limit=7&tenant=acme", "cursor=c1&limit=7&tenant=acme"}, asked)
}
