package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
)

// A mutant is one change of one file.
type mutant struct {
	file string // from the repository's root, with slashes
	line int    // from 1, where the change begins
	old  string // the text that is replaced
	new  string // its replacement
	text []byte // the whole file after the change
}

// key names a mutant in the list of survivors. It has no line number, so that it lasts when
// other lines are added.
func (m mutant) key() string {
	return fmt.Sprintf("%s: %s → %s", m.file, oneLine(m.old), oneLine(m.new))
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "nothing"
	}
	return s
}

// mutantsOf returns all mutants of a file.
func mutantsOf(file string) ([]mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(file, ".lua") {
		return luaMutants(file, string(text)), nil
	}
	return goMutants(file, text)
}

// The changes within a line of Lua. The first group is replaced.
var luaSwaps = []struct {
	find *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`[^<>=~](<=)[^=]`), "<"},
	{regexp.MustCompile(`[^<>=~](>=)[^=]`), ">"},
	{regexp.MustCompile(`[^<>=~](<)[^=]`), "<="},
	{regexp.MustCompile(`[^<>=~](>)[^=]`), ">="},
	{regexp.MustCompile(`[^<>=~](==)[^=]`), "~="},
	{regexp.MustCompile(`(~=)`), "=="},
	{regexp.MustCompile(`\b(and)\b`), "or"},
	{regexp.MustCompile(`\b(or)\b`), "and"},
	{regexp.MustCompile(`( \+ 1)\b`), ""},
	{regexp.MustCompile(`( - 1)\b`), ""},
	{regexp.MustCompile(`math\.(max)\(`), "min"},
	{regexp.MustCompile(`math\.(min)\(`), "max"},
	{regexp.MustCompile(`\b(not )`), ""},
}

// A statement that fills its line: a call, an assignment, or an if that ends in the line.
// A local declaration is none, because without it the script does not compile.
var luaStatement = regexp.MustCompile(`^\s*([\w.]+\(.*\)|[\w.\[\]#+* ,-]+ = .*[^,{(]|if .* then .* end)$`)

// luaMutants changes each line of a script: it deletes statements, and swaps operators.
func luaMutants(file, text string) (found []mutant) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		code := luaCode(line)
		add := func(from, to int, by string) {
			changed := append([]string{}, lines...)
			changed[i] = line[:from] + by + line[to:]
			found = append(found, mutant{file: file, line: i + 1, old: line, new: changed[i], text: []byte(strings.Join(changed, "\n"))})
		}
		bare := strings.TrimRight(code, " ")
		if luaStatement.MatchString(bare) && !strings.HasPrefix(strings.TrimSpace(bare), "local ") && !strings.HasPrefix(strings.TrimSpace(bare), "function") {
			add(0, len(bare), "")
		}
		for _, s := range luaSwaps {
			for _, at := range s.find.FindAllStringSubmatchIndex(code, -1) {
				add(at[2], at[3], s.by)
			}
		}
	}
	return found
}

// luaCode returns a line with blanks in place of its comment and of the insides of its texts.
// No script has a text or a comment of several lines.
func luaCode(line string) string {
	code := []byte(line)
	quote := byte(0)
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case quote != 0 && c == '\\':
			code[i] = '_'
			if i++; i < len(code) {
				code[i] = '_'
			}
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			code[i] = '_'
		case c == '\'' || c == '"':
			quote = c
		case c == '-' && i+1 < len(code) && code[i+1] == '-':
			for ; i < len(code); i++ {
				code[i] = ' '
			}
		}
	}
	return string(code)
}

var goSwaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

// goMutants changes each statement of a file's functions: it deletes calls, assignments and
// sends, negates conditions, and swaps operators.
func goMutants(file string, text []byte) (found []mutant, err error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	source := func(n ast.Node) string {
		return string(text[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
	}
	add := func(n ast.Node, old, by string) {
		from, to := files.Position(n.Pos()).Offset, files.Position(n.End()).Offset
		changed := bytes.Join([][]byte{text[:from], []byte(by), text[to:]}, nil)
		if _, err := format.Source(changed); err == nil {
			found = append(found, mutant{file: file, line: files.Position(n.Pos()).Line, old: old, new: by, text: changed})
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			add(n, source(n), "")
		case *ast.SendStmt, *ast.IncDecStmt:
			add(n, source(n), "")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				add(n, source(n), "_ = 0")
			}
		case *ast.IfStmt:
			add(n.Cond, source(n.Cond), "!("+source(n.Cond)+")")
		case *ast.BinaryExpr:
			if by, ok := goSwaps[n.Op]; ok {
				add(n, source(n), source(n.X)+" "+by.String()+" "+source(n.Y))
			}
		}
		return true
	})
	return found, nil
}
