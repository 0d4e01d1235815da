package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// problemOf is the API's response to an error.
func problemOf(err error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, _ := api.ProblemFor(err)
		p.ForMethod(r.Method).Write(w)
	}
}

// unanswered is an API that calls troubles for some of its paths. The parts of a page have different paths.
func unanswered(rest http.Handler, trouble http.HandlerFunc, paths ...string) http.Handler {
	return handler(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range paths {
			if path == "" || strings.HasPrefix(r.URL.Path, path) {
				trouble(w, r)
				return
			}
		}
		rest.ServeHTTP(w, r)
	})
}

// hang ends with its request only.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestAPageShowsWhatIsReadyAndSaysWhatIsNot(t *testing.T) {
	whole := &testAPI{answers: map[string]string{
		"GET /v1/stats": statsOf("1"), "GET /v1/endpoints": `{"data":[{"id":"ep_3","uid":"atlas","state":"active"}],"next_cursor":null}`,
		"GET /v1/endpoints/ep_3": `{"id":"ep_3","uid":"atlas","state":"active"}`,
		"GET /v1/lanes":          `{"data":[],"next_cursor":null}`, "GET /v1/deliveries": `{"data":[],"next_cursor":null}`,
		"GET /v1/instances":    `{"data":[{"name":"hl-1","version":"1","permits":1024}],"next_cursor":null}`,
		"GET /v1/jobs":         `{"data":[],"next_cursor":null}`,
		"GET /v1/messages/m-1": `{"id":"m-1","topic":"order.paid","deliveries":[{"destination":"ep_3","status":"ready"}]}`,
	}}
	const late = "This was not ready within a second."
	for _, c := range []struct {
		name, page   string
		parts        []string // the API's paths without a response
		shows, hides []string
	}{
		{"now without counts", "/console/", []string{"/v1/stats"}, []string{late, "hl-1", "So more may need you"}, []string{"All endpoints answer", "nothing is late", "0 <small>kept"}},
		{"now without instances", "/console/", []string{"/v1/instances"}, []string{late, "harbor is paused", "4,210"}, []string{"So more may need you"}},
		{"now without what fails", "/console/", []string{"/v1/lanes"}, []string{late, "harbor is paused", "So more may need you"}, []string{"Nothing needs you"}},
		{"now without jobs", "/console/", []string{"/v1/jobs"}, []string{late, "harbor is paused", "So more may need you"}, nil},
		{"now without endpoints", "/console/", []string{"/v1/endpoints"}, []string{late, "hl-1", "So more may need you"}, nil},
		{"an endpoint without deliveries", "/console/endpoints/ep_3", []string{"/v1/deliveries"}, []string{"atlas", late, "Still trying"}, nil},
		{"an endpoint without its lane", "/console/endpoints/ep_3", []string{"/v1/lanes"}, []string{"atlas", "The state of its queue was not ready"}, []string{late}},
		{"endpoints without lanes", "/console/endpoints", []string{"/v1/lanes"}, []string{"atlas", "The states of their queues were not ready"}, nil},
		{"a message without lanes", "/console/messages/m-1", []string{"/v1/lanes"}, []string{"order.paid", "why a delivery waits may be missing"}, nil},
		{"a merchant without deliveries", "/link/", []string{"/v1/deliveries"}, []string{"atlas", late}, []string{"Nothing failed"}},
		{"a merchant without endpoints", "/link/", []string{"/v1/endpoints"}, []string{late, "Nothing failed"}, []string{"There is no endpoint yet", "Your endpoints answer"}},
	} {
		for trouble, answer := range map[string]http.HandlerFunc{
			"it hangs": hang, "it is late": problemOf(context.DeadlineExceeded),
		} {
			t.Run(c.name+": "+trouble, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := httptest.NewRecorder()
					partly(t, unanswered(whole, answer, c.parts...), nil).ServeHTTP(w, visitorOf(c.page))
					require.Equal(t, http.StatusOK, w.Code, w.Body)
					for _, text := range c.shows {
						require.Contains(t, w.Body.String(), text, text)
					}
					for _, text := range c.hides {
						require.NotContains(t, w.Body.String(), text, text)
					}
				})
			})
		}
	}
}

