package browser_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// idOf finds the parts of a path that name one of many.
var idOf = regexp.MustCompile(`/[^/]*[0-9_][^/]*`)

// shape is a path without the ids that are in it: one of each is looked at.
func shape(path string) string { return idOf.ReplaceAllString(path, "/*") }

// crawl opens a page, and all pages that it leads to, one of each shape, and hands them
// to visit. It answers the shapes.
func crawl(t *testing.T, b *browsertest.Tab, start string, visit func(path string)) (shapes []string) {
	t.Helper()
	seen := map[string]bool{}
	queue := []string{start}
	for len(queue) > 0 {
		address := queue[0]
		queue = queue[1:]
		u, err := url.Parse(address)
		require.NoError(t, err)
		if seen[shape(u.Path)] {
			continue
		}
		seen[shape(u.Path)] = true
		shapes = append(shapes, shape(u.Path))
		b.Open(address)
		var links []string
		require.NoError(t, json.Unmarshal([]byte(b.JSText(`JSON.stringify([...document.querySelectorAll("a[href]:not([download])")].map(a => a.href))`)), &links))
		visit(u.Path)
		for _, l := range links {
			to, err := url.Parse(l)
			require.NoError(t, err, l)
			if to.Host == u.Host && (strings.HasPrefix(to.Path, "/console/") || strings.HasPrefix(to.Path, "/link/")) {
				queue = append(queue, l)
			}
		}
	}
	return shapes
}

// primaries is how many prominent buttons are seen.
const primaries = `[...document.querySelectorAll("main .button.primary")].filter(e => e.checkVisibility()).length`

// cold is how many bytes a browser without a cache reads of a page and of what it loads. The pictures of a document are
// not counted, because they are what it shows.
const cold = `performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource").filter((e) => !["fetch", "img"].includes(e.initiatorType))).reduce((sum, e) => sum + e.encodedBodySize, 0)`

// checkSchemes checks a page in both windows, in the light and in the dark scheme. People who see little or
// nothing can use it, and it is not wider than the window.
func checkSchemes(t *testing.T, b *browsertest.Tab, name string) {
	t.Helper()
	bytes := browsertest.JS[int](b, cold)
	require.Greater(t, bytes, 20_000, "%s is measured with its assets", name)
	require.LessOrEqual(t, bytes, 120_000, name)
	require.Zero(t, browsertest.JS[int](b, `document.querySelectorAll("main #live").length`), "the lamp is at the foot of the menu")
	for _, s := range slices.Backward(screens) { // a phone's first, so that it ends as it began
		s.on(b)
		require.True(t, b.Has("searchbox", "Search"), "%s-%s has the search", name, s.name)
		require.LessOrEqual(t, browsertest.JS[int](b, primaries), 1, "%s-%s has one primary button", name, s.name)
		require.Empty(t, b.Sideways(), "%s-%s", name, s.name)
		for _, scheme := range []string{"dark", "light"} {
			b.Scheme(scheme)
			look := b.Axe
			if scheme == "dark" {
				look = b.Contrast // the rest does not depend on colours
			}
			require.Empty(t, look(), "%s-%s-%s", name, s.name, scheme)
			b.Shot(fmt.Sprint(name, "-", s.name, "-", scheme))
		}
	}
	if *browsertest.Pictures {
		b.Wide()
		b.Shot(name + "-1920-light")
		b.Desktop()
	}
	require.Empty(t, b.Problems(), name)
}

// pictured is the name of a page's pictures.
func pictured(path string) string {
	return strings.NewReplacer("/", "-", "*", "one").Replace(strings.Trim(shape(path), "/"))
}

func TestEveryPageCanBeReadByEverybody(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	shapes := crawl(t, b, w.page("/console/"), func(path string) { checkSchemes(t, b, pictured(path)) })
	require.Subset(t, shapes, []string{"/console/"})
}

func TestEveryPageIsReadWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	b.NoScript()
	crawl(t, b, w.page("/console/"), func(path string) {
		require.Empty(t, b.Problems(), path)
		require.Empty(t, b.Sideways(), path)
	})
}

// emptyLists are the links of a page to lists and previews that have nothing, though the link has a number, or that do not say
// what they looked for.
const emptyLists = `(async () => {
	const wrong = [], links = new Map();
	for (const a of document.querySelectorAll("a[href]:not([download])")) {
		const to = new URL(a.href);
		if (to.origin === location.origin && /^\/(console|link)\/(deliveries|dead|failing|endpoints|tail|lanes|audit|jobs|jobs\/new)$/.test(to.pathname)) {
			const n = Number((a.textContent.match(/\d[\d,]*/) || ["0"])[0].replaceAll(",", ""));
			links.set(to.pathname + to.search, Math.max(n, links.get(to.pathname + to.search) || 0));
		}
	}
	for (const [to, promised] of links) {
		let answer = await fetch(to);
		for (let again = 0; again < 5 && answer.status === 503; again++) answer = await fetch(to); // it took too long
		const main = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
		const rows = main.querySelectorAll("tbody tr").length, says = main.textContent;
		const goesOn = says.includes("The list goes on.");
		if (!answer.ok) wrong.push(answer.status + " " + to);
		else if (to.includes("/jobs/new")) { if (/\b0 deliveries|nothing to do/.test(says)) wrong.push("nothing to do: " + to); }
		else if (rows === 0 && promised > 0 && !goesOn) wrong.push(promised + " promised: " + to);
		else if (rows === 0 && !main.querySelector(".empty")) wrong.push("no sentence: " + to);
	}
	return wrong.concat(links.size ? [] : ["no link"]).join("\n");
})()`

// In an outage no link of a page leads to a list with nothing in it, or to nothing to do.
func TestNoLinkOfANightLeadsToNothing(t *testing.T) {
	t.Parallel()
	port, err := kit.FreePort()
	require.NoError(t, err)
	w := newNight(t, night{tenants: 12, broken: 9, waiting: 90, dead: 18}.large(), keys, "LISTEN="+kit.Loopback(port), "PUBLIC_URL=http://"+kit.Loopback(port))
	link, err := w.CreateLink(t.Context(), wire.LinkRequest{Tenant: "tenant-0", Manage: true})
	require.NoError(t, err)
	b := w.tab(t)
	w.signIn(b, adminKey)
	id := func(uid string) string {
		e, err := w.Endpoint(t.Context(), uid)
		require.NoError(t, err)
		return e.ID
	}
	broken := id("tenant-0:stock")
	for _, page := range []string{
		"", "failing", "endpoints", "endpoints?state=open", "endpoints/" + broken, "endpoints/" + id("tenant-2:stock"), "endpoints/" + id("tenant-0:orders"),
		"deliveries", "deliveries?tenant=tenant-0", "deliveries?destination=" + broken, "dead", "lanes", "jobs", "system", "messages/waits_0", "messages/dead_0",
	} {
		b.Open(w.page("/console/" + page))
		require.Empty(t, b.JSText(emptyLists), page)
	}
	b.Open(link.URL)
	b.Click("button", "Open")
	b.WaitHas("heading", "Overview")
	for _, page := range []string{"", "deliveries", "endpoints", "endpoints/" + broken, "messages/waits_0", "messages/dead_0"} {
		b.Open(w.page("/link/" + page))
		require.Empty(t, b.JSText(emptyLists), page)
	}
}
