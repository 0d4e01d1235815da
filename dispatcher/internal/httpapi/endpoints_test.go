package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// endpoint is an endpoint as JSON, with more members.
func endpoint(more string) string {
	e := `{"url":"https://shop.example/hooks"`
	if more != "" {
		e += "," + more
	}
	return e + "}"
}

func TestAnEndpointIsCreatedAndAnsweredWithItsSecret(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{Secret: MustSecret(t, signer.Standard, SecretNew)}}
	h := newTestAPI(t, f)
	w := Post(h, "/v1/endpoints", endpoint(""))
	require.Equal(t, `{"id":"ep_123456789","kind":"push","url":"https://shop.example/hooks","topics":["*"],"secret":"`+SecretNew+`","signature":"standard",`+
		`"ordered":false,"disabled":false,"state":"active","in_flight":2,"waiting":9,"secret_fingerprint":"`+f.Secret.Fingerprint()+`","created_at":"2026-01-31T11:00:00.123Z","updated_at":"2026-01-31T11:00:00.123Z"}`,
		w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	DecodeAnswer[wire.EndpointView](t, w, 201)

	f.Equal = true
	w = Post(h, "/v1/endpoints", endpoint(`"uid":"m","secret":"`+SecretOld+`"`))
	require.Empty(t, DecodeAnswer[wire.EndpointView](t, w, 200).Secret, "a repeat holds no secret")
	require.NotContains(t, w.Body.String(), SecretOld)

	f.Err = fmt.Errorf("uid m: %w", dispatcher.ErrTaken)
	RequireProblem(t, Post(h, "/v1/endpoints", endpoint(`"uid":"m"`)), 409, "taken")
}

func TestTheHeaderOfASignatureIsTheEndpointsOwn(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.EndpointView](t, Post(h, "/v1/endpoints", `{"url":"http://a/","signature":"hmac-hex","signature_header":"X-Pay-Sign"}`), 201)
	require.Equal(t, "X-Pay-Sign", f.There.Form.Header)
	require.Equal(t, "X-Pay-Sign", got.SignatureHeader)
	RequireProblem(t, Post(h, "/v1/endpoints", `{"url":"http://a/","signature_header":"x-pay-sign"}`), 422, "invalid")
}

func TestTheFormOfASignatureIsTheEndpointsOwn(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.EndpointView](t, Post(h, "/v1/endpoints", `{"url":"http://a/","signature":"hmac","signature_header":"X-Convoy-Signature",
		"signature_hash":"sha512","signature_encoding":"base64","signature_content":"t-comma-body","secret":"convoy-webhook-secret"}`), 201)
	require.Equal(t, signer.HMAC, f.There.Signature)
	require.Equal(t, signer.Form{Header: "X-Convoy-Signature", Hash: signer.SHA512, Encoding: signer.Base64, Content: signer.TimeCommaBody}, f.There.Form)
	require.Equal(t, []string{"sha512", "base64", "", "t-comma-body"}, []string{got.SignatureHash, got.SignatureEncoding, got.SignaturePrefix, got.SignatureContent})

	got = DecodeAnswer[wire.EndpointView](t, Post(h, "/v1/endpoints", `{"url":"http://a/","signature":"hmac","signature_prefix":"v0=",
		"signature_hash":"sha256","signature_encoding":"hex","signature_content":"body"}`), 201)
	require.Equal(t, signer.Form{Prefix: "v0="}, f.There.Form, "the defaults are left out, so that both are equal")
	require.Equal(t, "v0=", got.SignaturePrefix)
	for _, field := range []string{`"signature_hash":"sha1"`, `"signature_encoding":"base32"`, `"signature_prefix":"much longer than it may be"`, `"signature_content":"t:body"`} {
		RequireProblem(t, Post(h, "/v1/endpoints", `{"url":"http://a/","signature":"hmac",`+field+`}`), 422, "invalid")
	}
	RequireProblem(t, Post(h, "/v1/endpoints", `{"url":"http://a/","signature":"github","signature_hash":"sha512"}`), 422, "invalid")
}

func TestEveryFieldOfAnEndpointReachesTheEngine(t *testing.T) {
	f := &Fake{}
	got := DecodeAnswer[wire.EndpointView](t, Post(newTestAPI(t, f), "/v1/endpoints", `{"secret":"`+SecretEd+`",
		"uid":"a:b@c.d-e_f","tenant":"m:7","url":"http://a/?x=<&>","topics":["payment.*","a.b","*"],"description":"line\nline","metadata":{"k":"v"},
		"signature":"standard-ed25519","ladder":"1s/2s","timeout":2.5,"max_in_flight":65536,"rate":"600/m","headers":{"x-b":"2","Authorization":"Bearer hunter2"},
		"success":{"status":["200"],"body":"ok"},"ordered":true,"disabled":true}`), 201)
	e := f.There
	require.Equal(t, "a:b@c.d-e_f", e.UID)
	require.Equal(t, "m:7", e.Tenant)
	require.Equal(t, "http://a/?x=<&>", e.URL)
	require.Equal(t, []string{"payment.*", "a.b", "*"}, e.Topics)
	require.Equal(t, "line\nline", e.Description)
	require.Equal(t, map[string]string{"k": "v"}, e.Metadata)
	require.Equal(t, signer.StandardEd25519, e.Signature)
	require.Len(t, e.Secrets, 1)
	require.Equal(t, SecretEd, got.Secret)
	require.Equal(t, 2, e.Ladder.Len())
	require.Equal(t, 2500*time.Millisecond, e.Timeout)
	require.Equal(t, 65536, e.MaxInFlight)
	require.Equal(t, 100*time.Millisecond, e.Rate.Interval())
	require.Equal(t, []dispatcher.Header{{Name: "Authorization", Value: "Bearer hunter2"}, {Name: "x-b", Value: "2"}}, e.Headers, "in the order of their names")
	require.True(t, e.Success.Body([]byte("ok")))
	require.True(t, e.Ordered)
	require.True(t, e.Disabled)

	require.Equal(t, "600/m", got.Rate)
	require.Equal(t, map[string]string{"Authorization": "***", "x-b": "***"}, got.Headers)
	require.Equal(t, []string{"200"}, got.Success.Status)
	require.Equal(t, wire.Duration(2500*time.Millisecond), got.Timeout)
}

func TestAnEmptyListOfTopicsIsNotEveryTopic(t *testing.T) {
	f := &Fake{}
	w := Post(newTestAPI(t, f), "/v1/endpoints", endpoint(`"topics":[]`))
	require.Equal(t, 201, w.Code)
	require.Empty(t, f.There.Topics)
	require.Contains(t, w.Body.String(), `"topics":[]`)
}

