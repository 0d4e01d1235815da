package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

// testAPI answers calls by what is written for their method and path, and notes them.
type testAPI struct {
	answers map[string]string // JSON; one that begins with a status has that
	mu      sync.Mutex
	calls   []string // method, path, query, body
}

func (a *testAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call := strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
	a.mu.Lock()
	a.calls = append(a.calls, call)
	a.mu.Unlock()
	text, ok := a.answers[r.Method+" "+r.URL.RequestURI()]
	if !ok {
		text, ok = a.answers[r.Method+" "+r.URL.Path]
	}
	if !ok {
		text = `404{"type":"/problems/not-found","title":"Not found","status":404}`
		if r.URL.Path == "/v1/stats" {
			text = `{"counts":{"retrying":7,"dead":3}}`
		}
	}
	status := http.StatusOK
	if text[0] != '{' {
		_, _ = fmt.Sscanf(text[:3], "%d", &status)
		text = text[3:]
	}
	w.Header().Set("Content-Type", "application/json")
	if status >= http.StatusBadRequest {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// called reports whether a call begins so.
func (a *testAPI) called(begin string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, call := range a.calls {
		if strings.HasPrefix(call, begin) {
			return true
		}
	}
	return false
}

// pages serve the console of an API.
func newTestPages(t *testing.T, answers map[string]string) (*testAPI, func(*http.Request) *httptest.ResponseRecorder) {
	api := &testAPI{answers: answers}
	return api, newTestConsole(t, api.ServeHTTP, always)
}

func get(path string) *http.Request { return httptest.NewRequest("GET", path, nil) }

func post(path string, form url.Values) *http.Request {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

const oneMessage = `{"id":"order_17","topic":"payment.paid","tenant":"lumen","subject":"<b>4711","content_type":"application/json",
	"headers":{"x-key":"***"},"created_at":"2026-01-31T11:00:00.000Z","body":{"z":12345678901234567890,"a":"<script>x</script>"},"deliveries":[
	{"id":"ep_1:order_17","destination":"ep_1","url":"https://api.shop.example/hooks","status":"retrying","next_attempt_at":"2026-01-31T11:10:00.000Z",
	"attempts":1,"rung":1,"ladder":["15s","3m"],"waiting_for":"rung","last_status_code":503,"history":[{"attempt":1,"at":"2026-01-31T11:00:00.100Z",
	"duration_ms":50,"status_code":503,"outcome":"retry","class":"status","response_excerpt":"<i>down</i>\u202e","next_attempt_at":"2026-01-31T11:00:15.200Z"}]}]}`

func TestAMessageIsShownWithItsLadder(t *testing.T) {
	_, ask := newTestPages(t, map[string]string{
		"GET /v1/messages/order_17": oneMessage,
		"GET /v1/lanes":             `{"data":[{"lane":"ep_1","endpoint":"ep_1","uid":"shop","state":"active"}],"next_cursor":null}`,
		"GET /v1/endpoints/ep_1":    `{"id":"ep_1","url":"https://api.shop.example/hooks","signature":"stripe","state":"active"}`,
	})
	w := ask(get("/console/messages/order_17"))
	require.Equal(t, http.StatusOK, w.Code)
	page := w.Body.String()
	for _, want := range []string{
		"Waits until 2026-01-31 11:10:00 UTC for attempt 2 of 3, since attempt 1 failed (status 503).",
		"“Attempt now” does not wait for that.", "g-next ahead", "g-failed", "Service Unavailable", "then dead",
		"12345678901234567890", "&lt;script&gt;", "&lt;i&gt;down&lt;/i&gt;\\u202e", "&lt;b&gt;4711", "stripe-signature",
		`action="/console/messages/order_17/retry"`, `action="/console/messages/order_17/cancel"`, `href="/console/endpoints/ep_1"`,
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "<script>x")
	require.Equal(t, 1, strings.Count(page, `value="ep_1"`), "the button names its destination")

	tag := w.Header().Get("ETag")
	r := get("/console/messages/order_17")
	r.Header.Set("If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, ask(r).Code, "the same data is the same page, whatever the time")

	w = ask(get("/console/messages/order_17/body"))
	require.Equal(t, `{"z":12345678901234567890,"a":"<script>x</script>"}`, w.Body.String())
	require.Equal(t, "application/octet-stream", w.Header().Get("Content-Type"))
	require.Contains(t, w.Header().Get("Content-Disposition"), "attachment")
}

func TestAMessageThatIsNotThereSaysSo(t *testing.T) {
	_, ask := newTestPages(t, nil)
	w := ask(get("/console/messages/order_18"))
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "There is no message with this id")
	require.Contains(t, w.Body.String(), `/console/deliveries?subject=order_18`)
}

func TestOfAFanOutSomeDeliveriesAreDrawn(t *testing.T) {
	var list, lanes []string
	for i := range 300 {
		status := "delivered"
		if i == 250 {
			status = "dead"
		}
		list = append(list, fmt.Sprintf(`{"id":"ep_%d:m","destination":"ep_%d","url":"https://a.example/%d","status":"%s","attempts":1,"rung":0,"next_attempt_at":null}`, i, i, i, status))
	}
	_, ask := newTestPages(t, map[string]string{
		"GET /v1/messages/m": `{"id":"m","topic":"a","content_type":"text/plain","raw_body":"x","created_at":"2026-01-31T11:00:00.000Z","deliveries":[` + strings.Join(list, ",") + `]}`,
		"GET /v1/lanes":      `{"data":[` + strings.Join(lanes, ",") + `],"next_cursor":null}`,
	})
	page := ask(get("/console/messages/m")).Body.String()
	require.Equal(t, 20, strings.Count(page, `<section class="card delivery"`))
	require.Contains(t, page, `id="d-ep_250"`, "what died comes first")
	require.Contains(t, page, "It goes to 300 destinations: 299 delivered, 1 dead. Here are 20 of them.")
	require.Contains(t, page, `href="?from=20"`)
	require.Less(t, len(page), 150<<10)
	page = ask(get("/console/messages/m?to=ep_299")).Body.String()
	require.Contains(t, page, `id="d-ep_299"`)
	page = ask(get("/console/messages/m?from=290")).Body.String()
	require.Equal(t, 10, strings.Count(page, `<section class="card delivery"`))
	require.NotContains(t, page, "?from=3")
	require.Equal(t, http.StatusOK, ask(get("/console/messages/m?from=-5")).Code)
	require.Equal(t, http.StatusOK, ask(get("/console/messages/m?from=9999")).Code)
}

func TestAMessageIsAttemptedSentAgainAndCancelled(t *testing.T) {
	retried := `{"id":"order_17","deliveries":[{"id":"ep_1:order_17","destination":"ep_1","status":"ready","retried":true}]}`
	api, ask := newTestPages(t, map[string]string{
		"GET /v1/deliveries": pageOf("null", 0), "POST /v1/messages/order_17/retry": retried, "DELETE /v1/messages/order_17": `{"id":"order_17","deliveries":[]}`,
	})
	w := ask(post("/console/messages/order_17/retry", url.Values{"to": {"ep_1"}}))
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/console/messages/order_17?to=ep_1&told=retried", w.Header().Get("Location"))
	require.True(t, api.called("POST /v1/messages/order_17/retry?destination=ep_1"))
	reported := ask(get("/console/deliveries?told=retried")).Body.String()
	require.Contains(t, reported, "It is due now. A pause, a breaker or a limit would still delay it.")

	w = ask(post("/console/messages/order_17/retry", url.Values{"all": {"true"}}))
	require.Equal(t, "/console/messages/order_17?told=retried", w.Header().Get("Location"))
	require.True(t, api.called("POST /v1/messages/order_17/retry?all=true"))

	w = ask(post("/console/messages/order_17/cancel", url.Values{}))
	require.Equal(t, "/console/messages/order_17?told=cancelled", w.Header().Get("Location"))
	require.True(t, api.called("DELETE /v1/messages/order_17"))

	api.answers["POST /v1/messages/order_17/retry"] = `409{"type":"/problems/disabled","title":"Disabled","status":409,"deliveries":[{"id":"ep_1:order_17","destination":"ep_1","status":"dead","why":"disabled"}]}`
	w = ask(post("/console/messages/order_17/retry", url.Values{"to": {"ep_1"}}))
	require.Equal(t, "/console/messages/order_17?to=ep_1&told=left-disabled", w.Header().Get("Location"))

	api.answers["POST /v1/messages/order_17/retry"] = `409{"type":"/problems/archived","title":"It is in the archive alone","status":409}`
	w = ask(post("/console/messages/order_17/retry", url.Values{"to": {"ep_1"}}))
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "It is in the archive alone")
}

// The program parses a page when it is first requested, so only this test parses all of them.
func TestTheTemplatesOfAllPagesParse(t *testing.T) {
	require.NoError(t, console.ParsePages())
}

func TestPagesLoadTheirFontFromHere(t *testing.T) {
	_, ask := newTestPages(t, nil)
	w := ask(get("/console/messages/order_17"))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "font-src 'self'")
	file := func(pattern string) string {
		m := regexp.MustCompile(`href="(/console/static/` + pattern + `)"`).FindStringSubmatch(w.Body.String())
		require.NotNil(t, m, pattern)
		return m[1]
	}
	font := file(`inter\.[0-9a-f]+\.woff2`)
	require.Contains(t, ask(get(file(`console\.[0-9a-f]+\.css`))).Body.String(), "url("+path.Base(font)+")")
	loaded := ask(get(font))
	require.Equal(t, "font/woff2", loaded.Header().Get("Content-Type"))
	require.Equal(t, "wOF2", loaded.Body.String()[:4])
}
