package conn_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// A local that hides an outer one reads like it, so the change of one name can change the
// meaning of another line.
func TestNoLocalOfAScriptHidesAnotherOne(t *testing.T) {
	files := mustReadLua(t)
	var all []string
	for _, f := range files {
		outer := map[string]string{}
		for _, part := range partsOf(f, files) {
			for name := range part.top {
				if part.name != f.name {
					outer[name] = "part " + part.name
				}
			}
		}
		for _, found := range mustFindHidden(t, f.text, outer) {
			all = append(all, f.name+".lua, "+found)
		}
	}
	require.Empty(t, all, "rename one of the two")
}

func TestAHiddenLocalIsFound(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"none":                       {"local a = 1\nlocal function f(b) local c = a + b return c end\nfor i = 1, 2 do f(i) end\nfor i = 3, 4 do f(i) end", ""},
		"blocks beside each other":   {"do local a = 1 end\ndo local a = 2 end\nif x then local b = 1 else local b = 2 end", ""},
		"the name without a meaning": {"for _, a in ipairs(l) do for _, b in ipairs(a) do f(b) end end", ""},
		"fields are no locals":       {"local a = { b = 1 }\nlocal b = a.b\na.a = b", ""},
		"a local of a block":         {"local a = 1\nif a then\n  local a = 2\nend", "line 3: a hides line 1"},
		"a local of the same block":  {"local a = 1\nlocal a = 2", "line 2: a hides line 1"},
		"a parameter":                {"local id = 1\nlocal function f(id) return id end", "line 2: id hides line 1"},
		"a loop's name":              {"local n = 1\nfor n = 1, 2 do f(n) end", "line 2: n hides line 1"},
		"a name of a loop over":      {"local function f(l)\n  for k, l in pairs(l) do g(k, l) end\nend", "line 2: l hides line 1"},
		"a function in a call":       {"local id = 1\neach(function(id) return id end)", "line 2: id hides line 1"},
		"a function in a table":      {"local id = 1\nreturn { f = function() local id = 2 return id end }", "line 2: id hides line 1"},
		"in a repeat":                {"local a = 1\nrepeat\n  local a = 2\nuntil a", "line 3: a hides line 1"},
		"a local function":           {"local a = 1\nwhile a do\n  local function a() end\nend", "line 3: a hides line 1"},
		"a name of a part":           {"local function f(tag) return tag end", "line 1: tag hides part common"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, strings.Join(mustFindHidden(t, c.text, map[string]string{"tag": "part common"}), "\n"))
		})
	}
}

// mustFindHidden returns the locals of a script that hide a local around them, or one of the
// parts before the script.
func mustFindHidden(t *testing.T, text string, outer map[string]string) []string {
	t.Helper()
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	require.NoError(t, err)
	w := &hiddenLocals{scopes: []map[string]string{outer, {}}}
	w.statements(chunk)
	return w.found
}

// hiddenLocals walks the syntax of a script with the names that are in scope.
type hiddenLocals struct {
	scopes []map[string]string // name -> where it was made; the last one is the innermost
	found  []string
}

// within walks a block of its own.
func (w *hiddenLocals) within(walk func()) {
	w.scopes = append(w.scopes, map[string]string{})
	walk()
	w.scopes = w.scopes[:len(w.scopes)-1]
}

func (w *hiddenLocals) make(line int, names ...string) {
	for _, name := range names {
		if name == "_" {
			continue
		}
		for _, scope := range w.scopes {
			if where, is := scope[name]; is {
				w.found = append(w.found, fmt.Sprintf("line %d: %s hides %s", line, name, where))
			}
		}
		w.scopes[len(w.scopes)-1][name] = fmt.Sprintf("line %d", line)
	}
}

func (w *hiddenLocals) statements(list []ast.Stmt) {
	for _, s := range list {
		w.statement(s)
	}
}

func (w *hiddenLocals) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		_, isFunction := first(s.Exprs).(*ast.FunctionExpr)
		if isFunction { // local function f: its body knows its name
			w.make(s.Line(), s.Names...)
			w.inside(s.Exprs)
			return
		}
		w.inside(s.Exprs)
		w.make(s.Line(), s.Names...)
	case *ast.NumberForStmt:
		w.inside([]ast.Expr{s.Init, s.Limit, s.Step})
		w.within(func() { w.make(s.Line(), s.Name); w.statements(s.Stmts) })
	case *ast.GenericForStmt:
		w.inside(s.Exprs)
		w.within(func() { w.make(s.Line(), s.Names...); w.statements(s.Stmts) })
	case *ast.IfStmt:
		w.inside(s.Condition)
		w.within(func() { w.statements(s.Then) })
		w.within(func() { w.statements(s.Else) })
	case *ast.RepeatStmt: // its condition knows the locals of its block
		w.within(func() { w.statements(s.Stmts); w.inside(s.Condition) })
	case *ast.WhileStmt:
		w.inside(s.Condition)
		w.within(func() { w.statements(s.Stmts) })
	case *ast.DoBlockStmt:
		w.within(func() { w.statements(s.Stmts) })
	default:
		w.inside(s)
	}
}

func first(list []ast.Expr) ast.Expr {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// inside walks the functions in an expression, or in the expressions of a statement.
func (w *hiddenLocals) inside(node any) {
	if f, is := node.(*ast.FunctionExpr); is {
		w.within(func() { w.make(f.Line(), f.ParList.Names...); w.statements(f.Stmts) })
		return
	}
	v := reflect.ValueOf(node)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				w.inside(v.Field(i).Interface())
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.inside(v.Index(i).Interface())
		}
	}
}
