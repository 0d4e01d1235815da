package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
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

func TestAWrongSuccessIsToldByItsPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	for success, path := range map[string]string{
		`{"stats":["2xx"]}`:                   "$.success.stats",
		`{"status":["2xx","9xx"]}`:            "$.success.status[1]",
		`{"body":{"path":"a","eqals":1}}`:     "$.success.body.eqals",
		`{"body":{"path":"$..a","equals":1}}`: "$.success.body.path",
	} {
		for to, body := range map[string]string{
			"/v1/messages":  `{"topic":"t","url":"` + w.receiver.URL(0) + `","body":1,"success":` + success + `}`,
			"/v1/endpoints": `{"url":"` + w.receiver.URL(0) + `","success":` + success + `}`,
		} {
			p := i.refusedWith(422, "invalid", "POST", to, body)
			require.Equal(t, path, p.Errors[0].Path)
			require.NotRegexp(t, `\bGo\b|json|dispatcher`, p.Errors[0].Detail)
		}
	}

	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, _ int) {
		_, _ = rw.Write([]byte(`{"code":"SUCCESS"}`))
	})
	i.publish(wire.Message{ID: "dollar", URL: w.receiver.URL(0), Success: &wire.Success{Body: []byte(`{"path":"$.code","equals":"SUCCESS"}`)}})
	i.until("dollar", "delivered")
}

func TestNullIsLeftOutAndAPatchMayRepeatAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	url := `"url":"` + w.receiver.URL(0) + `"`
	message := `{"id":"nulls",` + url + `,"topic":"t","tenant":null,"endpoint":null,"delay":null,"ladder":null,"success":null,"raw_body":null,"body":null}`
	w.receiver.expect("nulls", &wire.Message{Body: []byte("null")})
	var p wire.Published
	i.answered(202, &p, "POST", "/v1/messages", message)
	require.Equal(t, "null", w.receiver.wait("nulls", 1).body)
	i.refusedWith(422, "invalid", "POST", "/v1/messages", `{"topic":null,"body":1}`)

	var e map[string]any
	i.answered(201, &e, "POST", "/v1/endpoints", `{`+url+`,"secret":"`+w.secret.Reveal()+`","uid":"shop","tenant":"m7","topics":["a"],"rate":null,"headers":{"x-key":"hunter2"},"metadata":{"a":"1"},"timeout":"5s"}`)
	i.answered(200, &e, "GET", "/v1/endpoints/shop", "")
	e["description"], e["state"], e["timeout"] = "changed", "paused", nil
	delete(e, "secret") // of the first answer
	text, err := json.Marshal(e)
	require.NoError(t, err)
	var after wire.EndpointView
	i.answered(200, &after, "PATCH", "/v1/endpoints/shop", string(text))
	require.Equal(t, "changed", after.Description)
	require.Equal(t, "active", after.State)
	require.Zero(t, after.Timeout, "null is the default")
	for _, other := range []string{`{"uid":"shop2"}`, `{"uid":null}`, `{"tenant":"m8"}`, `{"kind":"pull"}`} {
		i.refusedWith(422, "invalid", "PATCH", "/v1/endpoints/shop", other)
	}
	i.publish(wire.Message{ID: "m1", Tenant: "m7", Topic: "a"})
	require.Equal(t, "hunter2", w.receiver.wait("m1", 1).header.Get("x-key"), "*** kept it")
}

func TestABodyCountsWithoutItsEscapes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	for id, c := range map[string]struct {
		text string
		n    int
	}{"quotes": {`\"`, 262144}, "chinese": {`\u4e2d`, 262144 / 3}, "controls": {`\u0001`, 262144}} {
		w.receiver.expect(id, &wire.Message{RawBody: new(string)})
		body := func(n int) string {
			return `{"id":"` + id + `","topic":"t","delay":3600,"url":"` + w.receiver.URL(0) + `","raw_body":"` + strings.Repeat(c.text, n) + `"}`
		}
		var p wire.Published
		i.answered(202, &p, "POST", "/v1/messages", body(c.n))
		over := i.refusedWith(413, "too-large", "POST", "/v1/messages", body(c.n+1))
		require.Contains(t, over.Detail, "MAX_BODY")
		require.Contains(t, over.Detail, "raise the setting")
	}
	huge := i.refusedWith(413, "too-large", "POST", "/v1/messages", `{"raw_body":"`+strings.Repeat("a", 4<<20)+`"}`)
	require.Contains(t, huge.Detail, "262144 (MAX_BODY)")
	res, text := i.call("POST", "/v1/messages", "a=1", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	require.Equal(t, 415, res.StatusCode)
	require.Contains(t, text, "send the header Content-Type: application/json")
}

