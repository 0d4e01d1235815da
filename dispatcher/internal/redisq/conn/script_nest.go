package conn

import (
	"strings"
)

// The walk through the captured locals, which script_rare.go describes, ends at the function that is running. So
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