func TestABadEndpointIs422AndNothingIsCreated(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for body, want := range map[string][2]string{
		`[]`: {"$", "object"}, `null`: {"$", "object"}, `"x"`: {"$", "object"},
		`{}`:                             {"$.url", "needed"},
		`{"url":null}`:                   {"$.url", "needed"},
		`{"url":""}`:                     {"$.url", "empty"},
		`{"url":7}`:                      {"$.url", "text"},
		`{"url":"ftp://a"}`:              {"$.url", "http"},
		`{"url":"http://10.1.2.3"}`:      {"$.url", "ALLOW_NETS=10.1.2.3/32"},
		endpoint(`"color":1`):            {"$.color", "unknown"},
		endpoint(`"Uid":"a"`):            {"$.Uid", "unknown"},
		endpoint(`"a\nb":1`):             {`$["a\nb"]`, "unknown"},
		endpoint(`"id":"ep_1"`):          {"$.id", "uid"},
		endpoint(`"state":"paused"`):     {"$.state", "pause"},
		endpoint(`"created_at":"x"`):     {"$.created_at", "read-only"},
		endpoint(`"waiting":1`):          {"$.waiting", "read-only"},
		endpoint(`"uid":""`):             {"$.uid", "empty"},
		endpoint(`"uid":"a/b"`):          {"$.uid", "A-Z"},
		endpoint(`"uid":"ep_1"`):         {"$.uid", "ep_"},
		endpoint(`"uid":"u_1"`):          {"$.uid", "u_"},
		endpoint(`"uid":"q_1"`):          {"$.uid", "q_"},
		endpoint(`"uid":"*"`):            {"$.uid", "A-Z"},
		endpoint(`"uid":".."`):           {"$.uid", "path"},
		endpoint(`"tenant":""`):          {"$.tenant", "empty"},
		endpoint(`"tenant":"a b"`):       {"$.tenant", "spaces"},
		endpoint(`"topics":"*"`):         {"$.topics", "list"},
		endpoint(`"topics":[1]`):         {"$.topics[0]", "text"},
		endpoint(`"topics":["*",null]`):  {"$.topics[1]", "text"},
		endpoint(`"topics":["a","*.b"]`): {"$.topics[1]", "topic"},
		endpoint(`"topics":[""]`):        {"$.topics[0]", "topic"},
		endpoint(`"topics":[` + strings.Repeat(`"a",`, 64) + `"a"]`):            {"$.topics", "64"},
		endpoint(`"kind":"pull"`):                                               {"$.url", "kind pull"},
		endpoint(`"kind":"poll"`):                                               {"$.kind", "push or pull"},
		endpoint(`"kind":7`):                                                    {"$.kind", "text"},
		`{"kind":"pull","success":{"status":["200"]}}`:                          {"$.success", "kind pull"},
		`{"kind":"pull","timeout":"5s"}`:                                        {"$.timeout", "kind pull"},
		endpoint(`"description":7`):                                             {"$.description", "text"},
		endpoint(`"description":"\u0000"`):                                      {"$.description", "control"},
		endpoint(`"metadata":[]`):                                               {"$.metadata", "object of texts"},
		endpoint(`"metadata":{"a":1}`):                                          {"$.metadata.a", "text"},
		endpoint(`"metadata":{` + ManyHeaders(17) + `}`):                        {"$.metadata", "16"},
		endpoint(`"signature":"md5"`):                                           {"$.signature", "one of"},
		endpoint(`"signature":7`):                                               {"$.signature", "text"},
		endpoint(`"signature":""`):                                              {"$.signature", "one of"},
		endpoint(`"secret":"hunter2"`):                                          {"$.secret", "whsec_"},
		endpoint(`"secret":7`):                                                  {"$.secret", "text"},
		endpoint(`"secret":""`):                                                 {"$.secret", "secret"},
		endpoint(`"signature":"github","secret":"hunter2"`):                     {"$.secret", "16 to 256"},
		endpoint(`"secret":"` + SecretNew + `","signature":"standard-ed25519"`): {"$.secret", "whsk_"},
		endpoint(`"ladder":7`):                                                  {"$.ladder", ""},
		endpoint(`"timeout":0`):                                                 {"$.timeout", "1s to 60s"},
		endpoint(`"timeout":"61s"`):                                             {"$.timeout", "1s to 60s"},
		endpoint(`"timeout":"soon"`):                                            {"$.timeout", ""},
		endpoint(`"max_in_flight":0`):                                           {"$.max_in_flight", "at least 1"},
		endpoint(`"max_in_flight":-1`):                                          {"$.max_in_flight", "at least 1"},
		endpoint(`"max_in_flight":1.5`):                                         {"$.max_in_flight", "whole"},
		endpoint(`"max_in_flight":"5"`):                                         {"$.max_in_flight", "whole"},
		endpoint(`"max_in_flight":65537`):                                       {"$.max_in_flight", "65536"},
		endpoint(`"max_in_flight":99999999999999999999`):                        {"$.max_in_flight", "whole"},
		endpoint(`"rate":100`):                                                  {"$.rate", "text"},
		endpoint(`"rate":"100"`):                                                {"$.rate", "100/s"},
		endpoint(`"rate":"0/s"`):                                                {"$.rate", "1 to 100000 a second"},
		endpoint(`"rate":"1/d"`):                                                {"$.rate", "100/s"},
		endpoint(`"headers":{"x":1}`):                                           {"$.headers.x", "text"},
		endpoint(`"headers":{"x":"***"}`):                                       {"$.headers.x", "replaces a value"},
		endpoint(`"headers":{"Host":"a"}`):                                      {"$.headers.Host", "can't be set"},
		endpoint(`"headers":{"webhook-id":"a"}`):                                {"$.headers.webhook-id", "reserved"},
		endpoint(`"headers":{"x":"a\r\nb: c"}`):                                 {"$.headers.x", "control"},
		endpoint(`"headers":{"x":"1","X":"2"}`):                                 {"$.headers.X", "twice"},
		endpoint(`"headers":{"x":"` + strings.Repeat("v", 8<<10) + `"}`):        {"$.headers", "8192"},
		endpoint(`"success":"2xx"`):                                             {"$.success", ""},
		endpoint(`"success":{"status":[]}`):                                     {"$.success.status", "empty"},
		endpoint(`"ordered":"true"`):                                            {"$.ordered", "true or false"},
		endpoint(`"disabled":1`):                                                {"$.disabled", "true or false"},
	} {
		w := Post(h, "/v1/endpoints", body)
		t.Run(ClipName(body), func(t *testing.T) { RequireField(t, w, want[0], want[1]) })
		require.NotContains(t, w.Body.String(), "hunter2", "an error repeats no secret")
		require.NotContains(t, w.Body.String(), SecretNew)
		require.Empty(t, f.Calls, body)
	}
}

func TestAnEndpointIsReadAsStrictlyAsAMessage(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	for _, c := range []struct{ method, path string }{
		{"POST", "/v1/endpoints"}, {"PATCH", "/v1/endpoints/ep_123456789"}, {"POST", "/v1/endpoints/ep_123456789/rotate-secret"},
	} {
		for _, body := range []string{
			"{", `{"secret":"a","secret":"b"}`, `{"url":"a"}x`, `{"url":"a",}`, `{"metadata":{"a":"1","a":"2"}}`, "{\"url\":\"\xff\"}", `{"url":"a"}{}`,
			`{"x":[`, " ",
		} {
			RequireProblem(t, Serve(h, newTestRequest(c.method, c.path, body)), 400, "malformed")
		}
		r := newTestRequest(c.method, c.path, endpoint(""))
		r.Header.Set("Content-Type", "text/plain")
		RequireProblem(t, Serve(h, r), 415, "unsupported-media-type")
		RequireProblem(t, Serve(h, newTestRequest(c.method, c.path, endpoint(`"description":"`+strings.Repeat("a", 128<<10)+`"`))), 413, "too-large")
		RequireField(t, Serve(h, newTestRequest(c.method, c.path+"?dry=1", endpoint(""))), "query.dry", "unknown")
	}
	require.Empty(t, f.Calls)
	many := RequireProblem(t, Post(h, "/v1/endpoints", `{"topics":7,"rate":"x","timeout":"soon","x":1,"secret":"s","uid":"/"}`), 422, "invalid")
	var paths []string
	for _, e := range many.Errors {
		paths = append(paths, e.Path)
	}
	require.ElementsMatch(t, []string{"$.url", "$.topics", "$.rate", "$.timeout", "$.x", "$.secret", "$.uid"}, paths)
}

func TestAnEndpointIsReadByIdAndUidWithoutItsSecrets(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	for _, path := range []string{"/v1/endpoints/ep_123456789", "/v1/endpoints/merchant:7", "/v1/endpoints/merchant%3A7"} {
		w := Get(h, path)
		got := DecodeAnswer[wire.EndpointView](t, w, 200)
		require.Equal(t, "ep_123456789", got.ID)
		require.Equal(t, "https://shop.example/hooks?k=1&l=2", got.URL)
		require.Equal(t, map[string]string{"Authorization": "***", "x-b": "***"}, got.Headers)
		requireNoSecret(t, w.Body.String())
	}
	for _, name := range []string{"ep_0", "nobody", "a%2Fb", "%00", "u_1", "*", strings.Repeat("a", 129), "%2E%2E", "ep_" + strings.Repeat("a", 20)} {
		RequireProblem(t, Get(h, "/v1/endpoints/"+name), 404, "not-found")
	}
	RequireField(t, Get(h, "/v1/endpoints/ep_123456789?x=1"), "query.x", "unknown")
	f.There.UID = ".hidden"
	require.Equal(t, 200, Get(h, "/v1/endpoints/.hidden").Code, "a name may begin with a dot")
}

