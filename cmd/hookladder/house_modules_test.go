//go:build !race

package main_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testLibraries are for single folders of tests, each of which is in a module of its own.
var testLibraries = []string{
	"github.com/Shopify/toxiproxy/v2", "github.com/chromedp/chromedp", "github.com/compose-spec/compose-go/v2", "github.com/google/go-github/v74",
	"github.com/hibiken/asynq", "github.com/prometheus/prometheus", "github.com/standard-webhooks/standard-webhooks/libraries", "github.com/stripe/stripe-go/v82",
	"golang.org/x/mod",
}

// TestTheHouseOfTheProgramNeedsNoTestLibrary also finds a module that make does not test, and one
// that tests the program with other versions than those it is built with.
func TestTheHouseOfTheProgramNeedsNoTestLibrary(t *testing.T) {
	texts := map[string]string{}
	mustWalkHouse(t, func(file, text string) {
		if base := path.Base(file); base == "go.mod" || base == "go.work" || file == "Makefile" {
			texts[file] = text
		}
	})
	require.Greater(t, len(texts), 2, "it sees no module")
	require.Empty(t, misplacedModules(texts))
}

func TestTheHouseFindsAMisplacedModule(t *testing.T) {
	texts := map[string]string{
		"go.mod":               "require (\n\tgithub.com/a/a v1.0.0\n\tgithub.com/hibiken/asynq v0.1.0\n)",
		"deploy/go.work":       "use (\n\t..\n\t./chaos\n)",
		"deploy/chaos/go.mod":  "require (\n\tgithub.com/a/a v1.1.0 // indirect\n\tgithub.com/b/b v1.0.0\n)",
		"deploy/other/go.mod":  "",
		"deploy/ship/a/go.mod": "require (\n\tgithub.com/a/a v1.1.0\n)",
		"deploy/ship/b/go.mod": "",
		"Makefile":             "a-check:\n\tcd deploy/ship/a && go test ./...",
	}
	require.Equal(t, []string{
		"deploy/chaos/go.mod: github.com/a/a v1.1.0, go.mod has v1.0.0",
		"deploy/other: not in deploy/go.work",
		"deploy/ship/b: not in the Makefile",
		"go.mod: github.com/hibiken/asynq is for tests of a module of their own",
	}, misplacedModules(texts))
}

// checkers is the folder of the modules that check releases, charts and stacks, with libraries that take long
// to compile. Tasks of their own run them, so they are not in the workspace, and need no library in
// the program's version.
const checkers = "deploy/ship/"

// misplacedModules compares the files of all modules, and the workspace that lists them.
func misplacedModules(texts map[string]string) (found []string) {
	program, listed := versions(texts["go.mod"]), strings.Fields(texts["deploy/go.work"])
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		folder := path.Dir(file)
		if path.Base(file) != "go.mod" || folder == "." {
			continue
		}
		if strings.HasPrefix(folder, checkers) {
			found = append(found, when(!strings.Contains(texts["Makefile"], folder), folder+": not in the Makefile")...)
			continue
		}
		found = append(found, when(!slices.Contains(listed, "./"+strings.TrimPrefix(folder, "deploy/")), folder+": not in deploy/go.work")...)
		own := versions(texts[file])
		for _, needed := range slices.Sorted(maps.Keys(own)) {
			other, shared := program[needed]
			found = append(found, when(shared && other != own[needed], fmt.Sprintf("%s: %s %s, go.mod has %s", file, needed, own[needed], other))...)
		}
	}
	for _, library := range testLibraries {
		_, needed := program[library]
		found = append(found, when(needed, "go.mod: "+library+" is for tests of a module of their own")...)
	}
	return found
}

// versions returns the version of each module that a go.mod requires.
func versions(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); strings.HasPrefix(line, "\t") && len(words) > 1 {
			found[words[0]] = words[1]
		}
	}
	return found
}