// partly are pages of a console without keys and of a link.
func partly(t *testing.T, of http.Handler, lost error) http.Handler {
	pages, err := console.New(console.Options{
		May: mayAll, API: of, Keyless: func() bool { return true }, Project: "test", Now: func() time.Time { return quarterPast },
		Link: func(context.Context, string) (dispatcher.Link, error) {
			return dispatcher.Link{ID: "l", Tenant: "t", Manage: true}, nil
		},
		Lost: func() error { return lost }, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return pages
}

func visitorOf(path string) *http.Request {
	r := get(path)
	if strings.HasPrefix(path, "/link") {
		r.AddCookie(&http.Cookie{Name: "hookladder-link", Value: strings.Repeat("a", 43)})
	}
	return r
}

// Only a store that can't be reached accepts nothing. A page that says so of a slow one makes an
// operator act on an outage that there is not.
func TestAPageNamesTheRightOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := http.ErrServerClosed
		for _, c := range []struct {
			name   string
			answer http.HandlerFunc
			lost   error
			status int
			says   string
			why    string
		}{
			{"all hang", hang, nil, 503, "This took too long", "slow"},
			{"all hang, and the store is known to be away", hang, refused, 503, "Redis can&#39;t be reached", "store"},
			{"the API says late", problemOf(context.DeadlineExceeded), nil, 503, "This took too long", "slow"},
			{"the API says away", problemOf(dispatcher.ErrUnavailable), nil, 503, "Redis can&#39;t be reached", "store"},
			{"the API says emptied", problemOf(&dispatcher.Emptied{}), refused, 503, "The store lost data", "refused"},
			{"the API says read only", problemOf(dispatcher.ErrReadOnly), nil, 503, "The store can&#39;t write to its disk", "refused"},
			{"a fault of ours", problemOf(http.ErrBodyNotAllowed), nil, 500, "This went wrong", ""},
		} {
			for _, page := range []string{"/console/", "/console/deliveries", "/console/messages/m-1", "/console/endpoints/ep_3"} {
				w := httptest.NewRecorder()
				partly(t, unanswered(nil, c.answer, ""), c.lost).ServeHTTP(w, visitorOf(page))
				text := strings.ReplaceAll(w.Body.String(), "can't", "can&#39;t")
				require.Equal(t, c.status, w.Code, "%s: %s", c.name, page)
				require.Contains(t, text, "<h1>"+c.says, "%s: %s", c.name, page)
				require.Equal(t, c.why == "store", strings.Contains(text, "no message is accepted"), "%s: %s", c.name, page)
				if c.why != "" {
					require.Contains(t, text, `data-away="`+c.why+`"`, "%s: %s", c.name, page)
				}
			}
		}
	})
}

func TestAssetsAreCompressedForThoseWhoTakeIt(t *testing.T) {
	pages := partly(t, unanswered(nil, hang, ""), nil)
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, get("/console/none"))
	_, rest, ok := strings.Cut(w.Body.String(), `href="/console/static/console.`)
	require.True(t, ok)
	name, _, _ := strings.Cut(rest, `"`)
	size := func(accepts string) (n int, coding string) {
		r := get("/console/static/console." + name)
		r.Header.Set("Accept-Encoding", accepts)
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
		return w.Body.Len(), w.Header().Get("Content-Encoding")
	}
	plain, coding := size("")
	require.Empty(t, coding)
	for _, accepts := range []string{"gzip", "br, GZIP;q=0.5", "deflate,gzip ; q=1.0"} {
		n, coding := size(accepts)
		require.Equal(t, "gzip", coding, accepts)
		require.Less(t, 3*n, plain, accepts)
	}
	for _, accepts := range []string{"br", "gzip;q=0", "gzip;q=0.000", "x-gzip-not"} {
		n, coding := size(accepts)
		require.Empty(t, coding, accepts)
		require.Equal(t, plain, n)
	}
}
