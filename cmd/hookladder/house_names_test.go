//go:build !race

package main_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// common are the unexported types that may have the same name in several
// packages: what every server, client or parser has.
var common = []string{"options", "server"}

// ambiguous are the words that name types of several packages today. The list
// may only shrink: one word has one meaning.
var ambiguous = []string{
	"chunk", "flow", "model", "place", "rig", "target", "turn",
}

func TestTheTypesOfTheHouseHaveNamesOfTheirOwn(t *testing.T) {
	twice := sharedNames(mustReadHouse(t))
	for _, name := range slices.Sorted(maps.Keys(twice)) {
		require.Contains(t, slices.Concat(common, ambiguous), name, "a type of that name is in each of %s", twice[name])
	}
	require.Empty(t, stale(ambiguous, twice), "no two packages have types of these names any more: take them out of ambiguous")
}

// stale are the entries of a list of exceptions that nothing needs any more.
func stale[V any](list []string, needed map[string]V) (found []string) {
	for _, name := range list {
		if _, ok := needed[name]; !ok {
			found = append(found, name)
		}
	}
	return found
}

func TestTheHouseFindsAnExceptionThatNothingNeeds(t *testing.T) {
	require.Equal(t, []string{"b"}, stale([]string{"a", "b"}, map[string]bool{"a": false, "c": true}))
}

func TestTheHouseFindsANameOfTwoTypes(t *testing.T) {
	file := func(folder, name, text string) source { return mustParse(t, folder, name, text) }
	require.Equal(t, map[string]string{"call": "a, b"}, sharedNames(map[string]map[string]source{
		"a": {"a.go": file("a", "a.go", "package a; type call struct{}; type own struct{}")},
		"b": {
			"b.go":      file("b", "b.go", "package b; type call int; func f() { type local int }"),
			"b_test.go": file("b", "b_test.go", "package b; type own struct{}"),
		},
	}))
}

// sharedNames finds the unexported types that several packages declare, and tells
// which. Types of tests are not counted: many have a fake.
func sharedNames(sources map[string]map[string]source) map[string]string {
	in := map[string]map[string]bool{}
	for folder, files := range sources {
		for _, s := range files {
			if s.test {
				continue
			}
			for _, name := range s.types {
				if in[name] == nil {
					in[name] = map[string]bool{}
				}
				in[name][folder] = true
			}
		}
	}
	found := map[string]string{}
	for name, folders := range in {
		if len(folders) > 1 {
			found[name] = strings.Join(slices.Sorted(maps.Keys(folders)), ", ")
		}
	}
	return found
}
