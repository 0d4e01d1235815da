package main_test

import (
	"cmp"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostSteps is how many files a recipe may name: beyond that one thing is
// described too often. A message field is named by three faces: the API, Go programs, and
// what is exported.
const mostSteps = 7

// neighbours are things that were added as the recipes of CONTRIBUTING.md say,
// by the heading of each. The files of a recipe are all that name its neighbour.
var neighbours = map[string]neighbour{
	"Add a message field":    {name: `OrderingKey|ordering_key|ordering-key`},
	"Add an endpoint field":  {name: `"(\$\.)?description"|Description +string|\b[evr]\.Description`},
	"Add an API call":        {name: `\bTestEndpoint\b|"test-endpoint"`, below: "dispatcher/"},
	"Add a command":          {name: `\bnewSecret\b`, below: "cmd/hookladder/"},
	"Add a setting":          {name: `QUICK_RETRIES|\bQuickRetries\b`},
	"Add a searchable field": {name: `SubjectLike|subject_like|subject-like`, most: 12}, // of the store and the archive, for people and programs
	"Add a script":           {name: `\bcancelSrc\b|\bs(cripts)?\.cancel\b|^-- cancel:`, below: "dispatcher/internal/redisq/"},
}

// A neighbour is known by a name, in files below a folder.
type neighbour struct {
	name  string // a regular expression
	below string // empty: everywhere
	most  int    // files; 0: mostSteps
}

// fileNames finds the files of the house that a text names in backquotes.
var fileNames = regexp.MustCompile("`([a-z_0-9./]+/[a-z_0-9./]+\\.(?:go|lua|md|sh|json|txt)|[a-z]+/[a-z_0-9/]*/|Makefile|README\\.md|\\.ci/[a-z]+)`")

func TestRecipesNameEveryFileOfTheirNeighbours(t *testing.T) {
	texts, contributing := mustReadTexts(t)
	recipes := recipesOf(contributing)
	require.Equal(t, slices.Sorted(maps.Keys(neighbours)), slices.Sorted(maps.Keys(recipes)))
	for heading, files := range recipes {
		require.LessOrEqual(t, len(files), cmp.Or(neighbours[heading].most, mostSteps), "%s: %q", heading, files)
		require.ElementsMatch(t, naming(texts, neighbours[heading]), files, heading)
	}
}

// A recipe that forgets a file, or names one too many, is found.
func TestARecipeCanBeWrong(t *testing.T) {
	text := "## Recipes\n\n### Add a word\n\n1. `a/a.go` and `a/b.lua`, as `a/a.go`\n2. a test in `a/c_test.go`\n\n### Add another\n\n`a/x.go`\n\n## The rest\n`b/b.go`"
	require.Equal(t, map[string][]string{"Add a word": {"a/a.go", "a/b.lua"}, "Add another": {"a/x.go"}}, recipesOf(text))
	texts := map[string]string{
		"a/a.go": "word", "a/b.lua": "-- word", "a/c_test.go": "word", "b/d.go": "word", "a/e.go": "none", "a/queuetest/f.go": "word",
	}
	require.ElementsMatch(t, []string{"a/a.go", "a/b.lua", "b/d.go"}, naming(texts, neighbour{name: "word"}))
	require.ElementsMatch(t, []string{"a/a.go", "a/b.lua"}, naming(texts, neighbour{name: "word", below: "a/"}))
}

// What CONTRIBUTING.md tells to open is there.
func TestContributingNamesFilesThatAreThere(t *testing.T) {
	_, contributing := mustReadTexts(t)
	named := fileNames.FindAllStringSubmatch(contributing, -1)
	require.NotEmpty(t, named)
	for _, n := range named {
		_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(n[1])))
		require.NoError(t, err, "CONTRIBUTING.md names %s", n[1])
	}
}

// mustReadTexts reads all files of the house, and CONTRIBUTING.md.
func mustReadTexts(t *testing.T) (texts map[string]string, contributing string) {
	t.Helper()
	texts = map[string]string{}
	mustWalkHouse(t, filepath.Join("..", ".."), func(file, text string) { texts[file] = text })
	return texts, texts["CONTRIBUTING.md"]
}

// recipesOf finds the files that each recipe names, but tests.
func recipesOf(contributing string) map[string][]string {
	found := map[string][]string{}
	_, text, _ := strings.Cut(contributing, "\n## Recipes\n")
	if strings.HasPrefix(contributing, "## Recipes\n") {
		text = contributing
	}
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "## Recipes\n"), "\n## ")
	for _, part := range strings.Split(text, "\n### ")[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		var files []string
		for _, n := range fileNames.FindAllStringSubmatch(body, -1) {
			ext := path.Ext(n[1])
			if product := ext == ".go" || ext == ".lua"; product && !forTests(n[1]) && !slices.Contains(files, n[1]) {
				files = append(files, n[1])
			}
		}
		found[heading] = files
	}
	return found
}

// naming finds the files of the product that name a neighbour.
func naming(texts map[string]string, n neighbour) (found []string) {
	name := regexp.MustCompile(`(?m)` + n.name)
	for file, text := range texts {
		ext := path.Ext(file)
		if ext != ".go" && ext != ".lua" || forTests(file) || !strings.HasPrefix(file, n.below) {
			continue
		}
		if name.MatchString(text) {
			found = append(found, file)
		}
	}
	slices.Sort(found)
	return found
}

// forTests reports whether a file is for tests.
func forTests(file string) bool {
	return strings.HasSuffix(file, "_test.go") || strings.Contains(file, "test/") // queuetest, endpointtest, redistest
}
