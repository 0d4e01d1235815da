package httpapi_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

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
