package console_test

import (
	"html"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

// newTestDocs serves the documents. Changes replace files, and add new ones.
func newTestDocs(t testing.TB, public string, changes map[string]string) http.Handler {
	t.Helper()
	return console.NewDocuments(docsOptions(t, public, changes))
}

func docsOptions(t testing.TB, public string, changes map[string]string) console.DocumentOptions {
	t.Helper()
	own := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(deploy.Documents, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := deploy.Documents.ReadFile(name)
		own[name] = &fstest.MapFile{Data: text}
		return err
	}))
	for name, text := range changes {
		own[name] = &fstest.MapFile{Data: []byte(text)}
	}
	o := console.DocumentOptions{Documents: own, Version: "v1.2.3", Log: slog.New(slog.DiscardHandler)}
	if public != "" {
		u, err := url.Parse(public)
		require.NoError(t, err)
		o.PublicURL = u
	}
	return o
}

// ask sends a request. Header is a list of names and values.
func ask(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var (
	attribute = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	element   = regexp.MustCompile(` id="([^"]+)"`)
)

func TestEachDocumentIsAPageWhoseLinksLeadSomewhere(t *testing.T) {
	h := newTestDocs(t, "", nil)
	names, err := fs.Glob(deploy.Documents, "docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	paths := []string{"/docs/", "/docs/deploy", "/docs/search?q=redis"}
	for _, name := range names {
		paths = append(paths, "/"+strings.TrimSuffix(name, ".md"))
	}
	ids := map[string]map[string]bool{}
	idsOf := func(path string) map[string]bool {
		if ids[path] == nil {
			ids[path] = map[string]bool{}
			for _, m := range element.FindAllStringSubmatch(ask(h, "GET", path).Body.String(), -1) {
				require.False(t, ids[path][m[1]], "%s has two elements %q", path, m[1])
				ids[path][m[1]] = true
			}
		}
		return ids[path]
	}
	index := ask(h, "GET", "/docs/").Body.String()
	for _, path := range paths {
		w := ask(h, "GET", path)
		require.Equal(t, http.StatusOK, w.Code, path)
		text := w.Body.String()
		require.Equal(t, 1, strings.Count(text, "<h1"), path)
		require.NotContains(t, text, "raw HTML omitted", path)
		require.NotContains(t, text, "style=", path)
		for _, m := range attribute.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(html.UnescapeString(m[1]), "#")
			if strings.Contains(to, "://") {
				continue
			}
			if to == "" && anchor != "" {
				to = path
			}
			require.True(t, strings.HasPrefix(to, "/docs/"), "%s: %s", path, m[1])
			require.Equal(t, http.StatusOK, ask(h, "GET", to).Code, "%s: %s", path, m[1])
			if anchor != "" && !strings.HasPrefix(to, "/docs/static/") {
				require.True(t, idsOf(to)[anchor], "%s: %s", path, m[1])
			}
		}
		if path, ok := strings.CutPrefix(path, "/docs/"); ok && path != "" && !strings.HasPrefix(path, "search") {
			require.Regexp(t, `href="/docs/`+path+`">[^<]+</a></dt><dd>[^<]{20,}</dd>`, index, path)
		}
	}
}

func TestAPageMayFoldAPartAndHasNoOtherHTML(t *testing.T) {
	h := newTestDocs(t, "", map[string]string{"docs/find.md": "# Find\n\nFirst one. Second one.\n\n<details><summary>C#</summary>\n\n```csharp\na < b\n```\n\n</details>\n\n" +
		"<details onclick=\"a\"><summary>b</summary>\n\n<script>1</script>\n"})
	text := ask(h, "GET", "/docs/find").Body.String()
	require.Regexp(t, `(?s)<details><summary>C#</summary>\s*<pre[^>]*><code[^>]*>a &lt; b\s*</code></pre>\s*</details>`, text)
	require.NotContains(t, text, "onclick")
	require.NotContains(t, text, "<script>1")
}

func TestHeadingsHaveTheIdsOfGitHubAndRowsTheirNames(t *testing.T) {
	h := newTestDocs(t, "", map[string]string{"docs/find.md": "# Find\n\nFirst one. Second one.\n\n## A `word`: what's new\n\n## Twice\n\n## Twice\n\n" +
		"| name | |\n| --- | --- |\n| `MAX_X` | a |\n| `hookladder_y_total{call,status}` | b |\n| `twice` | c |\n\n[g](../../dispatcher/client) [d](../README.md) [p](publish.md#fields) [o](#twice)\n"})
	text := ask(h, "GET", "/docs/find").Body.String()
	for _, part := range []string{
		`<h2 id="a-word-whats-new">`, `<h2 id="twice">`, `<h2 id="twice-1">`, `<tr id="max_x">`, `<tr id="hookladder_y_total">`, "<tr>\n<td><code>twice",
		`<p>g <a href="/docs/deploy">d</a> <a href="/docs/publish#fields">p</a> <a href="#twice">o</a></p>`,
	} {
		require.Contains(t, text, part)
	}
	require.Contains(t, ask(h, "GET", "/docs/").Body.String(), "<dd>First one.</dd>")
}

func TestHTMLInADocumentIsNotServed(t *testing.T) {
	h := newTestDocs(t, "", map[string]string{"docs/find.md": "# Find\n\n<script>alert(1)</script>\n\na <b onclick=\"x()\">b</b> [c](javascript:alert(1))\n\n`<i>`\n\n<!-- run by: x -->\n"})
	text := ask(h, "GET", "/docs/find").Body.String()
	for _, part := range []string{"alert(1)", "onclick", "<b ", "<i>", "run by"} {
		require.NotContains(t, text, part)
	}
	require.Contains(t, text, "<code>&lt;i&gt;</code>")
}

func TestADocumentWithoutAPlaceIsServedAndListedLast(t *testing.T) {
	h := newTestDocs(t, "", map[string]string{"docs/new.md": "# New\n\nA new one.\n"})
	require.Equal(t, http.StatusOK, ask(h, "GET", "/docs/new").Code)
	require.Regexp(t, `(?s)<h2>Reference</h2>.*<h2>Other</h2>.*href="/docs/new">New</a></dt><dd>A new one.</dd>`, ask(h, "GET", "/docs/").Body.String())
	require.NotContains(t, ask(newTestDocs(t, "", nil), "GET", "/docs/").Body.String(), "<h2>Other</h2>", "give the page a place in shelves")
}

func TestDocumentsThatCannotBeReadAreReported(t *testing.T) {
	h := console.NewDocuments(console.DocumentOptions{Documents: fstest.MapFS{}, Log: slog.New(slog.DiscardHandler)})
	require.Equal(t, http.StatusInternalServerError, ask(h, "GET", "/docs/").Code)
}

func TestTheSearchFindsSectionsAndRows(t *testing.T) {
	h := newTestDocs(t, "", nil)
	first := func(query string) string {
		w := ask(h, "GET", "/docs/search?q="+url.QueryEscape(query))
		require.Equal(t, http.StatusOK, w.Code)
		_, list, ok := strings.Cut(w.Body.String(), `<ol class="docs-found">`)
		require.True(t, ok, "%q finds nothing", query)
		return attribute.FindStringSubmatch(list)[1]
	}
	for query, want := range map[string]string{
		"MAX_IN_FLIGHT":                "/docs/settings#max_in_flight",
		"hookladder_oldest_due":        "/docs/metrics#hookladder_oldest_due_seconds",
		"hookladder doctor":            "/docs/commands#hookladder-doctor",
		"retry MANY":                   "/docs/find#retry-many",
		"  what   a 202  promises    ": "/docs/operate#what-a-202-promises",
	} {
		require.Equal(t, want, first(query), query)
	}
	require.Contains(t, ask(h, "GET", "/docs/search?q=max_in_flight").Body.String(), "<mark>MAX_IN_FLIGHT</mark>")
}

// A caller without a key may search, so a search does a bounded work whatever it looks for.
func TestASearchMarksAndListsABoundedNumberOfWords(t *testing.T) {
	h := newTestDocs(t, "", nil)
	for _, query := range []string{"er in th re on an es st", "e r i n t h o a", "hookladder", "er er er er er er er er", "--"} {
		text := ask(h, "GET", "/docs/search?q="+url.QueryEscape(query)).Body.String()
		results := strings.Split(text, "<li><a class=")[1:]
		require.LessOrEqual(t, len(results), 30, query)
		for _, result := range results {
			require.LessOrEqual(t, strings.Count(result, "<mark>"), 6, query)
		}
	}
	require.NotContains(t, ask(h, "GET", "/docs/search?q=e").Body.String(), "<mark>", "a letter is in every section")
}

// unread is the response to a caller that does not read it.
type unread struct {
	http.ResponseWriter
	gone chan struct{} // closed: it is gone
}

func (u unread) Write([]byte) (int, error) {
	<-u.gone
	return 0, io.ErrClosedPipe
}

// A stranger has ten seconds to read a response. Nobody waits for that.
func TestASearchWhoseCallerReadsNothingDelaysNoOther(t *testing.T) {
	h := newTestDocs(t, "", nil)
	synctest.Test(t, func(t *testing.T) {
		slow, other := unread{httptest.NewRecorder(), make(chan struct{})}, httptest.NewRecorder()
		defer close(slow.gone)
		for _, w := range []http.ResponseWriter{slow, other} {
			go h.ServeHTTP(w, httptest.NewRequest("GET", "/docs/search?q=redis", nil))
			synctest.Wait()
		}
		require.Contains(t, other.Body.String(), "<mark>", "it was served")
	})
}

// The searches of one caller wait for each other, 16 at most. Another caller still gets a turn.
func TestSearchesHaveTurnsByCaller(t *testing.T) {
	o := docsOptions(t, "", nil)
	synctest.Test(t, func(t *testing.T) {
		h, turns, err := console.NewSearches(o)
		require.NoError(t, err)
		_, leave, err := turns.Enter(t.Context()) // nobody has a turn until it ends
		require.NoError(t, err)
		var mu sync.Mutex // guards ended
		ended := map[string][]int{}
		search := func(from string) {
			r := httptest.NewRequest("GET", "/docs/search?q=redis", nil)
			r.RemoteAddr = from + ":1234"
			go func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				mu.Lock()
				defer mu.Unlock()
				ended[from] = append(ended[from], w.Code)
				if w.Code != http.StatusOK {
					require.Equal(t, "1", w.Header().Get("Retry-After"))
				}
			}()
			synctest.Wait()
		}
		for range 20 {
			search("192.0.2.1")
		}
		search("192.0.2.2")
		require.Equal(t, map[string][]int{"192.0.2.1": slices.Repeat([]int{http.StatusTooManyRequests}, 4)}, ended, "16 of one caller may wait")
		leave()
		synctest.Wait()
		require.Equal(t, []int{http.StatusOK}, ended["192.0.2.2"])
		require.Len(t, ended["192.0.2.1"], 20)
		require.Equal(t, slices.Repeat([]int{http.StatusOK}, 16), ended["192.0.2.1"][4:])
	})
}

