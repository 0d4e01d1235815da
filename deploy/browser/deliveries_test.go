package browser_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestDeliveriesAreSearchedAndFiltered(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	b.Open(w.page("/console/deliveries"))
	b.WaitFor("order-100", "order-200", "order-600", "off_0")

	b.Press("/")
	b.Type("took_2")
	b.Press("Enter")
	b.WaitURL("/console/messages/took_2")
	b.Back()
	b.Fill("searchbox", "Search", "order-201")
	b.Press("Enter")
	b.WaitURL("/console/messages/failed_1")
	b.Fill("searchbox", "Search", "no such order")
	b.Press("Enter")
	b.WaitFor("was looked for as a subject, since no message has this id, and no endpoint this uid, tenant or host.", "Nothing was found.")
	require.Equal(t, "no such order", b.Value("searchbox", "Search"))
	b.Fill("searchbox", "Search", w.bad)
	b.Press("Enter")
	b.WaitURL("/console/endpoints/" + w.bad)

	b.Open(w.page("/console/deliveries"))
	b.Click("link", "dead 2")
	b.WaitURL("status=dead")
	b.WaitGone("order-100")
	b.WaitFor("order-400", "order-401")
	b.Click("DisclosureTriangle", "+ Filter")
	b.Shot("deliveries-filter")
	require.Empty(t, b.Axe())
	b.Fill("textbox", "Tenant", "acme")
	require.Equal(t, "acme", b.JSText(`(document.activeElement.blur(), live.tag = "", refresh().then(() => document.querySelector("main input[name=tenant]").value))`),
		"a refresh keeps what was typed")
	b.Click("button", "Add")
	b.WaitURL("tenant=acme")
	b.WaitGone("order-401")
	b.Click("link", "Drop the filter tenant acme")
	b.WaitFor("order-401")
	b.Click("link", "Drop all filters")
	b.WaitFor("order-100")

	b.Open(w.page("/console/deliveries?topic=no.such"))
	b.WaitFor("No delivery matches.")
	b.Shot("deliveries-none")
	b.Allow("422", "400")
	b.Try(w.page("/console/deliveries?since=yesterday"))
	b.WaitFor(`"yesterday" is not a time`)
	b.Try(w.page("/console/deliveries?status=odd"))
	b.WaitFor("must be one of scheduled", "Drop all filters")
	b.Shot("deliveries-wrong")
	require.Empty(t, b.Axe())
	b.Try(w.page("/console/deliveries?cursor=odd"))
	b.WaitFor("order-100") // the first page
}

func TestTheRowsOfDeliveriesAreWalkedByKeys(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	b.Open(w.page("/console/"))
	b.Press("g", "d")
	b.WaitURL("/console/deliveries")
	b.WaitFor("order-100")
	browsertest.JS[bool](b, "navigator.clipboard.writeText = t => { window.copied = t; return Promise.resolve() }, true")
	b.Press("j")
	for strings.HasPrefix(b.Focused().Name, "order-300") { // two rows have this name
		b.Press("j")
	}
	first := b.Focused().Name
	require.True(t, b.Focused().Ring)
	b.Press("j")
	second := b.Focused().Name
	require.NotEqual(t, first, second)
	b.Press("k")
	require.Equal(t, first, b.Focused().Name)
	b.Press("c")
	id := b.JSText("window.copied")
	require.NotEmpty(t, id)
	b.Press("x")
	b.WaitFor("1 selected", "Paused while you select")
	require.Equal(t, "true", b.Value("checkbox", "Select "+first))
	b.Press("x")
	b.WaitGone("1 selected")
	b.Press("Enter")
	b.WaitURL("/console/messages/" + id)
}

