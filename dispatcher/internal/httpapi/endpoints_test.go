package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
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
