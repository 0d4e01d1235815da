package script

import (
	"maps"
	"slices"
	"strings"
)

// The walk through the captured locals, which rare.go describes, ends at the function that is running. So
// the second part of a long script is in a function of its own. There the names of the first part need no
// walk.

const (
	nestMost   = 60  // captured locals of a function, a limit of Lua
	nestLeast  = 400 // steps of the walk that the function has to save
	nestBegin  = "return (function()\n"
	nestEnd    = "end)()\n"
	localFirst = "local "
)

// nest returns the text of the pieces, with the second part of the script in a function if that makes it cheaper.
func nest(pieces []piece) string {
	at, least := 0, stepsOf(pieces, 0)-nestLeast
	for i := 1; i < len(pieces); i++ {
		if !pieces[i].atMargin() {
			continue
		}
		if steps := stepsOf(pieces, i); steps < least && capturedBy(pieces[:i], pieces[i:]) <= nestMost {
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

// capturedBy returns the number of locals of the first part that the second part uses.
func capturedBy(first, second []piece) int {
	used := map[string]bool{}
	for _, p := range second {
		addWords(used, p.text)
	}
	n := 0
	for _, p := range first {
		for _, name := range p.madeNames() {
			if used[name] {
				n++
			}
		}
	}
	return n
}

// stepsOf returns the length of all walks if the pieces from a place on are in a function of their own.
func stepsOf(pieces []piece, from int) (steps int) {
	level, captured := map[string]int{}, []bool(nil)
	for i, p := range pieces {
		if i == from {
			level, captured = map[string]int{}, nil
		}
		for _, name := range p.madeNames() {
			level[name] = len(captured)
			captured = append(captured, false)
		}
		if !strings.Contains(p.text, "function") {
			continue
		}
		used := map[string]bool{}
		addWords(used, p.text)
		for _, name := range slices.Sorted(maps.Keys(used)) { // in an order, so that each process makes the same script
			l, local := level[name]
			if !local {
				continue
			}
			for above := l + 1; above < len(captured); above++ {
				if captured[above] {
					steps++
				}
			}
			captured[l] = true
		}
	}
	return steps
}
