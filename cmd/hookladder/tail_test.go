package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tailed is an event as the API sends it.
func tailed(id, message, more string) string {
	return fmt.Sprintf("id: %s\nevent: attempt\ndata: {\"id\":\"u_1:%s\",\"message_id\":\"%s\",\"destination\":\"u_1\",\"attempt\":2,\"at\":\"2026-01-31T12:00:00Z\",\"duration_ms\":12,\"outcome\":\"retry\",\"next_attempt_at\":null%s}\n\n", id, message, message, more)
}

// newTestStream serves one answer after the other. Those behind the last hang.
func newTestStream(t testing.TB, answers ...http.HandlerFunc) (environ []string, asked chan *http.Request) {
	t.Helper()
	asked = make(chan *http.Request, 10)
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		if n++; n <= len(answers) {
			answers[n-1](w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "id: z\n:\n\n"+tailed("zz", "last", ""))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	return []string{"HOOKLADDER_URL=" + srv.URL}, asked
}

func sends(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, text)
	}
}

func fails(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"/problems/x","title":"No","status":%d}`, status)
	}
}

func TestTailPrintsALineForEachAttempt(t *testing.T) {
	long := strings.Repeat("long ", 100)
	environ, asked := newTestStream(t, sends("id: a\n:\n\n"+
		tailed("b", "m1", `,"status_code":500,"url":"https://shop.example/hooks?token=secret","error":"answered 500"`)+
		tailed("c", "m2", `,"error":"\u001b[2J`+long+`"`)+
		"id: d\nevent: gap\ndata: {\"complete_since\":\"2026-01-31T12:00:00Z\"}\n\n"+
		"event: end\ndata: {\"reason\":\"slow\"}\n\n"))
	r := start(t, environ, "tail", "--destination", "shop", "--tenant", "acme", "--message", "m1", "--outcome", "retry", "--since", "10m",
		"--topic", "a.*", "--subject", "order 7", "--status-code", "503", "--status-code", "404", "--job", "job_7")
	line := r.until("m1")
	require.Regexp(t, `^2026-\S+ \S+ \S+  retry      500    12ms  u_1 https://shop.example  m1  #2  answered 500$`, line)
	require.NotContains(t, line, "secret")
	line = r.until("m2")
	require.Contains(t, line, `\u{1b}[2Jlong`)
	require.Less(t, len(line), 260)
	r.until("last")
	r.stop()
	require.Equal(t, 0, <-r.code)
	require.Contains(t, r.errs.String(), "some attempts are missing: the server has all since 2026-01-31")
	require.Contains(t, r.errs.String(), "too slow")
	require.Contains(t, r.errs.String(), "; retrying")
	require.Contains(t, r.errs.String(), "connected again")
	first, second := <-asked, <-asked
	require.Equal(t, "text/event-stream", first.Header.Get("Accept"))
	require.Empty(t, first.Header.Get("Last-Event-ID"))
	require.Equal(t, "d", second.Header.Get("Last-Event-ID"))
	for _, q := range []*http.Request{first, second} {
		require.Equal(t, "shop acme m1 retry", strings.Join([]string{q.FormValue("destination"), q.FormValue("tenant"), q.FormValue("message"), q.FormValue("outcome")}, " "))
		require.Equal(t, []string{"a.*"}, q.Form["topic"])
		require.Equal(t, []string{"order 7"}, q.Form["subject"])
		require.Equal(t, []string{"503", "404"}, q.Form["status_code"])
		require.Equal(t, "job_7", q.FormValue("job"))
		require.NotEmpty(t, q.FormValue("since"))
	}
}

func TestTailGoesOnOverWhatPasses(t *testing.T) {
	environ, asked := newTestStream(t, sends("id: a\n:\n\n"), fails(503), fails(429), fails(422))
	r := start(t, environ, "tail", "--json", "--since", "1h")
	require.True(t, strings.HasPrefix(r.until("last"), `{"id":"u_1:last",`))
	r.stop()
	require.Equal(t, 0, <-r.code)
	require.Equal(t, 1, strings.Count(r.errs.String(), "; retrying"), "%s", r.errs)
	require.Contains(t, r.errs.String(), "the server does not have this position any more")
	for _, id := range []string{"", "a", "a", "a", ""} {
		q := <-asked
		require.Equal(t, id, q.Header.Get("Last-Event-ID"))
		if id == "" && len(asked) == 0 {
			require.Empty(t, q.FormValue("since"), "they were shown")
		}
	}
}

func TestTailEndsOnWhatDoesNotPass(t *testing.T) {
	for status, code := range map[int]int{401: 1, 403: 1, 404: 3, 422: 1, 503: 1} {
		environ, _ := newTestStream(t, fails(status))
		require.Equal(t, code, command(t, environ, "", "tail").code, status)
	}
	environ, _ := newTestStream(t, sends("id: a\n:\n\n"), fails(401))
	require.Equal(t, 1, command(t, environ, "", "tail").code, "its key was taken away")
	require.Equal(t, 4, command(t, []string{"HOOKLADDER_URL=http://127.0.0.1:1"}, "", "tail").code)
	require.Equal(t, 2, command(t, nil, "", "tail", "--since", "yesterday").code)
	require.Equal(t, 2, command(t, nil, "", "tail", "x").code)
	environ, _ = newTestStream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	got := command(t, environ, "", "tail")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "not an event stream")
}