// requireNoSecret checks that a text holds nothing of testEndpoint's secrets.
func requireNoSecret(t testing.TB, text string) {
	t.Helper()
	for _, secret := range []string{"whsec_", "whsk_", "bmV3", "b2xk", "hunter"} {
		require.NotContains(t, text, secret)
	}
}

func TestEndpointsAreListed(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t), Next: "c2"}}
	h := newTestAPI(t, f)
	w := Get(h, "/v1/endpoints")
	got := DecodeAnswer[wire.EndpointPage](t, w, 200)
	require.Len(t, got.Data, 1)
	require.Equal(t, 9, got.Data[0].Waiting)
	require.Equal(t, "c2", *got.NextCursor)
	requireNoSecret(t, w.Body.String())
	require.Equal(t, dispatcher.EndpointFilter{Limit: 50}, f.FilterOf)

	Get(h, "/v1/endpoints?tenant=m7&limit=500&cursor=c1")
	m7, none := "m7", ""
	require.Equal(t, dispatcher.EndpointFilter{Tenants: []string{m7}, Limit: 500, Cursor: "c1"}, f.FilterOf)
	Get(h, "/v1/endpoints?tenant=m7&tenant=")
	require.Equal(t, []string{m7, none}, f.FilterOf.Tenants)
	Get(h, "/v1/endpoints?tenant=")
	require.Equal(t, dispatcher.EndpointFilter{Tenants: []string{none}, Limit: 50}, f.FilterOf)

	for query, want := range map[string]int{"state=active": 1, "state=open&state=paused": 0, "like=SHOP": 1, "like=nobody": 0, "state=active&like=nobody": 0} {
		f.Calls = nil
		page := DecodeAnswer[wire.EndpointPage](t, Get(h, "/v1/endpoints?"+query), 200)
		require.Len(t, page.Data, want, query)
		require.NotNil(t, page.NextCursor, query)
		if want == 0 {
			require.Len(t, f.Calls, 20, "a call looks at so many pages")
			require.Equal(t, "c2", f.FilterOf.Cursor)
		}
	}
	RequireField(t, Get(h, "/v1/endpoints?state=broken"), "query.state", "")

	f.There = nil
	require.Equal(t, `{"data":[],"next_cursor":null}`, Get(h, "/v1/endpoints").Body.String())
	f.Calls = nil
	for query, path := range map[string]string{
		"tenant=a%20b": "query.tenant", "limit=0": "query.limit", "cursor=": "query.cursor", "uid=a": "query.uid",
	} {
		RequireField(t, Get(h, "/v1/endpoints?"+query), path, "")
	}
	require.Empty(t, f.Calls)
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, "/v1/endpoints?cursor=x"), "query.cursor", "leave it out")
}

func TestAnEndpointIsDeletedPausedAndResumed(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	require.Equal(t, `{"cancelled":3}`, Serve(h, newTestRequest("DELETE", "/v1/endpoints/merchant:7", "")).Body.String())
	require.Equal(t, []string{"endpoint", "delete"}, f.Calls)
	for _, call := range []string{"pause", "resume"} {
		f.Calls = nil
		w := Serve(h, newTestRequest("POST", "/v1/endpoints/merchant:7/"+call, ""))
		require.Equal(t, "ep_123456789", DecodeAnswer[wire.EndpointView](t, w, 200).ID)
		require.Equal(t, []string{"endpoint", call, "endpoint"}, f.Calls)
		requireNoSecret(t, w.Body.String())
		RequireProblem(t, Serve(h, newTestRequest("POST", "/v1/endpoints/u_1/"+call, "")), 404, "not-found")
		RequireField(t, Serve(h, newTestRequest("POST", "/v1/endpoints/a/"+call+"?x", "")), "query.x", "unknown")
	}
	f.Err = dispatcher.ErrNoEndpoint
	for _, c := range []struct{ method, path string }{{"DELETE", ""}, {"POST", "/pause"}, {"POST", "/resume"}, {"POST", "/test"}, {"POST", "/rotate-secret"}, {"GET", "/secret"}} {
		RequireProblem(t, Serve(h, newTestRequest(c.method, "/v1/endpoints/gone"+c.path, "")), 404, "not-found")
		RequireField(t, Serve(h, newTestRequest(c.method, "/v1/endpoints/gone"+c.path+"?x=1", "")), "query.x", "unknown")
		f.Calls = nil
		RequireProblem(t, Serve(h, newTestRequest(c.method, "/v1/endpoints/q_mail"+c.path, "")), 404, "not-found")
		require.Empty(t, f.Calls)
	}
}

func TestWhatTheEngineSaysOfAnEndpointBecomesAStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		word   string
		says   string
	}{
		{dispatcher.ErrStale, 409, "changed", "ask again"},
		{dispatcher.ErrPull, 422, "invalid", ""},
		{dispatcher.ErrDisabled, 409, "disabled", "resume"},
		{dispatcher.ErrDeleted, 409, "deleted", ""},
		{dispatcher.ErrSealed, 500, "sealed", "ENCRYPTION_KEY"},
		{dispatcher.ErrBusy, 429, "busy", ""},
		{dispatcher.ErrListing, 429, "busy", "fewer pages"},
		{dispatcher.ErrUnavailable, 503, "unavailable", ""},
		{errors.New(SecretNew), 500, "internal", ""},
	} {
		var log bytes.Buffer
		f := &Fake{Err: fmt.Errorf("endpoint: %w", c.err)}
		h := newTestAPI(t, f, WithLog(&log))
		w := Serve(h, newTestRequest("POST", "/v1/endpoints/a/test", ""))
		require.Contains(t, RequireProblem(t, w, c.status, c.word).Detail, c.says)
		require.NotContains(t, w.Body.String(), SecretNew)
		require.Equal(t, c.status == 429 || c.status == 503, w.Header().Get("Retry-After") != "")
		require.Equal(t, c.word == "internal", strings.Contains(log.String(), "level=ERROR"))
		require.NotContains(t, log.String(), "level=INFO")
	}
}

const patchPath = "/v1/endpoints/ep_123456789"

func patch(h http.Handler, body string) *httptest.ResponseRecorder {
	r := newTestRequest("PATCH", patchPath, body)
	r.Header.Set("Content-Type", "application/merge-patch+json")
	return Serve(h, r)
}

func TestAPatchNamesNoMoreHeadersThanItCanMean(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	var b strings.Builder
	for i := range 41 {
		fmt.Fprintf(&b, `,"h%d":null`, i)
	}
	w := Serve(h, newTestRequest("PATCH", "/v1/endpoints/"+f.There.ID, `{"headers":{`+b.String()[1:]+`}}`))
	RequireField(t, w, "$.headers", "names 41 headers, at most 40")
}

