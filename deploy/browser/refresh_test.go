package browser_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// counted has a page count how often it was fetched again, and how often that changed it.
func counted(b *browsertest.Tab) {
	browsertest.JS[bool](b, `window.fetches = 0, window.swaps = 0, (() => {
		const real = window.fetch;
		window.fetch = (...a) => { window.fetches++; return real(...a) };
		document.addEventListener("refreshed", () => window.swaps++);
	})(), true`)
}

// quick has a page refresh itself at once, as its clock does every five seconds.
const quick = `(async () => { if (nothingOpen()) await refresh(); return true })()`

func fetches(b *browsertest.Tab) int { return browsertest.JS[int](b, "window.fetches") }

func TestAPageRefreshesInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	b.Open(w.page("/console/"))
	counted(b)
	b.Focus("link", "Endpoints")
	browsertest.JS[bool](b, "window.node = document.activeElement, true")
	w.publish(wire.Message{ID: "one", URL: w.at("ok"), Delay: hour})
	w.publish(wire.Message{ID: "two", URL: w.at("fail")})
	w.twice("two")
	b.In("navigation", "Main").WaitFor("Deliveries 1") // by its own clock
	require.True(t, browsertest.JS[bool](b, "document.activeElement === window.node"), "the focus is kept")
	require.Positive(t, browsertest.JS[int](b, "window.swaps"))

	b.Open(w.page("/console/messages/one"))
	counted(b)
	for range 3 {
		browsertest.JS[bool](b, quick)
	}
	require.GreaterOrEqual(t, fetches(b), 3)
	require.LessOrEqual(t, browsertest.JS[int](b, "window.swaps"), 1, "what has not changed is not drawn again")
}

func TestAChartKeepsItsValuesUnderAPointerThatRests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(wire.Message{ID: "one", URL: w.at("ok")})
	w.until("one", "delivered")
	b := w.tab(t)
	b.Open(w.page("/console/"))
	b.Wait("the chart is there", `document.querySelector(".chart-plot")`)
	counted(b)
	browsertest.JS[bool](b, `(() => {
		const plot = document.querySelector(".chart-plot"), box = plot.getBoundingClientRect();
		plot.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2}));
	})(), true`)
	const shown = `document.querySelector('[data-legend="at"]').textContent`
	require.NotEmpty(t, b.JSText(shown))
	w.publish(wire.Message{ID: "two", URL: w.at("ok"), Delay: hour})
	b.Wait("it was refreshed", "window.swaps > 0")
	require.NotEmpty(t, b.JSText(shown))
}

func TestAPageThatIsGoneIsNotLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _, err := w.CreateEndpoint(t.Context(), &wire.Endpoint{URL: w.at("ok"), Topics: []string{"a"}})
	require.NoError(t, err)
	b := w.tab(t)
	b.Allow("404")
	b.Open(w.page("/console/endpoints/" + e.ID))
	b.WaitFor("Live")
	_, err = w.DeleteEndpoint(t.Context(), e.ID)
	require.NoError(t, err)
	browsertest.JS[bool](b, quick)
	b.WaitFor("Not live")
}

func TestAPageDoesNotRefreshWhileAPersonIsAtIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	b.Open(w.page("/console/"))
	counted(b)
	still := func(what string) {
		t.Helper()
		b.Until("it is at rest", func() bool { return browsertest.JS[bool](b, "!live.busy") })
		before := fetches(b)
		browsertest.JS[bool](b, quick)
		require.Equal(t, before, fetches(b), what)
	}
	goes := func(what string) {
		t.Helper()
		b.Until(what, func() bool { // a refresh by the clock may be under way
			before := fetches(b)
			browsertest.JS[bool](b, quick)
			return fetches(b) > before
		})
	}
	goes("it refreshes")
	b.Hide(true)
	still("hidden")
	b.Hide(false)
	goes("seen again")
	b.Press("p")
	still("paused")
	b.Press("p")
	b.WaitFor("Live")
	b.Press("?")
	b.WaitHas("dialog", "Keys")
	b.WaitFor("Paused while this is open")
	still("a dialog is open")
	b.Press("Escape")
	browsertest.JS[bool](b, "getSelection().selectAllChildren(document.querySelector('h1')), true")
	b.WaitFor("Paused while you select")
	still("text is selected")
	browsertest.JS[bool](b, "getSelection().removeAllRanges(), true")
	goes("nothing is selected")
}

// The answer to a refresh may come after a person has begun something.
func TestAnAnswerThatIsOnItsWayDoesNotDisturbAPersonEither(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(wire.Message{ID: "one", Subject: "order_1", URL: w.at("ok"), Delay: hour})
	b := w.tab(t)
	for what, begin := range map[string]string{
		"a row is selected":  `document.querySelector(".pick").click()`,
		"the page is paused": `document.getElementById("live").click()`,
	} {
		b.Open(w.page("/console/deliveries"))
		b.WaitFor("order_1")
		counted(b)
		b.Until("it is at rest", func() bool { return browsertest.JS[bool](b, "!live.busy") })
		require.True(t, browsertest.JS[bool](b, `(async () => {
			live.tag = null; // so that the whole page comes
			const at = live.at, swaps = window.swaps, answer = refresh();
			`+begin+`;
			await answer;
			return live.at === at && window.swaps === swaps;
		})()`), what)
	}
}
