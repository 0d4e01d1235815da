package httpapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

const (
	publishKey = "publish-key-0123456789"
	readKey    = "read-key-0123456789abc"
	adminKey   = "admin-key-0123456789ab"
	tickKey    = "tick-key-0123456789abc"
)

func testKeys() string {
	sum := sha256.Sum256([]byte(adminKey))
	return publishKey + ":publish:shop, " + readKey + ":read,sha256:" + hex.EncodeToString(sum[:]) + ":admin:ops," + tickKey + ":tick+consume"
}

// operations is every call that needs a key, with the scope that it needs.
var operations = []struct{ method, path, scope string }{
	{"POST", "/v1/messages", "publish"},
	{"POST", "/v1/messages/batch", "publish"},
	{"GET", "/v1/messages/a", "read"},
	{"DELETE", "/v1/messages/a", "publish"},
	{"POST", "/v1/messages/a/retry", "publish"},
	{"GET", "/v1/deliveries", "read"},
	{"GET", "/v1/stats", "read"},
	{"POST", "/v1/endpoints", "admin"},
	{"GET", "/v1/endpoints", "read"},
	{"GET", "/v1/endpoints/a", "read"},
	{"PATCH", "/v1/endpoints/a", "admin"},
	{"DELETE", "/v1/endpoints/a", "admin"},
	{"POST", "/v1/endpoints/a/pause", "admin"},
	{"POST", "/v1/endpoints/a/resume", "admin"},
	{"POST", "/v1/endpoints/a/confirm", "admin"},
	{"POST", "/v1/endpoints/a/rotate-secret", "admin"},
	{"POST", "/v1/endpoints/a/test", "admin"},
	{"GET", "/v1/endpoints/a/secret", "admin"},
	{"GET", "/v1/lanes", "read"},
	{"POST", "/v1/lanes/a/pause", "admin"},
	{"POST", "/v1/lanes/a/resume", "admin"},
	{"POST", "/v1/tick", "tick"},
}

func TestAKeyOpensWhatItsScopesSay(t *testing.T) {
	h := newTestAPI(t, &fakeService{}, withKeys(t, testKeys()))
	for _, o := range operations {
		for key, scope := range map[string]string{publishKey: "publish", readKey: "read", adminKey: "admin", tickKey: "tick"} {
			r := newRequest(o.method, o.path, "")
			r.Host = "hooks.example" // keys open from anywhere
			r.Header.Set("Authorization", "Bearer "+key)
			w := serve(h, r)
			if scope == o.scope || scope == "admin" {
				require.NotContains(t, []int{401, 403}, w.Code, o.path)
				continue
			}
			p := requireProblem(t, w, 403, "forbidden")
			require.Contains(t, p.Detail, o.scope)
			require.NotContains(t, w.Body.String(), key)
		}
	}
}

func TestEveryUnknownKeyGetsOneAnswer(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f, withKeys(t, testKeys()))
	var first string
	for i, header := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer    "}, {"Basic x"}, {"Bearer a", "Bearer b"}, {"Bearer wrong-key-0123456789"}, {"Basic " + publishKey}, {publishKey}, {"Bearer " + publishKey + "x"},
		{"Bearer " + publishKey[1:]}, {"Bearer " + strings.ToUpper(publishKey)}, {"Bearer sha256:" + strings.Repeat("a", 64)},
		{"Bearer " + publishKey, "Bearer " + publishKey}, {"Bearer\t" + publishKey}, {"Bearer " + strings.Repeat("x", 10000)},
	} {
		for _, o := range operations {
			r := newRequest(o.method, o.path, "")
			r.Header["Authorization"] = header
			w := serve(h, r)
			requireProblem(t, w, 401, "unauthorized")
			require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			require.Equal(t, "close", w.Header().Get("Connection"))
			if i == 0 {
				first = w.Body.String()
			}
			require.Equal(t, first, w.Body.String())
		}
	}
	require.Empty(t, f.calls)
	r := newRequest("GET", "/v1/stats?key="+readKey, "")
	requireProblem(t, serve(h, r), 401, "unauthorized")
}

func TestSomeCallsNeedNoKey(t *testing.T) {
	h := newTestAPI(t, &fakeService{}, withKeys(t, testKeys()))
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/.well-known/webhook-keys"} {
		require.Equal(t, 200, get(h, path).Code, path)
	}
	r := newRequest("GET", "/v1/stats", "")
	r.Header.Set("Authorization", "bEARER  "+readKey)
	require.Equal(t, 200, serve(h, r).Code)
}

