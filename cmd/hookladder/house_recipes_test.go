//go:build !race

package main_test

import (
	"cmp"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostSteps is how many files and folders a recipe may name: beyond that one thing is
// described too often. Three parts of the program name a message field: the API, Go programs and
// the export.
const mostSteps = 9

// neighbours are things that were added as the recipes of CONTRIBUTING.md say,
// by the heading of each. A recipe names all files that name its neighbour, or the folder of
// such files. One that names a folder also says how many files there are at most.
var neighbours = map[string]neighbour{
	"Add a message field":    {name: `OrderingKey|ordering_key|ordering-key`},
	"Add an endpoint field":  {name: `"(\$\.)?description"|Description +string|\b[evr]\.Description`},
	"Add an API call":        {name: `\bTestEndpoint\b|"test-endpoint"`, below: "dispatcher/"},
	"Add a command":          {name: `\bnewSecret\b`, below: "cmd/hookladder/"},
	"Add a setting":          {name: `QUICK_RETRIES|\bQuickRetries\b`},
	"Add a searchable field": {name: `\bSubjects?\b|\bsubject_like\b|["']subject["']|\bsubject text\b|json:"subject`, most: 20}, // by all of its folders
	"Add a word":             {name: `\bReasonRejected\b|case "rejected"`},
	"Add a script":           {name: `\bcancelSrc\b|\bs(cripts)?\.cancel\b|^-- cancel:`, below: "dispatcher/internal/redisq/"},
}

// A neighbour is known by a name, in files below a folder.
type neighbour struct {
	name  string // a regular expression
	below string // empty: everywhere
	most  int    // files; 0: mostSteps
}

// fileNames finds the files of the house that a text names in backquotes.
var fileNames = regexp.MustCompile("`([a-z_0-9./]+/[a-z_0-9./]+\\.(?:go|lua|sql|html|js|md|sh|json|txt)|[a-z]+/[a-z_0-9/]*/|Makefile|README\\.md|\\.ci/[a-z]+)`")

func TestRecipesOfTheHouseNameEveryFileOfTheirNeighbours(t *testing.T) {
	texts, contributing := mustReadTexts(t)
	recipes := recipesOf(contributing)
	require.Equal(t, slices.Sorted(maps.Keys(neighbours)), slices.Sorted(maps.Keys(recipes)))
	for heading, files := range recipes {
		require.LessOrEqual(t, len(files), cmp.Or(neighbours[heading].most, mostSteps), "%s: %q", heading, files)
		found := naming(texts, neighbours[heading])
		require.ElementsMatch(t, byFolder(found, files), files, heading)
		if slices.ContainsFunc(files, isFolder) {
			stated, err := strconv.Atoi(statedFiles.FindStringSubmatch(contributing[strings.Index(contributing, "### "+heading):])[1])
			require.NoError(t, err)
			require.InDelta(t, stated, len(found), 3, "%s: say how many files these are: %d", heading, len(found))
		}
	}
}

// statedFiles finds the number of files that a recipe with folders states.
var statedFiles = regexp.MustCompile(`\b([0-9]+) files\b`)

func isFolder(name string) bool { return strings.HasSuffix(name, "/") }

// byFolder replaces the files of named folders by these folders.
func byFolder(found, named []string) (list []string) {
	for _, file := range found {
		in := slices.IndexFunc(named, func(n string) bool { return isFolder(n) && strings.HasPrefix(file, n) })
		switch {
		case in < 0:
			list = append(list, file)
		case !slices.Contains(list, named[in]):
			list = append(list, named[in])
		}
	}
	return list
}

// isProduct reports whether a file is read for the names of neighbours.
func isProduct(file string) bool {
	return slices.Contains([]string{".go", ".lua", ".sql", ".html", ".js"}, path.Ext(file)) && !forTests(file)
}

// A recipe that forgets a file, or names one too many, is found.
func TestTheHouseFindsAWrongRecipe(t *testing.T) {
	text := "## Recipes\n\n### Add a word\n\n1. `a/a.go` and `a/b.lua`, as `a/a.go`\n2. a test in `a/c_test.go`\n\n### Add another\n\n`a/x.go`\n\n## The rest\n`b/b.go`"
	require.Equal(t, map[string][]string{"Add a word": {"a/a.go", "a/b.lua"}, "Add another": {"a/x.go"}}, recipesOf(text))
	texts := map[string]string{
		"a/a.go": "word", "a/b.lua": "-- word", "a/c_test.go": "word", "b/d.go": "word", "a/e.go": "none", "a/queuetest/f.go": "word",
	}
	require.ElementsMatch(t, []string{"a/a.go", "a/b.lua", "b/d.go"}, naming(texts, neighbour{name: "word"}))
	require.ElementsMatch(t, []string{"a/a.go", "a/b.lua"}, naming(texts, neighbour{name: "word", below: "a/"}))
	require.Equal(t, []string{"a/b/", "c/d.go"}, byFolder([]string{"a/b/c.go", "a/b/d.sql", "c/d.go"}, []string{"a/b/", "e/f/"}))
}

// What CONTRIBUTING.md tells to open is there.
func TestContributingNamesFilesOfTheHouseThatExist(t *testing.T) {
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
	mustWalkHouse(t, func(file, text string) { texts[file] = text })
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
			folder := isFolder(n[1]) && strings.Count(n[1], "/") > 1 && !forTests(n[1])
			if (folder || isProduct(n[1])) && !slices.Contains(files, n[1]) {
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
		if !isProduct(file) || strings.HasPrefix(file, "deploy/") || !strings.HasPrefix(file, n.below) {
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
