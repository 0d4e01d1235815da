package docs_test

import (
	"cmp"
	"os"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// pasteGo builds a block in a module of its own, and runs it. A block that is only a
// part of a program becomes the body of main.
func (v *visitor) pasteGo(text string) string {
	v.t.Helper()
	text = strings.ReplaceAll(text, v.shows, v.other)
	if !strings.HasPrefix(text, "package ") {
		text = wholeProgram(v.swapped(text))
	}
	dir, err := os.MkdirTemp(v.dir, "program")
	require.NoError(v.t, err)
	program, err := kit.BuildAlone(v.ctx, dir, text)
	require.NoError(v.t, err, text)
	if strings.Contains(text, "http.ListenAndServe") {
		v.judge("exec " + program)
		return ""
	}
	return v.run(program)
}

// judge starts a receiver, and checks that it accepts a genuine callback and refuses a
// forged one.
func (v *visitor) judge(command string) {
	v.t.Helper()
	if v.receiver != nil { // it has the same address
		v.end(v.receiver)
	}
	secret := cmp.Or(v.secret, secretOfPages)
	v.receiver = v.launch(command, "WEBHOOK_SECRET="+secret)
	url := "http://" + v.other + "/hooks"
	v.untilAnswer(url)
	out, _ := v.shell("SIGNING_SECRET=" + secret + " hookladder check " + url).CombinedOutput() // it exits with 1 if a point is lost
	for _, trial := range []string{"genuine", "forged", "altered", "unsigned", "cut", "stale", "early", "renamed", "repeated", "rotated", "rewritten"} {
		require.Regexp(v.t, `(?m)^ok .* `+trial+` `, string(out))
	}
}

var (
	declaredNames = regexp.MustCompile(`(?m)^([a-z]\w*(?:, [a-z]\w*)*) := `)
	usedPackages  = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
)

// packagesOfSnippets are the import paths of packages that snippets use.
var packagesOfSnippets = map[string]string{
	"os": "os", "fmt": "fmt", "time": "time", "json": "encoding/json", "context": "context",
	"queue": "dispatcher/queue", "client": "dispatcher/client", "wire": "dispatcher/wire",
}

// surroundings are the declarations that snippets leave to the reader.
const surroundings = `
type order struct{ Number int }

var ctx, done = context.WithTimeout(context.Background(), 3*time.Minute)

func cancel(order) error { done(); return nil }

var yesterday = time.Now().Add(-24 * time.Hour)
`

// wholeProgram makes a program of a snippet: each error that it leaves unread ends it.
func wholeProgram(snippet string) string {
	var body strings.Builder
	known := map[string]bool{}
	for line := range strings.Lines(snippet) {
		body.WriteString(line)
		if m := declaredNames.FindStringSubmatch(line); m != nil {
			for _, name := range strings.Split(m[1], ", ") {
				if !known[name] {
					known[name] = true
					body.WriteString("_ = " + name + "\n")
				}
			}
		}
		if strings.Contains(line, "err = ") || strings.Contains(line, "err := ") && !strings.HasPrefix(line, "for ") {
			body.WriteString("if err != nil { panic(err) }\n")
		}
	}
	imports := map[string]bool{"context": true, "time": true}
	for _, m := range usedPackages.FindAllStringSubmatch(snippet, -1) {
		imports[m[1]] = packagesOfSnippets[m[1]] != ""
	}
	var head strings.Builder
	for name, is := range imports {
		if !is { // a variable
			continue
		}
		path := packagesOfSnippets[name]
		if strings.HasPrefix(path, "dispatcher/") {
			path = "github.com/hookladder/hookladder/" + path
		}
		head.WriteString("import \"" + path + "\"\n")
	}
	return "package main\n" + head.String() + surroundings + "func main() {\n" + body.String() + "}\n"
}
