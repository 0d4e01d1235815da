package embedded_test

import (
	"net/url"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

func mustStart(t testing.TB) *embedded.InMemory {
	t.Helper()
	r, err := embedded.StartInMemory()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func newTestClient(t testing.TB, text string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(text)
	require.NoError(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestItAnswersAtItsURL(t *testing.T) {
	c := newTestClient(t, mustStart(t).URL())
	require.NoError(t, c.Set(t.Context(), "k", "v", 0).Err())
	require.Equal(t, "v", c.Get(t.Context(), "k").Val())
}

func TestItListensOnLoopbackAndWantsItsPassword(t *testing.T) {
	r := mustStart(t)
	u, err := url.Parse(r.URL())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", u.Hostname())

	u.User = nil
	require.ErrorContains(t, newTestClient(t, u.String()).Ping(t.Context()).Err(), "NOAUTH")
}

func TestTwoKeepApart(t *testing.T) {
	a, b := newTestClient(t, mustStart(t).URL()), newTestClient(t, mustStart(t).URL())
	require.NoError(t, a.Set(t.Context(), "k", "v", 0).Err())
	require.Zero(t, b.Exists(t.Context(), "k").Val())
}
