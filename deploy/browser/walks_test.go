package browser_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// walk is what a person does in a tab until a question is answered. Each click counts, and so does Enter.
type walk struct {
	*browsertest.Tab
	clicks int
}

func (w *walk) click(role, name string) { w.clicks++; w.In("main", "").Click(role, name) }

func (w *walk) menu(name string) { w.clicks++; w.In("navigation", "Main").Click("link", name) }

func (w *walk) search(text string) {
	w.clicks += 2 // into the box, and Enter
	w.Click("searchbox", "Search")
	w.Fill("searchbox", "Search", text)
	w.Press("Enter")
}

// A night with three causes is walked through at a desk and on a phone: an outage, an order that never arrived, and a
// merchant with a wrong secret.
func TestANightIsWalkedThrough(t *testing.T) {
	t.Parallel()
	port, err := kit.FreePort()
	require.NoError(t, err)
	w := newNight(t, night{tenants: 300, broken: 90, waiting: 900, dead: 90}, keys, "LISTEN="+kit.Loopback(port), "PUBLIC_URL=http://"+kit.Loopback(port))
	for _, screen := range []struct {
		name   string
		size   func(b *browsertest.Tab)
		top    int    // where the first cause begins at last
		mended string // what is mended in the outage, and its cause
		cause  string
	}{
		{"1280", func(b *browsertest.Tab) { b.Desktop() }, 420, "fail", "answered 503"},
		{"390", func(b *browsertest.Tab) { b.Phone(390) }, 700, "wrong", "answered 401"},
	} {
		w.walkMerchant(t, screen.name, screen.size)
		b := w.tab(t)
		screen.size(b)
		w.signIn(b, adminKey)
		w.walkOrder(t, b)
		w.walkEndpoints(t, b)
		w.walkOutage(t, b, screen.top, screen.mended, screen.cause)
	}
}

// walkOutage: what is it, where, is it over; and all that waits is sent, one delivery first.
func (w *world) walkOutage(t *testing.T, b *browsertest.Tab, top int, mended, cause string) {
	t.Helper()
	b.Open(w.page("/console/"))
	b.WaitFor("endpoints fail, with", "different errors", "30 endpoints: "+cause)
	b.WaitFor("are held")
	require.NotContains(t, b.Text(), "nothing is late", "what a breaker delays is late")
	require.Empty(t, b.Sideways())
	require.Less(t, browsertest.JS[int](b, `Math.round(document.querySelector("#causes").getBoundingClientRect().top)`), top, "the first cause is in view")
	var links int
	for n := range browsertest.JS[int](b, `document.querySelectorAll(".card.cause").length`) {
		links += browsertest.JS[int](b, fmt.Sprintf(`(async () => {
			const to = [...document.querySelectorAll(".card.cause")][%d].querySelector("a.button").href;
			const page = new DOMParser().parseFromString(await (await fetch(to)).text(), "text/html");
			return page.querySelectorAll(".lanes tbody tr").length;
		})()`, n))
	}
	require.Equal(t, browsertest.JS[int](b, `parseInt(document.querySelector("#lead b").textContent)`), links, "each card's link lists its own")

	at := &walk{Tab: b}
	card := browsertest.JS[string](b, fmt.Sprintf(`[...document.querySelectorAll(".card.cause")].find(c => c.textContent.includes(%q)).querySelector("h2").id ||= "chosen"`, cause))
	require.Equal(t, "chosen", card)
	at.clicks++
	browsertest.JS[bool](b, `document.getElementById("chosen").closest(".cause").querySelector("a.button").click(), true`)
	b.WaitFor("What fails: "+cause, "tenant-")
	w.mend(mended) // meanwhile
	at.click("button", "Try all again now")
	b.WaitURL("/console/jobs/job_")
	b.WaitFor("One first", "30 of 30 destinations work")
	for _, id := range w.ofCause(mended) {
		w.until(id, "delivered")
	}
	at.menu("Now")
	b.WaitFor("fail")
	b.WaitGone("30 endpoints: " + cause)
	require.LessOrEqual(t, at.clicks, 6)
	require.Empty(t, b.Axe())
}

// ofCause are some messages that wait for a path.
func (w *world) ofCause(path string) []string {
	first := map[string]int{"fail": 0, "wrong": 1}[path]
	return []string{fmt.Sprint("waits_", first), fmt.Sprint("waits_", first+90), fmt.Sprint("waits_", first+810)}
}

