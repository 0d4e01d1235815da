//go:build !race

package main_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A typedPackage is one package with its types: a package proper, or its tests
// with what they test.
type typedPackage struct {
	folder string
	test   bool // of test files, inside the package or outside
	files  []*ast.File
	types  *types.Package
	info   *types.Info
}

// A typedHouse is the module with its types. What it imports from elsewhere
// comes from what the go command compiled.
type typedHouse struct {
	fset      *token.FileSet
	parsed    map[string]map[string][]*ast.File // folder, package name, files; with tests inside under name+"_inside"
	elsewhere types.Importer
	proper    map[string]*types.Package // by folder
	packages  []*typedPackage
}

// mustTypeHouse reads the module that lies at top. Every import of texts, by
// file name below top, takes the place of what is on the disk.
func mustTypeHouse(t *testing.T, texts map[string]string) *typedHouse {
	t.Helper()
	h := &typedHouse{fset: token.NewFileSet(), parsed: map[string]map[string][]*ast.File{}, proper: map[string]*types.Package{}}
	foreign := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		file, err := parser.ParseFile(h.fset, name, texts[name], parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			if p := strings.Trim(spec.Path.Value, `"`); !strings.HasPrefix(p, module+"/") {
				foreign[p] = true
			}
		}
		kind := file.Name.Name
		if strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(kind, "_test") {
			kind += "_inside"
		}
		folder := path.Dir(name)
		if h.parsed[folder] == nil {
			h.parsed[folder] = map[string][]*ast.File{}
		}
		h.parsed[folder][kind] = append(h.parsed[folder][kind], file)
	}
	h.elsewhere = importer.ForCompiler(h.fset, "gc", mustCompile(t, slices.Sorted(maps.Keys(foreign))))
	for _, folder := range slices.Sorted(maps.Keys(h.parsed)) {
		for kind, files := range h.parsed[folder] {
			switch {
			case strings.HasSuffix(kind, "_inside"):
				h.check(folder, true, append(slices.Clone(h.parsed[folder][strings.TrimSuffix(kind, "_inside")]), files...))
			case strings.HasSuffix(kind, "_test"):
				h.check(folder, true, files)
			default:
				_, err := h.Import(module + "/" + folder)
				require.NoError(t, err)
			}
		}
	}
	return h
}

// ours is this module with its types, which take seconds to find. It is read by the
// first test that needs it.
var ours struct {
	once  sync.Once
	texts map[string]string
	house *typedHouse
}

// mustTypeOurs is this module with its types, and its Go files.
func mustTypeOurs(t *testing.T) (*typedHouse, map[string]string) {
	t.Helper()
	ours.once.Do(func() {
		ours.texts = mustReadGo(t)
		ours.house = mustTypeHouse(t, ours.texts)
	})
	require.NotNil(t, ours.house, "the first test that needed it could not read it")
	return ours.house, ours.texts
}

// Import answers a package of the module, checked from its source, or one from
// elsewhere.
func (h *typedHouse) Import(of string) (*types.Package, error) {
	folder, ours := strings.CutPrefix(of, module+"/")
	if !ours {
		return h.elsewhere.Import(of)
	}
	if h.proper[folder] == nil {
		for kind, files := range h.parsed[folder] {
			if !strings.HasSuffix(kind, "_inside") && !strings.HasSuffix(kind, "_test") {
				h.proper[folder] = h.check(folder, false, files).types
			}
		}
	}
	return h.proper[folder], nil
}

// check finds the types of a package. Mistakes are for the compiler to tell.
func (h *typedHouse) check(folder string, test bool, files []*ast.File) *typedPackage {
	p := &typedPackage{folder: folder, test: test, files: files, info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}}
	config := types.Config{Importer: h, Error: func(error) {}, FakeImportC: true}
	p.types, _ = config.Check(module+"/"+folder, h.fset, files, p.info)
	h.packages = append(h.packages, p)
	return p
}

