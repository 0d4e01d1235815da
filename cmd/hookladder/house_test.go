//go:build !race

// These tests only read source text, in one goroutine. The race detector would make them
// ten times as slow, so make lint runs them without it.

package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/hookladder/hookladder"

// A source is one Go file of the house, as far as its rules are concerned.
type source struct {
	folder  string   // below the top level, with slashes; empty for the top itself
	test    bool     // a _test.go file
	imports []string // paths
	uses    []string // names of imported packages: os.Getenv, http.Server
	names   []string // identifiers
	types   []string // unexported ones that it declares
	lines   int
	long    []string // functions of too many lines, or parameters
}

// A rule says what one file may not do. Its offence is a file that does it, to
// prove that the rule can fail.
type rule struct {
	name    string
	broken  func(source) []string
	offence string // folder, and after a space the file's text
}

var rules = []rule{
	{
		name:    "the top level holds no Go",
		broken:  func(s source) []string { return when(s.folder == "", "a Go file") },
		offence: ` package hookladder`,
	},
	{
		name:    "ladder imports the standard library only",
		broken:  func(s source) []string { return when(s.folder == "ladder" && !s.test, foreign(s)...) },
		offence: `ladder package ladder; import _ "golang.org/x/sync/errgroup"`,
	},
	{
		name:    "signer imports the standard library only",
		broken:  func(s source) []string { return when(s.folder == "signer" && !s.test, foreign(s)...) },
		offence: `signer package signer; import _ "github.com/hookladder/hookladder/ladder"`,
	},
	{
		name: "the engine knows no Redis",
		broken: func(s source) []string {
			return when(engine(s), importing(s, "github.com/redis/", "github.com/alicebob/")...)
		},
		offence: `dispatcher package dispatcher; import _ "github.com/redis/go-redis/v9"`,
	},
	{
		name:    "the engine knows no SQL",
		broken:  func(s source) []string { return when(engine(s), importing(s, "database/sql")...) },
		offence: `dispatcher package dispatcher; import _ "database/sql"`,
	},
	{
		name:    "the engine serves no HTTP",
		broken:  func(s source) []string { return when(engine(s), using(s, serving...)...) },
		offence: `dispatcher package dispatcher; import "net/http"; var _ http.Handler`,
	},
	{
		name: "the engine imports no adapter",
		broken: func(s source) []string {
			return when(engine(s), slices.DeleteFunc(importing(s, module+"/dispatcher/"), func(p string) bool { return core(p) || slices.Contains(shared, p) })...)
		},
		offence: `dispatcher package dispatcher; import _ "github.com/hookladder/hookladder/dispatcher/internal/egress"`,
	},
	{
		name:    "adapters never import each other",
		broken:  adapterOfAdapter,
		offence: `dispatcher/internal/egress package egress; import _ "github.com/hookladder/hookladder/dispatcher/internal/redisq"`,
	},
	{
		name: "what adapters share imports the standard library only",
		broken: func(s source) []string {
			return when(slices.Contains(shared, module+"/"+s.folder) && !s.test, foreign(s)...)
		},
		offence: `dispatcher/internal/seal package seal; import _ "github.com/hookladder/hookladder/dispatcher"`,
	},
	{
		name:    "test support is for tests",
		broken:  func(s source) []string { return when(!s.test && !supports(s), importing(s, testSupport...)...) },
		offence: `dispatcher/internal/redisq package redisq; import _ "github.com/hookladder/hookladder/deploy/kit/redistest"`,
	},
	{
		name: "only the bench and tests start processes with the kit",
		broken: func(s source) []string {
			own := strings.HasPrefix(s.folder, "deploy/") || s.folder == "cmd/hookladder/internal/bench"
			return when(!s.test && !own, importing(s, module+"/deploy/")...)
		},
		offence: `dispatcher/app package app; import _ "github.com/hookladder/hookladder/deploy/kit"`,
	},
	{
		name: "what is in the binary imports no test library",
		broken: func(s source) []string {
			return when(s.folder == "deploy/kit" && !s.test, importing(s, "testing", "github.com/stretchr/")...)
		},
		offence: `deploy/kit package kit; import _ "testing"`,
	},
	{
		name: "callers get the client without the adapters",
		broken: func(s source) []string {
			return when(callers(s), slices.DeleteFunc(importing(s, module+"/dispatcher/internal/"), func(p string) bool { return slices.Contains(shared, p) })...)
		},
		offence: `dispatcher/client package client; import _ "github.com/hookladder/hookladder/dispatcher/internal/httpapi"`,
	},
	{
		name: "only cmd and the examples for users read the environment",
		broken: func(s source) []string {
			return when(!command(s) && !s.test && !below(s, "deploy/docs/examples"), using(s, environment...)...)
		},
		offence: `dispatcher/app package app; import "os"; var _ = os.Getenv`,
	},
	{
		name:    "only cmd imports a reader of the environment",
		broken:  func(s source) []string { return when(!command(s) && !s.test, importing(s, environmentReaders...)...) },
		offence: `dispatcher/app package app; import _ "github.com/caarlos0/env/v11"`,
	},
	{
		name: "the engine knows no partitions: the store hides them",
		broken: func(s source) []string {
			return when(below(s, "dispatcher/internal/engine") && !s.test, partitions(s)...)
		},
		offence: `dispatcher/internal/engine package engine; type PartitionError struct{}`,
	},
	{
		name:    "the log tells a time in seconds or ms, with the unit in its key",
		broken:  func(s source) []string { return when(!s.test, using(s, "slog.Duration")...) },
		offence: `dispatcher package dispatcher; import "log/slog"; var _ = slog.Duration`,
	},
	{
		name:    "a file is not too long",
		broken:  func(s source) []string { return when(s.lines > mostLines, strconv.Itoa(s.lines)+" lines") },
		offence: `ladder package ladder` + strings.Repeat("\n", mostLines+1),
	},
	{
		name:    "a function takes not too many parameters",
		broken:  func(s source) []string { return s.long },
		offence: `ladder package ladder; func f(a, b, c int, d, e, f string) {}`,
	},
	{
		name:    "a function is not too long",
		broken:  func(s source) []string { return s.long },
		offence: `ladder package ladder; func f() {` + strings.Repeat("\n", mostOfFunction) + `}`,
	},
}

