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
	w := newNight(t, night{tenants: 300, broken: 90, waiting: 900, dead: 90}.large(), keys, "LISTEN="+kit.Loopback(port), "PUBLIC_URL=http://"+kit.Loopback(port))
	causes := 3 // of the outage; each screen mends one
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		w.signIn(b, adminKey)
		w.walkEndpoints(t, b, 30*causes)
		w.walkOrder(t, b)
		w.rowsAreWhole(t, s, b)
		w.walkOutage(t, s, b, causes)
		causes--
		w.walkMerchant(t, s)
	})
}

// walkOutage: what is it, where, is it over; and all that waits is sent, one delivery first.
func (w *nightWorld) walkOutage(t *testing.T, s screen, b *browsertest.Tab, causes int) {
	t.Helper()
	mended, cause := "fail", "answered 503"
	if s.phone {
		mended, cause = "broken", "answered 500"
	}
	b.Open(w.page("/console/"))
	b.WaitFor(fmt.Sprintf("%d endpoints fail, with %d different errors", 30*causes, causes), "30 endpoints: "+cause)
	b.WaitFor("are held")
	require.NotContains(t, b.Text(), "All endpoints answer")
	require.NotContains(t, b.Text(), "nothing is late", "what a breaker delays is late")
	require.Empty(t, b.Sideways())
	require.Less(t, browsertest.JS[int](b, top), s.top, "the first cause is in view")
	require.Equal(t, causes, browsertest.JS[int](b, `document.querySelectorAll(".card.cause").length`))
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
	for _, endpoint := range []int{0, 42, 87} { // of the three causes each third has one
		endpoint += map[string]int{"fail": 0, "broken": 1}[mended]
		w.until(fmt.Sprint("waits_", endpoint), "delivered")
		w.until(fmt.Sprint("waits_", w.last(endpoint)), "delivered")
	}
	at.menu("Now")
	b.WaitFor("fail")
	b.WaitGone("30 endpoints: " + cause)
	require.LessOrEqual(t, at.clicks, 6)
	require.Empty(t, b.Axe())
}

// walkOrder: a merchant says that an order never arrived.
func (w *nightWorld) walkOrder(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	b.Open(w.page("/console/system"))
	at := &walk{Tab: b}
	number := 4_000_000 + w.last(83) // of tenant-83, behind the breaker of a receiver that is gone
	message := fmt.Sprint("/console/messages/waits_", w.last(83))
	at.search(fmt.Sprint("order ", number))
	b.WaitURL(message)
	b.WaitFor("Waits", "breaker", "tenant-83")
	require.LessOrEqual(t, at.clicks, 3)
	b.Open(w.page("/console/system"))
	at = &walk{Tab: b}
	at.search(fmt.Sprintf("...%04d", number%10_000)) // in a large night others end so too
	b.Wait("it is found by its last digits", fmt.Sprintf(`location.pathname === %q || document.querySelector(".order")?.textContent === "order-%d"`, message, number))
	if !strings.Contains(b.URL(), message) {
		at.click("link", fmt.Sprint("order-", number))
		b.WaitURL(message)
	}
	require.LessOrEqual(t, at.clicks, 3)
	require.Empty(t, b.Sideways())
	require.Empty(t, b.Axe())
}

// walkEndpoints: those that fail come first, are filtered and found; and each says why, and how many wait for what.
func (w *world) walkEndpoints(t *testing.T, b *browsertest.Tab, open int) {
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
	require.Equal(t, open, found)
	require.Equal(t, found, browsertest.JS[int](b, `parseInt(document.querySelector(".chip[aria-current] .n").textContent)`))
	require.Zero(t, browsertest.JS[int](b, `[...document.querySelectorAll(".endpoints tbody tr")].filter(r => innerWidth > 760 && r.getBoundingClientRect().height > 33).length`), "a row is one line")
	require.Empty(t, b.Sideways())
	require.Empty(t, b.Axe())
	b.Open(w.page("/console/endpoints?like=ANT-81:st"))
	b.WaitFor("tenant-81:stock")
	b.WaitGone("tenant-82:stock")
	b.Allow("422")
	b.Try(w.page("/console/endpoints?state=odd"))
	b.WaitFor("there is no state")

	at := &walk{Tab: b}
	at.search("tenant-89:stock") // of a receiver that is gone
	b.WaitURL("/console/endpoints/ep_")
	b.WaitFor("Attempts fail: no connection", "connection refused", "held by its breaker", "wait for their next attempt")
	require.Equal(t, browsertest.JS[int](b, waits), browsertest.JS[int](b, reasons), "Waiting is the sum of its reasons")
	require.Empty(t, b.Sideways())
	require.Empty(t, b.Axe())
}

// waits is how many deliveries wait for an endpoint, by its page, and reasons the sum of those for which a reason is given.
const (
	waits   = `parseInt([...document.querySelectorAll(".figures div")].find(e => e.textContent.includes("Waiting")).querySelector("a").textContent.replaceAll(",", ""))`
	reasons = `[...document.querySelectorAll("#cause .groups .n")].reduce((sum, e) => sum + parseInt(e.textContent.replaceAll(",", "")), 0)`
)

// rowsAreWhole: the newest deliveries are read without opening one.
func (w *world) rowsAreWhole(t *testing.T, s screen, b *browsertest.Tab) {
	t.Helper()
	// whole counts the rows that are on the screen as a whole, and cut the texts of orders and of what happened that are not.
	const whole = `[...document.querySelectorAll("tbody tr")].filter((r) => r.getBoundingClientRect().bottom <= innerHeight).length`
	const cut = `[...document.querySelectorAll(".order, .story .clip, th.story")].filter((a) => a.scrollWidth > a.clientWidth).map((a) => a.textContent).join("\n")`
	b.Open(w.page("/console/deliveries"))
	b.Wait("a page of deliveries", `document.querySelectorAll("tbody tr").length === 50`)
	require.GreaterOrEqual(t, browsertest.JS[int](b, whole), s.rows)
	require.Empty(t, b.JSText(cut))
	require.Empty(t, b.Sideways())
	require.Empty(t, b.Axe())
}

// walkMerchant: a merchant's receiver refuses what it verifies with another secret. Its people find that out, mend it, and
// have all sent.
func (w *world) walkMerchant(t *testing.T, s screen) {
	t.Helper()
	name := s.name
	tenant, path := "shop-"+name, "wrong-"+name
	id := w.endpoint(wire.Endpoint{UID: tenant + ":orders", Tenant: tenant, URL: w.at(path), Description: "Orders of " + name})
	for _, order := range named(name+"-order-", 3) {
		w.publish(wire.Message{ID: order, Endpoint: id, Tenant: tenant, Subject: order})
	}
	w.until(name+"-order-0", "retrying")
	link, err := w.CreateLink(t.Context(), wire.LinkRequest{Tenant: tenant, Manage: true})
	require.NoError(t, err)
	b := w.tab(t)
	s.on(b)
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
