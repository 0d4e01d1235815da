package browser_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// An outage at night: what fails and why, where, and one button that tries it again.
func TestNowNamesTheCauseAndTriesItAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var failing []string
	for n := range 3 {
		failing = append(failing, w.endpoint(wire.Endpoint{UID: fmt.Sprint("shop-", n), URL: w.at("fail/acme"), Tenant: "acme"}))
	}
	w.endpoint(wire.Endpoint{UID: "works", URL: w.at("ok/acme"), Tenant: "acme"})
	b := w.tab(t)
	b.Open(w.page("/console/"))
	b.WaitFor("Nothing needs you.", "No destination fails")
	for n, e := range failing {
		w.publish(wire.Message{ID: fmt.Sprint("order_", n), Endpoint: e, Tenant: "acme"})
		w.twice(fmt.Sprint("order_", n))
	}
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		b.Open(w.page("/console/"))
		b.WaitFor("3 endpoints fail", "all with the same error", "3 endpoints: answered 503", "shop-0", "shop-1", "shop-2")
		b.WaitGone("Nothing needs you", "All endpoints answer")
		require.Empty(t, b.Sideways())
		require.Less(t, browsertest.JS[int](b, top), s.top, "the first cause is in view")
		b.Shot("now-causes-" + s.name)
		b.Click("link", "See the 3")
		b.WaitFor("What fails: answered 503", "shop-0", "shop-1", "shop-2", "503 the shop is closed")
		b.WaitGone("works")
		require.Empty(t, b.Sideways())
		require.Empty(t, b.Axe())
		b.Shot("failing-" + s.name)
		b.Click("link", "shop-1")
		b.WaitFor("Attempts fail: answered 503", "Try again now")
		b.Shot("endpoint-cause-" + s.name)
		b.Click("button", "Try again now")
		b.WaitURL("/console/jobs/")
		b.WaitFor("One first", "shop-1", "The attempt failed", "503") // by itself
		b.Shot("job-first-failed-" + s.name)
		require.Empty(t, b.Sideways())
		require.Empty(t, b.Axe())
	})
}

// top is where the first cause begins.
const top = `Math.round(document.querySelector("#causes").getBoundingClientRect().top)`