func TestWhatAPublishSaysOfItsIdAndItsMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	keyed := func(key, more string) (int, wire.Published) {
		header := asJSON.Clone()
		header.Set("Idempotency-Key", key)
		res, text := i.call("POST", "/v1/messages", `{"topic":"t","delay":3600,"url":"`+w.receiver.URL(0)+`","body":1`+more+`}`, header)
		var p wire.Published
		require.NoError(t, json.Unmarshal([]byte(text), &p), text)
		return res.StatusCode, p
	}
	_, p := keyed(`"8e03978e-40d5-43dd-bc93-6894a57f9324"`, "")
	require.Equal(t, "8e03978e-40d5-43dd-bc93-6894a57f9324", p.ID, "without its quotes")
	_, p = keyed("shop:order.17 ü", "")
	sum := sha256.Sum256([]byte("shop:order.17 ü"))
	require.Equal(t, "idk_"+hex.EncodeToString(sum[:])[:32], p.ID)
	code, p := keyed("shop:order.17 ü", "")
	require.Equal(t, 200, code)
	require.True(t, p.Duplicate)
	_, p = keyed("other", `,"id":"own"`)
	require.Equal(t, "own", p.ID)

	fan := `{"topic":"nobody.wants","body":1`
	i.answered(200, &p, "POST", "/v1/messages", fan+`}`)
	require.Zero(t, p.Matched)
	i.refusedWith(422, "unmatched", "POST", "/v1/messages", fan+`,"require_match":true}`)
	var all wire.Results
	i.answered(202, &all, "POST", "/v1/messages/batch", `{"messages":[`+fan+`,"require_match":true},`+fan+`}]}`)
	require.Equal(t, "/problems/unmatched", all.Results[0].Problem.Type)
	require.Equal(t, 200, all.Results[1].Status)

	large := strings.Repeat("x", 100_000)
	first := map[string]string{"topic": `"a"`, "tenant": `"m7"`, "url": `"` + w.receiver.URL(0) + `"`, "raw_body": `"` + large + `"`, "content_type": `"text/plain"`}
	send := func(change map[string]string) wire.Problem {
		text := `{"id":"taken","delay":3600`
		for name, value := range first {
			if v, ok := change[name]; ok {
				value = v
			}
			if value != "" {
				text += `,"` + name + `":` + value
			}
		}
		if v := change["endpoint"]; v != "" {
			text += `,"endpoint":` + v
		}
		if change == nil {
			i.answered(202, &p, "POST", "/v1/messages", text+"}")
			return wire.Problem{}
		}
		return i.refusedWith(409, "conflict", "POST", "/v1/messages", text+"}")
	}
	send(nil)
	for want, change := range map[string]map[string]string{
		"topic":              {"topic": `"b"`},
		"body":               {"raw_body": `"` + large[1:] + `y"`},
		"content_type":       {"content_type": `"text/html"`},
		"topic, body":        {"topic": `"b"`, "raw_body": `"y"`},
		"destination":        {"url": `"` + w.receiver.URL(0) + `/other"`},
		"content_type, body": {"content_type": `"text/html"`, "raw_body": `"y"`},
	} {
		require.Contains(t, send(change).Detail, want+" not as in the first", "%v", change)
	}
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

func TestABatchOfWhichNothingWasStoredIs503(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.troubled = true
	w.redis.Kill()
	batch := []wire.Message{{ID: "one", Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")}, {Topic: "not a topic", URL: w.receiver.URL(0), Body: []byte("1")}}
	results, err := i.PublishBatch(t.Context(), batch)
	p := problemOf(t, err)
	require.Equal(t, 503, p.Status)
	require.Positive(t, p.RetryAfter)
	require.NotContains(t, p.Detail, "unexpected")
	for _, r := range results {
		require.NotEqual(t, 202, r.Status)
	}
}

func TestRefusedCallersLeaveATrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const publishes, reads = "publishes-0123456789", "reads-0123456789abc"
	i := w.serve("API_KEYS="+publishes+":publish:shop,"+reads+":read:pager", "LOG_LEVEL=info")
	call := func(key, method, path, body string, status int) string {
		t.Helper()
		res, text := i.call(method, path, body, http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + key}})
		require.Equal(t, status, res.StatusCode, text)
		return text
	}
	figures := call(reads, "GET", "/metrics", "", 200)
	require.Contains(t, figures, "\nhookladder_requests_total{call=\"publish\",status=\"422\"} 0\n", "all series are there from the start")
	bad := `{"topic":"t","url":"http://10.1.2.3/","body":1}`
	call(publishes, "POST", "/v1/messages", bad, 422)
	call(publishes, "POST", "/v1/messages", bad, 422)
	call(publishes, "POST", "/v1/messages/batch", `{"messages":[`+bad+`,`+bad+`,`+bad+`]}`, 202)
	call(reads, "POST", "/v1/messages", bad, 403)
	call("a-key-of-yesterday", "POST", "/v1/messages", bad, 401)
	call("a-key-of-yesterday", "GET", "/v1/stats", "", 401)
	figures = call(reads, "GET", "/metrics", "", 200)
	for _, line := range []string{
		`hookladder_requests_total{call="publish",status="422"} 2`, `hookladder_requests_total{call="publish",status="401"} 1`,
		`hookladder_requests_total{call="publish",status="403"} 1`, `hookladder_requests_total{call="stats",status="401"} 1`,
		`hookladder_requests_total{call="publish-batch",status="202"} 1`, `hookladder_accepted_total{result="refused"} 7`,
	} {
		require.Contains(t, figures, "\n"+line+"\n")
	}
	require.Less(t, strings.Count(figures, "hookladder_requests_total{"), 450)
	lines := strings.Count(i.log(), `"msg":"call refused"`)
	require.Equal(t, 3, lines, "one for each key and address: %s", i.log())
	for _, word := range []string{`"key":"shop"`, `"field":"$.url"`, `"key":"pager"`, `"status":403`, `"address":"127.0.0.1"`, `"status":401`} {
		require.Contains(t, i.log(), word)
	}
	require.NotContains(t, i.log(), "a-key-of-yesterday")
}
