package conn

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Redis runs a script's text from its first line at each call, so each function of the shared parts
// is created again at each call. That costs as much as half a delivery, and the functions must be
// collected. For this reason each script gets only the functions that it uses.

// piece is a function that begins at a script's left margin, or a line between two functions.
type piece struct {
	name  string // name of the function, empty for a line
	text  string
	words []string // of the text, each once
	local []string // the names that its lines define, as often as they do
	rare  bool     // the function has the rareMark
}

// isLine reports whether a piece is a line, except a line with names of keys: a key may be called like
// a function.
func (p piece) isLine() bool {
	_, _, names := keyNames(p)
	return p.name == "" && !names
}

// prune joins the pieces of a script without comments, unused functions and unused names of keys. If
// a word only looks like a use of a name, the name stays, so that no necessary code is removed.
// Constants are replaced by their numbers, because Lua has no constants and a script may have few
// locals. It comes first to the functions that the script does not use, because these are two thirds of
// its text.
func prune(pieces []piece) string {
	return nest(sink(pruneNames(deferRare(sink(inline(usedOf(pieces)))))))
}

// sink moves each function, and each name of a key, down to the first piece that uses it. So a script that
// ends early has made nothing for the pieces behind its end.
func sink(pieces []piece) []piece {
	many := map[string]int{} // functions and keys by name
	for _, p := range pieces {
		many[p.sinks()]++
	}
	margins, margin := make([]int, len(pieces)), 0 // of each piece, the last one up to it that stays and is outside of all blocks
	for i, p := range pieces {
		if name := p.sinks(); p.atMargin() && (name == "" || many[name] > 1) {
			margin = i
		}
		margins[i] = margin
	}
	before := make([][]piece, len(pieces)) // what sinks to a piece, the last one first
	places := map[string]int{}             // of the first piece that uses a name
	for i, p := range slices.Backward(pieces) {
		at := i
		if use, used := places[p.sinks()]; used && many[p.sinks()] == 1 {
			at = max(i, margins[use])
		}
		before[at] = append(before[at], p)
		for _, word := range p.words {
			if use, used := places[word]; !used || at < use {
				places[word] = at
			}
		}
	}
	sunk := make([]piece, 0, len(pieces))
	for _, list := range before {
		slices.Reverse(list)
		sunk = append(sunk, list...)
	}
	return sunk
}

// sinks returns the name of a piece that may sink: a function or one key. It is empty for any other piece.
func (p piece) sinks() string {
	if names, _, is := keyNames(p); is && len(names) == 1 {
		return names[0]
	}
	return p.name
}

// usedOf returns the lines, and the functions that a line uses, also through other functions.
func usedOf(all []piece) []piece {
	used, functions := make(map[string]bool, len(all)), make(map[string][]piece, len(all))
	var add func(p piece)
	add = func(p piece) {
		for _, word := range p.words {
			if !used[word] {
				used[word] = true
				for _, function := range functions[word] {
					add(function)
				}
			}
		}
	}
	for _, p := range all {
		if p.name != "" {
			functions[p.name] = append(functions[p.name], p)
		}
	}
	for _, p := range all {
		if p.isLine() {
			add(p)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p piece) bool { return p.name != "" && !used[p.name] })
}

// piecesOf splits a script. A function ends on its own line, or at an end at the margin.
func piecesOf(text string) []piece {
	var pieces []piece
	open := false
	for line := range strings.Lines(text) {
		rare := strings.HasSuffix(line, rareMark+"\n")
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
			pieces = append(pieces, piece{name: name, text: line, rare: rare})
			open = !strings.HasSuffix(line, " end")
		default:
			pieces = append(pieces, piece{text: line})
		}
	}
	for i, p := range pieces {
		pieces[i].words = lineOf(p.text).words
		for line := range strings.Lines(p.text) {
			if after, found := strings.CutPrefix(strings.TrimLeft(line, " "), "local "); found {
				pieces[i].local = slices.AppendSeq(pieces[i].local, wordsOf(madeBy(after)))
			}
		}
	}
	return pieces
}

// lineOf returns a line as a piece. Most scripts have the same functions, with the same names
// replaced, so the words of each text are found once.
func lineOf(text string) piece {
	words, ok := worded.Load(text)
	if !ok {
		found := slices.Compact(slices.Sorted(wordsOf(text)))
		words, _ = worded.LoadOrStore(text, slices.Clip(found))
	}
	return piece{text: text, words: words.([]string)}
}

// tuned marks the line of constants that tests of the engine replace in a script's text.
const tuned = "FIRST_WINDOW"

