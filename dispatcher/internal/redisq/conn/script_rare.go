package conn

import (
	"maps"
	"slices"
	"strconv"
)

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