func TestAPatchChangesWhatItNames(t *testing.T) {
	header := func(name, value string) dispatcher.Header { return dispatcher.Header{Name: name, Value: value} }
	for body, change := range map[string]func(e *dispatcher.Endpoint){
		`{}`:                                 func(*dispatcher.Endpoint) {},
		`{"url":"http://b/"}`:                func(e *dispatcher.Endpoint) { e.URL = "http://b/" },
		`{"topics":["a.*"]}`:                 func(e *dispatcher.Endpoint) { e.Topics = []string{"a.*"} },
		`{"topics":[]}`:                      func(e *dispatcher.Endpoint) { e.Topics = []string{} },
		`{"topics":null}`:                    func(e *dispatcher.Endpoint) { e.Topics = []string{"*"} },
		`{"description":"new"}`:              func(e *dispatcher.Endpoint) { e.Description = "new" },
		`{"description":null}`:               func(e *dispatcher.Endpoint) { e.Description = "" },
		`{"metadata":{"a":"1"}}`:             func(e *dispatcher.Endpoint) { e.Metadata["a"] = "1" },
		`{"metadata":{"plan":null}}`:         func(e *dispatcher.Endpoint) { e.Metadata = map[string]string{} },
		`{"metadata":{"x":null}}`:            func(*dispatcher.Endpoint) {},
		`{"metadata":{}}`:                    func(*dispatcher.Endpoint) {},
		`{"metadata":null}`:                  func(e *dispatcher.Endpoint) { e.Metadata = nil },
		`{"ladder":null}`:                    func(e *dispatcher.Endpoint) { e.Ladder = nil },
		`{"signature_header":null}`:          func(*dispatcher.Endpoint) {},
		`{"signature_header":"X-Signature"}`: func(*dispatcher.Endpoint) {}, // as it is without one
		`{"timeout":"5s"}`:                   func(e *dispatcher.Endpoint) { e.Timeout = 5 * time.Second },
		`{"timeout":null}`:                   func(e *dispatcher.Endpoint) { e.Timeout = 0 },
		`{"max_in_flight":7}`:                func(e *dispatcher.Endpoint) { e.MaxInFlight = 7 },
		`{"max_in_flight":null}`:             func(e *dispatcher.Endpoint) { e.MaxInFlight = 0 },
		`{"rate":"1/h"}`:                     func(e *dispatcher.Endpoint) { e.Rate = dispatcher.Rate{Count: 1, Per: time.Hour} },
		`{"rate":null}`:                      func(e *dispatcher.Endpoint) { e.Rate = dispatcher.Rate{} },
		`{"headers":{"x-a":"1"}}`: func(e *dispatcher.Endpoint) {
			e.Headers = append(e.Headers[:1], header("x-a", "1"), header("x-b", "hunter3"))
		},
		`{"headers":{"x-b":"9"}}`:                       func(e *dispatcher.Endpoint) { e.Headers[1].Value = "9" },
		`{"headers":{"AUTHORIZATION":"9"}}`:             func(e *dispatcher.Endpoint) { e.Headers[0] = header("AUTHORIZATION", "9") },
		`{"headers":{"authorization":null}}`:            func(e *dispatcher.Endpoint) { e.Headers = e.Headers[1:] },
		`{"headers":{"x-b":null,"authorization":null}}`: func(e *dispatcher.Endpoint) { e.Headers = nil },
		`{"headers":{"x-c":null}}`:                      func(*dispatcher.Endpoint) {},
		`{"headers":null}`:                              func(e *dispatcher.Endpoint) { e.Headers = nil },
		`{"success":null}`:                              func(e *dispatcher.Endpoint) { e.Success = nil },
		`{"success":{"status":["*"]}}`:                  func(e *dispatcher.Endpoint) { e.Success = mustSuccess(t, `{"status":["*"],"body":"ok"}`) },
		`{"success":{"body":null}}`:                     func(e *dispatcher.Endpoint) { e.Success = mustSuccess(t, `{"status":["200"]}`) },
		`{"success":{"status":null}}`:                   func(e *dispatcher.Endpoint) { e.Success = mustSuccess(t, `{"body":"ok"}`) },
		`{"success":{"body":{"matches":"a","path":null}}}`: func(e *dispatcher.Endpoint) {
			e.Success = mustSuccess(t, `{"status":["200"],"body":{"matches":"a"}}`)
		},
		`{"ordered":false}`:                         func(e *dispatcher.Endpoint) { e.Ordered = false },
		`{"ordered":null}`:                          func(e *dispatcher.Endpoint) { e.Ordered = false },
		`{"disabled":true}`:                         func(e *dispatcher.Endpoint) { e.Disabled = true },
		`{"signature":null}`:                        func(*dispatcher.Endpoint) {},
		`{"signature":"standard","url":"http://b"}`: func(e *dispatcher.Endpoint) { e.URL = "http://b" },
	} {
		t.Run(body, func(t *testing.T) {
			f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t), Races: 1}}
			before := f.There
			w := patch(newTestAPI(t, f), body)
			require.Equal(t, 200, w.Code, w.Body.String())
			requireNoSecret(t, w.Body.String())
			want := Endpoint(t)
			change(want)
			require.Equal(t, want.Success.String(), f.There.Success.String())
			require.Equal(t, want.Success == nil, f.There.Success == nil)
			require.Equal(t, want.Ladder == nil, f.There.Ladder == nil)
			want.Success, want.Ladder = f.There.Success, f.There.Ladder
			require.Equal(t, want, f.There)
			require.Equal(t, Endpoint(t).Headers, before.Headers, "who else reads it sees no change")
			require.Equal(t, Endpoint(t).Metadata, before.Metadata)
		})
	}
}

func TestADryRunAndAPatchThatChangesNothingAreNotAudited(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t), Secret: Endpoint(t).Secrets[0].Secret}}
	h := newTestAPI(t, f)
	made := DecodeAnswer[wire.EndpointView](t, Post(h, "/v1/endpoints?dry_run=true", `{"url":"https://new.example/","headers":{"x-a":"1"}}`), 201)
	require.Equal(t, []any{"", "", "https://new.example/"}, []any{made.ID, made.Secret, made.URL})
	RequireField(t, Post(h, "/v1/endpoints?dry_run=true", `{"url":"x"}`), "$.url", "absolute")
	RequireField(t, Post(h, "/v1/endpoints?dry_run=yes", `{"url":"https://a/"}`), "query.dry_run", "true or false")
	try := func(query, body string) wire.EndpointView {
		w := Serve(h, newTestRequest("PATCH", patchPath+query, body))
		return DecodeAnswer[wire.EndpointView](t, w, 200)
	}
	require.Equal(t, "new", try("?dry_run=true", `{"description":"new"}`).Description)
	require.Equal(t, Endpoint(t), f.There)
	try("", `{"headers":{"x-b":"hunter3"},"ordered":true}`)
	require.Empty(t, f.Recorded)
	require.Equal(t, "new", try("?dry_run=false", `{"description":"new"}`).Description)
	require.Len(t, f.Recorded, 1)
}

func mustSuccess(t testing.TB, text string) *success.Rule {
	t.Helper()
	s, err := success.Parse(text)
	require.NoError(t, err)
	return s
}

func TestAPatchOfAnEndpointWithNothingSetsIt(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: &dispatcher.Endpoint{
		ID: "ep_123456789", URL: "http://a", Signature: signer.Standard, Secrets: Endpoint(t).Secrets,
	}}}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.EndpointView](t, patch(h, `{"success":{"body":"ok"},"metadata":{"a":"1","b":null},"headers":{"x":"1"},"ladder":["1s"]}`), 200)
	require.Equal(t, `{"status":["2xx"],"body":"ok"}`, f.There.Success.String())
	require.Equal(t, map[string]string{"a": "1"}, got.Metadata)
	require.Equal(t, map[string]string{"x": "***"}, got.Headers)
	require.Equal(t, 1, got.Ladder.Len())
	require.Equal(t, []string{}, got.Topics, "none is told, since to leave it out is to get everything")
}