func TestSelectedDeliveriesAreChanged(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	b.Open(w.page("/console/deliveries?destination=" + w.bad))
	b.Click("checkbox", "Select order-200")
	b.Click("checkbox", "Select order-201")
	b.WaitFor("2 selected")
	b.Shot("deliveries-selected")
	b.Phone(390)
	require.Empty(t, b.Sideways())
	b.Shot("deliveries-selected-390")
	b.Desktop()
	counted(b)
	browsertest.JS[bool](b, quick)
	require.Zero(t, fetches(b), "a selection holds the page")
	b.Click("button", "Cancel")
	b.WaitFor("2 of 2 are", "failed_0", "failed_1")
	b.Shot("deliveries-picked")
	require.Empty(t, b.Axe())
	w.until("failed_0", "cancelled")
	w.until("failed_1", "cancelled")
	b.Click("link", "Back to the list")
	b.WaitURL("destination=" + w.bad)
	w.mend("fail")
	b.Click("checkbox", "Select order-202")
	b.Click("button", "Attempt now or send again")
	b.WaitFor("1 of 1 is")
	w.until("failed_2", "delivered")
}

func TestWhatMatchesIsChangedByAJob(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	b.Open(w.page("/console/"))
	b.Press("g", "x")
	b.WaitURL("/console/dead")
	b.WaitFor("2 deliveries will not be attempted again", "exhausted", "503 Service Unavailable", "connection refused")
	b.Shot("dead")
	w.mend("fail")
	host, _ := url.Parse(w.at("fail"))
	b.Click("checkbox", "Select "+host.Host+", exhausted")
	b.WaitFor("1 selected")
	b.Click("button", "Preview a replay")
	b.WaitFor("1 delivery", "dead_0", "Oldest", "At most a second")
	b.Shot("dead-preview")
	checkSchemes(t, b, "preview")
	b.Fill("textbox", "At most a second", "2")
	b.WaitFor("About 1s")
	b.Click("button", "Replay 1")
	b.WaitURL("/console/jobs/")
	b.WaitFor("1 of about 1", "What it sent")
	checkSchemes(t, b, "job")
	w.until("dead_0", "delivered")
	b.Click("link", "Jobs")
	b.WaitFor("1 of 1")

	b.Open(w.page("/console/dead"))
	b.WaitGone("503 Service Unavailable")
	b.Click("checkbox", ", exhausted")
	b.Click("button", "Forget them…")
	b.WaitFor("I am sure")
	b.Shot("dead-purge")
	b.Click("checkbox", "I am sure")
	b.Click("button", "Forget 1")
	b.WaitURL("/console/jobs/")
	b.WaitFor("1 of about 1")
	b.Allow("404")
	eventually(t, "it is forgotten", func() bool { return b.Try(w.page("/console/messages/dead_1")) == http.StatusNotFound })
	b.Open(w.page("/console/dead"))
	b.WaitFor("Nothing is dead.")
}

func TestALongListGoesOnPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []wire.Message
	for _, id := range named("page_", 120) {
		all = append(all, wire.Message{ID: id, Topic: "order.paid", URL: w.at("ok"), Body: []byte("1"), Delay: hour})
	}
	_, err := w.PublishBatch(t.Context(), all)
	require.NoError(t, err)
	b := w.tab(t)
	b.Open(w.page("/console/deliveries"))
	seen := map[string]bool{}
	for range 3 {
		var names []string
		b.Until("all rows of a page", func() bool {
			names = b.Names("link", "page_")
			return len(names) == min(50, 120-len(seen))
		})
		for _, name := range names {
			require.False(t, seen[name], "%s is on two pages", name)
			seen[name] = true
		}
		if len(seen) < 120 {
			t.Log(len(seen))
			before := b.URL()
			b.Click("link", "Older")
			b.Wait("the next page", fmt.Sprintf("location.href !== %q && document.readyState === 'complete'", before))
		}
	}
	require.Len(t, seen, 120, "%v", seen)
	b.Click("link", "Newest")
	b.WaitFor("page_")
}

