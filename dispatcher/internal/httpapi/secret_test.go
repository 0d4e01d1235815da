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
	return serve(h, newRequest("POST", "/v1/endpoints/merchant:7/rotate-secret", body))
}

func TestASecretIsRotated(t *testing.T) {
	for body, want := range map[string]struct {
		overlap time.Duration
		secret  string
	}{
		"": {24 * time.Hour, ""}, `{}`: {24 * time.Hour, ""}, `{"overlap":"0s"}`: {0, ""}, `{"overlap":0}`: {0, ""}, `{"overlap":"30d"}`: {720 * time.Hour, ""},
		`{"overlap":90,"secret":"` + secretOld + `"}`: {90 * time.Second, secretOld},
	} {
		f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t), overlap: -1}}
		w := rotate(newTestAPI(t, f), body)
		got := decodeAnswer[wire.Rotated](t, w, 200)
		require.Equal(t, "ep_123456789", got.ID)
		require.Equal(t, want.overlap, f.overlap, body)
		require.Equal(t, want.secret, f.rotated.Reveal(), body)
		require.Equal(t, secretNew, got.Secret, "it is told this once")
		require.True(t, got.PreviousUntil.Equal(testNow.Add(time.Hour).Truncate(time.Millisecond)))
		require.NotContains(t, w.Body.String(), secretOld)
		require.NotContains(t, w.Body.String(), "hunter", "headers stay hidden")
	}
}

func TestARotationTellsThePublicKeyAndThatTheOldSecretEnded(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
	f.there.Signature, f.there.Secrets = signer.StandardEd25519, []dispatcher.EndpointSecret{{Secret: mustSecret(t, signer.StandardEd25519, secretEd)}}
	w := rotate(newTestAPI(t, f), "")
	require.Equal(t, publicEd, decodeAnswer[wire.Rotated](t, w, 200).PublicKey)
	require.Contains(t, w.Body.String(), `"previous_until":null`)
	f.there = testEndpoint(t)
	f.there.Signature = signer.GitHub
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
		`{"secret":"` + secretEd + `"}`: {"$.secret", "whsec_"},
	} {
		f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
		w := rotate(newTestAPI(t, f), body)
		t.Run(clipName(body), func(t *testing.T) { requireField(t, w, want[0], want[1]) })
		require.NotContains(t, f.calls, "rotate")
		require.NotContains(t, w.Body.String(), "hunter2")
		require.NotContains(t, w.Body.String(), secretEd)
	}
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
	requireField(t, serve(newTestAPI(t, f), newRequest("POST", "/v1/endpoints/a/rotate-secret?overlap=1h", "")), "query.overlap", "unknown")
}