func TestABadPatchChangesNothing(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for body, want := range map[string][2]string{
		`[]`: {"$", "object"}, `null`: {"$", "object"},
		`{"color":1}`:                          {"$.color", "unknown"},
		`{"uid":"other"}`:                      {"$.uid", "create another"},
		`{"uid":null}`:                         {"$.uid", "create another"},
		`{"tenant":"m8"}`:                      {"$.tenant", "create another"},
		`{"tenant":null}`:                      {"$.tenant", "create another"},
		`{"uid":7}`:                            {"$.uid", "text"},
		`{"secret":"` + SecretNew + `"}`:       {"$.secret", "rotate-secret"},
		`{"url":null}`:                         {"$.url", "null"},
		`{"url":""}`:                           {"$.url", "empty"},
		`{"url":"http://10.1.2.3/"}`:           {"$.url", "ALLOW_NETS"},
		`{"topics":["a b"]}`:                   {"$.topics[0]", "topic"},
		`{"metadata":"x"}`:                     {"$.metadata", "object of texts"},
		`{"metadata":{"a":{}}}`:                {"$.metadata.a", "text"},
		`{"headers":{"x":"***"}}`:              {"$.headers.x", "replaces a value"},
		`{"headers":{"x":"1","X":null}}`:       {"$.headers", "twice"},
		`{"headers":{"Host":"1"}}`:             {"$.headers.Host", "can't be set"},
		`{"headers":[]}`:                       {"$.headers", "object of texts"},
		`{"success":"2xx"}`:                    {"$.success", ""},
		`{"success":{"body":{"matches":"("}}}`: {"$.success.body.matches", ""},
		`{"success":{"color":"red"}}`:          {"$.success.color", "unknown"},
		`{"success":` + strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat("}", 65) + `}`: {"$.success.a", "unknown"},
		`{"timeout":"soon"}`:               {"$.timeout", ""},
		`{"timeout":"2m"}`:                 {"$.timeout", "1s to 60s"},
		`{"rate":"1/x"}`:                   {"$.rate", "100/s"},
		`{"ordered":0}`:                    {"$.ordered", "true or false"},
		`{"signature":"standard-ed25519"}`: {"$.signature", "other secrets"},
		`{"signature":"none"}`:             {"$.signature", "one of"},
	} {
		before := Endpoint(t)
		f.There = before
		w := patch(h, body)
		t.Run(ClipName(body), func(t *testing.T) { RequireField(t, w, want[0], want[1]) })
		require.Same(t, before, f.There, body)
		require.NotContains(t, w.Body.String(), SecretNew)
	}
	p := RequireProblem(t, patch(h, `{"uid":"a","x":1,"url":"ftp://a","timeout":"soon","topics":["a b"]}`), 422, "invalid")
	require.Len(t, p.Errors, 5, "all mistakes are told at once")
}

// A caller reads, changes a member, and sends all of it back.
func TestAPatchMayRepeatAnAnswer(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	var whole map[string]any
	require.NoError(t, json.Unmarshal(Get(h, patchPath).Body.Bytes(), &whole))
	whole["description"] = "changed"
	whole["state"], whole["waiting"], whole["id"], whole["disabled_at"] = "open", 77, nil, "2026-01-01T00:00:00Z"
	text, err := json.Marshal(whole)
	require.NoError(t, err)
	w := patch(h, string(text))
	require.Equal(t, 200, w.Code, w.Body.String())
	want := Endpoint(t)
	want.Description = "changed"
	require.Equal(t, want, f.There, "and a header that is *** keeps its value")

	require.Equal(t, 200, patch(h, `{"headers":{"AUTHORIZATION":"***","x-b":"9"}}`).Code)
	require.Equal(t, []dispatcher.Header{{Name: "Authorization", Value: "Bearer hunter2"}, {Name: "x-b", Value: "9"}}, f.There.Headers)
	f.There.UID, f.There.Tenant = "", ""
	require.Equal(t, 200, Serve(h, newTestRequest("PATCH", "/v1/endpoints/ep_123456789", `{"uid":null,"tenant":null}`)).Code)
}

func TestAPatchMayBeSentAsPlainJSON(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	require.Equal(t, 200, Serve(h, newTestRequest("PATCH", patchPath, `{"description":"x"}`)).Code)
	require.Equal(t, "x", f.There.Description)
	r := newTestRequest("POST", "/v1/endpoints", endpoint(""))
	r.Header.Set("Content-Type", "application/merge-patch+json")
	RequireProblem(t, Serve(h, r), 415, "unsupported-media-type")
	RequireProblem(t, Serve(h, newTestRequest("PATCH", "/v1/endpoints/gone", `{"x":1}`)), 404, "not-found")
}

// Settings change: what was taken once may be refused today, and must not keep
// everything else from being changed.
func TestAPatchIsNotRefusedForWhatItLeavesAlone(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	f.There.URL = "http://10.1.2.3/"
	h := newTestAPI(t, f)
	require.Equal(t, 200, patch(h, `{"max_in_flight":1}`).Code)
	RequireField(t, patch(h, `{"max_in_flight":1,"url":"http://10.1.2.3/x"}`), "$.url", "ALLOW_NETS")
}

// An endpoint that can't be opened has neither secrets nor header values: to
// store it so would lose them.
func TestAnEndpointThatCannotBeOpenedIsNotChanged(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	f.There.Secrets = nil
	before := f.There
	require.Contains(t, RequireProblem(t, patch(newTestAPI(t, f), `{"description":"x"}`), 500, "sealed").Detail, "ENCRYPTION_KEY")
	require.Same(t, before, f.There)
}

func TestAnotherSignatureKeepsTheTextsOfTheSecrets(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	require.Equal(t, 200, patch(h, `{"signature":"stripe"}`).Code)
	require.Equal(t, signer.Stripe, f.There.Signature)
	require.Equal(t, SecretNew, f.There.Secrets[0].Secret.Reveal())
	require.True(t, f.There.Secrets[0].Secret.Equal(MustSecret(t, signer.Stripe, SecretNew)), "its text is the key")
	require.Equal(t, Now.Add(time.Hour), f.There.Secrets[1].Until)
	require.Equal(t, 200, patch(h, `{"signature":null}`).Code)
	require.True(t, f.There.Secrets[0].Secret.Equal(MustSecret(t, signer.Standard, SecretNew)))
}

// The buffer of a request serves the next one before the endpoint is changed.
func TestAPatchOutlivesItsBuffer(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	other := endpoint(`"description":"` + strings.Repeat("z", 1000) + `","topics":7`)
	f.Meanwhile = func() { RequireField(t, Post(h, "/v1/endpoints", other), "$.topics", "list") }
	for range 50 { // the pool may forget a buffer now and then
		require.Equal(t, 200, patch(h, `{"url":"http://b/hooks","description":"`+strings.Repeat("a", 500)+`"}`).Code)
		require.Equal(t, strings.Repeat("a", 500), f.There.Description)
	}
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`{"url":"http://b","topics":["a.*"],"description":null,"metadata":{"a":"1","plan":null},"signature":"stripe"}`,
		`{"headers":{"X-B":"1","x":null},"success":{"body":{"path":"a","equals":{"b":[1]}}},"rate":"5/m","ordered":true}`,
		`{"success":{"status":null,"body":{"matches":"a"}},"timeout":5,"max_in_flight":3,"ladder":"1/2","disabled":true}`,
	} {
		f.Add(seed)
	}
	service := &Fake{}
	h := newTestAPI(f, service)
	f.Fuzz(func(t *testing.T, text string) {
		before := Endpoint(t)
		service.There, service.Calls = before, nil
		w := patch(h, text)
		require.Contains(t, []int{200, 400, 413, 415, 422}, w.Code)
		require.True(t, json.Valid(w.Body.Bytes()))
		require.NotContains(t, w.Body.String(), "hunter3")
		if w.Code != 200 {
			require.Same(t, before, service.There)
			return
		}
		require.True(t, json.Valid([]byte(text)))
		require.Empty(t, service.There.Validate(Policy()))
		require.Len(t, service.There.Secrets, 2)
		require.Equal(t, "merchant:7", service.There.UID)
	})
}

