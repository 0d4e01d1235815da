package browser_test

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
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

// checkSchemes checks a page in the light scheme on a desktop and in the dark scheme on a
// phone. People who see little or nothing can use it, and it is not wider than the window.
// A run with pictures draws the other two combinations too.
func checkSchemes(t *testing.T, b *browsertest.Tab, name string) {
	t.Helper()
	b.Desktop()
	require.Empty(t, b.Sideways(), name)
	b.Scheme("light")
	require.True(t, b.Has("searchbox", "Search"), "%s has the search", name)
	require.LessOrEqual(t, browsertest.JS[int](b, primaries), 1, "%s has one primary button", name)
	require.Zero(t, browsertest.JS[int](b, `document.querySelectorAll("main #live").length`), "the lamp is at the foot of the menu")
	require.Empty(t, b.Axe(), "%s, light", name)
	b.Shot(name)
	b.Phone(390)
	require.True(t, b.Has("searchbox", "Search"), "%s-390 has the search", name)
	require.Empty(t, b.Sideways(), name+"-390")
	b.Shot(name + "-390")
	b.Scheme("dark")
	require.Empty(t, b.Axe(), "%s-390, dark", name)
	b.Shot(name + "-390-dark")
	b.Desktop()
	b.Shot(name + "-dark")
	b.Scheme("light")
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
