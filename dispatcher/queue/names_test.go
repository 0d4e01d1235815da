package queue_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reasons are the public names that no example needs.
var reasons = map[string]string{
	"InvalidError.Is": "errors.Is calls it", "RetryError.Error": "an error has it", "RetryError.Unwrap": "errors.Is and errors.As call it",
	"SnoozeError.Error": "an error has it", "InvalidError.Error": "an error has it",
	"Key.Format": "fmt calls it", "Key.LogValue": "slog calls it", "Key.MarshalText": "encoders call it", "Key.String": "fmt calls Format",
	"FieldError":   "the type of InvalidError.Fields, which an example reads",
	"HandleOption": "the type of what Workers returns", "Placed": "the type of Published.Deliveries, which an example reads",
	"Published": "the type of what Publish returns", "Record": "the type of what Get and List return", "Result": "the type of what PublishBatch returns",
	"Stats":     "the type of what Queue.Stats returns",
	"RedisMode": "a word of the url's server, which is found out", "RedisAuto": "as RedisMode", "RedisSingle": "as RedisMode", "RedisCluster": "as RedisMode", "RedisSentinel": "as RedisMode",
	"ErrUnopened": "a mistake of the program", "ErrClosed": "a mistake of the program", "ErrInvalid": "an example reads InvalidError, which says more",
	"ErrLaneFull": "its text is the cure", "ErrUnavailable": "an example would need a Redis that is down", "ErrDenied": "an example would need a Redis with users",
	"ErrFull": "an example would need a Redis without memory", "ErrUnrecorded": "an example would need a Redis that is down", "ErrNoHandler": "a Mux returns it by itself",
}

// TestEachPublicNameIsInAnExampleOrHasAReason reads the examples of go doc, the test on the page, and the
// programs that are kept as examples.
func TestEachPublicNameIsInAnExampleOrHasAReason(t *testing.T) {
	var examples strings.Builder
	for _, pattern := range []string{"*example_test.go", "queue*/*example_test.go", "queuetest/shop_test.go", "../../deploy/docs/examples/go/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			examples.Write(text)
		}
	}
	seen := map[string]bool{}
	for dir, pkg := range map[string]string{".": "queue", "queuetest": "queuetest", "queueprom": "queueprom"} {
		for _, name := range publicNames(t, dir) {
			if dir == "." {
				seen[name] = true
			}
			used := pkg + "." + name
			if _, method, ok := strings.Cut(name, "."); ok {
				used = "." + method
			}
			shown := regexp.MustCompile(regexp.QuoteMeta(used) + `\b`).MatchString(examples.String())
			require.True(t, shown || reasons[name] != "", "%s.%s needs an example or a reason", pkg, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		require.True(t, seen[name], "there is no %s", name)
	}
}

// publicNames returns the names of a package, and of its methods with their types.
func publicNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
			require.NoError(t, err)
			parsed = append(parsed, f)
		}
	}
	p, err := doc.NewFromFiles(set, parsed, "hookladder")
	require.NoError(t, err)
	functions := func(of string, list []*doc.Func) {
		for _, f := range list {
			names = append(names, of+f.Name)
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			names = append(names, slices.DeleteFunc(slices.Clone(v.Names), func(name string) bool { return !token.IsExported(name) })...)
		}
	}
	functions("", p.Funcs)
	values(p.Consts)
	values(p.Vars)
	for _, kind := range p.Types {
		names = append(names, kind.Name)
		functions("", kind.Funcs)
		functions(kind.Name+".", kind.Methods)
		values(kind.Consts)
		values(kind.Vars)
	}
	return names
}
