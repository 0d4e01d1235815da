package console_test

import (
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

func TestEachPageHasASectionOfTheDocuments(t *testing.T) {
	without := []string{"error", "away", "again", "link"} // errors, a redirect, and the door of a link
	names, err := fs.Glob(console.Files, "templates/[^_]*.html")
	require.NoError(t, err)
	var templates []string
	for _, name := range names {
		templates = append(templates, strings.TrimSuffix(path.Base(name), ".html"))
	}
	both := maps.Clone(console.Subjects)
	maps.Copy(both, console.MerchantSubjects)
	require.ElementsMatch(t, templates, append(slices.Collect(maps.Keys(both)), without...))

	notInAnchor := regexp.MustCompile(`[^a-z0-9 _-]`)
	for _, subject := range slices.AppendSeq(slices.Collect(maps.Values(console.Subjects)), maps.Values(console.MerchantSubjects)) {
		page, anchor, _ := strings.Cut(subject.Section, "#")
		text, err := deploy.Documents.ReadFile("docs/" + page + ".md")
		require.NoError(t, err, subject.Section)
		found := anchor == ""
		for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
			found = found || strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor
		}
		require.True(t, found, subject.Section)
	}
}

func TestPagesLeadToTheDocuments(t *testing.T) {
	_, ask := newTestPages(t, map[string]string{
		"GET /v1/messages/order_17": oneMessage,
		"GET /v1/lanes":             `{"data":[],"next_cursor":null}`,
		"GET /v1/endpoints/ep_1":    `{"id":"ep_1","url":"https://api.shop.example/hooks","signature":"stripe","state":"active"}`,
	})
	w := ask(get("/console/messages/order_17"))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `<a class="docs-link" href="/docs/">Documentation</a>`)
	require.Contains(t, w.Body.String(), `Documentation: <a href="/docs/find#show-one-message">`)
}
