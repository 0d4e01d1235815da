package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pageBlock is what a page shows between two fences.
type pageBlock struct {
	line     int    // of its first fence
	language string // empty: output, or commands with their output
	text     string
	mark     pageMark
}

// pageMark is a comment on the line before a block. Readers do not see it. It says that the
// block is a drawing, or which test runs it.
type pageMark struct {
	drawing bool
	runBy   string
}

var markLine = regexp.MustCompile(`^<!-- (?:(a drawing)|run by: (.+)) -->$`)

// blocksOf returns the blocks of a page in order.
func blocksOf(page string) (blocks []pageBlock) {
	before, open := "", false
	for n, line := range strings.Split(page, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open:
			open = false
		case isFence:
			b := pageBlock{line: n + 1, language: fence}
			if m := markLine.FindStringSubmatch(before); m != nil {
				b.mark = pageMark{drawing: m[1] != "", runBy: m[2]}
			}
			blocks, open = append(blocks, b), true
		case open:
			blocks[len(blocks)-1].text += line + "\n"
		}
		before = line
	}
	return blocks
}

// top is the folder of the repository.
func top(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return dir
}

// pageFiles are the pages for users, by their path in the repository.
func pageFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	pages := []string{"README.md", "deploy/README.md", "deploy/chart/README.md"}
	for _, f := range files {
		pages = append(pages, "deploy/docs/"+f)
	}
	return pages
}

func mustReadPage(t testing.TB, page string) []pageBlock {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top(t), filepath.FromSlash(page)))
	require.NoError(t, err)
	return blocksOf(string(text))
}

// covered returns an error if a drawing has a language, or if a block names a test that does
// not read the page.
func covered(root, page string, b pageBlock) error {
	if b.mark.drawing && b.language != "" {
		return fmt.Errorf("%s:%d: this is code, not a drawing", page, b.line)
	}
	if b.mark.runBy == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(b.mark.runBy)))
	if err != nil {
		return fmt.Errorf("%s:%d: %w", page, b.line, err)
	}
	if !strings.Contains(string(text), `"`+filepath.Base(page)+`"`) {
		return fmt.Errorf("%s:%d: %s does not read this page", page, b.line, b.mark.runBy)
	}
	return nil
}

func TestTheTestsThatPagesNameReadThesePages(t *testing.T) {
	for _, page := range pageFiles(t) {
		for _, b := range mustReadPage(t, page) {
			require.NoError(t, covered(top(t), page, b))
		}
	}
}

func TestBlocksAreFoundWithTheirMarks(t *testing.T) {
	blocks := blocksOf("a\n```sh\nls\n```\n<!-- a drawing -->\n```\nb\n\n```\n<!-- run by: none_test.go -->\n```go\n```\n")
	require.Equal(t, []pageBlock{
		{line: 2, language: "sh", text: "ls\n"},
		{line: 6, text: "b\n\n", mark: pageMark{drawing: true}},
		{line: 11, language: "go", mark: pageMark{runBy: "none_test.go"}},
	}, blocks)
	require.NoError(t, covered(top(t), "README.md", blocks[1]))
	require.Error(t, covered(top(t), "README.md", pageBlock{language: "sh", mark: pageMark{drawing: true}}))
	require.Error(t, covered(top(t), "README.md", blocks[2]))
	require.Error(t, covered(top(t), "README.md", pageBlock{mark: pageMark{runBy: "go.mod"}}))
}
