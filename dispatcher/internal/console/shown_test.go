package console_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

// formsRig is a console whose API answers every call alike, and counts those that change
// something.
type formsRig struct {
	*testing.T
	pages   http.Handler
	changed string // what a change is answered: a status and JSON
	acts    []string
	keepErr error    // of keeping a page
	shares  []string // whose forms were read, and released
	full    bool     // there is no memory for forms
}

// Two links' tokens, which cookies hold.
var linkTokens = []string{strings.Repeat("a", 43), strings.Repeat("b", 43)}

func newFormsRig(t *testing.T) *formsRig {
	t.Helper()
	r := &formsRig{T: t}
	key := dispatcher.Browser{Name: "ops", Key: "0123", Read: true, Bodies: true, Admin: true}
	shown := newTestShown()
	o := console.Options{
		May: mayAll,
		API: http.HandlerFunc(r.answer), Keyless: func() bool { return false },
		Find:  func(text string) (dispatcher.Browser, bool) { return key, text == "right" },
		Owned: func(owner string) (dispatcher.Browser, bool) { return key, owner == key.Key },
		Sessions: console.Sessions{
			Open: func(context.Context, string) (string, error) { return "new", nil },
			Get: func(_ context.Context, token string) (dispatcher.Session, error) {
				if strings.HasPrefix(token, "session-") {
					return dispatcher.Session{Key: key.Key}, nil
				}
				return dispatcher.Session{}, dispatcher.ErrNoSession
			},
			Close: func(context.Context, string) error { return nil },
		},
		Link: func(_ context.Context, token string) (dispatcher.Link, error) {
			if token == linkTokens[0] || token == linkTokens[1] {
				return dispatcher.Link{ID: dispatcher.LinkID(token), Tenant: "A", Manage: true, ExpiresAt: time.Now().Add(time.Hour)}, nil
			}
			return dispatcher.Link{}, dispatcher.ErrNoLink
		},
		Meter: console.LinkMeter{
			Spend:    func(context.Context, string) (time.Duration, error) { return 0, nil },
			TakeBack: func(context.Context, string) error { return nil },
		},
		Shown: console.Shown{Get: shown.Get, Put: func(ctx context.Context, owner string, page []byte) (string, error) {
			if r.keepErr != nil {
				return "", r.keepErr
			}
			return shown.Put(ctx, owner, page)
		}},
		Form: func(_ http.ResponseWriter, q *http.Request, share string, _ int64) (func(), error) {
			r.shares = append(r.shares, share)
			if r.full {
				return func() {}, console.ErrNoRoom
			}
			return func() { r.shares = append(r.shares, "released") }, q.ParseForm()
		},
		Now: time.Now, Project: "test", Version: "test",
	}
	var err error
	r.pages, err = console.New(o)
	require.NoError(t, err)
	return r
}

// answer is the API.
func (r *formsRig) answer(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	text := `200{"id":"ep_1","tenant":"A","url":"https://a.example/","topics":["a"],"state":"active","secret":"whsec_ONCE","data":[],"secrets":[{"secret":"whsec_ONCE"}],` +
		`"deliveries":[],"counts":{},"outcome":"delivered","status_code":200,"url":"https://hooks.example/link/once","next_cursor":null}`
	if q.Method != http.MethodGet && !strings.Contains(string(body), `"dry_run":true`) {
		r.acts = append(r.acts, q.Method+" "+q.URL.Path)
		if r.changed != "" {
			text = r.changed
		}
	}
	if q.Method == http.MethodGet && !strings.HasSuffix(q.URL.Path, "/secret") {
		text = strings.ReplaceAll(text, "ONCE", "")
	}
	status := map[string]int{"200": 200, "404": 404, "409": 409, "422": 422, "429": 429, "503": 503}[text[:3]]
	w.Header().Set("Content-Type", "application/json")
	if status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text[3:])
}

// do sends a request of one of two browsers, which are signed in or came by a link.
func (r *formsRig) do(browser int, method, to string, form url.Values) *httptest.ResponseRecorder {
	r.Helper()
	q := httptest.NewRequest(method, to, strings.NewReader(form.Encode()))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	q.AddCookie(&http.Cookie{Name: "hookladder", Value: []string{"session-a", "session-b", ""}[browser]})
	if browser < len(linkTokens) {
		q.AddCookie(&http.Cookie{Name: "hookladder-link", Value: linkTokens[browser]})
	}
	w := httptest.NewRecorder()
	r.pages.ServeHTTP(w, q)
	return w
}

// load loads a page as a browser does, over redirects.
func (r *formsRig) load(browser int, to string) *httptest.ResponseRecorder {
	r.Helper()
	for range 4 {
		w := r.do(browser, http.MethodGet, to, nil)
		if w.Code != http.StatusSeeOther {
			return w
		}
		to = w.Header().Get("Location")
	}
	require.FailNow(r, "redirects without end", to)
	return nil
}

// typed is what the forms of all pages may hold.
var typed = url.Values{
	"url": {"https://new.example/"}, "was.url": {"https://a.example/"}, "tenant": {"A"}, "to": {"ep_1"}, "key": {"wrong"}, "overlap": {"1h"}, "kind": {"retry"},
	"pick": {"ep_1:m"}, "do": {"retry"}, "sure": {"yes"}, "subject": {"order_17"}, "for": {"1h"}, "destination": {"ep_1"},
}

