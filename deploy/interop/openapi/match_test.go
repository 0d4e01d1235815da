package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// order is the order of the calls of the examples, where one needs another. The rest come after
// them, and these at last.
var (
	first = []string{"create-endpoint", "publish", "publish-batch", "retry-deliveries"}
	last  = []string{"revoke-link", "delete-endpoint"}
)

// TestTheServerAcceptsEachExample sends each example of the document, and checks all responses
// against it. Some objects of the examples do not exist here.
func TestTheServerAcceptsEachExample(t *testing.T) {
	w := newWorld(t)
	rank := func(o operation) int {
		if i := slices.Index(first, o.OperationID); i >= 0 {
			return i
		}
		return len(first) + 1 + slices.Index(last, o.OperationID)
	}
	slices.SortFunc(w.operations, func(a, b operation) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a.OperationID, b.OperationID)
	})
	for i := range w.operations {
		o := &w.operations[i]
		var body []byte
		if len(o.RequestBody.Content) > 0 {
			var err error
			body, err = json.Marshal(o.RequestBody.Content["application/json"].Example)
			require.NoError(t, err)
			ok, why := accepts(t, w.body(o), body)
			require.True(t, ok, "%s: %v", o.OperationID, why)
		}
		status, contentType, answer := w.send(o.method, o.target(), body)
		require.False(t, refused(status), "%s: %d %s", o.OperationID, status, answer)
		w.requireDeclared(o, status, contentType, answer)
	}
}

// TestEachExampleOfAResponseFitsItsSchema covers the responses that no call above returns.
func TestEachExampleOfAResponseFitsItsSchema(t *testing.T) {
	w := newWorld(t)
	for i := range w.operations {
		o := &w.operations[i]
		for status, r := range o.Responses {
			for media, c := range r.Content {
				require.NotNil(t, c.Example, "%s %s %s has no example", o.OperationID, status, media)
				text, err := json.Marshal(c.Example)
				require.NoError(t, err)
				ok, why := accepts(t, w.schema("paths", o.path, strings.ToLower(o.method), "responses", status, "content", media, "schema"), text)
				require.True(t, ok, "%s %s: %v", o.OperationID, status, why)
			}
		}
	}
}

// values are put in each field in turn.
var values = func() []string {
	list := []string{
		`null`, `true`, `false`, `0`, `1`, `1.0`, `-1`, `1.5`, `7`, `1e9`, `{}`, `[]`, `[null]`, `["a"]`, `["a b"]`, `[1]`, `{"a":"b"}`, `{"a":null}`, `{"a":1}`, `{"Host":"x"}`, `{"x_forwarded_for":null}`,
		`"2026-01-31T12:00:00Z"`, `"2026-01-31t12:00:00z"`, `"2026-01-31T1:00:00Z"`, `"2026-01-31T12:00:60Z"`, `"today"`,
		`"15s"`, `"1d12h"`, `"1h30"`, `"15s/3m"`, `"100/s"`, `"0/s"`, `"007/m"`, `"100001/s"`, `"http://a"`, `"HTTPS://a.example:80/x?y#z"`, `"https://a.example/%zz"`, `"ftp://a"`, `"http://a b"`,
		`{"status":["2xx"]}`, `{"status":[]}`, `{"status":["1xx"]}`, `{"body":""}`, `{"body":{"path":"a"}}`, `{"body":{"path":"$.a[0]","equals":true}}`, `{"body":{"matches":"a","path":"b"}}`, `{"other":1}`,
		`"dead"`, `"delivered"`, `"pull"`, `"push"`, `"stripe"`, `"application/json; charset=utf-8"`, `"text"`, `"YQ=="`, `"YR=="`, `"YQ"`, `["15s",3]`, `[1e3]`, `["x"]`,
	}
	for _, text := range []string{"", "a", "a b", "a.b", ".", "..", "a..b", "é", "ep_1", "u_x", "q_x", "hookladder.x", "a\x01b", "line\nline", "*", "a.*", "a*", "x-ok", "content-type", " a",
		strings.Repeat("a", 129), strings.Repeat("é", 128), strings.Repeat("é", 129), strings.Repeat("é", 1024), strings.Repeat("é", 1025), strings.Repeat("a", 256), strings.Repeat("a", 257)} {
		quoted, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		list = append(list, string(quoted))
	}
	return list
}()