// The sizes that CONTRIBUTING.md names. A test that is a table may be longer
// than a function.
const (
	mostLines      = 400
	mostOfFunction = 60
	mostParameters = 5
)

// What serving HTTP takes from net/http; a Header, a Request and a Client are
// the business of both sides.
var serving = []string{
	"http.Server", "http.ListenAndServe", "http.ListenAndServeTLS", "http.Serve", "http.ServeTLS",
	"http.Handler", "http.HandlerFunc", "http.Handle", "http.HandleFunc",
	"http.ServeMux", "http.NewServeMux", "http.DefaultServeMux", "http.ResponseWriter",
}

var (
	environment        = []string{"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "syscall.Getenv", "syscall.Environ"}
	environmentReaders = []string{"github.com/caarlos0/env", "github.com/joho/godotenv"}
	testSupport        = []string{module + "/dispatcher/internal/queuetest", module + "/dispatcher/internal/endpointtest", module + "/dispatcher/internal/httpapi/apitest", module + "/dispatcher/internal/redisq/redisqtest", module + "/deploy/kit/redistest", module + "/deploy/kit/pgtest", module + "/deploy/browser/browsertest"}
	shared             = []string{module + "/dispatcher/internal/seal", module + "/dispatcher/internal/fields", module + "/dispatcher/internal/callers", module + "/dispatcher/internal/wait", module + "/dispatcher/internal/beats", module + "/dispatcher/internal/upgrade"} // tools, not adapters
)

func TestTheHouseKeepsItsRules(t *testing.T) {
	sources := mustReadHouse(t)
	folders := slices.Sorted(maps.Keys(sources))
	require.Subset(t, folders, []string{"ladder", "signer", "dispatcher", "cmd/hookladder"},
		"the house has changed: its rules look at nothing")
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, folder := range folders {
				for name, s := range sources[folder] {
					require.Empty(t, r.broken(s), "%s", path.Join(folder, name))
				}
			}
		})
	}
}

// make lint runs these tests by that word in their names.
func TestTheHouseIsNamedInItsTests(t *testing.T) {
	for name, s := range mustReadHouse(t)["cmd/hookladder"] {
		if strings.HasPrefix(name, "house_") {
			for _, test := range s.names {
				require.False(t, strings.HasPrefix(test, "Test") && !strings.Contains(test, "House"), "%s: rename %s", name, test)
			}
		}
	}
}

func TestEveryRuleOfTheHouseCanFail(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			folder, text, _ := strings.Cut(r.offence, " ")
			require.NotEmpty(t, r.broken(mustParse(t, folder, "offence.go", text)))
		})
	}
}

func TestAdaptersOfTheHouseShareOnlyTestSupport(t *testing.T) {
	of := func(adapter string) []string {
		return adapterOfAdapter(mustParse(t, "dispatcher/internal/redisq", "x_test.go",
			`package redisq; import _ "github.com/hookladder/hookladder/dispatcher/internal/`+adapter+`"`))
	}
	require.Empty(t, of("queuetest"))
	require.Empty(t, of("queuetest/rig"))
	require.NotEmpty(t, of("httpapi"))
}