// walkOrder: a merchant says that an order never arrived.
func (w *world) walkOrder(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	b.Open(w.page("/console/system"))
	at := &walk{Tab: b}
	at.search("order 4000713") // tenant-83, behind the breaker of a receiver that is gone
	b.WaitURL("/console/messages/waits_713")
	b.WaitFor("Waits", "breaker", "tenant-83")
	require.LessOrEqual(t, at.clicks, 3)
	require.Empty(t, b.Sideways())
	require.Empty(t, b.Axe())
}

// walkEndpoints: those that fail come first, are filtered and found; and each says why, and how many wait for what.
func (w *world) walkEndpoints(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	const states = `[...document.querySelectorAll(".endpoints tbody .status")].map(e => e.className.split("s-")[1]).join()`
	b.Open(w.page("/console/endpoints"))
	require.Regexp(t, `^(open,)+(failing,)*$`, b.JSText(states)+",")
	require.Len(t, strings.Split(b.JSText(states), ","), 50)
	b.Click("link", "stopped calling")
	b.WaitURL("state=open")
	found := 0
	for {
		b.Wait("the list, which a page that took too long asks for again", `document.querySelector(".chip[aria-current] .n")`)
		found += len(strings.Split(b.JSText(states), ","))
		if !b.Has("link", "Next") {
			break
		}
		b.Click("link", "Next")
		b.WaitURL("from=")
	}
	require.Equal(t, browsertest.JS[int](b, `parseInt(document.querySelector(".chip[aria-current] .n").textContent)`), found)
	b.Open(w.page("/console/endpoints?like=ANT-81:st"))
	b.WaitFor("tenant-81:stock")
	b.WaitGone("tenant-82:stock")
	b.Allow("422")
	b.Try(w.page("/console/endpoints?state=odd"))
	b.WaitFor("there is no state")

	b.Open(w.page("/console/endpoints"))
	b.Open(w.page("/console/endpoints?like=tenant-89:stock")) // of a receiver that is gone
	b.Click("link", "tenant-89:stock")
	b.WaitFor("Attempts fail: no connection", "connection refused", "held by its breaker", "wait for their next attempt")
	require.Equal(t, browsertest.JS[int](b, `parseInt([...document.querySelectorAll(".figures div")].find(e => e.textContent.includes("Waiting")).querySelector("a").textContent)`),
		browsertest.JS[int](b, `[...document.querySelectorAll("#cause .groups .n")].reduce((sum, e) => sum + parseInt(e.textContent), 0)`), "Waiting is the sum of its reasons")
	require.Empty(t, b.Sideways())
}

// walkMerchant: a merchant's receiver refuses what it verifies with another secret. Its people find that out, mend it, and
// have all sent.
func (w *world) walkMerchant(t *testing.T, name string, size func(b *browsertest.Tab)) {
	t.Helper()
	tenant, path := "shop-"+name, "wrong-"+name
	id := w.endpoint(wire.Endpoint{UID: tenant + ":orders", Tenant: tenant, URL: w.at(path), Description: "Orders of " + name})
	for _, order := range named(name+"-order-", 3) {
		w.publish(wire.Message{ID: order, Endpoint: id, Tenant: tenant, Subject: order})
	}
	w.until(name+"-order-0", "retrying")
	link, err := w.CreateLink(t.Context(), wire.LinkRequest{Tenant: tenant, Manage: true})
	require.NoError(t, err)
	b := w.tab(t)
	size(b)
	b.Open(link.URL)
	at := &walk{Tab: b}
	at.click("button", "Open")
	b.WaitFor("Overview", "failing")
	b.In("region", "Needs you").WaitFor("Orders of " + name)
	at.clicks++
	b.In("region", "What failed").Click("link", name+"-order-0")
	b.WaitURL("/link/messages/" + name + "-order-0")
	b.WaitFor("401", "the signature does not match")
	at.click("link", "Why does my signature fail?")
	b.WaitFor("Check what your code computed", "fingerprint")
	mac := hmac.New(sha256.New, []byte("the secret of the test account"))
	fmt.Fprint(mac, "what was signed")
	b.Fill("textbox", "Signature that your code computed", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	at.click("button", "Check")
	b.WaitFor("What your code does differently", "secret")
	require.Empty(t, b.Sideways())
	require.Empty(t, b.Axe())
	w.mend(path) // the receiver has the right one now
	at.click("link", "Orders of "+name)
	b.WaitURL("/link/endpoints/" + id)
	at.click("button", "Try again now")
	b.WaitURL("/link/jobs/job_")
	for _, order := range named(name+"-order-", 3) {
		w.until(order, "delivered")
	}
	b.WaitFor("It works.")
	require.LessOrEqual(t, at.clicks, 6)
}