func TestSecretsAreReadWhileTheySign(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
	h := newTestAPI(t, f)
	f.there.Secrets = append(f.there.Secrets, dispatcher.EndpointSecret{Secret: mustSecret(t, signer.Standard, secretOld), Until: testNow})
	w := get(h, "/v1/endpoints/merchant:7/secret")
	require.Equal(t, `{"id":"ep_123456789","signature":"standard","secrets":[{"secret":"`+secretNew+`","until":null},{"secret":"`+secretOld+`","until":"2026-01-31T12:00:00.123Z"}]}`,
		w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Len(t, decodeAnswer[wire.EndpointSecrets](t, w, 200).Secrets, 2)

	f.there.Signature, f.there.Secrets = signer.StandardEd25519, []dispatcher.EndpointSecret{{Secret: mustSecret(t, signer.StandardEd25519, secretEd)}}
	got := decodeAnswer[wire.EndpointSecrets](t, get(h, "/v1/endpoints/merchant:7/secret"), 200)
	require.Equal(t, []wire.EndpointSecret{{Secret: secretEd, PublicKey: publicEd}}, got.Secrets)

	f.there.Secrets = nil
	requireProblem(t, get(h, "/v1/endpoints/merchant:7/secret"), 500, "sealed")
}

// publicEd belongs to secretEd: it is what RFC 8032 makes of that seed.
const publicEd = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="

func TestPublicKeysAreForEverybody(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{keyPage: dispatcher.PublicKeyPage{Fresh: 41*time.Second + 1}}}
	h := newTestAPI(t, f, withKeys(t, testKeys()))
	const path = "/.well-known/webhook-keys"
	require.Equal(t, `{"data":[],"next_cursor":null}`, get(h, path).Body.String())
	require.Equal(t, dispatcher.PublicKeyFilter{Limit: 50}, f.keysOf)

	f.keyPage.Next = "ep_1"
	f.keyPage.Keys = []dispatcher.PublicKey{{Endpoint: "ep_123456789", Key: publicEd}, {Endpoint: "ep_1", Key: publicEd, Until: testNow}}
	for query, want := range map[string]dispatcher.PublicKeyFilter{
		"": {Limit: 50}, "?endpoint=merchant:7": {Limit: 50, Name: "merchant:7"}, "?limit=3&cursor=ep_9": {Limit: 3, Cursor: "ep_9"},
	} {
		w := get(h, path+query)
		got := decodeAnswer[wire.PublicKeyPage](t, w, 200)
		require.Equal(t, []wire.PublicKey{
			{Endpoint: "ep_123456789", PublicKey: publicEd},
			{Endpoint: "ep_1", PublicKey: publicEd, Until: got.Data[1].Until},
		}, got.Data)
		require.True(t, got.Data[1].Until.Equal(testNow.Truncate(time.Millisecond)))
		require.Equal(t, "ep_1", *got.NextCursor)
		require.Equal(t, want, f.keysOf)
		require.Equal(t, "public, max-age=42", w.Header().Get("Cache-Control"))
	}
	for _, call := range f.calls {
		require.Equal(t, "public keys", call, "nothing else is asked for a stranger")
	}

	for query, field := range map[string]string{
		"endpoint=u_1": "query.endpoint", "endpoint=a&cursor=b": "query.endpoint", "tenant=a": "query.tenant", "limit=0": "query.limit", "limit=51": "query.limit",
	} {
		w := get(h, path+"?"+query)
		requireField(t, w, field, "")
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
	f.err = dispatcher.ErrUnavailable
	requireProblem(t, get(h, path+"?endpoint=a"), 503, "unavailable")
	requireProblem(t, get(h, path), 503, "unavailable")
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
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t), test: dispatcher.TestResult{
		MessageID: "msg_1",
		Attempt: dispatcher.Attempt{
			Number: 1, At: testNow, Duration: 1500 * time.Microsecond, Status: 500, Verdict: dispatcher.Dead, Error: "status 500", Excerpt: []byte("oops\xff"),
		},
	}}}
	h := newTestAPI(t, f)
	w := &patientRecorder{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, newRequest("POST", "/v1/endpoints/merchant:7/test", ""))
	require.Equal(t, `{"message_id":"msg_1","at":"2026-01-31T11:00:00.123Z","duration_ms":1,"status_code":500,"outcome":"failed","error":"status 500","response_excerpt":"oops�"}`,
		w.Body.String())
	require.Greater(t, time.Until(w.until), time.Minute, "the longest attempt fits")

	f.test.Attempt.Verdict = dispatcher.Retry
	got := decodeAnswer[wire.EndpointTest](t, serve(h, newRequest("POST", "/v1/endpoints/merchant:7/test", " {} ")), 200)
	require.Equal(t, "failed", got.Outcome, "it is never tried again")
	f.calls = nil
	for _, path := range []string{"/v1/endpoints/merchant:7/test", "/v1/endpoints/merchant:7/pause", "/v1/messages/m/retry", "/v1/lanes/*/resume"} {
		for _, body := range []string{`{"topic":"x","body":{"a":1}}`, "null", strings.Repeat(" ", 64)} {
			requireField(t, serve(h, newRequest("POST", path, body)), "$", "takes no body")
		}
	}
	require.Empty(t, f.calls)

	f.test = dispatcher.TestResult{MessageID: "msg_2", Attempt: dispatcher.Attempt{Verdict: dispatcher.Delivered, Status: 204}}
	got = decodeAnswer[wire.EndpointTest](t, serve(h, newRequest("POST", "/v1/endpoints/merchant:7/test", "")), 200)
	require.Equal(t, "delivered", got.Outcome)
	require.Equal(t, "merchant:7", f.asked)
	requireField(t, serve(h, newRequest("POST", "/v1/endpoints/a/test?x=1", "")), "query.x", "unknown")
}

// Whatever is asked, in order or not, a secret stands in two answers only, and
// never in the log.
func TestSecretsAreAnsweredByThreeCallsAndLoggedNever(t *testing.T) {
	var log bytes.Buffer
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t), secret: mustSecret(t, signer.Standard, secretNew)}}
	h := newTestAPI(t, f, withKeys(t, testKeys()), withLog(&log))
	told := map[string]bool{}
	for _, o := range operations {
		for _, body := range []string{"", `{}`, endpoint(`"secret":"` + secretOld + `"`), `{"secret":"` + secretOld + `"}`, `{"secret":["` + secretOld + `"]}`} {
			path := bytes.Replace([]byte(o.path), []byte("endpoints/a"), []byte("endpoints/ep_123456789"), 1)
			r := newRequest(o.method, string(path), body)
			r.Header.Set("Authorization", "Bearer "+adminKey)
			w := serve(h, r)
			if bytes.Contains(w.Body.Bytes(), []byte("whsec_b")) {
				told[o.method+" "+o.path] = true
			}
		}
	}
	require.Equal(t, map[string]bool{"POST /v1/endpoints": true, "POST /v1/endpoints/a/rotate-secret": true, "GET /v1/endpoints/a/secret": true}, told)
	require.NotContains(t, log.String(), "whsec_")
	require.NotContains(t, log.String(), "hunter")
}