// inline replaces names of constants by their numbers. A constant is defined by a line at the
// margin. If the name is also a local of a function, it stays. The line that contains tuned also
// stays.
func inline(pieces []piece) []piece {
	locals := map[string]int{} // how many times each name is defined
	for _, p := range pieces {
		for _, name := range p.local {
			locals[name]++
		}
	}
	values := map[string]string{}
	rest := slices.DeleteFunc(pieces, func(p piece) bool {
		names, numbers := constantsOf(p)
		if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return name == tuned || locals[name] > 1 }) {
			return false
		}
		for i, name := range names {
			values[name] = numbers[i]
		}
		return true
	})
	for i := range rest {
		rest[i] = rest[i].replaced(values)
	}
	return rest
}

// madeBy returns the part of a line after its local, which has the new names.
func madeBy(line string) string {
	if strings.HasPrefix(line, "function ") {
		names, _, _ := strings.Cut(line, ")")
		return names
	}
	names, _, _ := strings.Cut(line, "=")
	return names
}

// constantsOf reads a line that defines numbers with names in capitals. It returns no names for any
// other line.
func constantsOf(p piece) (names, numbers []string) {
	after, found := strings.CutPrefix(p.text, "local ")
	left, right, made := strings.Cut(after, " = ")
	if !found || !made || p.name != "" || strings.Trim(left, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_, ") != "" || strings.Trim(right, "0123456789, ") != "" {
		return nil, nil
	}
	names, numbers = strings.Split(left, ", "), strings.Split(right, ", ")
	if len(names) != len(numbers) {
		return nil, nil
	}
	return names, numbers
}

// replaced returns the piece with other words.
func (p piece) replaced(by map[string]string) piece {
	if slices.ContainsFunc(p.words, func(word string) bool { return by[word] != "" }) {
		line := lineOf(replaceWords(p.text, by))
		p.text, p.words = line.text, line.words
	}
	return p
}

// replaceWords replaces words of a script, except in its string literals.
func replaceWords(text string, by map[string]string) string {
	if len(by) == 0 {
		return text
	}
	var b strings.Builder
	copied := 0
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '\'' || c == '"':
			for end < len(text) && text[end] != c {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
		case isWord(c):
			for end < len(text) && isWord(text[end]) {
				end++
			}
			if number, ok := by[text[i:end]]; ok {
				b.WriteString(text[copied:i])
				b.WriteString(number)
				copied = end
			}
		}
		i = end
	}
	b.WriteString(text[copied:])
	return b.String()
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// pruneNames drops the names of keys that no other line uses. A name that is
// used once is replaced by the expression that makes the key. That needs no local, and takes no
// time in a script that does not reach the line.
func pruneNames(pieces []piece) []piece {
	keys, once := keysOf(pieces), map[string]string{}
	uses := make(map[string]int, len(keys))
	for _, p := range pieces {
		if _, _, ok := keyNames(p); ok || !slices.ContainsFunc(p.words, func(word string) bool { return keys[word] != "" }) {
			continue
		}
		for word := range wordsOf(p.text) {
			if keys[word] != "" {
				uses[word]++
			}
		}
	}
	for _, p := range pieces {
		names, values, _ := keyNames(p)
		for i, name := range names {
			if uses[name] == 1 {
				once[name] = values[i]
			}
		}
	}
	var rest []piece
	for _, p := range pieces {
		names, values, ok := keyNames(p)
		if !ok {
			rest = append(rest, p.replaced(once))
			continue
		}
		for i, name := range names {
			if uses[name] > 1 {
				rest = append(rest, lineOf("local "+name+" = "+values[i]))
			}
		}
	}
	return rest
}

// keyNames reads a line of common.lua that defines names of keys.
func keyNames(p piece) (names, values []string, ok bool) {
	if p.name != "" {
		return nil, nil, false
	}
	left, right, ok := strings.Cut(strings.TrimPrefix(p.text, "local "), " = ")
	if !ok || !strings.HasPrefix(right, "tag .. '") {
		return nil, nil, false
	}
	names, values = strings.Split(left, ", "), strings.Split(right, ", ")
	return names, values, len(names) == len(values)
}

func wordsOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for begin := 0; begin < len(text); {
			end := begin
			for end < len(text) && isWord(text[end]) {
				end++
			}
			if end > begin && !yield(text[begin:end]) {
				return
			}
			begin = end + 1
		}
	}
}

// Lua finds each captured local of a new function by a walk through all captured locals of the
// script. So the cost of the functions grows with the square of their number. Most calls of a script
// need half of its functions, and should not create the others.

