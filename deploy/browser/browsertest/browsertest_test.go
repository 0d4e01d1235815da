package browsertest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// policy is as strict as the console's.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

const good = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Good</title><link rel="icon" href="data:,"><meta name="viewport" content="width=device-width">
<script src="/good.js" defer></script><link rel="stylesheet" href="/good.css"></head><body><main><h1>Good page</h1>
<form action="/said"><label>Name <input name="q"></label> <label><input type="checkbox" name="b"> Loud</label>
<label>Size <select name="s"><option>small<option>large</select></label> <button>Say it</button></form>
<p id="keys">none</p><p id="cookie">none</p><p id="seen">none</p>
<button id="open">Open it</button><dialog aria-label="Sure"><p>Really?</p><button id="close">Close</button></dialog>
<p><a href="/said?q=link">A link that leads on</a></p></main></body></html>`

const goodScript = `
const $ = id => document.getElementById(id);
document.addEventListener("keydown", e => { if (e.key === "/") { e.preventDefault(); document.querySelector("input").focus() } $("keys").textContent += " " + e.key });
document.addEventListener("visibilitychange", () => $("seen").textContent = document.visibilityState);
$("cookie").textContent = document.cookie || "no cookie";
$("open").onclick = () => document.querySelector("dialog").showModal();
$("close").onclick = () => document.querySelector("dialog").close();`

// newSite serves pages, and answers its address.
func newSite(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	page := func(path, kind, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("Content-Type", kind)
			_, _ = fmt.Fprint(w, text)
		})
	}
	html := func(path, body string) {
		page(path, "text/html", `<!doctype html><html lang="en"><head><title>T</title><link rel="icon" href="data:,"><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head><body><main><h1>`+path+`</h1>`+body+`</main></body></html>`)
	}
	page("/good", "text/html", good)
	page("/good.js", "text/javascript", goodScript)
	page("/good.css", "text/css", "@media (prefers-color-scheme: dark) { body { background: #000; color: #fff } a { color: #9cf } } a:focus { outline: 2px solid red } #open:focus { outline: none }")
	page("/late.js", "text/javascript", `requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector("h1").before(document.createElement("hr"), ...Array(20).fill(0).map(() => document.createElement("br")))))`)
	page("/thrown.js", "text/javascript", "undefined.name")
	page("/logged.js", "text/javascript", "console.error('it went wrong', 7)")
	html("/said", "said")
	html("/inline", `<p style="color: red">red</p>`)
	html("/thrown", `<script src="/thrown.js"></script>`)
	html("/logged", `<script src="/logged.js"></script>`)
	html("/missing", `<img src="/none.png" alt="none">`)
	html("/elsewhere", `<a href="http://127.0.0.1:1/">elsewhere</a>`)
	html("/late", `<script src="/late.js"></script>`)
	html("/wide", `<table><tr><td>`+wide+`</td></tr></table>`)
	page("/laptop", "text/html", `<!doctype html><html lang="en"><head><title>T</title><link rel="icon" href="data:,"></head><body><h1>Laptop</h1></body></html>`)
	html("/blind", `<img src="data:,"><input>`)
	page("/pale.css", "text/css", "p { color: #ddd; background: #eee }")
	html("/pale", `<link rel="stylesheet" href="/pale.css"><p>pale</p><input>`)
	mux.HandleFunc("GET /cookie", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "who", Value: "me"})
		http.Redirect(w, r, "/good", http.StatusSeeOther)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

const wide = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestAPageIsUsedAsAPersonDoes(t *testing.T) {
	site, b := newSite(t), browsertest.New(t)
	require.Equal(t, http.StatusOK, b.Try(site+"/good"))
	b.WaitFor("Good page")
	b.Fill("textbox", "Name", "Ann & Bob")
	b.Fill("textbox", "Name", "Bob & Ann")
	b.Click("checkbox", "Loud")
	require.Equal(t, "true", b.Value("checkbox", "Loud"))
	b.Choose("Size", "large")
	b.Click("button", "Say it")
	b.WaitURL("/said?q=Bob+%26+Ann&b=on&s=large")
	b.Back()
	b.WaitFor("Good page")
	b.Click("link", "leads on")
	b.WaitURL("/said?q=link")
	require.Equal(t, "/said said", b.Text())
}

func TestADialogIsSearchedByItself(t *testing.T) {
	b := browsertest.New(t)
	b.Open(newSite(t) + "/good")
	b.WaitGone("Really?")
	b.Click("button", "Open it")
	sure := b.In("dialog", "Sure")
	sure.WaitFor("Really?")
	require.False(t, sure.Has("link", ""))
	sure.Click("button", "Close")
	b.WaitGone("Really?")
	require.False(t, b.Has("dialog", "Sure"))
	require.Equal(t, []string{"A link that leads on"}, b.Names("link", "leads"))
}

func TestKeysArePressed(t *testing.T) {
	b := browsertest.New(t)
	b.Open(newSite(t) + "/good")
	b.Press("j", "/", "?", "Escape", "Shift+Tab")
	b.WaitFor("none j / ? Escape Tab")
	require.Equal(t, "?", b.JSText(`document.querySelector("input").value`), "a key that the page takes types nothing")
	b.Focus("textbox", "Name")
	b.Type("ab")
	b.Press("Backspace", "Enter")
	b.WaitURL("q=%3Fa")
}

func TestTheFocusIsSeenOrNot(t *testing.T) {
	b := browsertest.New(t)
	b.Open(newSite(t) + "/good")
	require.Zero(t, b.Focused())
	b.Press("Tab")
	require.Equal(t, "textbox", b.Focused().Role)
	require.Equal(t, "Name", b.Focused().Name)
	b.Focus("link", "A link that leads on")
	require.True(t, b.Focused().Ring)
	b.Focus("button", "Open it")
	require.Equal(t, "Open it", b.Focused().Name)
	require.False(t, b.Focused().Ring)
}

func TestATabHasItsColoursWidthAndProfile(t *testing.T) {
	site, b := newSite(t), browsertest.New(t)
	b.Open(site + "/cookie")
	b.WaitFor("who=me")
	same := b.Another()
	same.Open(site + "/good")
	same.WaitFor("who=me")
	other := browsertest.New(t)
	other.Open(site + "/good")
	other.WaitFor("no cookie")

	background := func() string { return b.JSText("getComputedStyle(document.body).backgroundColor") }
	b.Scheme("dark")
	require.Equal(t, "rgb(0, 0, 0)", background())
	b.Scheme("light")
	require.NotEqual(t, "rgb(0, 0, 0)", background())
	b.Phone(390)
	require.Equal(t, 390, browsertest.JS[int](b, "document.documentElement.clientWidth"))
	b.Desktop()
	require.Equal(t, 1280, browsertest.JS[int](b, "innerWidth"))
	b.Hide(true)
	b.WaitFor("hidden")
	b.Hide(false)
	b.WaitFor("visible")
	b.NoScript()
	b.Reload()
	b.WaitFor("Good page", "none none none")
}

func TestWhatIsWrongIsFound(t *testing.T) {
	site := newSite(t)
	for _, c := range []struct{ path, want string }{
		{"/inline", "CSP: style-src-attr"},
		{"/thrown", "script: TypeError"},
		{"/logged", "script: console.error"},
		{"/missing", "request: GET " + site + "/none.png: 404"},
		{"/none", "request: GET " + site + "/none: 404"},
	} {
		for _, scripts := range []bool{true, false} {
			if !scripts && (c.path == "/thrown" || c.path == "/logged") {
				continue
			}
			t.Run(fmt.Sprint(c.path, " with scripts: ", scripts), func(t *testing.T) {
				judged := &judge{TB: t}
				b := browsertest.New(judged)
				if !scripts {
					b.NoScript()
				}
				b.Try(site + c.path)
				b.Until("it is noted", func() bool { return len(b.Problems()) > 0 })
				require.Contains(t, b.Problems()[0], c.want)
				require.Len(t, b.Problems(), 1)
				require.Equal(t, c.path == "/inline", len(b.Violations()) == 1)
				judged.end()
				require.Len(t, judged.errors, 1, "the test has to fail")
				b.Allow(c.want)
				require.Empty(t, b.Problems())
			})
		}
	}
}

// judge takes a test's errors, and ends what it had when it is told to.
type judge struct {
	testing.TB
	errors []string
	ends   []func()
}

func (j *judge) Errorf(format string, args ...any) {
	j.errors = append(j.errors, fmt.Sprintf(format, args...))
}
func (j *judge) Cleanup(f func()) { j.ends = append(j.ends, f) }
func (j *judge) end() {
	for _, f := range j.ends {
		f()
	}
}

func TestThePageIsLookedAt(t *testing.T) {
	site, b := newSite(t), browsertest.New(t)
	b.Open(site + "/good")
	require.Empty(t, b.Axe())
	require.Empty(t, b.Sideways())
	require.Less(t, b.Shifts(), 0.01) // the text of the script
	b.Open(site + "/late")
	b.Until("it moves", func() bool { return b.Shifts() > 0 })
	b.Phone(390)
	b.Open(site + "/wide")
	require.Contains(t, b.Sideways()[0], "aaaa")
	b.Open(site + "/laptop")
	require.NotEmpty(t, b.Sideways(), "a page that does not say that it fits a phone is drawn for a laptop")
	b.Desktop()
	b.Open(site + "/blind")
	found := fmt.Sprint(b.Axe())
	require.Contains(t, found, "critical: image-alt")
	require.Contains(t, found, "critical: label")
	b.Open(site + "/pale")
	require.Len(t, b.Contrast(), 1)
	require.Contains(t, b.Contrast()[0], "color-contrast")
	require.Len(t, b.Axe(), 2, "and the field without a label")

	t.Chdir(t.TempDir())
	b.Shot("unasked")
	require.NoFileExists(t, "shots/unasked.png")
	*browsertest.Pictures = true
	t.Cleanup(func() { *browsertest.Pictures = false })
	b.Shot("blind")
	require.FileExists(t, "shots/blind.png")
}
