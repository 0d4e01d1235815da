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

// everyLook looks at a page in both schemes and both widths: people who can't see or not
// well can use it, nothing is to be scrolled sideways, and a picture is taken.
func everyLook(t *testing.T, b *browsertest.Tab, name string) {
	t.Helper()
	for _, width := range []string{"", "-390"} {
		if width == "" {
			b.Desktop()
		} else {
			b.Phone(390)
		}
		require.Empty(t, b.Sideways(), name+width)
		for _, scheme := range []string{"light", "dark"} {
			b.Scheme(scheme)
			require.Empty(t, b.Axe(), "%s%s, %s", name, width, scheme)
			b.Shot(name + width + map[string]string{"light": "", "dark": "-dark"}[scheme])
		}
	}
	b.Desktop()
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
	shapes := crawl(t, b, w.page("/console/"), func(path string) { everyLook(t, b, pictured(path)) })
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