// rareMark ends the first line of a function that few calls of a script need. Such a function is
// created when it is called for the first time, together with all other rare functions and with the
// functions that only rare functions use.
const rareMark = "-- rare"

// rareName begins the names of the functions that create rare functions.
const rareName = "rare"

// deferRare moves the rare functions of a script into a function that creates them when one of them is
// called, and returns a table of them. If a line of the script needs one of them before all are
// defined, the later ones get a function of their own.
func deferRare(pieces []piece) []piece {
	rare := rareOf(pieces)
	needing := needingAny(pieces, rare)
	calls := map[string]string{}
	var rest, span []piece
	spans := 0
	end := func() {
		if len(span) > 0 {
			spans++
			rest = append(rest, deferSpan(span, pieces, rareName+strconv.Itoa(spans), calls)...)
			span = nil
		}
	}
	for _, p := range pieces {
		if p.isLine() && usesAny(p, needing) {
			end()
		}
		if p.rare = rare[p.name]; len(span) > 0 || p.rare {
			span = append(span, p)
		} else {
			rest = append(rest, p)
		}
	}
	end()
	for i, p := range rest {
		if !p.rare {
			rest[i] = p.replaced(calls)
		}
	}
	return rest
}

// deferSpan moves the rare functions of a span into the function maker. It adds to calls how other
// functions call them. In maker, names of keys are replaced by their expressions, because a function
// may capture at most 60 locals.
func deferSpan(span, all []piece, maker string, calls map[string]string) []piece {
	inside := map[string]bool{}
	last := 0
	for i, p := range span {
		if p.rare {
			inside[p.name], last = true, i
		}
	}
	outside, keys := usedOutside(all, inside), keysOf(all)
	made := maker + "_made"
	body, entries := "function "+maker+"()\nif not "+made+" then", ""
	var usual []piece
	for _, p := range span[:last+1] {
		if !p.rare {
			usual = append(usual, p)
			continue
		}
		body += "\n" + p.replaced(keys).replaced(calls).text // calls: of earlier spans
	}
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		if outside[name] {
			entries += " " + name + " = " + name + ","
			calls[name] = maker + "()." + name
		}
	}
	body += "\n" + made + " = {" + entries + " }\nend\nreturn " + made + "\nend"
	head := "local " + maker + ", " + made
	function := lineOf(body)
	function.rare = true
	return slices.Concat([]piece{lineOf(head)}, usual, []piece{function}, span[last+1:])
}

// rareOf returns the names of the marked functions, and of the functions that only these use.
func rareOf(pieces []piece) map[string]bool {
	rare, usual := map[string]bool{}, map[string]bool{}
	for _, p := range pieces {
		rare[p.name] = rare[p.name] || p.rare
	}
	for _, p := range pieces {
		if p.isLine() {
			addUses(usual, p, rare)
		}
	}
	marked := maps.Clone(rare)
	for _, p := range pieces {
		rare[p.name] = p.name != ""
	}
	for grown := true; grown; {
		grown = false
		for _, p := range pieces {
			if rare[p.name] && usual[p.name] && !marked[p.name] {
				rare[p.name], grown = false, true
				for _, same := range pieces {
					if same.name == p.name {
						addUses(usual, same, rare)
					}
				}
			}
		}
	}
	maps.DeleteFunc(rare, func(_ string, is bool) bool { return !is })
	return rare
}

// needingAny returns the names, and the names of all functions that use one of them, also through
// other functions.
func needingAny(pieces []piece, names map[string]bool) map[string]bool {
	needing := maps.Clone(names)
	for grown := true; grown; {
		grown = false
		for _, p := range pieces {
			if p.name != "" && !needing[p.name] && usesAny(p, needing) {
				needing[p.name], grown = true, true
			}
		}
	}
	return needing
}

func usesAny(p piece, names map[string]bool) bool {
	return slices.ContainsFunc(p.words, func(word string) bool { return names[word] })
}

// keysOf returns the names of the keys with their expressions.
func keysOf(pieces []piece) map[string]string {
	keys := map[string]string{}
	for _, p := range pieces {
		names, values, _ := keyNames(p)
		for i, name := range names {
			keys[name] = values[i]
		}
	}
	return keys
}

// usedOutside returns the rare functions that pieces use which are none of them.
func usedOutside(pieces []piece, rare map[string]bool) map[string]bool {
	used := map[string]bool{}
	for _, p := range pieces {
		if !rare[p.name] {
			addUses(used, p, rare)
		}
	}
	return used
}

