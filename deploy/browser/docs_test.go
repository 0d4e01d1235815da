package browser_test

import (
	"strings"
	"testing"
)

func TestTheDocumentsCanBeReadByEverybody(t *testing.T) {
	t.Parallel()
	w := newFilled(t)
	b := w.tab(t)
	for _, path := range []string{"/docs/", "/docs/settings", "/docs/operate", "/docs/problems", "/docs/search?q=redis"} {
		b.Open(w.page(path))
		name, _, _ := strings.Cut(path, "?")
		checkSchemes(t, b, pictured(name))
	}
}
