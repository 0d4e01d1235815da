package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// FuzzAPI: whatever is asked of the API, it answers, and never that something
// went wrong inside; each problem is well formed.
func FuzzAPI(f *testing.F) {
	o := newTestOptions(redistest.Start(f).URL())
	o.Engine.MaxInFlight = 0 // nothing that is made up here is sent anywhere,
	var err error
	o.Proxy, err = url.Parse("http://127.0.0.1:1") // by a test of an endpoint neither
	require.NoError(f, err)
	p := start(f, o)
	seedAPI(f, p)
	f.Fuzz(func(t *testing.T, method, path, query, headers string, body []byte) {
		if strings.Contains(query, "seconds") {
			return // a profile takes its time
		}
		r, err := http.NewRequestWithContext(t.Context(), method, p.api, bytes.NewReader(body))
		if err != nil {
			return
		}
		r.URL.Opaque = "//" + r.URL.Host + "/" + strings.TrimPrefix(path, "/")
		if strings.ContainsFunc(r.URL.Opaque+query, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' || c == '?' }) {
			return // no client sends it
		}
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", "application/json")
		for line := range strings.Lines(headers) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name != "" {
				r.Header.Set(name, strings.TrimSpace(value))
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			if strings.Contains(err.Error(), "invalid") || strings.Contains(err.Error(), "unsupported") {
				return // the client refused it
			}
			require.NoError(t, err, "%s %s?%s", method, path, query)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		requireSound(t, resp, text)
	})
}

// requireSound checks what holds of every answer.
func requireSound(t *testing.T, resp *http.Response, text []byte) {
	t.Helper()
	said := resp.Request.Method + " " + resp.Request.URL.String() + ": " + string(text)
	require.Less(t, resp.StatusCode, 500, said)
	if resp.Header.Get("Content-Type") != "application/problem+json" {
		return
	}
	require.GreaterOrEqual(t, resp.StatusCode, 400, said)
	if resp.Request.Method == http.MethodHead {
		return
	}
	var problem wire.Problem
	require.NoError(t, json.Unmarshal(text, &problem), said)
	require.Equal(t, resp.StatusCode, problem.Status, said)
	require.Regexp(t, "^/problems/[a-z-]+$", problem.Type, said)
	require.NotEmpty(t, problem.Title, said)
}

// seedAPI adds a call of each operation, with what a careless caller makes of it.
func seedAPI(f *testing.F, p *process) {
	f.Helper()
	resp, err := http.Get(p.api + "/openapi.json")
	require.NoError(f, err)
	defer resp.Body.Close() //nolint:errcheck // it was read
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(f, json.NewDecoder(resp.Body).Decode(&doc))
	require.Greater(f, len(doc.Paths), 15)
	bodies := []string{
		``, `{}`, `[]`, `null`, `{"topic":"a.b","url":"https://a.example/x","body":{"a":1},"id":"m1","delay":"1h","headers":{"x-a":"1"}}`,
		`{"messages":[{"topic":"a","tenant":"t","body":1},{"topic":"","endpoint":"merchant:7"}]}`,
		`{"url":"https://a.example/","topics":["a.*"],"tenant":"t","uid":"merchant:7","rate":"20/s","success":{"status":["2xx"],"body":{"matches":"(?i)^ok"}}}`,
		`{"ladder":"15s/3m","timeout":99,"success":{"body":{"path":"a.0","equals":1e999}},"metadata":{"a":null},"headers":{"webhook_id":null}}`,
		`{"overlap":"-1s","secret":"whsec_AAAA"}`, "{\"topic\":\"\xff\"}", `{"a":` + strings.Repeat("[", 200),
	}
	ids := []string{"m1", "merchant:7", "ep_0", "https%3A%2F%2Fa.example", "*", "%00", "%ff", strings.Repeat("a", 300)}
	n := 0
	for path, methods := range doc.Paths {
		for method := range methods {
			for _, id := range ids {
				at := strings.NewReplacer("{id}", id, "{lane}", id).Replace(path)
				f.Add(strings.ToUpper(method), at, "limit=1&cursor="+id+"&destination="+id, "Idempotency-Key: "+strings.TrimLeft(id, "%*"), []byte(bodies[n%len(bodies)]))
				n++
			}
		}
	}
	f.Add("PROPFIND", "//v1/./messages", "%zz=1;", "Content-Encoding: gzip\nAuthorization: Bearer x", []byte("x"))
	f.Add("GET", "debug/pprof/heap", "debug=1", "Sec-Fetch-Site: cross-site\nOrigin: null", []byte(nil))
	f.Add("POST", "v1/messages", "status=dead&status=x&since=0000", "Content-Type: text/plain\nExpect: 100-continue", []byte(`{"topic":1}`))
}
