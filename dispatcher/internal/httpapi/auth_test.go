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

func TestAKeyOpensWhatItsScopesSay(t *testing.T) {
	h := newTestAPI(t, &Fake{}, WithKeys(t, Keys()))
	for _, o := range Operations {
		for key, scope := range map[string]string{PublishKey: "publish", ReadKey: "read", AdminKey: "admin", TickKey: "tick"} {
			r := newTestRequest(o.Method, o.Path, "")
			r.Host = "hooks.example" // keys open from anywhere
			r.Header.Set("Authorization", "Bearer "+key)
			w := Serve(h, r)
			if scope == o.Scope || scope == "admin" {
				require.NotContains(t, []int{401, 403}, w.Code, o.Path)
				continue
			}
			p := RequireProblem(t, w, 403, "forbidden")
			require.Contains(t, p.Detail, o.Scope)
			require.NotContains(t, w.Body.String(), key)
		}
	}
}

func TestEveryUnknownKeyGetsOneAnswer(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f, WithKeys(t, Keys()))
	var first string
	for i, header := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer    "}, {"Basic x"}, {"Bearer a", "Bearer b"}, {"Bearer wrong-key-0123456789"}, {"Basic " + PublishKey}, {PublishKey}, {"Bearer " + PublishKey + "x"},
		{"Bearer " + PublishKey[1:]}, {"Bearer " + strings.ToUpper(PublishKey)}, {"Bearer sha256:" + strings.Repeat("a", 64)},
		{"Bearer " + PublishKey, "Bearer " + PublishKey}, {"Bearer\t" + PublishKey}, {"Bearer " + strings.Repeat("x", 10000)},
	} {
		for _, o := range Operations {
			r := newTestRequest(o.Method, o.Path, "")
			r.Header["Authorization"] = header
			w := Serve(h, r)
			RequireProblem(t, w, 401, "unauthorized")
			require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			require.Equal(t, "close", w.Header().Get("Connection"))
			if i == 0 {
				first = w.Body.String()
			}
			require.Equal(t, first, w.Body.String())
		}
	}
	require.Empty(t, f.Calls)
	r := newTestRequest("GET", "/v1/stats?key="+ReadKey, "")
	RequireProblem(t, Serve(h, r), 401, "unauthorized")
}

func TestSomeCallsNeedNoKey(t *testing.T) {
	h := newTestAPI(t, &Fake{}, WithKeys(t, Keys()))
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/.well-known/webhook-keys"} {
		require.Equal(t, 200, Get(h, path).Code, path)
	}
	r := newTestRequest("GET", "/v1/stats", "")
	r.Header.Set("Authorization", "bEARER  "+ReadKey)
	require.Equal(t, 200, Serve(h, r).Code)
}

// A load balancer asks without a key, and strangers may too: what the store is,
// and where, is not for them.
func TestStrangersAreToldReadyOrNotAndNoMore(t *testing.T) {
	f := &Fake{Store: testStore()}
	h := newTestAPI(t, f, WithKeys(t, Keys()))
	ask := func(key string) *httptest.ResponseRecorder {
		r := newTestRequest("GET", "/readyz", "")
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return Serve(h, r)
	}
	for _, key := range []string{"", PublishKey, "wrong-key-0123456789"} {
		require.Equal(t, `{"status":"ready"}`, ask(key).Body.String())
	}
	require.Contains(t, ask(ReadKey).Body.String(), `"kind":"valkey"`)
	require.Contains(t, ask(AdminKey).Body.String(), `"kind":"valkey"`)

	f.Err = errors.New("dial tcp 127.0.0.1:26601: connection refused")
	w := ask("")
	refused := RequireProblem(t, w, 503, "unavailable")
	require.NotContains(t, refused.Detail, "26601")
	require.Equal(t, "This instance is not ready", refused.Title, "not what is the matter, which may be no fault of the store")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Contains(t, ask(ReadKey).Body.String(), "26601")
	f.Err = dispatcher.ErrStopping
	require.Equal(t, "This instance stops", RequireProblem(t, ask(ReadKey), 503, "unavailable").Title)
	f.Err, f.Store.Durable, f.Store.Checks[1].Detail = nil, dispatcher.No, "one of them is away"
	require.NotContains(t, RequireProblem(t, ask(""), 503, "unavailable").Detail, "away")
	require.Contains(t, ask(ReadKey).Body.String(), "away")
}

func TestTheProfilesWithoutTheirSlashAreNotThere(t *testing.T) {
	h := newTestAPI(t, &Fake{}, WithKeys(t, Keys()))
	RequireProblem(t, Get(h, "/debug/pprof"), 404, "not-found")
}

