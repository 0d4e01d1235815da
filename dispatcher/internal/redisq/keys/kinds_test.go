package keys_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// commands are what writes entries, or reads them, in Lua and in Go.
type commands struct {
	inLua string
	inGo  []string
	adds  bool // add_counts too
}

var (
	writes = commands{
		inLua: `HSET|HSETNX|HINCRBY|ZADD|RPUSH|LPUSH|XADD`,
		inGo:  []string{"HSet", "HSetNX", "HIncrBy", "ZAdd", "RPush"},
		adds:  true,
	}
	reads = commands{
		inLua: `HGET|HMGET|HGETALL|ZSCORE|ZMSCORE|ZRANGE|ZREVRANGE|ZRANGEBYSCORE|ZREVRANGEBYSCORE|LRANGE|LINDEX|XREVRANGE`,
		inGo:  []string{"HGet", "HMGet", "HGetAll", "HScan", "HKeys", "ZRange", "ZRevRangeByScoreWithScores", "ZRangeByScoreWithScores", "XRevRangeN"},
	}
)

// namedKind is a kind with the name that Go gives it.
type namedKind struct {
	name string
	keys.Kind
}

// all are the kinds. A name may be a partition's and the project's too.
func all(t *testing.T) (kinds []namedKind) {
	t.Helper()
	names := map[string]string{}
	for name, value := range constants(t) {
		if value != keys.Clock && !strings.HasSuffix(name, "Channel") {
			names[value] = name
		}
	}
	listed := map[string]bool{}
	for _, table := range [][]keys.Kind{keys.Kinds, keys.HomeKinds} {
		seen := map[string]bool{}
		for _, k := range table {
			require.Contains(t, names, k.Name, "a kind has no constant")
			require.False(t, seen[k.Name], "%s is listed twice", k.Name)
			seen[k.Name], listed[k.Name] = true, true
			kinds = append(kinds, namedKind{names[k.Name], k})
		}
	}
	require.Len(t, listed, len(names), "a constant is in no table of kinds")
	return kinds
}

// constants are those of keys.go whose value is a key's name.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, v := range spec.Values {
				if text, ok := v.(*ast.BasicLit); ok && strings.HasPrefix(text.Value, `":`) {
					found[spec.Names[i].Name], err = strconv.Unquote(text.Value)
					require.NoError(t, err)
				}
			}
		}
		return true
	})
	return found
}

// sources are the Go files of the store by their paths, and the scripts by their
// names.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	require.NoError(t, filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "kinds.go" {
			return err
		}
		text, err := os.ReadFile(file)
		name := filepath.Base(file)
		if filepath.Ext(file) == ".go" { // of which several have one name
			name = filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))
		}
		texts[name] = string(text)
		return err
	}))
	return texts
}

func TestEveryKeyIsWrittenAndReadWhereTheTableSaysSo(t *testing.T) {
	texts := sources(t)
	for _, k := range all(t) {
		name := k.name
		require.Contains(t, []string{"hash", "zset", "list", "stream"}, k.Type, name)
		require.True(t, writes.touch(name, k.Kind, k.Writer, texts[k.Writer]), "%s is not written in %s", name, k.Writer)
		require.True(t, reads.touch(name, k.Kind, k.Reader, texts[k.Reader]), "%s is not read in %s", name, k.Reader)
	}
}

func TestAWriterOrReaderThatIsNoneIsFound(t *testing.T) {
	texts := map[string]string{
		"a.lua": "call('HGET', LANE, x) -- call('HSET', LANE, x, y)\nlocal set = DUE\nsure('ZADD', set, 1, x)\n",
		"a.go":  "package a\nfunc f() { p.HGet(keys.Lane) }\nfunc g() { p.HSet(keys.Limits) }",
	}
	for _, c := range []struct {
		file, name, lua   string
		written, readHere bool
	}{
		{"a.lua", "Lane", "LANE", false, true}, {"a.lua", "Lanes", "LANES", false, false}, {"a.lua", "Due", "DUE", true, false},
		{"a.go", "Lane", "LANE", false, true}, {"a.go", "Limits", "LIMITS", true, false}, {"b.go", "Lane", "LANE", false, false},
	} {
		k := keys.Kind{Lua: c.lua}
		require.Equal(t, c.written, writes.touch(c.name, k, c.file, texts[c.file]), "%v", c)
		require.Equal(t, c.readHere, reads.touch(c.name, k, c.file, texts[c.file]), "%v", c)
	}
}

// touch reports whether a file makes one of the commands of a key.
func (c commands) touch(name string, k keys.Kind, file, text string) bool {
	if strings.HasSuffix(file, ".lua") {
		return c.touchInLua(k.Lua, text)
	}
	return c.touchInGo(name, text)
}

// touchInLua looks for a command with the key's name, or with a local that was
// made of it.
func (c commands) touchInLua(name, text string) bool {
	text = regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
	names := name
	for _, local := range regexp.MustCompile(`local (\w+) = `+name+`\b`).FindAllStringSubmatch(text, -1) {
		names += "|" + local[1]
	}
	call := fmt.Sprintf(`'(%s)', (%s)\b`, c.inLua, names)
	if c.adds {
		call += fmt.Sprintf(`|\badd_counts\((%s),`, names)
	}
	return regexp.MustCompile(call).MatchString(text)
}

// touchInGo looks for a function that names the key and makes such a call, or
// calls a function of the same file that does.
func (c commands) touchInGo(name, text string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return false // there is no such file
	}
	makes := slices.Clone(c.inGo)
	for _, declared := range file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && slices.ContainsFunc(selected(f), func(s string) bool { return slices.Contains(c.inGo, s) }) {
			makes = append(makes, f.Name.Name)
		}
	}
	return slices.ContainsFunc(file.Decls, func(declared ast.Decl) bool {
		f, ok := declared.(*ast.FuncDecl)
		all := selected(f)
		return ok && slices.Contains(all, "keys."+name) && slices.ContainsFunc(all, func(s string) bool { return slices.Contains(makes, s) })
	})
}

// selected are the names behind a dot in a function, of keys with the package.
func selected(f *ast.FuncDecl) (names []string) {
	if f == nil {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "keys" {
				names = append(names, "keys."+sel.Sel.Name)
			}
			names = append(names, sel.Sel.Name)
		}
		return true
	})
	return names
}