// BenchmarkSearch searches for what is in most sections.
func BenchmarkSearch(b *testing.B) {
	h := newTestDocs(b, "", nil)
	for _, query := range []string{"er in th re on an es st", "a e i o n t r s", "max_in_flight"} {
		b.Run(query, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(h, "GET", "/docs/search?q="+url.QueryEscape(query))
			}
		})
	}
}

// The words of a search are shown as they are, also beside letters of several bytes.
func TestAnExcerptIsCutBetweenLetters(t *testing.T) {
	h := newTestDocs(t, "", map[string]string{"docs/find.md": "# Find\n\n" + strings.Repeat("é", 100) + "Needle" + strings.Repeat("é", 200) + "\n"})
	text := ask(h, "GET", "/docs/search?q=needle").Body.String()
	require.Contains(t, text, "é<mark>Needle</mark>é")
	require.NotContains(t, text, "\ufffd")
}

func TestTheTypeOfAProblemLeadsToItsRow(t *testing.T) {
	h := newTestDocs(t, "", nil)
	rows := regexp.MustCompile(`<tr id="([^"]+)">\s*<td><code>([^<]+)</code>`).FindAllStringSubmatch(ask(h, "GET", "/docs/problems").Body.String(), -1)
	require.Greater(t, len(rows), 30)
	for _, s := range rows {
		require.Equal(t, s[2], s[1], "the anchor is the word")
		w := ask(h, "GET", "/problems/"+s[1])
		require.Equal(t, http.StatusSeeOther, w.Code)
		require.Equal(t, "/docs/problems#"+s[1], w.Header().Get("Location"))
	}
}

