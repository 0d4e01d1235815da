package browser_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPersonSignsInAndOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keys)
	b := w.tab(t)

	b.Open(w.page("/console/tail?outcome=dead"))
	b.WaitURL("/console/sign-in?to=")
	b.Allow("401")
	b.Fill("textbox", "API key", "no-key-that-anybody-knows")
	b.Click("button", "Sign in")
	b.WaitFor("There is no such key.")
	b.Shot("sign-in-wrong")
	require.Empty(t, b.Axe())
	b.Fill("textbox", "API key", adminKey)
	b.Press("Enter")
	b.WaitURL("/console/tail?outcome=dead")
	b.WaitFor("alice")
	require.Empty(t, b.JSText("document.cookie"), "a script must not read it")

	second := w.serve()
	b.Open(second.page("/console/"))
	b.WaitFor("alice")
	b.Open(w.page("/console/"))
	b.Click("button", "Sign out")
	b.WaitURL("/console/sign-in")
	b.Open(second.page("/console/"))
	b.WaitURL("/console/sign-in")
	b.WaitFor("API key")
}

func TestAKeyThatIsTakenAwayIsSignedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keys)
	b := w.tab(t)
	w.signIn(b, fullKey)
	without := w.serve("API_KEYS=" + adminKey + ":admin:alice")
	b.Open(without.page("/console/"))
	b.WaitURL("/console/sign-in")
	b.Open(w.page("/console/"))
	b.WaitHas("heading", "Now")
}

func TestThePagesAreForThisSiteAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keys)
	b := w.tab(t)
	w.signIn(b, adminKey)

	// localhost is another site than 127.0.0.1, where the program is.
	evil := http.NewServeMux()
	html := func(path, body string) {
		evil.HandleFunc(path, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			_, _ = rw.Write([]byte(`<!doctype html><title>Evil</title><link rel="icon" href="data:,">` + body))
		})
	}
	html("/post", `<form method="post" action="`+w.page("/console/sign-out")+`"><button>Win</button></form>`)
	html("/frame", `<h1>Framed</h1><iframe title="the console" src="`+w.page("/console/")+`"></iframe>`)
	html("/link", `<a href="`+w.page("/console/")+`">to the console</a>`)
	server := httptest.NewServer(evil)
	t.Cleanup(server.Close)
	address := func(path string) string {
		return "http://localhost" + server.URL[len("http://127.0.0.1"):] + path
	}

	b.Open(address("/post"))
	b.Allow("sign-out: 403")
	b.Click("button", "Win")
	b.WaitFor("Not done", "from another site")

	b.Open(address("/frame"))
	b.Until("the frame is refused", func() bool { return strings.Contains(strings.Join(b.Problems(), "\n"), "CSP: frame-ancestors blocked") })
	b.Allow("BLOCKED_BY_RESPONSE", "CSP: frame-ancestors blocked")

	b.Open(address("/link"))
	b.Click("link", "to the console")
	b.WaitHas("heading", "Now") // by the detour that brings the cookie along
	b.WaitFor("alice")
}
