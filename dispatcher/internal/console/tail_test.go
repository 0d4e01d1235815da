package console_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

// newTestConsole serves pages of an API for a browser that is signed in as long as in
// says so. It answers the handler, and how to ask it.
func newTestConsole(t *testing.T, api http.HandlerFunc, in func() bool, change ...func(*console.Options)) func(*http.Request) *httptest.ResponseRecorder {
	t.Helper()
	key := dispatcher.Browser{Name: "ops", Key: "0123", Read: true, Bodies: true, Admin: true}
	o := console.Options{
		May:     mayAll,
		API:     api,
		Owned:   func(owner string) (dispatcher.Browser, bool) { return key, owner == key.Key },
		Keyless: func() bool { return false },
		Sessions: console.Sessions{Get: func(context.Context, string) (dispatcher.Session, error) {
			if !in() {
				return dispatcher.Session{}, dispatcher.ErrNoSession
			}
			return dispatcher.Session{Key: key.Key}, nil
		}},
		Shown: newTestShown(),
		Now:   time.Now, Project: "test", Version: "test",
	}
	for _, one := range change {
		one(&o)
	}
	pages, err := console.New(o)
	require.NoError(t, err)
	return func(r *http.Request) *httptest.ResponseRecorder {
		r.AddCookie(&http.Cookie{Name: "hookladder", Value: "token"})
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); strings.Contains(to, "shown=") { // the page that answers an action
			require.Equal(t, http.StatusSeeOther, w.Code)
			r, w = get(to), httptest.NewRecorder()
			r.AddCookie(&http.Cookie{Name: "hookladder", Value: "token"})
			pages.ServeHTTP(w, r)
		}
		return w
	}
}

// newTestShown keeps the pages that answer actions, of each owner.
func newTestShown() console.Shown {
	var mu sync.Mutex
	pages := map[string][]byte{}
	return console.Shown{
		Put: func(_ context.Context, owner string, page []byte) (id string, err error) {
			mu.Lock()
			defer mu.Unlock()
			id = strconv.Itoa(len(pages) + 1)
			pages[owner+" "+id] = bytes.Clone(page)
			return id, nil
		},
		Get: func(_ context.Context, owner, id string) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if page, ok := pages[owner+" "+id]; ok {
				return page, nil
			}
			return nil, dispatcher.ErrNotShown
		},
	}
}

func always() bool { return true }

func TestTheTailPassesTheStreamOfItsVisitorThrough(t *testing.T) {
	var asked *http.Request
	ask := newTestConsole(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 7\n:\n\n")
		http.NewResponseController(w).Flush() //nolint:errcheck // the recorder says so
	}, always)
	r := httptest.NewRequest("GET", "/console/tail/events?outcome=dead&outcome=retry&tenant=shop&limit=3", nil)
	r.Header.Set("Last-Event-ID", "6")
	w := ask(r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "id: 7\n:\n\n", w.Body.String())
	require.True(t, w.Flushed)
	require.Equal(t, "/v1/attempts", asked.URL.Path)
	require.Equal(t, "outcome=dead&outcome=retry&tenant=shop", asked.URL.RawQuery)
	require.Equal(t, "6", asked.Header.Get("Last-Event-ID"))
	require.Equal(t, "text/event-stream", asked.Header.Get("Accept"))
	caller, inside := dispatcher.BrowserOf(asked.Context())
	require.True(t, inside)
	require.Equal(t, "ops", caller.Name)
	_, bounded := asked.Context().Deadline()
	require.False(t, bounded, "a page's deadline would end it")
}

func TestTheTailEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, sent := time.Now(), 0
		ask := newTestConsole(t, func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := fmt.Fprint(w, ":\n\n"); err != nil {
					return
				}
				sent++
				time.Sleep(15 * time.Second)
			}
		}, func() bool { return time.Since(begun) < time.Minute })
		ask(httptest.NewRequest("GET", "/console/tail/events", nil))
		require.Equal(t, 4, sent)
	})
}

func TestTheTailShowsWhatTheAPISaysOfAFilter(t *testing.T) {
	ask := newTestConsole(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"title":"Invalid","status":422,"errors":[{"path":"query.outcome","detail":"must be one of these"}]}`)
	}, always)
	w := ask(httptest.NewRequest("GET", "/console/tail?outcome=%3Cb%3E", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "The filter outcome is wrong: must be one of these.")
	require.Contains(t, w.Body.String(), `href="/console/tail"`)
	require.NotContains(t, w.Body.String(), "data-events")
	require.NotContains(t, w.Body.String(), "<b>")
}

func TestTheTailReadsWithoutAScript(t *testing.T) {
	ask := newTestConsole(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/attempts" {
			fmt.Fprint(w, `{}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"u_1:m1","message_id":"m1","destination":"u_1","url":"https://shop.example/a?b=1","topic":"a.b","attempt":2,`+
			`"at":"2026-01-02T03:04:05.600Z","duration_ms":1500,"status_code":503,"outcome":"retry","error":"status 503 <i>\u202e"}],"next_cursor":null}`)
	}, always)
	page := ask(httptest.NewRequest("GET", "/console/tail", nil)).Body.String()
	for _, want := range []string{
		`data-line="u_1:m1 2 2026-01-02T03:04:05.600Z"`, "03:04:05.600", "failed, goes on", ">503<", "1.5 s",
		`href="/console/messages/m1"`, "shop.example/a?b=1", `status 503 &lt;i&gt;\u202e`, `data-events="/console/tail/events?"`,
	} {
		require.Contains(t, page, want)
	}
}

func TestTheTailOfAJobHasItsAttemptsAndGoesFurtherBack(t *testing.T) {
	var asked []string
	answer := `{"data":[],"next_cursor":"c2","looked_at":1000}`
	ask := newTestConsole(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/attempts" {
			fmt.Fprint(w, `{}`)
			return
		}
		asked = append(asked, r.URL.Query().Get("job")+" "+r.URL.Query().Get("cursor"))
		fmt.Fprint(w, answer)
	}, always)
	page := ask(httptest.NewRequest("GET", "/console/tail?job=job_7", nil)).Body.String()
	require.Contains(t, page, `name="job" value="job_7"`)
	require.Contains(t, page, `data-events="/console/tail/events?job=job_7"`)
	require.Contains(t, page, "Not found yet among the newest 1,000 attempts and ends.")
	require.Contains(t, page, `href="/console/tail?cursor=c2&amp;job=job_7"`)
	require.NotContains(t, page, "Nothing matches")

	answer = `{"data":[],"next_cursor":null,"looked_at":7}`
	page = ask(httptest.NewRequest("GET", "/console/tail?cursor=c2&job=job_7", nil)).Body.String()
	require.NotContains(t, page, "data-events", "an older page does not go on")
	require.Contains(t, page, "Nothing matches these filters here.")
	require.Contains(t, page, `href="/console/tail?job=job_7"`)
	require.Equal(t, []string{"job_7 ", "job_7 c2"}, asked)
}