// beyond are fields whose value the server judges by more than a schema can say: texts with
// bounds, what exists, and what fits the endpoint.
var beyond = map[string]string{
	"publish.delay": "bounds of a text", "publish.timeout": "bounds of a text", "publish.expires_at": "a time to come", "publish.endpoint": "an endpoint that exists",
	"publish.deliver_at": "at most a year ahead", "publish.body": "", "publish.content_type": "parameters",
	"create-endpoint.timeout": "bounds of a text", "create-endpoint.disable_after": "bounds of a text",
	"patch-endpoint.timeout": "bounds of a text", "patch-endpoint.disable_after": "bounds of a text", "patch-endpoint.uid": "another one", "patch-endpoint.tenant": "another one", "patch-endpoint.kind": "another one",
	"patch-endpoint.signature": "another secret", "patch-endpoint.signature_header": "of hmac and hmac-hex only", "patch-endpoint.signature_prefix": "of hmac only", "patch-endpoint.headers": "*** for a header that is there", "patch-endpoint.success": "merged",
	"rotate-secret.overlap": "bounds of a text", "rotate-secret.secret": "as its signature wants it",
	"retry-deliveries.destination": "a uid that exists", "cancel-deliveries.destination": "a uid that exists", "purge-deliveries.destination": "a uid that exists",
	"take.lease": "bounds of a text", "take.wait": "bounds of a text", "create-link.for": "bounds of a text", "create-link.endpoint": "an endpoint that exists",
}

// TestTheDocumentAndTheServerAgreeOnBodies changes each field of each body, and sends what the
// document accepts and what it refuses.
func TestTheDocumentAndTheServerAgreeOnBodies(t *testing.T) {
	w := newWorld(t)
	w.sendExample("create-endpoint")
	w.sendExample("publish")
	n := [2]int{}
	for i := range w.operations {
		o := &w.operations[i]
		if len(o.RequestBody.Content) == 0 {
			continue
		}
		base := o.RequestBody.Content["application/json"].Example.(map[string]any)
		schema := w.body(o)
		for schema.Ref != nil {
			schema = schema.Ref
		}
		if o.OperationID == "take" {
			base["wait"] = "0s"
		}
		if o.OperationID == "patch-endpoint" {
			delete(base, "headers") // another patch removes those that it keeps
		}
		if _, job := schema.Properties["dry_run"]; job {
			base["dry_run"] = true
		}
		names := append(slices.Sorted(maps.Keys(schema.Properties)), "unknown_field")
		for _, name := range names {
			for _, value := range append(values, "left out") {
				body := maps.Clone(base)
				if body[name] = json.RawMessage(value); value == "left out" {
					delete(body, name)
				}
				n[w.compare(o, name, body)]++
			}
		}
	}
	require.Greater(t, min(n[0], n[1]), 500, "both accept, and both refuse")
}

// compare sends a body, and checks that server and document agree. It returns 1 if both accept it.
func (w *world) compare(o *operation, name string, body map[string]any) int {
	w.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(w.t, err)
	documented, why := accepts(w.t, w.body(o), text)
	status, contentType, answer := w.send(o.method, o.target(), text)
	w.requireDeclared(o, status, contentType, answer)
	bad := refused(status) || o.OperationID == "publish-batch" && !bytes.Contains(answer, []byte(`{"status":20`)) // each message is judged by itself
	switch _, may := beyond[o.OperationID+"."+name]; {
	case documented && bad && !may:
		w.t.Errorf("%s: the server refuses what the document accepts\n%s\n%s", o.OperationID, text, answer)
	case !documented && !bad:
		w.t.Errorf("%s: the server answers %d to what the document refuses\n%s\n%v", o.OperationID, status, text, why)
	}
	if documented {
		return 1
	}
	return 0
}