func TestASearchOfAnyTextIsAPage(t *testing.T) {
	h := newTestDocs(t, "", nil)
	for _, query := range []string{"", " ", "<script>alert(1)</script>", "\x00\xff", strings.Repeat("é", 5000), strings.Repeat("a ", 500), "…", "İ"} {
		w := ask(h, "GET", "/docs/search?q="+url.QueryEscape(query))
		require.Equal(t, http.StatusOK, w.Code, query)
		require.NotContains(t, w.Body.String(), "<script>alert", query)
	}
	require.Contains(t, ask(h, "GET", "/docs/search?q=zzzzz").Body.String(), "No section has all of these words.")
	require.NotContains(t, ask(h, "GET", "/docs/search").Body.String(), "No section has")
}

func TestPagesAreReadOnlyAndRevalidated(t *testing.T) {
	h := newTestDocs(t, "", nil)
	page := ask(h, "GET", "/docs/publish")
	require.Equal(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", page.Header().Get("Cache-Control"))
	require.Contains(t, page.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, page.Header().Get("Content-Security-Policy"), "unsafe")
	require.Equal(t, "nosniff", page.Header().Get("X-Content-Type-Options"))
	require.Contains(t, page.Body.String(), "v1.2.3")

	again := ask(h, "GET", "/docs/publish", "If-None-Match", page.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.Code)

	head := ask(h, "HEAD", "/docs/publish")
	require.Equal(t, http.StatusOK, head.Code)
	require.Empty(t, head.Body.String())
	require.Equal(t, page.Header().Get("ETag"), head.Header().Get("ETag"))

	require.Equal(t, http.StatusSeeOther, ask(h, "GET", "/docs").Code)
	for _, path := range []string{"/docs/none", "/docs/publish/x", "/docs/static/none.css", "/problems/none", "/problems/", "/docs/publish.md", "/docs/..%2fREADME.md"} {
		w := ask(h, "GET", path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.Contains(t, w.Body.String(), "<h1>There is no such page</h1>", path)
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"), path)
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		w := ask(h, method, "/docs/publish")
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
		require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	}
}

func TestFilesOfPagesAreCachedForever(t *testing.T) {
	h := newTestDocs(t, "", nil)
	files := regexp.MustCompile(`"(/docs/static/[^"#]+)`).FindAllStringSubmatch(ask(h, "GET", "/docs/operate").Body.String(), -1)
	require.Greater(t, len(files), 5)
	for _, f := range files {
		w := ask(h, "GET", f[1])
		require.Equal(t, http.StatusOK, w.Code, f[1])
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable", f[1])
		require.NotEmpty(t, w.Header().Get("Content-Type"), f[1])
		require.NotEmpty(t, w.Body.Bytes(), f[1])
	}
}

func TestThePathOfThePublicURLIsInLinksWhetherAProxyKeepsItOrNot(t *testing.T) {
	h := newTestDocs(t, "https://shop.example/hooks/", nil)
	public, err := url.Parse("https://shop.example/hooks/")
	require.NoError(t, err)
	for _, path := range []string{"/docs/find", "/hooks/docs/find"} {
		require.True(t, console.ServesDocuments(path, public), path)
		text := ask(h, "GET", path).Body.String()
		require.Contains(t, text, `href="/hooks/docs/queues"`, path)
		require.Contains(t, text, `action="/hooks/docs/search"`, path)
	}
	require.Equal(t, "/hooks/docs/", ask(h, "GET", "/hooks/docs").Header().Get("Location"))
	for path, want := range map[string]bool{"/docs": true, "/docs/": true, "/docs/a": true, "/problems/a": true, "/hooks/docs": true, "/docsx": false, "/v1/docs": false, "/problems": false, "/": false} {
		require.Equal(t, want, console.ServesDocuments(path, public), path)
	}
}

func TestEachPageHasASectionOfTheDocuments(t *testing.T) {
	without := []string{"error", "away", "again", "link"} // errors, a redirect, and the door of a link
	names, err := fs.Glob(console.Files, "templates/[^_]*.html")
	require.NoError(t, err)
	var templates []string
	for _, name := range names {
		templates = append(templates, strings.TrimSuffix(path.Base(name), ".html"))
	}
	both := maps.Clone(console.Subjects)
	maps.Copy(both, console.MerchantSubjects)
	require.ElementsMatch(t, templates, append(slices.Collect(maps.Keys(both)), without...))

	notInAnchor := regexp.MustCompile(`[^a-z0-9 _-]`)
	for _, subject := range slices.AppendSeq(slices.Collect(maps.Values(console.Subjects)), maps.Values(console.MerchantSubjects)) {
		page, anchor, _ := strings.Cut(subject.Section, "#")
		text, err := deploy.Documents.ReadFile("docs/" + page + ".md")
		require.NoError(t, err, subject.Section)
		found := anchor == ""
		for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
			found = found || strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor
		}
		require.True(t, found, subject.Section)
	}
}

func TestPagesLeadToTheDocuments(t *testing.T) {
	_, ask := newTestPages(t, map[string]string{
		"GET /v1/messages/order_17": oneMessage,
		"GET /v1/lanes":             `{"data":[],"next_cursor":null}`,
		"GET /v1/endpoints/ep_1":    `{"id":"ep_1","url":"https://api.shop.example/hooks","signature":"stripe","state":"active"}`,
	})
	w := ask(get("/console/messages/order_17"))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `<a class="docs-link" href="/docs/">Documentation</a>`)
	require.Contains(t, w.Body.String(), `Documentation: <a href="/docs/find#show-one-message">`)
}
