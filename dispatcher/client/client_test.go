package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/hookladder/hookladder/dispatcher/client"
)

const testKey = "test-key-0123456789"

func newTestClient(t testing.TB, answer http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL, testKey)
	require.NoError(t, err)
	return c
}

func TestTheKeyGoesInTheHeaderAlone(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+testKey || strings.Contains(r.RequestURI, testKey) {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte("{}"))
	})
	_, err := c.Stats(t.Context())
	require.NoError(t, err)
}

func TestACallNamesTheSpanOfItsContext(t *testing.T) {
	var got []string
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Traceparent"))
		_, _ = w.Write([]byte("{}"))
	})
	_, err := c.Stats(t.Context())
	require.NoError(t, err)
	_, err = c.Stats(trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0: 0x0a, 15: 0x9c}, SpanID: trace.SpanID{0: 0xb7}, TraceFlags: trace.FlagsSampled,
	})))
	require.NoError(t, err)
	require.Equal(t, []string{"", "00-0a00000000000000000000000000009c-b700000000000000-01"}, got)
}

func TestAnAnswerOfSomethingElseIsAProblemToo(t *testing.T) {
	for name, media := range map[string]string{"a page": "text/html", "no problem": "application/problem+json"} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", media)
				w.Header().Set("Retry-After", "99999999")
				w.WriteHeader(http.StatusBadGateway)
				_, _ = w.Write([]byte("<h1>no</h1>"))
			})
			_, err := c.Stats(t.Context())
			var p *client.Problem
			require.True(t, errors.As(err, &p))
			require.Equal(t, http.StatusBadGateway, p.Status)
			require.ErrorContains(t, err, "502")
			require.InDelta(t, 24.0, p.RetryAfter.Hours(), 0.1)
		})
	}
}

func TestAnAnswerThatIsNoJSONIsAnError(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	_, err := c.Stats(t.Context())
	require.ErrorContains(t, err, "stats: read answer")
}

func TestARedirectIsNotFollowed(t *testing.T) {
	asked := 0
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := c.Stats(t.Context())
	var p *client.Problem
	require.True(t, errors.As(err, &p))
	require.Equal(t, http.StatusTemporaryRedirect, p.Status)
	require.Equal(t, 1, asked)
}

func TestAnAnswerWithoutEndIsCut(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 1<<20)
		for range 64 {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	_, err := c.Stats(t.Context())
	require.ErrorContains(t, err, "more than")
}

func TestNobodyListensIsUnreachable(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1", testKey)
	require.NoError(t, err)
	_, err = c.Ready(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.NotContains(t, err.Error(), "http://")

	cut := newTestClient(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err = cut.Ready(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)

	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = cut.Ready(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAClientIsPrintedWithoutItsKey(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1", "hunter2")
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{c, *c, struct{ c client.Client }{*c}} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, "hunter2")
			require.NotContains(t, text, fmt.Sprintf("%x", "hunter2"))
		}
	}
}

func TestABadAddressOrKeyIsRefused(t *testing.T) {
	for _, base := range []string{"", "localhost:8080", "ftp://a", "http://", "http://user:hunter2@a", "http://a?x", "http://a#x", "http://a\n"} {
		_, err := client.New(base, testKey)
		require.Error(t, err, base)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := client.New("http://a", "key\nwith lines")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "lines")
	_, err = client.New("http://a", "", client.WithHTTPClient(http.DefaultClient))
	require.NoError(t, err)
}