func TestTheKindOfAnEndpointIsFixed(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	for _, same := range []string{`{"kind":"push"}`, `{"kind":null}`} {
		require.Equal(t, 200, patch(h, same).Code, same)
	}
	RequireField(t, patch(h, `{"kind":"pull"}`), "$.kind", "create another endpoint")
	require.False(t, f.There.Pull)

	f.There.Pull, f.There.URL, f.There.Success, f.There.Timeout = true, "", nil, 0
	read := Serve(h, newTestRequest("GET", patchPath, ""))
	got := DecodeAnswer[wire.EndpointView](t, read, 200)
	require.Equal(t, "pull", got.Kind)
	require.NotContains(t, read.Body.String(), `"url"`)
	require.Equal(t, 200, patch(h, read.Body.String()).Code, "it may repeat what was read")
	require.Equal(t, 200, patch(h, `{"rate":"5/s","success":null,"timeout":null}`).Code)
	for _, body := range []string{`{"kind":"push"}`, `{"kind":null}`} {
		RequireField(t, patch(h, body), "$.kind", "create another endpoint")
	}
	for field, body := range map[string]string{"$.url": `{"url":"https://a.example"}`, "$.timeout": `{"timeout":"5s"}`, "$.success": `{"success":{"status":["200"]}}`} {
		RequireField(t, patch(h, body), field, "kind pull")
	}
	require.True(t, f.There.Pull)
}

const confirmPath = patchPath + "/confirm"

// withheldEndpoint is one whose URL a link set, in place of the operator's.
func withheldEndpoint(t testing.TB) *dispatcher.Endpoint {
	e := Endpoint(t)
	e.Linked, e.Unverified = true, true
	e.HeadersFor = map[string]string{"authorization": "https://former.example/", "x-b": "https://former.example/"}
	require.Equal(t, []string{"Authorization", "x-b"}, e.HeldHeaders())
	return e
}

func TestAConfirmedURLIsTheOperators(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: withheldEndpoint(t), Races: 1}}
	h := newTestAPI(t, f)
	held := DecodeAnswer[wire.EndpointView](t, Get(h, patchPath), 200)
	require.True(t, held.HeadersHeld)
	require.Equal(t, map[string]string{"Authorization": "***", "x-b": "***"}, held.Headers)
	got := DecodeAnswer[wire.EndpointView](t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"https://shop.example/hooks?k=1&l=2"}`)), 200)
	require.False(t, got.HeadersHeld)
	require.Equal(t, []string{"Authorization", "x-b"}, got.ReleasedHeaders)
	require.Equal(t, Endpoint(t), f.There)
	got = DecodeAnswer[wire.EndpointView](t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"https://shop.example/hooks?k=1&l=2"}`)), 200)
	require.False(t, got.HeadersHeld, "again it is as it was")
	require.Empty(t, got.ReleasedHeaders)
}

func TestAURLThatIsNotTheEndpointsIsNotConfirmed(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: withheldEndpoint(t)}}
	h := newTestAPI(t, f)
	for _, other := range []string{"https://former.example/", "https://shop.example/hooks", "https://shop.example/hooks?k=1&l=3"} {
		p := RequireProblem(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"`+other+`"}`)), 409, "changed")
		require.Contains(t, p.Detail, "another url by now")
	}
	for body, path := range map[string]string{`{}`: "$.url", `{"url":""}`: "$.url", `{"url":null}`: "$.url", `{"url":1}`: "$.url", `{"url":"x"}`: "$.url", `{"url":"https://shop.example/hooks?k=1&l=2#"}`: "$.url", `{"link":"x"}`: "$.link", `[]`: "$"} {
		w := Serve(h, newTestRequest("POST", confirmPath, body))
		p := RequireProblem(t, w, 422, "invalid")
		require.Equal(t, path, p.Errors[0].Path, body)
	}
	require.Equal(t, withheldEndpoint(t), f.There)

	f.There.URL = "http://10.1.2.3/"
	RequireField(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"http://10.1.2.3/"}`)), "$.url", "ALLOW_NETS=10.1.2.3/32")
	require.True(t, f.There.Linked, "the operator's networks hold for it from then on")
	f.There.Secrets = nil
	RequireProblem(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"http://10.1.2.3/"}`)), 500, "sealed")
	f.There = &dispatcher.Endpoint{ID: "ep_123456789", Pull: true, Secrets: Endpoint(t).Secrets}
	RequireProblem(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"https://shop.example/"}`)), 409, "changed")
}

func TestOnlyAPatchThatNamesTheURLSendsItsOwnHeadersThere(t *testing.T) {
	const all = "Authorization x-b"
	for body, held := range map[string]string{
		`{}`:                                           all,
		`{"description":"new"}`:                        all,
		`{"headers":{"x-b":"***"}}`:                    all,
		`{"headers":{"X-B":"***"}}`:                    all,
		`{"headers":{}}`:                               all,
		`{"headers":{"x-c":null}}`:                     all,
		`{"headers":{"x-b":null}}`:                     "Authorization",
		`{"url":"https://third.example/"}`:             all,
		`{"url":"https://shop.example/hooks?k=1&l=2"}`: all,
		`{"headers_held":false}`:                       all,
		`{"held_headers":[]}`:                          all,
		`{"disabled":false,"topics_allowed":["*"]}`:    all,
		`{"headers":{"x-b":"9"}}`:                      all,
		`{"headers":{"X-B":"9"}}`:                      "Authorization X-B",
		`{"headers":{"x-c":"9"}}`:                      all + " x-c",
		`{"headers":{"x-b":"***","x-c":"9"}}`:          all + " x-c",
		`{"headers":null}`:                             "", // there are none any more
		`{"headers":{"x-b":"9"},"url":"https://shop.example/hooks?k=1&l=2"}`:             "Authorization",
		`{"url":"https://shop.example/hooks?k=1&l=2","headers":{"x-b":"hunter3"}}`:       "Authorization", // the same value
		`{"url":"https://shop.example/hooks?k=1&l=2","headers":{"x-b":"***","x-c":"9"}}`: all,
		`{"headers":{"x-c":"9"},"url":"https://third.example/","ordered":false}`:         all,
		`{"headers":{"x-b":"9","authorization":"9"},"url":"https://third.example/"}`:     "",
		`{"headers":{"x-c":"9","x-b":"***"},"url":"https://former.example/"}`:            "", // the operator's own
		`{"headers":{"x-b":null,"Authorization":"***"},"url":"https://third.example/"}`:  "Authorization",
		`{"headers":{"AUTHORIZATION":"9"},"url":"https://shop.example/hooks?k=1&l=2"}`:   "x-b",
	} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: withheldEndpoint(t)}}
		got := DecodeAnswer[wire.EndpointView](t, patch(newTestAPI(t, f), body), 200)
		require.Equal(t, held, strings.Join(got.HeldHeaders, " "), body)
		require.Equal(t, held != "", got.HeadersHeld, body)
	}
}

func TestTheOperatorsListOfTopics(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	require.NotContains(t, Get(h, patchPath).Body.String(), "topics_allowed")
	for body, want := range map[string][]string{`["order.*","*"]`: {"order.*", "*"}, `[]`: {}, `null`: nil} {
		got := DecodeAnswer[wire.EndpointView](t, patch(h, `{"topics_allowed":`+body+`}`), 200)
		require.Equal(t, want, got.TopicsAllowed)
		require.Equal(t, want, f.There.TopicsAllowed)
	}
	RequireField(t, patch(h, `{"topics_allowed":["a b"]}`), "$.topics_allowed[0]", "must be a topic")
	RequireField(t, patch(h, `{"topics_allowed":"*"}`), "$.topics_allowed", "list")
}

// asLink makes a call on behalf of a link.
func asLink(h http.Handler, view dispatcher.View, method, path, body string) *httptest.ResponseRecorder {
	r := newTestRequest(method, path, body)
	return Serve(h, r.WithContext(dispatcher.WithBrowser(r.Context(), dispatcher.Browser{Name: "lnk_7", View: view, Manage: true})))
}

var (
	tenantLink = dispatcher.View{Tenant: "m7"}
	singleLink = dispatcher.View{Tenant: "m7", Endpoint: "ep_123456789"}
)

