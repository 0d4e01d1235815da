package browser_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
)

// mostStops is how often Tab is pressed on a page until the focus has gone round.
const mostStops = 400

// stops goes through a page by Tab alone, until the focus leaves it. Each stop has to be
// seen, and to have a name.
func stops(t *testing.T, b *browsertest.Tab, page string) (found []browsertest.Focused) {
	t.Helper()
	for range mostStops {
		b.Press("Tab")
		f := b.Focused()
		if f == (browsertest.Focused{}) {
			return found
		}
		require.True(t, f.Ring, "%s: one can't see that the focus is on %s", page, f.HTML)
		require.NotEmpty(t, f.Name, "%s: %s has no name", page, f.HTML)
		found = append(found, f)
	}
	require.Fail(t, "the focus is caught", "%s: %v", page, found[len(found)-5:])
	return nil
}

// reachable is how many things of a page take the focus by the keyboard: of a group of
// radio buttons one does.
const reachable = `(() => {
	const seen = new Set();
	return [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => {
		if (e.disabled || e.tabIndex < 0 || !e.checkVisibility({visibilityProperty: true})) return false;
		if (e.type !== "radio") return true;
		if (seen.has(e.name)) return false;
		seen.add(e.name);
		return true;
	}).length;
})()`

func TestEverythingIsReachedByTheKeyboard(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	crawl(t, b, w.page("/console/"), func(path string) {
		b.Press("p") // what comes in live moves the stops
		want := browsertest.JS[int](b, reachable)
		require.GreaterOrEqual(t, len(stops(t, b, path)), want, path)
	})
}

func TestTheHelpOpensAndClosesByKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	b.Open(w.page("/console/"))
	b.Focus("link", "Now")
	b.Press("?")
	b.WaitHas("dialog", "Keys")
	require.Equal(t, "Close", b.Focused().Name, "the focus is in the dialog")
	require.Empty(t, b.Axe())
	b.Shot("help")
	b.Press("g", "x")
	require.True(t, b.Has("dialog", "Keys"), "no key works behind a dialog")
	b.Press("Escape")
	b.Until("it is closed", func() bool { return !b.Has("dialog", "Keys") })
	require.Equal(t, "Now", b.Focused().Name, "the focus is where it was")

	b.Press("p")
	b.WaitFor("Paused")
	b.Press("p")
	b.WaitFor("Live")
}

func TestThePersonsChoiceOfColoursIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	background := func() string { return b.JSText("getComputedStyle(document.body).backgroundColor") }
	b.Open(w.page("/console/"))
	light := background()
	b.Click("radio", "Dark")
	dark := background()
	require.NotEqual(t, light, dark)
	b.Reload()
	require.Equal(t, dark, background())
	require.Equal(t, "true", b.Value("radio", "Dark"))
	b.Scheme("dark")
	b.Click("radio", "Light")
	require.Equal(t, light, background())
	b.Click("radio", "Auto")
	require.Equal(t, dark, background())
}