// mustCompile has the go command compile packages from elsewhere, and answers
// how to read what came of it.
func mustCompile(t *testing.T, paths []string) func(of string) (io.ReadCloser, error) {
	t.Helper()
	if len(paths) == 0 {
		return nil
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-export", "-f", "{{.ImportPath}} {{.Export}}", "--"}, paths...)...)
	workspace, err := filepath.Abs(filepath.Join("..", "..", "deploy", "go.work"))
	require.NoError(t, err)
	list.Env = append(os.Environ(), "GOWORK="+workspace) // for the libraries of the modules of tests
	out, err := list.Output()
	require.NoError(t, err)
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		of, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[of] = file
	}
	return func(of string) (io.ReadCloser, error) { return os.Open(compiled[of]) }
}

// mustReadGo reads the Go files whose libraries the workspace has.
func mustReadGo(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	mustWalkHouse(t, func(file, text string) {
		if path.Ext(file) == ".go" && !strings.HasPrefix(file, checkers) && buildsHere(text) {
			texts[file] = text
		}
	})
	return texts
}

// buildsHere reports whether a file is compiled on this system, by its first
// line; files of other systems declare the same things again.
func buildsHere(text string) bool { return !strings.HasPrefix(text, "//go:build !linux") }

// interfaces are the named interfaces of the module that have methods.
func (h *typedHouse) interfaces() (found []*types.TypeName) {
	for _, p := range h.packages {
		if p.test {
			continue
		}
		for _, name := range p.types.Scope().Names() {
			if n, ok := p.types.Scope().Lookup(name).(*types.TypeName); ok && !n.IsAlias() {
				if i, ok := n.Type().Underlying().(*types.Interface); ok && i.NumMethods() > 0 && i.IsMethodSet() {
					found = append(found, n)
				}
			}
		}
	}
	return found
}

// implementations are the types with the methods of an interface, fakes too,
// named folder.type.
func (h *typedHouse) implementations(of *types.TypeName) (found []string) {
	return h.implementing(of, func(t types.Type) *types.Interface { return t.Underlying().(*types.Interface) })
}