func TestTheLogNamesAKeyButNeverHoldsIt(t *testing.T) {
	var log bytes.Buffer
	h := newTestAPI(t, &Fake{}, WithKeys(t, Keys()), WithLog(&log))
	for _, key := range []string{PublishKey, ReadKey, AdminKey, "wrong-key-0123456789"} {
		r := newTestRequest("GET", "/v1/stats", "")
		r.Header.Set("Authorization", "Bearer "+key)
		Serve(h, r)
	}
	sum := sha256.Sum256([]byte(ReadKey))
	require.Contains(t, log.String(), "key="+hex.EncodeToString(sum[:4]))
	require.Contains(t, log.String(), "key=ops")
	require.NotContains(t, log.String(), "0123456789")
}

func TestWithoutKeysOnlyThisHostIsServed(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	ask := func(host string, origin ...string) *http.Request {
		r := newTestRequest("GET", "/v1/stats", "")
		r.Host = host
		if origin != nil {
			r.Header["Origin"] = origin
		}
		return r
	}
	for _, host := range []string{"localhost", "LocalHost:8080", "127.0.0.1", "127.9.8.7:80", "[::1]", "[::1]:8080", "::1", "[::ffff:127.0.0.1]:1"} {
		require.Equal(t, 200, Serve(h, ask(host)).Code, host)
	}
	require.Equal(t, 200, Serve(h, ask("localhost:8080", "http://localhost:8080")).Code)
	f.Calls = nil
	for _, name := range []string{
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "Via", "X-Real-IP",
		"CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Original-Forwarded-For", "Fly-Client-IP", "CDN-Loop", "X-Envoy-External-Address",
		"Cf-Access-Jwt-Assertion", "X-Goog-IAP-JWT-Assertion",
	} {
		r := ask("localhost")
		r.Header.Set(name, "")
		require.Contains(t, RequireProblem(t, Serve(h, r), 403, "forbidden").Detail, "set API_KEYS", "%s: behind a proxy the world would be the operator", name)
		require.Equal(t, 403, Serve(httpapi.Local(http.NotFoundHandler()), r).Code, "%s: nor does it get pages", name)
	}
	for _, host := range []string{"", "hooks.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0", "[::]", "evil.example:8080", "localhost@evil.example", "2130706433"} {
		RequireProblem(t, Serve(h, ask(host)), 403, "forbidden")
	}
	for _, site := range []string{"cross-site", "same-site", "", "odd"} {
		r := ask("localhost:8080")
		r.URL.Path = "/debug/pprof/profile" // <img src=…> has no Origin
		r.Header["Sec-Fetch-Site"] = []string{site}
		RequireProblem(t, Serve(h, r), 403, "forbidden")
	}
	for _, site := range []string{"none", "same-origin"} { // typed by a person, or our own page
		r := ask("localhost:8080")
		r.Header["Sec-Fetch-Site"] = []string{site}
		require.Equal(t, 200, Serve(h, r).Code)
	}
	own := ask("localhost:8080", "null") // a form of a page that sends no referrer
	own.Header["Sec-Fetch-Site"] = []string{"same-origin"}
	require.Equal(t, 200, Serve(h, own).Code)
	f.Calls = nil
	own.Header["Sec-Fetch-Site"] = []string{"none"}
	RequireProblem(t, Serve(h, own), 403, "forbidden")
	for _, origin := range []string{"http://evil.example", "null", "http://localhost:3000", "", "http://localhost:8080.evil.example"} {
		RequireProblem(t, Serve(h, ask("localhost:8080", origin)), 403, "forbidden")
	}
	require.Empty(t, f.Calls)
}