// Each answer to each form of each table is reloaded: a new route is among them by itself.
func TestNoFormActsAgain(t *testing.T) {
	r := newFormsRig(t)
	broken := url.Values{"url": {"no url"}, "overlap": {"soon"}, "for": {"soon"}, "kind": {"purge"}, "max_in_flight": {"many"}}
	forms := 0
	for _, route := range console.Routes() {
		if route.Method != http.MethodPost {
			continue
		}
		forms++
		path := strings.NewReplacer("{id}", "ep_1", "{lane}", "u_1", "{link}", "lnk_1", "{token}", strings.Repeat("c", 43)).Replace(route.Path)
		for name, changed := range map[string]string{
			"done": "", "wrong": `422{"type":"/problems/invalid","title":"Wrong","status":422,"errors":[{"path":"$.url","detail":"is wrong"}]}`,
			"refused": `409{"type":"/problems/conflict","title":"Not now","status":409}`, "gone": `404{"type":"/problems/not-found","title":"Gone","status":404}`,
			"many": `429{"type":"/problems/busy","title":"Many","status":429}`, "away": `503{"type":"/problems/unavailable","title":"Away","status":503}`,
		} {
			for _, form := range []url.Values{typed, broken, {}} {
				for browser := range 3 {
					about := route.Method + " " + route.Path + ", " + name + ": " + form.Encode()
					r.changed, r.keepErr = changed, nil
					done := r.do(browser, http.MethodPost, path, form)
					require.Equal(t, http.StatusSeeOther, done.Code, "%s: %s", about, done.Body)
					to := done.Header().Get("Location")
					require.NotContains(t, done.Header().Get("Location"), "ONCE", about)
					acts := len(r.acts)
					first, again := r.load(browser, to), r.load(browser, to)
					require.Less(t, first.Code, 500, "%s leads to %s: %s", about, to, first.Body)
					require.Equal(t, first.Code, again.Code, about)
					require.Equal(t, acts, len(r.acts), "%s: a reload did %v", about, r.acts[acts:])
					if strings.Contains(to, "shown=") {
						require.Equal(t, first.Body.String(), again.Body.String(), about)
						require.Equal(t, "no-store", first.Header().Get("Cache-Control"), about)
						other := r.load((browser+1)%2, to)
						require.NotEqual(t, first.Body.String(), other.Body.String(), "%s: another browser sees it", about)
						require.NotContains(t, other.Body.String(), "ONCE", about)
					}

					r.keepErr = errors.New("Redis is away")
					done = r.do(browser, http.MethodPost, path, form)
					require.Equal(t, http.StatusSeeOther, done.Code, about)
					require.NotContains(t, done.Header().Get("Location"), "shown=", about)
				}
			}
		}
	}
	require.Greater(t, forms, 25)
}

func TestWhatIsShownOnceIsShownBehindTheRedirect(t *testing.T) {
	r := newFormsRig(t)
	for path, at := range map[string]string{
		"/console/endpoints/ep_1/rotate": "/console/endpoints/ep_1", "/console/endpoints/ep_1/secret": "/console/endpoints/ep_1",
		"/console/endpoints": "/console/endpoints/ep_1", "/console/endpoints/ep_1/test": "/console/endpoints/ep_1", "/console/links": "/console/links",
		"/link/endpoints/ep_1/rotate": "/link/endpoints/ep_1", "/link/endpoints": "/link/endpoints/ep_1", "/console/endpoints/ep_1/delete": "/console/endpoints",
		"/console/deliveries/picked": "/console/deliveries",
	} {
		done := r.do(0, http.MethodPost, path, typed)
		to, query, _ := strings.Cut(done.Header().Get("Location"), "?")
		require.Equal(t, at, to, path)
		require.Regexp(t, `^shown=\d+$`, query, path)
		page := r.load(0, to+"?"+query).Body.String()
		if path == "/console/endpoints/ep_1/test" { // the page is its usual one
			require.Contains(t, page, ` data-url="/console/endpoints/ep_1"`, "it goes on without the result, which stays")
			require.Contains(t, page, `id="answer-of-test" role="status" data-stays`)
			require.Contains(t, page, `id="live"`)
		} else {
			require.Contains(t, page, ` data-poll="off"`, "a refresh would take it away")
			require.NotContains(t, page, `id="live"`, "it is not live")
		}
		for _, elsewhere := range []string{"/console/system?" + query, at + "?shown=x"} { // an id is of one page
			require.Contains(t, r.load(0, elsewhere).Body.String(), "The result is gone", elsewhere)
		}
	}
	wrong := r.do(0, http.MethodPost, "/console/endpoints", url.Values{"url": {"no url"}, "max_in_flight": {"many"}})
	require.True(t, strings.HasPrefix(wrong.Header().Get("Location"), "/console/endpoints/new?shown="), "a wrong form is the form again")
	require.Contains(t, r.load(0, wrong.Header().Get("Location")).Body.String(), `value="many"`, "with what was typed")
	require.NotContains(t, r.load(1, wrong.Header().Get("Location")).Body.String(), `value="many"`)
}
