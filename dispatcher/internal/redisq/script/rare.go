package script

import (
	"maps"
	"slices"
	"strings"
)

// Lua finds each captured local of a new function by a walk through all captured locals of the
// script. So the cost of the functions grows with the square of their number. Most calls of a script
// need half of its functions, and should not create the others.

// rareMark ends the first line of a function that few calls of a script need. Such a function is
// created when it is called for the first time, together with all other rare functions and with the
// functions that only rare functions use.
const rareMark = "-- rare"

// loadRare is the function that creates the rare functions.
const loadRare = "load_rare"

// deferRare moves the rare functions of a script into the function loadRare, which the first call of
// one of them calls. Names of keys are replaced by their expressions there, because a function may
// capture at most 60 locals.
func deferRare(pieces []piece) []piece {
	rare := rareOf(pieces)
	if len(rare) == 0 {
		return pieces
	}
	keys := map[string]string{}
	for _, p := range pieces {
		names, values, _ := keyNames(p)
		for i, name := range names {
			keys[name] = values[i]
		}
	}
	first := slices.IndexFunc(pieces, func(p piece) bool { return rare[p.name] })
	last := len(pieces) - 1
	for !rare[pieces[last].name] {
		last--
	}
	entries := wordsOutside(pieces, rare)
	var rest []piece
	loader := "function " + loadRare + "()"
	for i, p := range pieces {
		if i == first {
			rest = append(rest, piece{text: "local " + loadRare})
		}
		switch {
		case !rare[p.name]:
			rest = append(rest, p)
		case entries[p.name]:
			rest = append(rest, piece{text: "local " + p.name}, piece{text: p.name + " = function(...) " + loadRare + "() return " + p.name + "(...) end"})
			loader += "\n" + p.name + " = function" + replaceWords(strings.TrimPrefix(p.text, "local function "+p.name), keys)
		default:
			loader += "\n" + replaceWords(p.text, keys)
		}
		if i == last {
			rest = append(rest, piece{text: loader + "\nend"})
		}
	}
	return rest
}

// rareOf returns the names of the marked functions, and of the functions that only these use.
func rareOf(pieces []piece) map[string]bool {
	rare, usual := map[string]bool{}, map[string]bool{}
	for _, p := range pieces {
		rare[p.name] = rare[p.name] || p.rare
		if _, _, names := keyNames(p); p.name == "" && !names { // a key may be called like a function
			addWords(usual, p.text)
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
						addWords(usual, same.text)
					}
				}
			}
		}
	}
	maps.DeleteFunc(rare, func(_ string, is bool) bool { return !is })
	return rare
}

// wordsOutside returns the words of all pieces except the rare functions.
func wordsOutside(pieces []piece, rare map[string]bool) map[string]bool {
	words := map[string]bool{}
	for _, p := range pieces {
		if !rare[p.name] {
			addWords(words, p.text)
		}
	}
	return words
}
