package main_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostFiles is how many files a reader keeps in mind: non-test Go files of one package.
const mostFiles = 25

// budgets are the most lines that a folder's non-test Go and Lua files may have
// together. A folder that is not listed has none. Raise a number in the commit
// that needs it, and say why.
var budgets = map[string]int{
	"cmd/hookladder":                           6300, // 3,200 were planned: a third of it is help
	"cmd/hookladder/internal/bench":            3500,
	"cmd/hookladder/internal/check":            600,
	"cmd/hookladder/internal/demo":             300, // two merchants, and a path that can be mended
	"cmd/hookladder/internal/inspect":          1400,
	"cmd/hookladder/internal/keep":             600,
	"cmd/hookladder/internal/offer":            300,
	"cmd/hookladder/internal/progress":         200,
	"cmd/hookladder/internal/pull":             600,
	"cmd/hookladder/internal/samples":          300,
	"cmd/hookladder/internal/settings":         1000,
	"cmd/hookladder/internal/term":             300,
	"cmd/hookladder/internal/why":              200,
	"deploy/interop":                           200,
	"deploy/interop/sign":                      100,
	"deploy/kit":                               1100,
	"deploy/kit/browsertest":                   1100,
	"deploy/kit/pgtest":                        500,
	"deploy/kit/redistest":                     1400, // it fills the disk of a server too
	"deploy/kit/redistest/miniserver":          100,
	"dispatcher":                               4900,
	"dispatcher/access":                        300,
	"dispatcher/archive":                       900,
	"dispatcher/health":                        200,
	"dispatcher/explain":                       600,
	"dispatcher/app":                           2300, // it joins the archive, the outbox and the console too, and announces a stop
	"dispatcher/client":                        1600,
	"dispatcher/internal/archiver":             1000,
	"dispatcher/internal/callers":              1000,
	"dispatcher/internal/console":              4500, // pages of operators and of merchants
	"dispatcher/internal/console/brand":        200,
	"dispatcher/internal/console/climb":        400,
	"dispatcher/internal/console/content":      300,
	"dispatcher/internal/console/desk":         800, // what a link may see, and in which words
	"dispatcher/internal/console/draw":         600,
	"dispatcher/internal/console/needs":        300,
	"dispatcher/internal/console/form":         300,
	"dispatcher/internal/console/stand":        200,
	"dispatcher/internal/devredis":             100,
	"dispatcher/internal/egress":               3000,
	"dispatcher/internal/embedded":             900,
	"dispatcher/internal/endpoints":            2400,
	"dispatcher/internal/endpointtest":         1300,
	"dispatcher/internal/engine":               5000, // it reports to notices, and serves takers
	"dispatcher/internal/fields":               100,
	"dispatcher/internal/gauge":                500,
	"dispatcher/internal/httpapi":              6500,
	"dispatcher/internal/httpapi/apikey":       400,
	"dispatcher/internal/httpapi/events":       100,
	"dispatcher/internal/jobs":                 1200, // a job counts what it expects, and probes destinations
	"dispatcher/internal/lookup":               1100, // both orders of a list are joined
	"dispatcher/internal/metrics":              700,
	"dispatcher/internal/notices":              800,
	"dispatcher/internal/outage":               300,
	"dispatcher/internal/pgoutbox":             500,
	"dispatcher/internal/postgres":             4100,
	"dispatcher/internal/queuetest":            200,
	"dispatcher/internal/queuetest/deliveries": 5900,
	"dispatcher/internal/queuetest/lanes":      5100, // crowds of one lane too
	"dispatcher/internal/queuetest/model":      3600, // takers too
	"dispatcher/internal/queuetest/rig":        1500,
	"dispatcher/internal/queuetest/stored":     1100, // the index of tenants and subjects
	"dispatcher/internal/redisq":               6600,
	"dispatcher/internal/redisq/access":        700,
	"dispatcher/internal/redisq/access/lua":    300,
	"dispatcher/internal/redisq/buried":        400,
	"dispatcher/internal/redisq/admin":         4000, // the index of tenants and subjects
	"dispatcher/internal/redisq/admin/lua":     1200, // the index of tenants and subjects
	"dispatcher/internal/redisq/attempts":      1200, // a line names its job
	"dispatcher/internal/redisq/audit":         500,
	"dispatcher/internal/redisq/audit/lua":     100,
	"dispatcher/internal/redisq/conn":          3000, // it also notices that data were lost, and walks through keys of all partitions, and the index of tenants and subjects
	"dispatcher/internal/redisq/conn/lua":      100,
	"dispatcher/internal/redisq/cursor":        200,
	"dispatcher/internal/redisq/ended":         300,
	"dispatcher/internal/redisq/ended/lua":     200,
	"dispatcher/internal/redisq/endpoints":     1250,
	"dispatcher/internal/redisq/endpoints/lua": 200,
	"dispatcher/internal/redisq/feed":          1050,
	"dispatcher/internal/redisq/feed/lua":      200,
	"dispatcher/internal/redisq/health":        500,
	"dispatcher/internal/redisq/health/lua":    100,
	"dispatcher/internal/redisq/redisqtest":    1600, // the index of tenants and subjects
	"dispatcher/internal/redisq/jobs":          1000, // what waits is read by lane; ends and probes of jobs
	"dispatcher/internal/redisq/jobs/lua":      200,
	"dispatcher/internal/redisq/keys":          300,
	"dispatcher/internal/redisq/lua":           2900, // jobs that probe; a move shares its turn among the lanes that are due, and the index of tenants and subjects
	"dispatcher/internal/redisq/partitions":    600,
	"dispatcher/internal/redisq/probe":         800,
	"dispatcher/internal/redisq/probe/lua":     100,
	"dispatcher/internal/redisq/restore":       500,
	"dispatcher/internal/redisq/restore/lua":   200,
	"dispatcher/internal/redisq/script":        400, // constants are written as numbers
	"dispatcher/internal/redisq/shelf":         800, // the index of tenants and subjects, and their lists
	"dispatcher/internal/redisq/shelf/lua":     300, // messages are found by their subjects too
	"dispatcher/internal/redisq/start":         200,
	"dispatcher/internal/redisq/script/lua":    2100, // the index of tenants and subjects
	"dispatcher/internal/redisq/upcoming":      100,
	"dispatcher/internal/redisq/upcoming/lua":  100,
	"dispatcher/internal/restorer":             400,
	"dispatcher/internal/relay":                600,
	"dispatcher/internal/seal":                 300,
	"dispatcher/internal/tail":                 600,
	"dispatcher/internal/takers":               700,
	"dispatcher/internal/ticks":                200,
	"dispatcher/outbox":                        200,
	"dispatcher/queue":                         1500, // reads errors under a recover, and waits for overdue handlers
	"dispatcher/success":                       900,
	"dispatcher/wire":                          1100,
	"ladder":                                   500,
	"signer":                                   1400,
}

