package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

var asJSON = http.Header{"Content-Type": {"application/json"}}

// refusedWith calls and wants a problem of a type; it answers the problem.
func (i *instance) refusedWith(status int, word, method, path, body string) wire.Problem {
	i.t.Helper()
	res, text := i.call(method, path, body, asJSON.Clone())
	require.Equal(i.t, status, res.StatusCode, text)
	var p wire.Problem
	require.NoError(i.t, json.Unmarshal([]byte(text), &p), text)
	require.Equal(i.t, "/problems/"+word, p.Type, text)
	return p
}

// answered calls and reads the answer into to.
func (i *instance) answered(status int, to any, method, path, body string) {
	i.t.Helper()
	res, text := i.call(method, path, body, asJSON.Clone())
	require.Equal(i.t, status, res.StatusCode, text)
	require.NoError(i.t, json.Unmarshal([]byte(text), to), text)
}

func TestEndpointsTellAndTakeWhatTheContractSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const key = "admin-0123456789abc"
	i := w.serve("API_KEYS=" + key + ":admin")
	environ := []string{"HOOKLADDER_URL=" + i.URL, "HOOKLADDER_KEY=" + key}
	refuses := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }))
	t.Cleanup(refuses.Close)
	bearer := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + key}}
	for _, name := range []string{"a", "b", "c", ""} {
		args := []string{"endpoints", "create", "--url", refuses.URL, "--topic", "x"}
		if name != "" {
			args = append(args, "--tenant", name, "--uid", name)
		}
		require.Zero(t, mustRun(t, environ, "", args...).code)
	}
	res, text := i.call("GET", "/v1/endpoints?tenant=a&tenant=&tenant=c", "", bearer)
	require.Equal(t, 200, res.StatusCode, text)
	var page wire.EndpointPage
	require.NoError(t, json.Unmarshal([]byte(text), &page))
	var tenants []string
	for _, e := range page.Data {
		tenants = append(tenants, e.Tenant)
	}
	require.Equal(t, []string{"", "c", "a"}, tenants, "any of them matches, newest first")
	require.Equal(t, 1+2, strings.Count(mustRun(t, environ, "", "endpoints", "list", "--tenant", "a", "--tenant", "b").out, "\n"))

	res, text = i.call("POST", "/v1/endpoints/a/test", `{"topic":"x","body":{"a":1}}`, bearer)
	require.Equal(t, 422, res.StatusCode, text)
	res, text = i.call("POST", "/v1/endpoints/a/test", "", bearer)
	require.Equal(t, 200, res.StatusCode, text)
	require.Contains(t, text, `"outcome":"failed"`)
	got := mustRun(t, environ, "", "endpoints", "test", "a")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "failed  500")

	got = mustRun(t, environ, "", "endpoints", "rotate-secret", "a")
	require.Zero(t, got.code)
	secret := strings.Fields(mustRun(t, environ, "", "endpoints", "secret", "a").out)[0]
	require.Contains(t, got.out, secret)
	require.Regexp(t, `old secret +signs too until 20`, got.out)
	res, text = i.call("POST", "/v1/endpoints/a/rotate-secret", `{"overlap":"0s"}`, bearer)
	require.Equal(t, 200, res.StatusCode, text)
	require.Regexp(t, `"secret":"whsec_`, text)
	require.Contains(t, text, `"previous_until":null`)

	got = mustRun(t, environ, "1", "send", "--topic", "nobody.wants", "--require-match")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "No endpoint matches")
	got = mustRun(t, environ[:1], "", "lanes")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "HOOKLADDER_KEY")
}