// implementing are the types with all methods that methodsOf finds in a type.
func (h *typedHouse) implementing(of *types.TypeName, methodsOf func(types.Type) *types.Interface) (found []string) {
	for _, p := range h.packages {
		same := of
		if p.types.Path() == of.Pkg().Path() && p.types.Name() == of.Pkg().Name() && p.types != of.Pkg() { // with the tests inside
			same, _ = p.types.Scope().Lookup(of.Name()).(*types.TypeName)
		}
		if same == nil {
			continue
		}
		i := methodsOf(same.Type())
		for _, name := range p.types.Scope().Names() {
			n, ok := p.types.Scope().Lookup(name).(*types.TypeName)
			if !ok || n.IsAlias() || types.IsInterface(n.Type()) || wraps(n.Type(), i) {
				continue
			}
			if named, ok := n.Type().(*types.Named); ok && named.TypeParams().Len() > 0 {
				continue
			}
			if types.Implements(types.NewPointer(n.Type()), i) {
				found = append(found, p.folder+"."+name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// wraps reports whether a struct embeds a type that already has the interface, and
// replaces less than three quarters of its methods. With more it is a fake, which panics
// in the rest.
func wraps(t types.Type, i *types.Interface) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if f.Embedded() && (types.Implements(f.Type(), i) || types.Implements(types.NewPointer(f.Type()), i)) {
			return 4*ownMethods(t, i) < 3*i.NumMethods()
		}
	}
	return false
}

// ownMethods counts the methods of an interface that a type declares itself.
func ownMethods(t types.Type, i *types.Interface) (count int) {
	all := types.NewMethodSet(types.NewPointer(t))
	for m := range i.Methods() {
		if s := all.Lookup(m.Pkg(), m.Name()); s != nil && len(s.Index()) == 1 {
			count++
		}
	}
	return count
}

// users counts the declarations that name an interface: functions, variables and
// types, but not those interfaces that only contain it.
func (h *typedHouse) users(of *types.TypeName) (count int) {
	for _, p := range h.packages {
		if p.test {
			continue
		}
		for _, file := range p.files {
			for _, d := range file.Decls {
				for _, part := range declarations(d) {
					if h.names(p, part, of) {
						count++
					}
				}
			}
		}
	}
	return count
}

// declarations are the single ones of a group.
func declarations(d ast.Decl) (found []ast.Node) {
	group, ok := d.(*ast.GenDecl)
	if !ok {
		return []ast.Node{d}
	}
	for _, spec := range group.Specs {
		found = append(found, spec)
	}
	return found
}

func (h *typedHouse) names(p *typedPackage, part ast.Node, of *types.TypeName) bool {
	if spec, ok := part.(*ast.TypeSpec); ok {
		if _, contains := spec.Type.(*ast.InterfaceType); contains {
			return false
		}
	}
	named := false
	ast.Inspect(part, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && p.info.Uses[id] == of {
			named = true
		}
		return !named
	})
	return named
}

func TestTheInterfacesOfTheHouseHaveTwoUsersOrTwoImplementations(t *testing.T) {
	h, _ := mustTypeOurs(t)
	require.Empty(t, h.lonely(), "an interface of one user and one implementation is a detour")
}

// lonely are the interfaces that have neither two users nor two implementations.
func (h *typedHouse) lonely() (found []string) {
	for _, i := range h.interfaces() {
		if h.users(i) < 2 && len(h.implementations(i)) < 2 {
			found = append(found, strings.TrimPrefix(i.Pkg().Path(), module+"/")+"."+i.Name())
		}
	}
	return found
}

// Each rule about types finds an offence.
func TestTheRulesAboutTypesOfTheHouseCanFail(t *testing.T) {
	texts := map[string]string{
		"dispatcher/lease.go": `package dispatcher; type Lease struct{}`,
		"dispatcher/internal/engine/queue.go": `package engine; import "` + module + `/dispatcher"
			type Queue struct { Deliveries Claims; Store Clock }
			type Claims interface { Claim() dispatcher.Lease }
			type Clock interface { Now() int }
			func use(Claims) {}
			func useClock(Clock) {}
			type lonely interface { Alone() }
			type one struct{}
			func (one) Alone() {}
			func useLonely(lonely) {}
			type crowd interface { lonely; Move() }
			func first(crowd) {}
			func second(crowd) {}
			var _, _ = first, second`,
		"dispatcher/internal/engine/inside_test.go": `package engine; import "` + module + `/dispatcher"; type fake struct{}
			func (*fake) Claim() (l dispatcher.Lease) { return l }
			func (*fake) Now() int { return 0 }`,
		"dispatcher/redisq/redisq.go": `package redisq; import "` + module + `/dispatcher"; type Store struct{}
			func (Store) Claim() (l dispatcher.Lease) { return l }
			func (Store) Now() int { return 0 }`,
		"dispatcher/redisq/all_test.go": `package redisq_test; func test() { queuetest.Run(nil) }`,
		"dispatcher/wrap/wrap_test.go": `package wrap_test; import "` + module + `/dispatcher/redisq"; type slow struct{ redisq.Store }
			func (slow) Slow() {}`,
		"dispatcher/fake/fake_test.go": `package fake_test; import ("` + module + `/dispatcher"; "` + module + `/dispatcher/redisq"); type fake struct{ redisq.Store }
			func (fake) Claim() (l dispatcher.Lease) { return l }
			func (fake) Now() int { return 1 }`,
		"dispatcher/part/part.go":        `package part; type clock struct{}; func (clock) Now() int { return 0 }`,
		"dispatcher/other/other_test.go": `package other_test; type almost struct{}; func (almost) Claim() int { return 0 }`,
	}
	h := mustTypeHouse(t, texts)
	require.Equal(t, []string{enginePackage + ".lonely"}, h.lonely())
	require.Equal(t, []string{"dispatcher/fake.fake", enginePackage + ".fake", "dispatcher/redisq.Store"}, h.queues())
	require.Equal(t, map[string]bool{"dispatcher/redisq": true}, provenFolders(texts))
	require.Equal(t, map[string]bool{enginePackage + ".fake": true, "dispatcher/fake.fake": true}, unprovenOf(h.queues(), provenFolders(texts)))
}