func TestWithoutReadAnAnswerSaysHowDeliveriesStandAndNoMore(t *testing.T) {
	record := Record(t)
	f := &Fake{View: record}
	h := newTestAPI(t, f, WithKeys(t, Keys()+",both-key-0123456789abc:publish+read"))
	with := func(key, method, path, body string) *httptest.ResponseRecorder {
		r := newTestRequest(method, path, body)
		r.Header.Set("Authorization", "Bearer "+key)
		return Serve(h, r)
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{{"DELETE", "/v1/messages/a", 200}, {"POST", "/v1/messages/a/retry", 202}} {
		got := DecodeAnswer[map[string]any](t, with(PublishKey, c.method, c.path, ""), c.status)
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
		for _, key := range []string{"both-key-0123456789abc", AdminKey} {
			require.Contains(t, with(key, c.method, c.path, "").Body.String(), `"attempts"`)
		}
	}
	for _, body := range []string{Message(`"id":"a"`), `{"messages":[` + Message(`"id":"a"`) + `]}`} {
		path := "/v1/messages"
		if strings.HasPrefix(body, `{"messages"`) {
			path += "/batch"
		}
		brief := with(PublishKey, "POST", path, body)
		require.Equal(t, 202, brief.Code)
		require.NotContains(t, brief.Body.String(), "shop.example", "an endpoint's URL may hold a token")
		require.NotContains(t, brief.Body.String(), "next_attempt_at")
		require.Regexp(t, `"deliveries":\[\{"id":"u_[^"]+:a","destination":"u_[^"]+","status":"ready"\}\]`, brief.Body.String())
		require.Contains(t, with(AdminKey, "POST", path, body).Body.String(), "next_attempt_at")
	}
}

// Whose endpoints there are is not told to a key that only publishes.
func TestAnotherTenantsEndpointIsToldAsOneThatIsNotThere(t *testing.T) {
	var answers []string
	for _, err := range []error{dispatcher.ErrNoEndpoint, dispatcher.ErrTenant} {
		f := &Fake{OnPublish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
			return []dispatcher.Published{{Err: err}}, nil
		}}
		w := Post(newTestAPI(t, f), "/v1/messages", `{"topic":"t","endpoint":"merchant:7","body":1}`)
		RequireField(t, w, "$.endpoint", "there is no such endpoint of the message's tenant")
		answers = append(answers, w.Body.String())
	}
	require.Equal(t, answers[0], answers[1])

	f := &Fake{}
	h := newTestAPI(t, f, WithKeys(t, Keys()))
	ask := func() string {
		r := newTestRequest("DELETE", "/v1/messages/a?destination=merchant:7", "")
		r.Header.Set("Authorization", "Bearer "+PublishKey)
		w := Serve(h, r)
		RequireProblem(t, w, 404, "not-found")
		return w.Body.String()
	}
	nobodys := ask()
	f.There = Endpoint(t) // which the message does not go to
	f.Err = fmt.Errorf("message a to ep_123456789: %w", dispatcher.ErrNotFound)
	require.Equal(t, nobodys, ask())
}

func TestBodiesAndAnswersNeedAScopeOfTheirOwn(t *testing.T) {
	const bodiesKey = "bodies-key-0123456789"
	record := Record(t)
	f := &Fake{View: record}
	h := newTestAPI(t, f, WithKeys(t, Keys()+","+bodiesKey+":read+bodies,alone-key-0123456789ab:bodies,both-key-0123456789abc:publish+read"))
	ask := func(method, path, key string) string {
		r := newTestRequest(method, path, "")
		r.Header.Set("Authorization", "Bearer "+key)
		return Serve(h, r).Body.String()
	}
	for _, key := range []string{bodiesKey, AdminKey} {
		got := ask("GET", "/v1/messages/a", key)
		require.Contains(t, got, `"body":{ "n" : 12345678901234567890`)
		require.Contains(t, got, `"response_excerpt":"oops`)
	}
	got := ask("GET", "/v1/messages/a", ReadKey)
	require.NotContains(t, got, "12345678901234567890")
	require.NotContains(t, got, "oops")
	require.Contains(t, got, `"response_bytes":5`)
	sum := sha256.Sum256(record.Message.Body)
	require.Contains(t, got, `"body_bytes":39,"body_sha256":"`+hex.EncodeToString(sum[:])+`"`)
	require.Contains(t, ask("GET", "/v1/messages/a", "alone-key-0123456789ab"), "forbidden", "it stands beside read")
	require.NotContains(t, ask("DELETE", "/v1/messages/a", "both-key-0123456789abc"), "oops")

	f.There = Endpoint(t)
	f.State = dispatcher.LaneState{Lane: "u_1", LastFailure: &dispatcher.LaneFailure{Message: "a", Attempt: dispatcher.Attempt{Error: "status 500", Excerpt: []byte("oops")}}}
	f.Counts.Lanes = []dispatcher.LaneState{f.State}
	for _, path := range []string{"/v1/lanes", "/v1/lanes?destination=u_1", "/v1/stats", "/v1/endpoints/ep_123456789"} {
		require.Contains(t, ask("GET", path, bodiesKey), "oops", path)
		got := ask("GET", path, ReadKey)
		require.Contains(t, got, "status 500", path)
		require.NotContains(t, got, "oops", path)
	}
}