// A floor is one folder, as far as its size is concerned.
type floor struct {
	files int // non-test Go files
	lines int // of non-test Go and Lua files
}

func TestTheHouseHasNoCrowdedPackage(t *testing.T) {
	require.Empty(t, crowds(mustMeasure(t, filepath.Join("..", ".."))))
}

func TestTheHouseKeepsItsBudgets(t *testing.T) {
	floors := mustMeasure(t, filepath.Join("..", ".."))
	require.Empty(t, overspent(floors, budgets), "if the growth is worth it, paste these lines into budgets")
	require.Empty(t, stale(slices.Sorted(maps.Keys(budgets)), floors), "these folders have no code: take them out of budgets")
}

func TestTheSizesOfTheHouseCanBeExceeded(t *testing.T) {
	floors := map[string]floor{"a": {files: mostFiles + 1, lines: 100}, "b": {files: mostFiles, lines: 100}, "c": {files: 1, lines: 1}}
	require.Equal(t, []string{"a: 26 files, at most 25"}, crowds(floors))
	require.Equal(t, []string{"\n\"b\": 100,", "\n\"c\": 100,"}, overspent(floors, map[string]int{"a": 100, "b": 99}))
}

// crowds names the folders of too many files.
func crowds(floors map[string]floor) (found []string) {
	for _, folder := range slices.Sorted(maps.Keys(floors)) {
		if files := floors[folder].files; files > mostFiles {
			found = append(found, fmt.Sprintf("%s: %d files, at most %d", folder, files, mostFiles))
		}
	}
	return found
}

// overspent lists the folders of too many lines, as a line of budgets that
// would allow them: the next hundred.
func overspent(floors map[string]floor, most map[string]int) (found []string) {
	for _, folder := range slices.Sorted(maps.Keys(floors)) {
		if lines := floors[folder].lines; lines > most[folder] {
			found = append(found, fmt.Sprintf("\n%q: %d,", folder, (lines+99)/100*100))
		}
	}
	return found
}

// mustMeasure measures every folder below top that holds non-test Go or Lua.
func mustMeasure(t *testing.T, top string) map[string]floor {
	t.Helper()
	floors := map[string]floor{}
	mustWalkHouse(t, top, func(file, text string) {
		if ext := path.Ext(file); ext != ".go" && ext != ".lua" || strings.HasSuffix(file, "_test.go") {
			return
		}
		f := floors[path.Dir(file)]
		f.lines += strings.Count(text, "\n")
		if path.Ext(file) == ".go" {
			f.files++
		}
		floors[path.Dir(file)] = f
	})
	return floors
}

// isModule reports whether a folder is a module of its own, which is no part of the house.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// mustWalkHouse hands every file of the house to visit, with its path below top.
func mustWalkHouse(t *testing.T, top string, visit func(file, text string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci"
		if d.IsDir() && file != top && (hidden || d.Name() == "testdata" || d.Name() == "bin" || isModule(file)) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(below), string(text))
		return nil
	}))
}