// addUses adds the names that a piece uses. Names of others are not looked at.
func addUses(used map[string]bool, p piece, names map[string]bool) {
	for _, word := range p.words {
		if _, is := names[word]; is {
			used[word] = true
		}
	}
}

// The walk through the captured locals, which is described above, ends at the function that is running. So
// the second part of a long script is in a function of its own. There the names of the first part need no
// walk.

const (
	nestMost   = 59  // captured locals of a function: 60 is a limit of Lua, and one is a local of the guard around the script
	nestLeast  = 400 // steps of the walk that the function has to save
	nestBegin  = "return (function()\n"
	nestEnd    = "end)()\n"
	localFirst = "local "
)

// nest returns the text of the pieces, with the second part of the script in a function if that makes it cheaper.
func nest(pieces []piece) string {
	walks := walksOf(pieces)
	at, least := 0, 0
	for i, steps := range walks.steps() {
		switch {
		case i == 0:
			least = steps - nestLeast
		case steps < least && pieces[i].atMargin() && walks.capturedFrom(i) <= nestMost:
			at, least = i, steps
		}
	}
	var b strings.Builder
	for i, p := range pieces {
		if i == at && at > 0 {
			b.WriteString(nestBegin)
		}
		b.WriteString(p.text + "\n")
	}
	if at > 0 {
		b.WriteString(nestEnd)
	}
	return b.String()
}

// atMargin reports whether a piece begins outside of all blocks.
func (p piece) atMargin() bool {
	return strings.HasPrefix(p.text, localFirst) || strings.HasPrefix(p.text, "function ")
}

// madeNames returns the names of the locals that a piece makes at the margin of a script.
func (p piece) madeNames() []string {
	after, found := strings.CutPrefix(p.text, localFirst)
	if !found {
		return nil
	}
	after, _, _ = strings.Cut(after, "\n")
	if name, isFunction := strings.CutPrefix(after, "function "); isFunction {
		name, _, _ = strings.Cut(name, "(")
		return []string{name}
	}
	left, _, _ := strings.Cut(after, "=")
	return strings.Split(strings.TrimSpace(left), ", ")
}

// walks has the names of a script's locals as numbers, for each piece. Every place of a script is
// tried, and every start of the program does that for every script.
type walks struct {
	made, used [][]int // by piece; used is sorted by name, so that each process makes the same script
	functions  []bool  // the piece has a function
	last       []int   // by name: the last piece that uses it
}

func walksOf(pieces []piece) walks {
	number := map[string]int{}
	w := walks{made: make([][]int, len(pieces)), used: make([][]int, len(pieces)), functions: make([]bool, len(pieces))}
	for i, p := range pieces {
		for _, name := range p.madeNames() {
			if _, there := number[name]; !there {
				number[name] = len(number)
			}
			w.made[i] = append(w.made[i], number[name])
		}
	}
	w.last = make([]int, len(number))
	for i, p := range pieces {
		w.functions[i] = strings.Contains(p.text, "function")
		for _, name := range p.words {
			if n, local := number[name]; local {
				w.used[i] = append(w.used[i], n)
				w.last[n] = i
			}
		}
	}
	return w
}

// capturedFrom returns the number of locals that are made before a piece, and used from it on.
func (w walks) capturedFrom(from int) (n int) {
	for _, made := range w.made[:from] {
		for _, name := range made {
			if w.last[name] >= from {
				n++
			}
		}
	}
	return n
}

// steps returns, for each piece, the length of all walks if the pieces from it on are in a function of their
// own. Then the second part needs no walk for a name of the first part, and its other walks pass only names of
// the second part. So one pass finds all lengths.
func (w walks) steps() []int {
	level := make([]int, len(w.last))                                     // of each name, from 1; 0: it is not made yet
	var captured []bool                                                   // by level
	var maker []int                                                       // by level: the piece that made the name
	byUser, byMaker := make([]int, len(w.made)), make([]int, len(w.made)) // steps of the walks, by piece
	inner := 0
	for i, made := range w.made {
		for _, name := range made {
			captured, maker = append(captured, false), append(maker, i)
			level[name] = len(captured)
		}
		if !w.functions[i] {
			continue
		}
		for _, name := range w.used[i] {
			l := level[name]
			if l == 0 {
				continue
			}
			for _, above := range captured[l:] {
				if above {
					byUser[i]++
					byMaker[maker[l-1]]++
					inner++
				}
			}
			captured[l-1] = true
		}
	}
	steps, outer := make([]int, len(w.made)), 0
	for i := range steps {
		steps[i] = outer + inner
		outer += byUser[i]
		inner -= byMaker[i]
	}
	return steps
}