// An operator looks for an order's number, so it is whole in each row, and a screen has many rows.
func TestARowIsOneLineThatBeginsWithTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := make([]wire.Message, 50)
	for n := range all {
		all[n] = wire.Message{ID: fmt.Sprintf("payment_paid_1047%02d", n), Topic: "payment.paid", Subject: fmt.Sprintf("order_1047%02d", n), URL: w.at("ok"), Body: []byte("1"), Delay: hour}
	}
	_, err := w.PublishBatch(t.Context(), all)
	require.NoError(t, err)
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		w.rowsAreWhole(t, s, b)
		b.WaitFor("order_104700")
		b.Shot("deliveries-rows-" + s.name)

		counted(b)
		b.Click("checkbox", "Select order_104700")
		b.WaitFor("1 selected", "Paused while you select")
		b.Until("it is at rest", func() bool { return browsertest.JS[bool](b, "!live.busy") })
		before := fetches(b)
		browsertest.JS[bool](b, quick)
		require.Equal(t, before, fetches(b), "a tick holds the page")
		b.Click("checkbox", "Select order_104700")
		b.WaitFor("Live")
	})
}

// A mail names an order by its last four digits. All that end so are listed, the one with this whole number first and then the
// newest. Only one hit opens its message. For no hit the page says where it looked.
func TestAnOrderIsFoundByItsLastDigits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n, subject := range []string{"order_4711", "order_104711", "order_994711", "order_104712"} {
		w.publish(wire.Message{ID: fmt.Sprint("paid_", n), Subject: subject, URL: w.at("ok"), Delay: hour})
	}
	w.onScreens(t, func(t *testing.T, _ screen, b *browsertest.Tab) {
		b.Open(w.page("/console/system"))
		find := func(q string) {
			b.Click("searchbox", "Search")
			b.Fill("searchbox", "Search", q)
			b.Press("Enter")
			b.WaitURL("/console/deliveries?q=" + q)
		}
		for _, typed := range []string{"...4711", "4711"} {
			find(typed)
			b.WaitFor("was looked for", "order_994711")
			require.Equal(t, "order_4711 order_994711 order_104711", b.JSText(`[...document.querySelectorAll(".order")].map(e => e.textContent).join(" ")`))
			require.Empty(t, b.Sideways())
		}
		find("94712")
		b.WaitFor("was looked for", "Nothing was found.")
		b.Click("searchbox", "Search")
		b.Fill("searchbox", "Search", "4712")
		b.Press("Enter")
		b.WaitURL("/console/messages/paid_3")
	})
}

// What a person has of an endpoint leads to it from each page: its host, its URL, or a topic; and a sentence about what was
// found goes into a ticket.
func TestEndpointsAreFoundByHostAndURLAndShared(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	w.onScreens(t, func(t *testing.T, _ screen, b *browsertest.Tab) { w.findsAndShares(t, b) })
}

func (w *filled) findsAndShares(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	b.Open(w.page("/console/"))
	b.WaitHas("heading", "Now")
	find := func(q string) {
		b.Press("/")
		require.Equal(t, "Search", b.Focused().Name)
		b.Fill("searchbox", "Search", q)
		b.Press("Enter")
	}
	find(w.at("fail/acme"))
	b.WaitURL("/console/endpoints/" + w.bad)
	b.WaitFor("fails")
	browsertest.JS[bool](b, "navigator.clipboard.writeText = t => { window.copied = t; return Promise.resolve() }, true")
	b.Click("button", "Copy for a ticket")
	shared := b.JSText("window.copied")
	require.Contains(t, shared, "fails: failing")
	require.Contains(t, shared, "503")
	require.Contains(t, shared, w.page("/console/endpoints/"+w.bad))
	find(w.at(""))
	b.WaitURL("/console/endpoints?like=127.0.0.1")
	b.WaitFor("takes all", "fails", "held")
	find("acme")
	b.WaitURL("/console/endpoints?tenant=acme")
	b.WaitGone("held")
	find("order.both")
	b.WaitURL("/console/messages/both_0")
	find("order.paid")
	b.WaitFor("and then as a topic", "order-100", "order-200")
	b.Open(w.page("/console/messages/dead_0"))
	browsertest.JS[bool](b, "navigator.clipboard.writeText = t => { window.copied = t; return Promise.resolve() }, true")
	b.Click("button", "Copy for a ticket")
	shared = b.JSText("window.copied")
	require.Contains(t, shared, "order-400 (dead_0)")
	require.Contains(t, shared, "dead, 2 attempts, the last failed")
}