func when(condition bool, found ...string) []string {
	if !condition {
		return nil
	}
	return found
}

// cores are the packages of the engine below its words: what they decide and do
// knows no technology.
var cores = []string{"dispatcher/success", "dispatcher/access", "dispatcher/archive", "dispatcher/health", "dispatcher/trace", "dispatcher/internal/archiver", "dispatcher/internal/restorer", "dispatcher/internal/endpoints", "dispatcher/internal/engine", "dispatcher/internal/fields", "dispatcher/internal/gauge", "dispatcher/internal/jobs", "dispatcher/internal/lookup", "dispatcher/internal/notices", "dispatcher/internal/outage", "dispatcher/internal/relay", "dispatcher/internal/tail", "dispatcher/internal/takers", "dispatcher/internal/ticks"}

func core(path string) bool { return slices.Contains(cores, strings.TrimPrefix(path, module+"/")) }

func engine(s source) bool {
	return (s.folder == "dispatcher" || slices.Contains(cores, s.folder)) && !s.test
}

func callers(s source) bool { return s.folder == "dispatcher/client" || s.folder == "dispatcher/wire" }
func supports(s source) bool {
	return ofTestSupport(module + "/" + s.folder)
}

// ofTestSupport reports whether a package is test support, or lies below one that is.
func ofTestSupport(p string) bool {
	return slices.ContainsFunc(testSupport, func(t string) bool { return p == t || strings.HasPrefix(p, t+"/") })
}
func command(s source) bool { return strings.HasPrefix(s.folder, "cmd/") }

func below(s source, folder string) bool {
	return s.folder == folder || strings.HasPrefix(s.folder, folder+"/")
}

// partitions are the names of a file that speak of partitions.
func partitions(s source) []string {
	return slices.DeleteFunc(slices.Clone(s.names), func(n string) bool { return !strings.Contains(strings.ToLower(n), "partition") })
}

func adapterOfAdapter(s source) []string {
	const internal = "dispatcher/internal/"
	own, ok := strings.CutPrefix(s.folder, internal)
	if !ok {
		return nil
	}
	own, _, _ = strings.Cut(own, "/")
	if core(s.folder) {
		return nil // it has a rule of its own
	}
	return slices.DeleteFunc(importing(s, module+"/"+internal), func(p string) bool {
		other, _, _ := strings.Cut(strings.TrimPrefix(p, module+"/"+internal), "/")
		return other == own || ofTestSupport(p) || slices.Contains(shared, p) || s.test && core(p)
	})
}

// foreign lists the imports from outside the standard library, whose paths
// begin without a domain.
func foreign(s source) []string {
	return slices.DeleteFunc(slices.Clone(s.imports), func(p string) bool {
		first, _, _ := strings.Cut(p, "/")
		return !strings.Contains(first, ".")
	})
}

func importing(s source, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(s.imports), func(p string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(p, prefix) })
	})
}

func using(s source, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(s.uses), func(n string) bool { return !slices.Contains(names, n) })
}

// mustReadHouse returns every Go file of the house: folder, then file name.
func mustReadHouse(t *testing.T) map[string]map[string]source {
	t.Helper()
	ourSources.once.Do(func() {
		ourSources.read = map[string]map[string]source{}
		mustWalkHouse(t, func(file, text string) {
			if path.Ext(file) != ".go" {
				return
			}
			folder, name := path.Split(file)
			folder = strings.TrimSuffix(folder, "/")
			if ourSources.read[folder] == nil {
				ourSources.read[folder] = map[string]source{}
			}
			ourSources.read[folder][name] = mustParse(t, folder, name, text)
		})
	})
	return ourSources.read
}

// ourSources is the cache of mustReadHouse: several rules read the same files.
var ourSources struct {
	once sync.Once
	read map[string]map[string]source
}

func mustParse(t *testing.T, folder, name, text string) source {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	s := source{folder: folder, test: strings.HasSuffix(name, "_test.go"), lines: strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1}
	for _, declared := range file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok {
			lines := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
			if f.Type.Params.NumFields() > mostParameters || lines > mostOfFunction && !s.test {
				s.long = append(s.long, f.Name.Name)
			}
		}
	}
	called := map[string]string{} // the name an import has in this file → the package's own
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		s.imports = append(s.imports, p)
		called[path.Base(p)] = path.Base(p)
		if spec.Name != nil {
			called[spec.Name.Name] = path.Base(p)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			s.names = append(s.names, id.Name)
		}
		if spec, ok := n.(*ast.TypeSpec); ok && !spec.Name.IsExported() {
			s.types = append(s.types, spec.Name.Name)
		}
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && called[x.Name] != "" {
				s.uses = append(s.uses, called[x.Name]+"."+sel.Sel.Name)
			}
		}
		return true
	})
	return s
}