// A load balancer asks without a key, and strangers may too: what the store is,
// and where, is not for them.
func TestStrangersAreToldReadyOrNotAndNoMore(t *testing.T) {
	f := &fakeService{store: testStore()}
	h := newTestAPI(t, f, withKeys(t, testKeys()))
	ask := func(key string) *httptest.ResponseRecorder {
		r := newRequest("GET", "/readyz", "")
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return serve(h, r)
	}
	for _, key := range []string{"", publishKey, "wrong-key-0123456789"} {
		require.Equal(t, `{"status":"ready"}`, ask(key).Body.String())
	}
	require.Contains(t, ask(readKey).Body.String(), `"kind":"valkey"`)
	require.Contains(t, ask(adminKey).Body.String(), `"kind":"valkey"`)

	f.err = errors.New("dial tcp 127.0.0.1:26601: connection refused")
	w := ask("")
	refused := requireProblem(t, w, 503, "unavailable")
	require.NotContains(t, refused.Detail, "26601")
	require.Equal(t, "This instance is not ready", refused.Title, "not what is the matter, which may be no fault of the store")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Contains(t, ask(readKey).Body.String(), "26601")
	f.err = dispatcher.ErrStopping
	require.Equal(t, "This instance stops", requireProblem(t, ask(readKey), 503, "unavailable").Title)
	f.err, f.store.Durable, f.store.Checks[1].Detail = nil, dispatcher.No, "one of them is away"
	require.NotContains(t, requireProblem(t, ask(""), 503, "unavailable").Detail, "away")
	require.Contains(t, ask(readKey).Body.String(), "away")
}

func TestTheProfilesWithoutTheirSlashAreNotThere(t *testing.T) {
	h := newTestAPI(t, &fakeService{}, withKeys(t, testKeys()))
	requireProblem(t, get(h, "/debug/pprof"), 404, "not-found")
}

func TestTheLogNamesAKeyButNeverHoldsIt(t *testing.T) {
	var log bytes.Buffer
	h := newTestAPI(t, &fakeService{}, withKeys(t, testKeys()), withLog(&log))
	for _, key := range []string{publishKey, readKey, adminKey, "wrong-key-0123456789"} {
		r := newRequest("GET", "/v1/stats", "")
		r.Header.Set("Authorization", "Bearer "+key)
		serve(h, r)
	}
	sum := sha256.Sum256([]byte(readKey))
	require.Contains(t, log.String(), "key="+hex.EncodeToString(sum[:4]))
	require.Contains(t, log.String(), "key=ops")
	require.NotContains(t, log.String(), "0123456789")
}

func TestWithoutKeysOnlyThisHostIsServed(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f)
	ask := func(host string, origin ...string) *http.Request {
		r := newRequest("GET", "/v1/stats", "")
		r.Host = host
		if origin != nil {
			r.Header["Origin"] = origin
		}
		return r
	}
	for _, host := range []string{"localhost", "LocalHost:8080", "127.0.0.1", "127.9.8.7:80", "[::1]", "[::1]:8080", "::1", "[::ffff:127.0.0.1]:1"} {
		require.Equal(t, 200, serve(h, ask(host)).Code, host)
	}
	require.Equal(t, 200, serve(h, ask("localhost:8080", "http://localhost:8080")).Code)
	f.calls = nil
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "Via", "X-Real-IP"} {
		r := ask("localhost")
		r.Header.Set(name, "")
		require.Contains(t, requireProblem(t, serve(h, r), 403, "forbidden").Detail, "set API_KEYS", "%s: behind a proxy the world would be the operator", name)
		require.Equal(t, 403, serve(httpapi.Local(http.NotFoundHandler()), r).Code, "%s: nor does it get pages", name)
	}
	for _, host := range []string{"", "hooks.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0", "[::]", "evil.example:8080", "localhost@evil.example", "2130706433"} {
		requireProblem(t, serve(h, ask(host)), 403, "forbidden")
	}
	for _, site := range []string{"cross-site", "same-site", "", "odd"} {
		r := ask("localhost:8080")
		r.URL.Path = "/debug/pprof/profile" // <img src=…> has no Origin
		r.Header["Sec-Fetch-Site"] = []string{site}
		requireProblem(t, serve(h, r), 403, "forbidden")
	}
	for _, site := range []string{"none", "same-origin"} { // typed by a person, or our own page
		r := ask("localhost:8080")
		r.Header["Sec-Fetch-Site"] = []string{site}
		require.Equal(t, 200, serve(h, r).Code)
	}
	own := ask("localhost:8080", "null") // a form of a page that sends no referrer
	own.Header["Sec-Fetch-Site"] = []string{"same-origin"}
	require.Equal(t, 200, serve(h, own).Code)
	f.calls = nil
	own.Header["Sec-Fetch-Site"] = []string{"none"}
	requireProblem(t, serve(h, own), 403, "forbidden")
	for _, origin := range []string{"http://evil.example", "null", "http://localhost:3000", "", "http://localhost:8080.evil.example"} {
		requireProblem(t, serve(h, ask("localhost:8080", origin)), 403, "forbidden")
	}
	require.Empty(t, f.calls)
}

