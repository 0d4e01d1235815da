package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

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
