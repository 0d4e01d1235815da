package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// jobsAPI answers the calls of jobs: each path's answers one after the other, the last
// one again and again. An empty one is a 404.
func jobsAPI(t *testing.T, answers map[string][]string) (environ []string, calls *[]string) {
	t.Helper()
	calls = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name := r.Method + " " + r.URL.RequestURI()
		*calls = append(*calls, strings.TrimSpace(name+" "+string(body)))
		if strings.Contains(string(body), "dry_run") {
			name += " dry"
		}
		list := answers[name]
		if len(list) == 0 || list[0] == "" {
			w.Header().Set("content-type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"type":"/problems/not-found","title":"It is not there","status":404}`)
			return
		}
		if len(list) > 1 {
			answers[name] = list[1:]
		}
		w.Header().Set("content-type", "application/json")
		fmt.Fprint(w, list[0])
	}))
	t.Cleanup(server.Close)
	return []string{"HOOKLADDER_URL=" + server.URL}, calls
}

// atTerminal runs a command at a terminal, where a person types text.
func atTerminal(t *testing.T, environ []string, text string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := run(t.Context(), world{args: args, environ: environ, in: strings.NewReader(text), out: &out, err: &err, terminal: true})
	return result{code: code, out: out.String(), err: err.String()}
}

const (
	retryCall = "POST /v1/deliveries/retry"
	found     = `{"matched":41203,"complete":true,"by_reason":{"gone":41203},"oldest":null,"newest":null,"sample":[]}`
	begun     = `{"id":"job_7","kind":"retry","state":"running","filter":{},"done":0,"started_at":"2026-01-31T12:00:00Z","ended_at":null}`
	over      = `{"id":"job_7","kind":"retry","state":"done","filter":{},"matched":41203,"done":41200,"failed":3,"started_at":"2026-01-31T12:00:00Z",` +
		`"ended_at":"2026-01-31T12:00:09Z","failures":[{"id":"u_1:m1","why":"expired"}]}`
)

func TestARetryByFilterAsksAPersonAndShowsItsProgress(t *testing.T) {
	environ, calls := jobsAPI(t, map[string][]string{retryCall + " dry": {found}, retryCall: {begun}, "GET /v1/jobs/job_7": {over}})
	got := atTerminal(t, environ, "y\n", "retry", "--destination", "ep_123456789", "--rate", "200/s", "--subject", "order 7")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "Retry 41,203 deliveries to ep_123456789 at 200/s? [y/N] ")
	require.Contains(t, got.err, "job_7 [                        ] 0 of 41,203, running")
	require.Contains(t, got.err, "41,203 of 41,203, 3 failed, done\n")
	require.Contains(t, got.out, "u_1:m1 failed: expired\n  and 2 more\n")
	require.Equal(t, []string{
		retryCall + ` {"subject":["order 7"],"destination":["ep_123456789"],"rate":"200/s","dry_run":true}`,
		retryCall + ` {"subject":["order 7"],"destination":["ep_123456789"],"rate":"200/s"}`, "GET /v1/jobs/job_7",
	}, *calls)

	for _, text := range []string{"n\n", "\n", "", "yes please\n"} {
		*calls = nil
		got = atTerminal(t, environ, text, "retry", "--all")
		require.Equal(t, exitFailed, got.code)
		require.Contains(t, got.err, "nothing was changed")
		require.Len(t, *calls, 1)
	}
}

// A dry run says at once what it has found, and then counts all.
func TestADryRunCountsOn(t *testing.T) {
	part := strings.Replace(found, `41203,"complete":true`, `900,"complete":false`, 1)
	environ, calls := jobsAPI(t, map[string][]string{retryCall + " dry": {part, found}})
	got := command(t, environ, "", "retry", "--all", "--dry-run")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "at least 900 deliveries match; counting for up to ten seconds\n")
	require.Contains(t, got.out, "41,203 deliveries match\n")
	require.Equal(t, []string{retryCall + ` {"all":true,"dry_run":true}`, retryCall + ` {"all":true,"dry_run":true,"count_all":true}`}, *calls)
}

func TestAScriptIsNotAskedAndDoesNotWait(t *testing.T) {
	environ, calls := jobsAPI(t, map[string][]string{retryCall: {begun}})
	require.Equal(t, exitUsage, command(t, environ, "", "retry", "--all").code)
	require.Equal(t, exitUsage, command(t, environ, "", "retry", "--yes", "--since", "soon").code)
	require.Empty(t, *calls)
	got := command(t, environ, "", "retry", "--all", "--yes", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, `"id": "job_7"`)
	require.Equal(t, []string{retryCall + ` {"all":true}`}, *calls)
}

func TestNothingToRetryIsNotAskedAbout(t *testing.T) {
	environ, calls := jobsAPI(t, map[string][]string{retryCall + " dry": {`{"matched":0,"complete":true,"by_reason":{},"oldest":null,"newest":null,"sample":[]}`}})
	got := atTerminal(t, environ, "y\n", "retry", "--all")
	require.Equal(t, exitOK, got.code)
	require.Equal(t, "nothing matches\n", got.err)
	require.Len(t, *calls, 1)
}

// A watch has an end where no later answer can be another.
func TestAWatchEndsWhereItsJobIsGone(t *testing.T) {
	environ, _ := jobsAPI(t, map[string][]string{"GET /v1/jobs/job_7": {begun, ""}})
	require.Equal(t, exitNotFound, atTerminal(t, environ, "", "jobs", "show", "job_7", "--watch").code)
}

func TestDeadAndJobsListWithoutAWordBehindThem(t *testing.T) {
	for of, call := range map[string]string{"dead": "GET /v1/dead", "jobs": "GET /v1/jobs"} {
		environ, calls := jobsAPI(t, nil)
		command(t, environ, "", of)
		require.Len(t, *calls, 1)
		require.Contains(t, (*calls)[0], call)
		require.Equal(t, exitUsage, command(t, environ, "", of, "list").code)
	}
}