func (w *world) sendExample(id string) {
	w.t.Helper()
	i := slices.IndexFunc(w.operations, func(o operation) bool { return o.OperationID == id })
	o := &w.operations[i]
	body, err := json.Marshal(o.RequestBody.Content["application/json"].Example)
	require.NoError(w.t, err)
	status, _, answer := w.send(o.method, o.target(), body)
	require.Less(w.t, status, 300, "%s", answer)
}

// TestTheDocumentAndTheServerAgreeOnPairs sends fields that exclude each other.
func TestTheDocumentAndTheServerAgreeOnPairs(t *testing.T) {
	w := newWorld(t)
	w.sendExample("create-endpoint")
	for id, bodies := range map[string][]string{
		"publish": {
			`{"topic":"a","body":1,"url":"http://a","endpoint":"merchant-7"}`, `{"topic":"a","body":1,"url":"http://a","queue":"x"}`, `{"topic":"a","body":1,"url":"http://a","endpoint":null}`,
			`{"topic":"a"}`, `{"topic":"a","body":null}`, `{"topic":"a","body":null,"raw_body":"x"}`, `{"topic":"a","raw_body":null}`, `{"topic":"a","raw_body":"x","raw_body_base64":"YQ=="}`,
			`{"topic":"a","body":1,"delay":1,"deliver_at":"2026-01-31T12:00:00Z"}`, `{"topic":"a","body":1,"delay":null,"deliver_at":"2026-01-31T12:00:00Z"}`,
			`{"topic":"a","body":1,"queue":"x","timeout":3600}`, `{"topic":"a","body":1,"timeout":61}`, `{"topic":"a","body":1,"queue":"u_x"}`, `[]`, `1`,
		},
		"create-endpoint": {
			`{}`, `{"url":null}`, `{"kind":"pull"}`, `{"kind":"pull","url":"http://a"}`, `{"kind":"pull","success":{}}`, `{"kind":"pull","timeout":2}`, `{"kind":null,"url":"http://a"}`, `{"kind":"push"}`,
			`{"url":"http://a","signature_header":"x-own"}`, `{"url":"http://a","signature":"hmac-hex","signature_header":"x-own"}`, `{"url":"http://a","signature":"hmac-hex","signature_header":"host"}`,
			`{"url":"http://a","signature":"stripe","signature_header":"X-Signature"}`, `{"url":"http://a","secret":"0123456789abcdef"}`, `{"url":"http://a","signature":"github","secret":"0123456789abcdef"}`,
			`{"url":"http://a","secret":"whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="}`, `{"url":"http://a","signature":"github","secret":"short"}`, `{"url":"http://a","id":"ep_1"}`, `{"url":"http://a","id":null,"state":null}`,
		},
		"retry-deliveries": {
			`{}`, `{"all":true,"dry_run":true}`, `{"all":false}`, `{"failed":false}`, `{"failed":true,"dry_run":true}`, `{"tenant":"x","rate":5,"dry_run":true}`, `{"tenant":["x","y"],"dry_run":true}`, `{"tenant":[],"dry_run":true}`,
			`{"status":"delivered","dry_run":true}`, `{"status":"in_flight","dry_run":true}`, `{"all":true,"probe":true,"dry_run":true}`,
		},
		"purge-deliveries":  {`{"all":true,"probe":true,"dry_run":true}`, `{"all":true,"probe":false,"dry_run":true}`, `{"status":["dead"],"dry_run":true}`, `{"status":["ready"],"dry_run":true}`},
		"cancel-deliveries": {`{"status":["ready","in_flight"],"dry_run":true}`, `{"status":"dead","dry_run":true}`},
		"settle": {
			`{"results":[]}`, `{"results":[{"id":"q_a:b","outcome":"delivered"}]}`, `{"results":[{"id":"q_a:b","outcome":"delivered","after":"1s"}]}`, `{"results":[{"id":"q_a:b","outcome":"extend"}]}`,
			`{"results":[{"id":"q_a:b","outcome":"extend","after":3601}]}`, `{"results":[{"id":"q_a:b","outcome":"retry","after":3601}]}`, `{"results":[{"id":"q_a","outcome":"dead"}]}`, `{"results":[{"outcome":"dead"}]}`,
			`{"results":[{"id":"q_a:b","outcome":"dead","error":"","lease":null}]}`, `{"results":[{"id":"q_a:b","outcome":"dead","lease":""}]}`, `{"results":[{"id":"q_a:b","outcome":"dead","more":1}]}`,
		},
		"patch-endpoint": {
			`{"url":null}`, `{"headers":{"authorization":"***"},"state":1,"id":[],"created_at":null}`, `{"secret":"x"}`, `{"uid":"other"}`, `{"success":{"body":null}}`,
		},
	} {
		i := slices.IndexFunc(w.operations, func(o operation) bool { return o.OperationID == id })
		o := &w.operations[i]
		for _, text := range bodies {
			documented, why := accepts(t, w.body(o), []byte(text))
			status, contentType, answer := w.send(o.method, o.target(), []byte(text))
			w.requireDeclared(o, status, contentType, answer)
			if id == "patch-endpoint" && text == `{"uid":"other"}` {
				documented = false // the stored endpoint makes the server refuse it
			}
			require.Equal(t, documented, !refused(status), "%s %s: %d %s\n%v", id, text, status, answer, why)
		}
	}
}

