package script

import (
	"regexp"
	"slices"
	"strings"
)

// Redis runs a script's text from its first line at each call. So each function
// of the shared parts is made again at each call. It costs as much as half a
// delivery and must be collected. So each script gets only the functions that
// it uses.

// piece is a function at a script's left margin, or a line between two
// functions.
type piece struct {
	name string // of the function, empty for a line
	text string
}

// Prune removes from a script the comments, and the functions and names of keys
// that it does not use. A word that only looks like a use keeps them, so that
// nothing necessary is removed. Constants become numbers where they are used: Lua
// has no constants, and a script may have few locals.
func Prune(text string) string {
	pieces := inline(piecesOf(text))
	used := map[string]bool{}
	for _, p := range pieces {
		if _, _, names := keyNames(p); p.name == "" && !names { // a key may be called as a function is
			addWords(used, p.text)
		}
	}
	left := pieces
	for grown := true; grown; {
		grown = false
		var rest []piece
		for _, p := range left {
			if !used[p.name] {
				rest = append(rest, p)
				continue
			}
			addWords(used, p.text)
			grown = true
		}
		left = rest
	}
	pieces = slices.DeleteFunc(pieces, func(p piece) bool { return p.name != "" && !used[p.name] })
	return pruneNames(pieces)
}

// piecesOf cuts a script. A function ends on its line, or with an end at the margin.
func piecesOf(text string) []piece {
	var pieces []piece
	open := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		line = strings.TrimRight(line, " \n")
		last := len(pieces) - 1
		switch after, found := strings.CutPrefix(line, "local function "); {
		case line == "":
		case open:
			pieces[last].text += "\n" + line
			open = line != "end"
		case found:
			name, _, _ := strings.Cut(after, "(")
			pieces = append(pieces, piece{name: name, text: line})
			open = !strings.HasSuffix(line, " end")
		default:
			pieces = append(pieces, piece{text: line})
		}
	}
	return pieces
}

// constants is a line that gives numbers names.
var constants = regexp.MustCompile(`^local ([A-Z][A-Z_]*(?:, [A-Z][A-Z_]*)*) = ([0-9]+(?:, [0-9]+)*)$`)

// tuned is in the line of constants that tests of the engine replace in a script's text.
const tuned = "FIRST_WINDOW"

// inline puts numbers in place of the names that lines at the margin give them. A name that
// is a local of some function too stays, and so does the line that has tuned.
func inline(pieces []piece) []piece {
	values, all := map[string]string{}, ""
	for _, p := range pieces {
		all += p.text + "\n"
	}
	rest := slices.DeleteFunc(pieces, func(p piece) bool {
		m := constants.FindStringSubmatch(p.text)
		if m == nil || p.name != "" {
			return false
		}
		names, numbers := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
		if len(names) != len(numbers) || slices.Contains(names, tuned) || slices.ContainsFunc(names, func(name string) bool {
			return len(regexp.MustCompile(`(?m)^ *local [^=\n]*\b`+name+`\b`).FindAllString(all, 2)) > 1
		}) {
			return false
		}
		for i, name := range names {
			values[name] = numbers[i]
		}
		return true
	})
	for i := range rest {
		rest[i].text = tokens.ReplaceAllStringFunc(rest[i].text, func(token string) string {
			if number, ok := values[token]; ok {
				return number
			}
			return token
		})
	}
	return rest
}

// tokens are the texts and words of a script.
var tokens = regexp.MustCompile(`'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[A-Za-z_][A-Za-z0-9_]*`)

// pruneNames joins the pieces and leaves out the names of keys that no other
// line uses.
func pruneNames(pieces []piece) string {
	used := map[string]bool{}
	for _, p := range pieces {
		if _, _, ok := keyNames(p); !ok {
			addWords(used, p.text)
		}
	}
	var b strings.Builder
	for _, p := range pieces {
		line := p.text
		if names, values, ok := keyNames(p); ok {
			line = ""
			for i, name := range names {
				if used[name] {
					line += "local " + name + " = " + values[i] + "\n"
				}
			}
		} else {
			line += "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// keyNames reads a line of common.lua that defines names of keys.
func keyNames(p piece) (names, values []string, ok bool) {
	left, right, ok := strings.Cut(strings.TrimPrefix(p.text, "local "), " = ")
	if !ok || p.name != "" || !strings.HasPrefix(right, "tag .. '") {
		return nil, nil, false
	}
	names, values = strings.Split(left, ", "), strings.Split(right, ", ")
	return names, values, len(names) == len(values)
}

// addWords adds the words of a text.
func addWords(words map[string]bool, text string) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		words[word] = true
	}
}
