package postgres_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

// hung takes connections and never answers.
func hung(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return "postgres://u:p@" + ln.Addr().String() + "/d?sslmode=disable"
}

// An archive that is away, or hangs, is found out once. Then nothing waits for it.
func TestAnArchiveThatDoesNotAnswerKeepsNobodyWaiting(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	away := "postgres://u:p@" + gone.Addr().String() + "/d?sslmode=disable"
	require.NoError(t, gone.Close())
	for name, url := range map[string]string{"away": away, "hung": hung(t)} {
		t.Run(name, func(t *testing.T) {
			r, err := postgres.OpenReader(postgres.Options{URL: url})
			require.NoError(t, err)
			t.Cleanup(r.Close)
			bound, cancel := context.WithTimeout(t.Context(), 30*time.Second) // far beyond what a look-up may take
			defer cancel()
			_, err = r.Find(bound, "m")
			require.ErrorIs(t, err, archive.ErrUnavailable)
			require.NoError(t, bound.Err())
			ended, end := context.WithCancel(t.Context())
			end()
			_, err = r.Ends(ended, archive.Filter{Tenants: []string{"t"}, Limit: 1})
			require.ErrorIs(t, err, archive.ErrUnavailable)
			require.ErrorContains(t, err, "a moment ago", "it was not even tried")
		})
	}
}

// The first instance makes the tables. A look-up before that says nothing of PostgreSQL, so
// the next one is not refused for it.
func TestAnArchiveWithoutItsTablesIsAskedAgain(t *testing.T) {
	url := pgtest.New(t)
	r, err := postgres.OpenReader(postgres.Options{URL: url, QueryTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	_, err = r.Find(t.Context(), "m")
	require.ErrorIs(t, err, archive.ErrUnavailable)
	_, err = r.Since(t.Context())
	require.ErrorIs(t, err, archive.ErrUnavailable)
	require.NotContains(t, err.Error(), "a moment ago")
	a, err := postgres.Open(postgres.Options{URL: url})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	require.NoError(t, a.Maintain(t.Context(), 0))
	_, err = r.Find(t.Context(), "m")
	require.ErrorIs(t, err, dispatcher.ErrNotFound)
}

func TestAReaderRefusesAURLWithoutTellingIt(t *testing.T) {
	_, err := postgres.OpenReader(postgres.Options{URL: "mysql://u:secret@h/d"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
