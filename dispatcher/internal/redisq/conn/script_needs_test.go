package conn_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// order is the order in which the shared parts are put together.
var order = []string{
	"common", "leases", "weight", "turns", "quick", "messages", "quick_schedule", "quick_claim", "quick_settle",
	"tenant", "subject", "limits", "lane_state", "slots", "progress", "sums", "finish", "position", "server", "read", "named", "cut",
	"ends", "order", "lease_ready", "outcome", "verdict", "taken", "reach", "expiry", "job", "doctor", "access_common", "endpoint_common",
}

// ofOne are the parts that only some scripts have, and these.
var ofOne = map[string][]string{
	"turns": {"quick_claim", "claim"}, "quick": {"quick_schedule", "quick_claim", "quick_settle"}, "messages": {"quick_schedule", "schedule"},
	"quick_schedule": {"schedule"}, "quick_claim": {"claim"}, "quick_settle": {"settle"},
}

// mostLocals are the locals of a script at its margin. Lua allows 200, and refuses the script with one more.
const mostLocals = 190

// luaFile is a script or a shared part.
type luaFile struct {
	name, text string
	top        map[string]bool // names that it makes at its margin
	made       map[string]bool // all names that it makes
	used       map[string]bool // words that may be names of others
}

func TestEachScriptNamesWhatItNeeds(t *testing.T) {
	files := mustReadLua(t)
	for _, f := range files {
		if parts := partsOf(f, files); len(parts) > 0 {
			want := needsOf(f, parts)
			got := strings.Join(regexp.MustCompile(`(?m)^-- needs: .*\n(?:--   .*\n)*`).FindAllString(f.text, -1), "")
			require.Equal(t, want, got, "the header of %s.lua needs this line:\n%s", f.name, want)
		}
	}
}

// A name has one meaning in a script and in the parts before it.
func TestNoScriptHasANameOfAPart(t *testing.T) {
	files := mustReadLua(t)
	for _, f := range files {
		for _, part := range partsOf(f, files) {
			for name := range f.made {
				require.False(t, part.top[name] && part.name != f.name, "%s of %s.lua is a name of the part %s", name, f.name, part.name)
			}
		}
	}
}

func TestNoScriptComesNearTheLimitOfLocals(t *testing.T) {
	files := mustReadLua(t)
	for _, f := range files {
		if slices.Contains(order, f.name) || len(partsOf(f, files)) < 3 {
			continue
		}
		var parts []string
		for _, name := range closure(f, files) {
			parts = append(parts, files[slices.IndexFunc(files, func(f luaFile) bool { return f.name == name })].text)
		}
		made := conn.PruneScript(strings.Join(append(parts, f.text), ""))
		n := len(topNames(code(made)))
		t.Log(f.name, n, "locals")
		require.LessOrEqual(t, n, mostLocals, "locals of %s", f.name)
	}
}

func TestNeedsAreFound(t *testing.T) {
	parts := []luaFile{newLuaFile("common", "local KEY, call = tag .. ':k', redis.call\n"), newLuaFile("ends", "local ended = {}\nlocal function end_dead(l) return call(l) end\n")}
	f := newLuaFile("x", "-- x: end_dead is only a word here\nlocal a, b = { call = 1 }, 'ended'\nfor i in a do call(KEY, b.ended, i) end\nended = end_dead(a)\n")
	require.Equal(t, "-- needs: common(call), ends(end_dead, ended)\n", needsOf(f, parts))
	require.Equal(t, map[string]bool{"a": true, "b": true, "i": true}, f.made)
}

func mustReadLua(t *testing.T) (files []luaFile) {
	t.Helper()
	for _, pattern := range []string{"../lua/*.lua", "../*/lua/*.lua"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			files = append(files, newLuaFile(strings.TrimSuffix(filepath.Base(path), ".lua"), string(text)))
		}
	}
	require.Greater(t, len(files), 60)
	return files
}

func newLuaFile(name, text string) luaFile {
	src := code(text)
	f := luaFile{name: name, text: text, top: topNames(src), made: madeNames(src), used: map[string]bool{}}
	depth := 0 // of braces
	for _, token := range regexp.MustCompile(`[{}]|[.:]?\w+(?: *=[^=])?`).FindAllString(src, -1) {
		switch {
		case token == "{":
			depth++
		case token == "}":
			depth--
		case token[0] == '.' || token[0] == ':':
		case depth > 0 && strings.Contains(token, "="): // a field of a table
		default:
			f.used[strings.TrimRight(token, " =("+"\t\n{'\"-#")] = true
			if word, _, is := strings.Cut(token, "="); is {
				f.used[strings.TrimSpace(word)] = true
			}
		}
	}
	return f
}

