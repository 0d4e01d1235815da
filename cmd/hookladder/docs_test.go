package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documents are the Markdown files of the repository.
func documents(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "deploy/*.md", "deploy/docs/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	return files
}

var (
	markdownLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingLine    = regexp.MustCompile("(?m)^#{1,6} (.+)$")
	notInAnAnchor  = regexp.MustCompile(`[^\pL\pN _-]`)
	explicitAnchor = regexp.MustCompile(`<a id="([^"]+)">`)
	fencedBlock    = regexp.MustCompile("(?s)\n```.*?\n```")
)

// anchors returns the anchors that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	text = fencedBlock.ReplaceAllString(text, "")
	for _, m := range headingLine.FindAllStringSubmatch(text, -1) {
		slug := notInAnAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(slug, " ", "-")] = true
	}
	for _, m := range explicitAnchor.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// deadLinks lists the relative links of a document that lead to no file or heading.
func deadLinks(t testing.TB, file, text string) (dead []string) {
	t.Helper()
	for _, m := range markdownLink.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		link := m[1]
		if strings.Contains(link, "://") {
			continue
		}
		path, anchor, _ := strings.Cut(link, "#")
		target := text
		if path != "" {
			to := filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
			info, err := os.Stat(to)
			if err != nil {
				dead = append(dead, link)
				continue
			}
			if info.IsDir() || filepath.Ext(to) != ".md" {
				continue
			}
			read, err := os.ReadFile(to)
			require.NoError(t, err)
			target = string(read)
		}
		if anchor != "" && !anchors(target)[anchor] {
			dead = append(dead, link)
		}
	}
	return dead
}

func TestTheLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Empty(t, deadLinks(t, file, string(text)), file)
	}
}

func TestADeadLinkIsFound(t *testing.T) {
	file := filepath.Join("..", "..", "README.md")
	text := "# A `word`: what's new\n[a](#a-word-whats-new) [b](#b) [c](deploy/README.md) [d](deploy/none.md) [e](deploy/README.md#none) [f](https://a.example/#x)\n```\n[g](#g)\n```\n"
	require.Equal(t, []string{"#b", "deploy/none.md", "deploy/README.md#none"}, deadLinks(t, file, text))
}
