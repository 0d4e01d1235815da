package browser_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestTheTailShowsAttemptsAsTheyHappen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(wire.Message{ID: "earlier", URL: w.at("ok")})
	w.until("earlier", "delivered")
	b := w.tab(t)
	b.Open(w.page("/console/"))
	b.Press("g", "t")
	b.WaitURL("/console/tail")
	b.WaitFor("earlier")
	w.publish(wire.Message{ID: "live_1", URL: w.at("ok"), Tenant: "acme"})
	b.WaitFor("live_1")
	w.publish(wire.Message{ID: "live_2", URL: w.at("fail")})
	b.WaitFor("live_2", "503")
	require.Equal(t, "live_2", b.JSText(`document.querySelector("#tail tbody a").textContent`), "the newest is on top")
	b.Shot("console-tail-live")

	b.Press("p")
	b.WaitFor("Paused")
	w.publish(wire.Message{ID: "passed", URL: w.at("ok")})
	b.WaitFor("passed by")
	require.NotContains(t, b.In("table", "").Text(), "passed")
	b.Press("p")
	b.In("table", "").WaitFor("passed")
	b.WaitGone("passed by")

	b.Allow("503", "ERR_INCOMPLETE")
	w.redis.Restart()
	w.publish(wire.Message{ID: "after", URL: w.at("ok")})
	b.WaitFor("after")

	b.Click("link", "delivered")
	b.WaitURL("outcome=delivered")
	b.WaitFor("live_1")
	b.WaitGone("live_2")
	b.Fill("searchbox", "Tenant", "acme")
	b.Press("Enter")
	b.WaitURL("tenant=acme")
	b.WaitGone("earlier")
	b.Click("link", "live_1")
	b.WaitURL("/console/messages/live_1")
}

// The tail and the lamp are in the reader's zone, or in UTC, and name it.
func TestTheTailAndTheLampAreInTheReadersZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(wire.Message{ID: "before", URL: w.at("ok")})
	w.until("before", "delivered")
	b := w.tab(t)
	b.Zone("Asia/Kolkata") // half an hour off
	b.Open(w.page("/console/tail"))
	w.publish(wire.Message{ID: "live_1", URL: w.at("ok")})
	b.WaitFor("live_1", "Times are GMT+5:30")
	clocks := func(ids ...string) (all []string) {
		for _, id := range ids {
			view, err := w.Message(t.Context(), id)
			require.NoError(t, err)
			all = append(all, view.Deliveries[0].History[0].At.UTC().Format("15:04:05.000"))
		}
		return all
	}
	there := func(utc string) string {
		at, err := time.Parse("15:04:05.000", utc)
		require.NoError(t, err)
		return at.Add(5*time.Hour + 30*time.Minute).Format("15:04:05.000")
	}
	const title = `document.getElementById("live").title`
	for _, utc := range clocks("before", "live_1") {
		b.WaitFor(there(utc))
	}
	require.Contains(t, b.JSText(title), "GMT+5:30")
	b.Click("radio", "UTC")
	b.WaitFor("Times are UTC")
	b.WaitFor(clocks("before", "live_1")...)
	require.Contains(t, b.JSText(title), "UTC")
	browsertest.JS[bool](b, `live.at -= 60000, live.trouble = "server", lamp(), true`)
	b.WaitFor("UTC: the server is not reached")
	require.Empty(t, b.Axe())
	plain := w.tab(t)
	plain.NoScript()
	plain.Open(w.page("/console/tail"))
	plain.WaitFor("Times are UTC")
	plain.WaitFor(clocks("before")...)
}

func TestTheTailIsReadWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(wire.Message{ID: "before", URL: w.at("ok")})
	w.until("before", "delivered")
	b := w.tab(t)
	b.NoScript()
	b.Open(w.page("/console/tail"))
	b.WaitFor("before", "newest 50 attempts")
	w.publish(wire.Message{ID: "then", URL: w.at("ok")})
	w.until("then", "delivered")
	b.Click("link", "Reload")
	b.WaitFor("then")
}

func TestTheTailKeepsAPersonsPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"kept_a", "kept_b", "kept_c"} {
		w.publish(wire.Message{ID: id, URL: w.at("ok")})
		w.until(id, "delivered")
	}
	b := w.tab(t)
	b.Open(w.page("/console/tail"))
	b.Focus("link", "kept_b")
	w.publish(wire.Message{ID: "kept_d", URL: w.at("ok")})
	b.WaitFor("kept_d")
	require.Equal(t, "kept_b", b.Focused().Name)
	browsertest.JS[bool](b, "getSelection().selectAllChildren(document.querySelector('h1')), true")
	w.publish(wire.Message{ID: "kept_e", URL: w.at("ok")})
	w.until("kept_e", "delivered")
	require.Equal(t, "kept_d", b.JSText(`document.querySelector("#tail tbody a").textContent`), "what is read is not moved")
	browsertest.JS[bool](b, "getSelection().removeAllRanges(), true")
	b.In("table", "").WaitFor("kept_e")
}

// What is logged after the page was made, and before its stream begins, is shown.
func TestTheTailHasNoGapBetweenThePageAndItsStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	b.First(`(() => {
		const real = window.fetch, opened = new Promise((open) => { window.begin = open; });
		window.fetch = async (...a) => {
			await opened;
			return window.pageFails && !a[0].includes("/events") ? new Response("", {status: 503}) : real(...a);
		};
	})()`)
	b.Open(w.page("/console/tail"))
	b.WaitFor("Nothing was attempted yet")
	w.publish(wire.Message{ID: "between", URL: w.at("ok")})
	w.until("between", "delivered")
	browsertest.JS[bool](b, "window.begin(), true")
	b.In("table", "").WaitFor("between")
	w.publish(wire.Message{ID: "live_1", URL: w.at("ok")})
	b.In("table", "").WaitFor("live_1")
	require.Equal(t, []string{"live_1", "between"}, browsertest.JS[[]string](b, `[...document.querySelectorAll("#tail tbody a")].map((a) => a.textContent)`), "each once, the newest on top")
	require.NotContains(t, b.Text(), "may be missing")

	b.Reload()
	b.WaitFor("live_1")
	for n := range 50 { // all that a page has
		id := fmt.Sprint("many_", n)
		w.publish(wire.Message{ID: id, URL: w.at("ok")})
		w.until(id, "delivered")
	}
	browsertest.JS[bool](b, "window.begin(), true")
	b.In("table", "").WaitFor("many_0", "many_49", "there were more than a page has", "live_1")

	b.Reload()
	browsertest.JS[bool](b, "window.pageFails = true, window.begin(), true")
	b.In("table", "").WaitFor("the page could not be read again")
	w.publish(wire.Message{ID: "live_2", URL: w.at("ok")})
	b.In("table", "").WaitFor("live_2")
}

// An attempt is logged when it ends, which may be after those that began later.
func TestTheTailShowsAnAttemptThatBeganBeforeThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, end := make(chan struct{}), make(chan struct{})
	w.answers(func(_ http.ResponseWriter, path string) bool {
		if path != "late" {
			return false
		}
		close(began)
		<-end
		return true
	})
	w.publish(wire.Message{ID: "late", URL: w.at("late")})
	<-began
	w.publish(wire.Message{ID: "before", URL: w.at("ok")})
	w.until("before", "delivered")
	b := w.tab(t)
	b.Open(w.page("/console/tail"))
	b.In("table", "").WaitFor("before")
	close(end)
	b.In("table", "").WaitFor("late")
}

// The connection of a computer that slept may be gone without a word.
func TestATailThatHearsNothingConnectsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	b.Open(w.page("/console/tail"))
	w.publish(wire.Message{ID: "before", URL: w.at("ok")})
	b.In("table", "").WaitFor("before")
	counted(b)
	browsertest.JS[bool](b, "live.fresh = 300, true") // the server speaks each 15 s
	w.publish(wire.Message{ID: "last", URL: w.at("ok")})
	b.Until("it connects again", func() bool { return fetches(b) > 0 })
	browsertest.JS[bool](b, "live.fresh = 35000, true")
	w.publish(wire.Message{ID: "after", URL: w.at("ok")})
	b.In("table", "").WaitFor("last", "after")
	b.WaitFor("Live")
}