func TestALinkSetsTopicsWithinTheOperatorsList(t *testing.T) {
	given := func(e *dispatcher.Endpoint) { e.Topics = []string{"payment.*", "hookladder.endpoint.failing"} }
	allowed := func(e *dispatcher.Endpoint) { e.TopicsAllowed = []string{"order.*"} }
	narrowed := func(e *dispatcher.Endpoint) {
		e.Topics, e.TopicsGiven = []string{"payment.paid"}, []string{"payment.*"}
	}
	for _, c := range []struct {
		of     func(*dispatcher.Endpoint)
		view   dispatcher.View
		topics string
		wrong  string
	}{
		{given, singleLink, `["payment.paid"]`, ""},
		{given, singleLink, `["payment.*"]`, ""},
		{given, singleLink, `[]`, ""},
		{given, singleLink, `["hookladder.endpoint.failing"]`, ""},
		{given, singleLink, `["payment.paid","*"]`, "$.topics[1]"},
		{given, singleLink, `null`, "$.topics[0]"},
		{given, singleLink, `["hookladder.*"]`, "$.topics[0]"},
		{given, singleLink, `["hookladder.delivery.dead"]`, "$.topics[0]"},
		{given, singleLink, `["refund.made"]`, "$.topics[0]"},
		{given, tenantLink, `["refund.made","*"]`, ""},
		{given, tenantLink, `["hookladder.endpoint.failing"]`, ""},
		{given, tenantLink, `["hookladder.*"]`, "$.topics[0]"},
		{allowed, singleLink, `["order.paid"]`, ""},
		{allowed, singleLink, `["payment.paid"]`, "$.topics[0]"},
		{allowed, singleLink, `["payment.*"]`, ""}, // it is so already
		{narrowed, singleLink, `["payment.*"]`, ""},
		{narrowed, singleLink, `["*"]`, "$.topics[0]"},
	} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
		c.of(f.There)
		before := f.There.Clone()
		w := asLink(newTestAPI(t, f), c.view, "PATCH", patchPath, `{"topics":`+c.topics+`}`)
		if c.wrong == "" {
			require.Equal(t, http.StatusOK, w.Code, "%+v: %s", c, w.Body)
			continue
		}
		RequireField(t, w, c.wrong, "ask the operator")
		require.Equal(t, before, f.There)
	}
	f := &Fake{}
	RequireField(t, asLink(newTestAPI(t, f), tenantLink, "POST", "/v1/endpoints", `{"url":"https://a.example/","topics":["hookladder.delivery.dead"]}`), "$.topics[0]", "ask the operator")
	require.Equal(t, http.StatusCreated, asLink(newTestAPI(t, f), tenantLink, "POST", "/v1/endpoints", `{"url":"https://a.example/"}`).Code)
	f = &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	require.Equal(t, http.StatusOK, patch(newTestAPI(t, f), `{"topics":["hookladder.*"]}`).Code, "an operator sets any")
}

// A URL that passed for an operator has not passed for a link.
func TestALinksURLIsJudgedByItsOwnNetworks(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f, func(o *httpapi.Options) {
		o.Policy.CheckURL = nil
		o.Policy.CheckLinkURL = func(u *url.URL) error {
			if u.Hostname() == "10.1.2.3" {
				return errors.New("not for links")
			}
			return nil
		}
	})
	const inside = `{"url":"http://10.1.2.3/"}`
	for range 2 {
		require.Equal(t, http.StatusCreated, Post(h, "/v1/endpoints", inside).Code)
		RequireField(t, asLink(h, tenantLink, "POST", "/v1/endpoints", inside), "$.url", "not for links")
		f.There = Endpoint(t)
		RequireField(t, asLink(h, singleLink, "PATCH", patchPath, inside), "$.url", "not for links")
		require.Equal(t, http.StatusOK, asLink(h, singleLink, "PATCH", patchPath, `{"url":"http://10.1.2.4/"}`).Code)
		require.Equal(t, http.StatusOK, patch(h, inside).Code)
	}
}

func rotate(h http.Handler, body string) *httptest.ResponseRecorder {
	return Serve(h, newTestRequest("POST", "/v1/endpoints/merchant:7/rotate-secret", body))
}

func TestASecretIsRotated(t *testing.T) {
	for body, want := range map[string]struct {
		overlap time.Duration
		secret  string
	}{
		"": {24 * time.Hour, ""}, `{}`: {24 * time.Hour, ""}, `{"overlap":"0s"}`: {0, ""}, `{"overlap":0}`: {0, ""}, `{"overlap":"30d"}`: {720 * time.Hour, ""},
		`{"overlap":90,"secret":"` + SecretOld + `"}`: {90 * time.Second, SecretOld},
	} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t), Overlap: -1}}
		w := rotate(newTestAPI(t, f), body)
		got := DecodeAnswer[wire.Rotated](t, w, 200)
		require.Equal(t, "ep_123456789", got.ID)
		require.Equal(t, want.overlap, f.Overlap, body)
		require.Equal(t, want.secret, f.Rotated.Reveal(), body)
		require.Equal(t, SecretNew, got.Secret, "it is told this once")
		require.True(t, got.PreviousUntil.Equal(Now.Add(time.Hour).Truncate(time.Millisecond)))
		require.NotContains(t, w.Body.String(), SecretOld)
		require.NotContains(t, w.Body.String(), "hunter", "headers stay hidden")
	}
}

func TestAnEndpointShowsTheFingerprintOfItsNewestSecret(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	newest := MustSecret(t, signer.Standard, SecretNew)
	f.There.Secrets = []dispatcher.EndpointSecret{{Secret: newest}, {Secret: MustSecret(t, signer.Standard, SecretOld), Until: Now.Add(time.Hour)}}
	read := func() string {
		w := Serve(newTestAPI(t, f), newTestRequest("GET", "/v1/endpoints/merchant:7", ""))
		return DecodeAnswer[wire.EndpointView](t, w, 200).SecretFingerprint
	}
	require.Equal(t, newest.Fingerprint(), read())
	f.There.Signature, f.There.Secrets = signer.GitHub, []dispatcher.EndpointSecret{{Secret: MustSecret(t, signer.GitHub, "password-password")}}
	require.Empty(t, read())
	f.There.Secrets = nil
	require.Empty(t, read(), "they could not be opened")
}

func TestARotationTellsThePublicKeyAndThatTheOldSecretEnded(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	f.There.Signature, f.There.Secrets = signer.StandardEd25519, []dispatcher.EndpointSecret{{Secret: MustSecret(t, signer.StandardEd25519, SecretEd)}}
	w := rotate(newTestAPI(t, f), "")
	require.Equal(t, publicEd, DecodeAnswer[wire.Rotated](t, w, 200).PublicKey)
	require.Contains(t, w.Body.String(), `"previous_until":null`)
	f.There = Endpoint(t)
	f.There.Signature = signer.GitHub
	require.Contains(t, rotate(newTestAPI(t, f), "").Body.String(), `"previous_until":null`, "there is room for one signature")
}

func TestABadRotationRotatesNothing(t *testing.T) {
	for body, want := range map[string][2]string{
		`[]`: {"$", "object"}, `null`: {"$", "object"},
		`{"color":1}`:                   {"$.color", "unknown"},
		`{"overlap":-1}`:                {"$.overlap", "0s to 30d"},
		`{"overlap":"31d"}`:             {"$.overlap", "0s to 30d"},
		`{"overlap":"soon"}`:            {"$.overlap", ""},
		`{"overlap":true}`:              {"$.overlap", "seconds"},
		`{"secret":7}`:                  {"$.secret", "text"},
		`{"secret":"hunter2"}`:          {"$.secret", "whsec_"},
		`{"secret":""}`:                 {"$.secret", ""},
		`{"secret":"` + SecretEd + `"}`: {"$.secret", "whsec_"},
	} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
		w := rotate(newTestAPI(t, f), body)
		t.Run(ClipName(body), func(t *testing.T) { RequireField(t, w, want[0], want[1]) })
		require.NotContains(t, f.Calls, "rotate")
		require.NotContains(t, w.Body.String(), "hunter2")
		require.NotContains(t, w.Body.String(), SecretEd)
	}
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	RequireField(t, Serve(newTestAPI(t, f), newTestRequest("POST", "/v1/endpoints/a/rotate-secret?overlap=1h", "")), "query.overlap", "unknown")
}