// parameters are put in each parameter of a query in turn.
var parameters = []string{
	"", "a", "a b", "é", "*", "a.*", "a..b", ".", "..", "u_x", "q_x", "q_u_x", "q_" + strings.Repeat("a", 64), "q_" + strings.Repeat("a", 65), "ep_" + strings.Repeat("a", 14), "http://a", "ftp://a", "http://a b", "http://a:99999999",
	"2026-01-31T12:00:00Z", "2026-01-31 12:00:00Z", "today", "0", "1", "50", "501", "true", "maybe", strings.Repeat("a", 129), "job_1", "job_01", "dead", "delivered", "gone", "accepted", "\x01", "1s", "61s", "25", "200", "99", "publish", "endpoint.pause",
}

// judged are parameters that the server judges by more than a schema can say.
var judged = map[string]string{
	"cursor": "a cursor of this list", "destination": "a uid that exists", "order": "fits the statuses", "for": "bounds of a text", "endpoint": "an endpoint", "tenant of list-lanes": "goes with a URL",
	"tenant of pause-lane": "goes with a URL", "tenant of resume-lane": "goes with a URL", "all_tenants": "goes with a URL",
}

// TestTheDocumentAndTheServerAgreeOnQueries sends values for each parameter.
func TestTheDocumentAndTheServerAgreeOnQueries(t *testing.T) {
	w := newWorld(t)
	w.sendExample("create-endpoint")
	w.sendExample("publish")
	n := [2]int{}
	for i := range w.operations {
		o := &w.operations[i]
		if len(o.RequestBody.Content) > 0 || strings.HasPrefix(o.OperationID, "delete") || o.OperationID == "tick" {
			continue
		}
		for k, p := range o.Parameters {
			if p.In != "query" {
				continue
			}
			schema := w.schema("paths", o.path, strings.ToLower(o.method), "parameters", fmt.Sprint(k), "schema")
			for _, value := range parameters {
				documented, why := accepts(t, schema, asParameter(t, p.Schema, value))
				status, contentType, answer := w.send(o.method, o.target()+"?"+p.Name+"="+url.QueryEscape(value), nil)
				w.requireDeclared(o, status, contentType, answer)
				may := judged[p.Name] != "" || judged[p.Name+" of "+o.OperationID] != ""
				if documented != !refused(status) && !(documented && may) {
					t.Errorf("%s ?%s=%q: the document accepts it: %v; the server answers %d %s\n%v", o.OperationID, p.Name, value, documented, status, answer, why)
				}
				n[map[bool]int{true: 1}[documented]]++
			}
		}
	}
	require.Greater(t, min(n[0], n[1]), 100, "both accept, and both refuse")
}

// asParameter is a value as a validator reads it by the type of its schema.
func asParameter(t testing.TB, schema map[string]any, value string) []byte {
	t.Helper()
	if schema["type"] == "array" {
		items, _ := schema["items"].(map[string]any)
		return slices.Concat([]byte("["), asParameter(t, items, value), []byte("]"))
	}
	if schema["type"] == "integer" && json.Valid([]byte(value)) {
		return []byte(value)
	}
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return text
}