func TestWithoutReadAnAnswerSaysHowDeliveriesStandAndNoMore(t *testing.T) {
	record := testRecord(t)
	f := &fakeService{record: record}
	h := newTestAPI(t, f, withKeys(t, testKeys()+",both-key-0123456789abc:publish+read"))
	with := func(key, method, path, body string) *httptest.ResponseRecorder {
		r := newRequest(method, path, body)
		r.Header.Set("Authorization", "Bearer "+key)
		return serve(h, r)
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{{"DELETE", "/v1/messages/a", 200}, {"POST", "/v1/messages/a/retry", 202}} {
		got := decodeAnswer[map[string]any](t, with(publishKey, c.method, c.path, ""), c.status)
		require.Equal(t, "a", got["id"])
		require.Len(t, got, 2)
		list := got["deliveries"].([]any)
		require.Len(t, list, len(record.Deliveries))
		for i, one := range list {
			d := record.Deliveries[i]
			want := map[string]any{"id": d.ID.String(), "destination": string(d.ID.Lane), "status": string(d.Status)}
			if c.method == "POST" {
				want["retried"] = true
			}
			require.Equal(t, want, one)
		}
		for _, key := range []string{"both-key-0123456789abc", adminKey} {
			require.Contains(t, with(key, c.method, c.path, "").Body.String(), `"attempts"`)
		}
	}
	for _, body := range []string{message(`"id":"a"`), `{"messages":[` + message(`"id":"a"`) + `]}`} {
		path := "/v1/messages"
		if strings.HasPrefix(body, `{"messages"`) {
			path += "/batch"
		}
		brief := with(publishKey, "POST", path, body)
		require.Equal(t, 202, brief.Code)
		require.NotContains(t, brief.Body.String(), "shop.example", "an endpoint's URL may hold a token")
		require.NotContains(t, brief.Body.String(), "next_attempt_at")
		require.Regexp(t, `"deliveries":\[\{"id":"u_[^"]+:a","destination":"u_[^"]+","status":"ready"\}\]`, brief.Body.String())
		require.Contains(t, with(adminKey, "POST", path, body).Body.String(), "next_attempt_at")
	}
}

// Whose endpoints there are is not told to a key that only publishes.
func TestAnotherTenantsEndpointIsToldAsOneThatIsNotThere(t *testing.T) {
	var answers []string
	for _, err := range []error{dispatcher.ErrNoEndpoint, dispatcher.ErrTenant} {
		f := &fakeService{publish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
			return []dispatcher.Published{{Err: err}}, nil
		}}
		w := post(newTestAPI(t, f), "/v1/messages", `{"topic":"t","endpoint":"merchant:7","body":1}`)
		requireField(t, w, "$.endpoint", "there is no such endpoint of the message's tenant")
		answers = append(answers, w.Body.String())
	}
	require.Equal(t, answers[0], answers[1])

	f := &fakeService{}
	h := newTestAPI(t, f, withKeys(t, testKeys()))
	ask := func() string {
		r := newRequest("DELETE", "/v1/messages/a?destination=merchant:7", "")
		r.Header.Set("Authorization", "Bearer "+publishKey)
		w := serve(h, r)
		requireProblem(t, w, 404, "not-found")
		return w.Body.String()
	}
	nobodys := ask()
	f.there = testEndpoint(t) // which the message does not go to
	f.err = fmt.Errorf("message a to ep_123456789: %w", dispatcher.ErrNotFound)
	require.Equal(t, nobodys, ask())
}

func TestBodiesAndAnswersNeedAScopeOfTheirOwn(t *testing.T) {
	const bodiesKey = "bodies-key-0123456789"
	record := testRecord(t)
	f := &fakeService{record: record}
	h := newTestAPI(t, f, withKeys(t, testKeys()+","+bodiesKey+":read+bodies,alone-key-0123456789ab:bodies,both-key-0123456789abc:publish+read"))
	ask := func(method, path, key string) string {
		r := newRequest(method, path, "")
		r.Header.Set("Authorization", "Bearer "+key)
		return serve(h, r).Body.String()
	}
	for _, key := range []string{bodiesKey, adminKey} {
		got := ask("GET", "/v1/messages/a", key)
		require.Contains(t, got, `"body":{ "n" : 12345678901234567890`)
		require.Contains(t, got, `"response_excerpt":"oops`)
	}
	got := ask("GET", "/v1/messages/a", readKey)
	require.NotContains(t, got, "12345678901234567890")
	require.NotContains(t, got, "oops")
	require.Contains(t, got, `"response_bytes":5`)
	sum := sha256.Sum256(record.Message.Body)
	require.Contains(t, got, `"body_bytes":39,"body_sha256":"`+hex.EncodeToString(sum[:])+`"`)
	require.Contains(t, ask("GET", "/v1/messages/a", "alone-key-0123456789ab"), "forbidden", "it stands beside read")
	require.NotContains(t, ask("DELETE", "/v1/messages/a", "both-key-0123456789abc"), "oops")
}