func TestSecretsAreReadWhileTheySign(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	f.There.Secrets = append(f.There.Secrets, dispatcher.EndpointSecret{Secret: MustSecret(t, signer.Standard, SecretOld), Until: Now})
	w := Get(h, "/v1/endpoints/merchant:7/secret")
	require.Equal(t, `{"id":"ep_123456789","signature":"standard","secrets":[{"secret":"`+SecretNew+`","until":null},{"secret":"`+SecretOld+`","until":"2026-01-31T12:00:00.123Z"}]}`,
		w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Len(t, DecodeAnswer[wire.EndpointSecrets](t, w, 200).Secrets, 2)

	f.There.Signature, f.There.Secrets = signer.StandardEd25519, []dispatcher.EndpointSecret{{Secret: MustSecret(t, signer.StandardEd25519, SecretEd)}}
	got := DecodeAnswer[wire.EndpointSecrets](t, Get(h, "/v1/endpoints/merchant:7/secret"), 200)
	require.Equal(t, []wire.EndpointSecret{{Secret: SecretEd, PublicKey: publicEd}}, got.Secrets)

	f.There.Secrets = nil
	RequireProblem(t, Get(h, "/v1/endpoints/merchant:7/secret"), 500, "sealed")
}

// publicEd belongs to secretEd: it is what RFC 8032 makes of that seed.
const publicEd = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="

func TestPublicKeysAreForEverybody(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{KeyPage: dispatcher.PublicKeyPage{Fresh: 41*time.Second + 1}}}
	h := newTestAPI(t, f, WithKeys(t, Keys()))
	const path = "/.well-known/webhook-keys"
	require.Equal(t, `{"data":[],"next_cursor":null}`, Get(h, path).Body.String())
	require.Equal(t, dispatcher.PublicKeyFilter{Limit: 50}, f.KeysOf)

	f.KeyPage.Next = "ep_1"
	f.KeyPage.Keys = []dispatcher.PublicKey{{Endpoint: "ep_123456789", Key: publicEd}, {Endpoint: "ep_1", Key: publicEd, Until: Now}}
	for query, want := range map[string]dispatcher.PublicKeyFilter{
		"": {Limit: 50}, "?endpoint=merchant:7": {Limit: 50, Name: "merchant:7"}, "?limit=3&cursor=ep_9": {Limit: 3, Cursor: "ep_9"},
	} {
		w := Get(h, path+query)
		got := DecodeAnswer[wire.PublicKeyPage](t, w, 200)
		require.Equal(t, []wire.PublicKey{
			{Endpoint: "ep_123456789", PublicKey: publicEd},
			{Endpoint: "ep_1", PublicKey: publicEd, Until: got.Data[1].Until},
		}, got.Data)
		require.True(t, got.Data[1].Until.Equal(Now.Truncate(time.Millisecond)))
		require.Equal(t, "ep_1", *got.NextCursor)
		require.Equal(t, want, f.KeysOf)
		require.Equal(t, "public, max-age=42", w.Header().Get("Cache-Control"))
	}
	for _, call := range f.Calls {
		require.Equal(t, "public keys", call, "nothing else is asked for a stranger")
	}

	for query, field := range map[string]string{
		"endpoint=u_1": "query.endpoint", "endpoint=a&cursor=b": "query.endpoint", "tenant=a": "query.tenant", "limit=0": "query.limit", "limit=51": "query.limit",
	} {
		w := Get(h, path+"?"+query)
		RequireField(t, w, field, "")
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
	f.Err = dispatcher.ErrUnavailable
	RequireProblem(t, Get(h, path+"?endpoint=a"), 503, "unavailable")
	RequireProblem(t, Get(h, path), 503, "unavailable")
}

// patientRecorder remembers until when it may be written to.
type patientRecorder struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (p *patientRecorder) SetWriteDeadline(t time.Time) error {
	p.until = t
	return nil
}

func TestATestTellsWhatTheReceiverSaid(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t), Test: dispatcher.TestResult{
		MessageID: "msg_1",
		Attempt: dispatcher.Attempt{
			Number: 1, At: Now, Duration: 1500 * time.Microsecond, Status: 500, Verdict: dispatcher.Dead, Error: "status 500", Excerpt: []byte("oops\xff"),
		},
	}}}
	h := newTestAPI(t, f)
	w := &patientRecorder{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, newTestRequest("POST", "/v1/endpoints/merchant:7/test", ""))
	require.Equal(t, `{"message_id":"msg_1","at":"2026-01-31T11:00:00.123Z","duration_ms":1,"status_code":500,"outcome":"failed","error":"status 500","response_excerpt":"oops�"}`,
		w.Body.String())
	require.Greater(t, time.Until(w.until), time.Minute, "the longest attempt fits")

	f.Test.Attempt.Verdict = dispatcher.Retry
	got := DecodeAnswer[wire.EndpointTest](t, Serve(h, newTestRequest("POST", "/v1/endpoints/merchant:7/test", " {} ")), 200)
	require.Equal(t, "failed", got.Outcome, "it is never tried again")
	f.Calls = nil
	for _, path := range []string{"/v1/endpoints/merchant:7/test", "/v1/endpoints/merchant:7/pause", "/v1/messages/m/retry", "/v1/lanes/*/resume"} {
		for _, body := range []string{`{"topic":"x","body":{"a":1}}`, "null", strings.Repeat(" ", 64)} {
			RequireField(t, Serve(h, newTestRequest("POST", path, body)), "$", "takes no body")
		}
	}
	require.Empty(t, f.Calls)

	f.Test = dispatcher.TestResult{MessageID: "msg_2", Attempt: dispatcher.Attempt{Verdict: dispatcher.Delivered, Status: 204}}
	got = DecodeAnswer[wire.EndpointTest](t, Serve(h, newTestRequest("POST", "/v1/endpoints/merchant:7/test", "")), 200)
	require.Equal(t, "delivered", got.Outcome)
	require.Equal(t, "merchant:7", f.Asked)
	RequireField(t, Serve(h, newTestRequest("POST", "/v1/endpoints/a/test?x=1", "")), "query.x", "unknown")
}

// Whatever is asked, in order or not, a secret stands in two answers only, and
// never in the log.
func TestSecretsAreAnsweredByThreeCallsAndLoggedNever(t *testing.T) {
	var log bytes.Buffer
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t), Secret: MustSecret(t, signer.Standard, SecretNew)}}
	h := newTestAPI(t, f, WithKeys(t, Keys()), WithLog(&log))
	reported := map[string]bool{}
	for _, o := range Operations {
		for _, body := range []string{"", `{}`, endpoint(`"secret":"` + SecretOld + `"`), `{"secret":"` + SecretOld + `"}`, `{"secret":["` + SecretOld + `"]}`} {
			path := bytes.Replace([]byte(o.Path), []byte("endpoints/a"), []byte("endpoints/ep_123456789"), 1)
			r := newTestRequest(o.Method, string(path), body)
			r.Header.Set("Authorization", "Bearer "+AdminKey)
			w := Serve(h, r)
			if bytes.Contains(w.Body.Bytes(), []byte("whsec_b")) {
				reported[o.Method+" "+o.Path] = true
			}
		}
	}
	require.Equal(t, map[string]bool{"POST /v1/endpoints": true, "POST /v1/endpoints/a/rotate-secret": true, "GET /v1/endpoints/a/secret": true}, reported)
	require.NotContains(t, log.String(), "whsec_")
	require.NotContains(t, log.String(), "hunter")
}
