package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// Keys of the people in tests of the console, by their names.
var peoplesKeys = map[string]string{
	"boss": "boss-boss-boss-boss", "support": "support-support-su", "audit": "audit-audit-audit-", "shop": "shop-shop-shop-shop",
}

func mustParseKeys(t testing.TB, text string) app.Keys {
	t.Helper()
	keys, err := app.ParseKeys(text)
	require.NoError(t, err)
	return keys
}

func peoplesOptions(t testing.TB, redisURL string) app.Options {
	t.Helper()
	o := newTestOptions(redisURL)
	o.Keys = mustParseKeys(t, fmt.Sprintf("%s:admin:boss,%s:read+bodies:support,%s:read:audit,%s:publish:shop",
		peoplesKeys["boss"], peoplesKeys["support"], peoplesKeys["audit"], peoplesKeys["shop"]))
	o.Console.PublicURL, _ = url.Parse("http://console.test")
	return o
}

// person looks with a browser of their own, which follows no redirect by itself.
type person struct {
	away   bool // the store is: pages say so
	t      testing.TB
	api    string
	client *http.Client
	header http.Header // sent with each request
}

func newPerson(t testing.TB, api string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &person{t: t, api: api, header: http.Header{}, client: &http.Client{
		Jar: jar, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// page is an answer, read.
type page struct {
	*http.Response
	text string
}

func (p *person) do(method, path string, form url.Values) page {
	p.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.api+path, body)
	require.NoError(p.t, err)
	for name, values := range p.header {
		r.Header[name] = values
	}
	if host := p.header.Get("Host"); host != "" {
		r.Host = host
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.client.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return page{resp, string(text)}
}

// get asks for a page, again where a busy machine needed more than the second that a page
// has. Where the store is away, that is what the page says.
func (p *person) get(path string) page {
	p.t.Helper()
	got := p.do(http.MethodGet, path, nil)
	for n := 0; got.StatusCode == http.StatusServiceUnavailable && !p.away && n < 20; n++ {
		got = p.do(http.MethodGet, path, nil)
	}
	return got
}

// post acts. If a page answers that, it is the one behind the redirect.
func (p *person) post(path string, form url.Values) page {
	p.t.Helper()
	got := p.act(path, form)
	if to := got.Header.Get("Location"); strings.Contains(to, "shown=") || strings.Contains(to, "wrong=") {
		require.Equal(p.t, http.StatusSeeOther, got.StatusCode)
		return p.get(to)
	}
	return got
}

// act acts, and returns what the action itself answers.
func (p *person) act(path string, form url.Values) page {
	p.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	return p.do(http.MethodPost, path, form)
}

func (p *person) signIn(key string) page {
	p.t.Helper()
	return p.post("/console/sign-in", url.Values{"key": {key}})
}

// signedIn is somebody who signed in with the key of a name.
func (p *process) signedIn(name string) *person {
	p.t.Helper()
	who := newPerson(p.t, p.api)
	got := who.signIn(peoplesKeys[name])
	require.Equal(p.t, http.StatusSeeOther, got.StatusCode, got.text)
	return who
}

func (p page) toSignIn() bool {
	return p.StatusCode == http.StatusSeeOther && strings.HasPrefix(p.Header.Get("Location"), "/console/sign-in")
}

func TestSigningInAndOut(t *testing.T) {
	redis := redistest.Start(t)
	first, second := start(t, peoplesOptions(t, redis.URL())), start(t, peoplesOptions(t, redis.URL()))

	who := newPerson(t, first.api)
	require.True(t, who.get("/console/").toSignIn())
	got := who.signIn("no-such-key-at-all-")
	require.Equal(t, http.StatusUnauthorized, got.StatusCode)
	require.Contains(t, got.text, "There is no such key.")
	require.Empty(t, got.Cookies())
	got = who.signIn(peoplesKeys["shop"])
	require.Equal(t, http.StatusForbidden, got.StatusCode, "there is nothing that a key to publish may see")
	require.Empty(t, got.Cookies())

	got = who.signIn(" " + peoplesKeys["support"] + "\n")
	require.Equal(t, http.StatusSeeOther, got.StatusCode, "spaces of a copied key are no part of it")
	require.Equal(t, "/console/", got.Header.Get("Location"))
	cookie := got.Cookies()[0]
	require.Equal(t, "hookladder", cookie.Name)
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Equal(t, "/", cookie.Path)
	require.False(t, cookie.Secure, "people come by http")
	require.NotContains(t, cookie.Value, peoplesKeys["support"])
	require.Equal(t, http.StatusOK, who.get("/console/").StatusCode)
	require.Equal(t, "/console/", who.get("/console/sign-in").Header.Get("Location"), "who is in needs no form")
	again := newPerson(t, first.api).post("/console/sign-in", url.Values{"key": {peoplesKeys["support"]}, "to": {"//evil.test/"}})
	require.Equal(t, "/console/", again.Header.Get("Location"), "it leads nowhere else")

	who.api = second.api
	u, err := url.Parse(second.api)
	require.NoError(t, err)
	who.client.Jar.SetCookies(u, []*http.Cookie{{Name: cookie.Name, Value: cookie.Value, Path: "/"}})
	require.Equal(t, http.StatusOK, who.get("/console/").StatusCode, "at all instances")

	got = who.post("/console/sign-out", nil)
	require.Equal(t, http.StatusSeeOther, got.StatusCode)
	require.Equal(t, `"cache"`, got.Header.Get("Clear-Site-Data"))
	require.Negative(t, got.Cookies()[0].MaxAge)
	thief := newPerson(t, first.api)
	u, err = url.Parse(first.api)
	require.NoError(t, err)
	thief.client.Jar.SetCookies(u, []*http.Cookie{{Name: cookie.Name, Value: cookie.Value, Path: "/"}})
	require.True(t, thief.get("/console/").toSignIn(), "a session that ended is over everywhere, whoever kept its cookie")
}

func TestWrongKeysAreLimited(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	who := newPerson(t, p.api)
	codes := map[int]int{}
	for i := range 14 {
		codes[who.signIn(fmt.Sprintf("wrong-wrong-wrong-%d", i)).StatusCode]++
	}
	require.Equal(t, map[int]int{http.StatusUnauthorized: 10, http.StatusTooManyRequests: 4}, codes)
	require.Contains(t, who.signIn("wrong-wrong-wrong-9").text, "Wait a minute")
	require.Equal(t, http.StatusSeeOther, who.signIn(peoplesKeys["boss"]).StatusCode, "a right one is never refused for others")
}

func TestAKeyThatIsTakenAwayOrNarrowed(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	renew := make(chan app.Renewal)
	o.Renew = renew
	p := start(t, o)
	boss, support := p.signedIn("boss"), p.signedIn("support")
	require.Equal(t, http.StatusOK, boss.get("/console/").StatusCode)

	done := make(chan error, 1)
	renew <- app.Renewal{Keys: mustParseKeys(t, peoplesKeys["boss"]+":publish:boss"), Secrets: o.Engine.Secrets, Done: done}
	require.NoError(t, <-done)
	require.True(t, support.get("/console/").toSignIn(), "its key is none any more")
	got := boss.get("/console/")
	require.Equal(t, http.StatusForbidden, got.StatusCode, "its key may only publish now")
	require.Contains(t, got.text, "Your key may not do this")
	require.Equal(t, http.StatusSeeOther, boss.post("/console/sign-out", nil).StatusCode)
}

func TestTheCookieOfHTTPS(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.PublicURL, _ = url.Parse("https://console.test")
	p := start(t, o)
	got := newPerson(t, p.api).signIn(peoplesKeys["boss"])
	require.Equal(t, http.StatusSeeOther, got.StatusCode)
	cookie := got.Cookies()[0]
	require.Equal(t, "__Host-hookladder", cookie.Name)
	require.True(t, cookie.Secure, "a proxy ends TLS, so PUBLIC_URL tells")
	require.Equal(t, "/", cookie.Path)
	require.Empty(t, cookie.Domain)

	plain := newPerson(t, p.api)
	plain.header.Set("Cookie", "hookladder="+cookie.Value)
	require.True(t, plain.get("/console/").toSignIn(), "any page of the domain could set a cookie of that name")
}

func TestAnotherSiteDoesNothing(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	boss := p.signedIn("boss")
	for name, header := range map[string]http.Header{
		"cross-site": {"Sec-Fetch-Site": {"cross-site"}}, "a subdomain's": {"Sec-Fetch-Site": {"same-site"}},
		"an old browser's": {"Origin": {"https://evil.test"}}, "a hidden origin": {"Origin": {"null"}},
	} {
		boss.header = header
		got := boss.post("/console/sign-out", nil)
		require.Equal(t, http.StatusForbidden, got.StatusCode, name)
		require.Empty(t, got.Cookies(), name)
	}
	boss.header = http.Header{}
	require.Equal(t, http.StatusOK, boss.get("/console/").StatusCode, "still signed in")
	boss.header = http.Header{"Origin": {"http://console.test"}}
	require.Equal(t, http.StatusSeeOther, boss.post("/console/sign-out", nil).StatusCode, "PUBLIC_URL is our own")
}

func TestALinkFromAnotherSiteAsksOnceMore(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	who := newPerson(t, p.api) // its browser sends no Strict cookie with this request
	who.header.Set("Sec-Fetch-Site", "cross-site")
	got := who.get("/console/?told=x%22")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.text, `<meta http-equiv="refresh" content="0;url=/console/?told=x%22">`)
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	who.header.Set("Sec-Fetch-Site", "same-origin")
	require.True(t, who.get("/console/?told=x%22").toSignIn(), "and no loop follows")
}

func TestRedisAwayIsNotSignedOut(t *testing.T) {
	redis := redistest.Start(t)
	p := start(t, peoplesOptions(t, redis.URL()))
	boss := p.signedIn("boss")
	redis.Stop()
	boss.away = true
	for range 3 {
		got := boss.get("/console/")
		require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
		require.Contains(t, got.text, "Redis can't be reached")
		require.Equal(t, "5", got.Header.Get("Retry-After"))
		require.Empty(t, got.Cookies())
	}
	redis.Restart()
	require.Eventually(t, func() bool { return boss.get("/console/").StatusCode == http.StatusOK }, patience, 10*time.Millisecond)
}

func TestWithoutKeysOnlyThisHostIsServed(t *testing.T) {
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	who := newPerson(t, p.api)
	got := who.get("/console/")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.text, "no keys: loopback only")
	for name, header := range map[string]http.Header{
		"a name that leads here": {"Host": {"evil.test"}}, "another origin": {"Origin": {"https://evil.test"}}, "another site": {"Sec-Fetch-Site": {"cross-site"}},
	} {
		who.header = header
		for _, path := range []string{"/console/", "/console/sign-in", "/link/"} {
			got := who.get(path)
			require.Equal(t, http.StatusForbidden, got.StatusCode, "%s: %s", name, path)
		}
	}
}

func TestWithoutAConsole(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.Off = true
	p := start(t, o)
	for _, path := range []string{"/console/", "/console/sign-in", "/link/", "/link/" + strings.Repeat("a", 43)} {
		require.Equal(t, http.StatusNotFound, newPerson(t, p.api).get(path).StatusCode, path)
	}
}