// code takes the comments and the texts out of a script.
func code(text string) string {
	return regexp.MustCompile(`--.*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"`).ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == '-' {
			return ""
		}
		return "''"
	})
}

var (
	declaration = regexp.MustCompile(`(?m)^( *)local ([\w, ]+)`)
	function    = regexp.MustCompile(`(?m)\bfunction ?(\w*)\(([\w, ]*)`)
	loop        = regexp.MustCompile(`\bfor ([\w, ]+?)(?: in\b| ?=)`)
	word        = regexp.MustCompile(`\w+`)
)

// topNames are the names that a script makes at its margin.
func topNames(src string) map[string]bool {
	names := map[string]bool{}
	for _, found := range declaration.FindAllStringSubmatch(src, -1) {
		if found[1] == "" {
			addNames(names, strings.TrimPrefix(found[2], "function "))
		}
	}
	return names
}

// madeNames are all names that a script makes.
func madeNames(src string) map[string]bool {
	names := map[string]bool{}
	for _, found := range declaration.FindAllStringSubmatch(src, -1) {
		addNames(names, strings.TrimPrefix(found[2], "function "))
	}
	for _, found := range function.FindAllStringSubmatch(src, -1) {
		addNames(names, found[2])
	}
	for _, found := range loop.FindAllStringSubmatch(src, -1) {
		addNames(names, found[1])
	}
	delete(names, "_")
	return names
}

func addNames(names map[string]bool, list string) {
	for _, name := range word.FindAllString(list, -1) {
		names[name] = true
	}
}

// partsOf are the parts that a script may use. A script that makes its own names of keys has none.
func partsOf(f luaFile, files []luaFile) (parts []luaFile) {
	own := ""
	for _, prefix := range []string{"session_", "link_", "shown_"} {
		if strings.HasPrefix(f.name, prefix) {
			own = "access_common"
		}
	}
	if strings.HasPrefix(f.name, "endpoint_") {
		own = "endpoint_common"
	}
	if f.name == own || f.name != "common" && strings.Contains(code(f.text), "KEYS") {
		return nil
	}
	for _, name := range order {
		shared := !strings.HasSuffix(name, "_common") && (name != "doctor" || strings.HasPrefix(f.name, "doctor_"))
		if shared && strings.HasPrefix(f.name, "doctor") && name == "read" {
			shared = false // both read the names of instances
		}
		if of, some := ofOne[name]; some && !slices.Contains(of, f.name) && name != f.name {
			shared = false
		}
		if own == "" && shared || name == own {
			parts = append(parts, files[slices.IndexFunc(files, func(f luaFile) bool { return f.name == name })])
		}
	}
	return parts
}

// needsOf writes the line that names what a script needs. The names of keys and the constants of common
// go without saying.
func needsOf(f luaFile, parts []luaFile) string {
	words := []string{}
	for _, part := range parts {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(part.top)) {
			if constant := part.name == "common" && strings.ToUpper(name) == name; f.used[name] && !f.made[name] && !constant {
				names = append(names, name)
			}
		}
		if len(names) > 0 && part.name != f.name {
			words = append(words, fmt.Sprintf("%s(%s)", part.name, strings.Join(names, ", ")))
		}
	}
	if len(words) == 0 {
		return ""
	}
	const width = 120
	line, text := "-- needs:", ""
	for _, word := range strings.Fields(strings.Join(words, ", ")) {
		if len(line)+len(word) >= width {
			text += line + "\n"
			line = "--  "
		}
		line += " " + word
	}
	return text + line + "\n"
}

// closure are the parts that a script needs, and the ones that these need, in their order.
func closure(f luaFile, files []luaFile) []string {
	needed := map[string]bool{"common": true, "finish": true}
	var add func(f luaFile)
	add = func(f luaFile) {
		for _, part := range partsOf(f, files) {
			for name := range part.top {
				if f.used[name] && !f.made[name] && !needed[part.name] {
					needed[part.name] = true
					add(part)
				}
			}
		}
	}
	add(f)
	add(files[slices.IndexFunc(files, func(f luaFile) bool { return f.name == "finish" })])
	return slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !needed[name] })
}
