package console_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

func handler(f http.HandlerFunc) http.Handler { return f }

func TestACallWithinTheProcessIsOneOfTheAPI(t *testing.T) {
	c, err := console.Inside(handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stats" {
			_, _ = w.Write([]byte(`{"in_flight":7}`))
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"title":"there is none","status":404}`))
	}))
	require.NoError(t, err)
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, stats.InFlight)
	_, err = c.Message(t.Context(), "m1")
	require.ErrorIs(t, err, client.ErrNotFound)
}

// A store that hangs holds the handler, and no page.
func TestACallWithinTheProcessEndsWithItsContext(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	defer close(leave)
	c, err := console.Inside(handler(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err = c.Stats(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestACallWithinTheProcessThatIsCutOffIsAnError(t *testing.T) {
	c, err := console.Inside(handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	require.NoError(t, err)
	_, err = c.Stats(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	c, err = console.Inside(handler(func(w http.ResponseWriter, _ *http.Request) {
		for range 33 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				require.Error(t, err)
				return
			}
		}
	}))
	require.NoError(t, err)
	_, err = c.Stats(t.Context())
	require.Error(t, err)
	require.False(t, errors.Is(err, client.ErrNotFound))
}
