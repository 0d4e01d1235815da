//go:build !race

package main_test

import (
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other programs import the public packages, and pkg.go.dev shows their examples. go test
// runs only examples with an Output.
func TestTheHouseHasExamplesOfItsPublicPackagesThatRun(t *testing.T) {
	checked := 0
	for folder := range mustReadHouse(t) {
		top, _, _ := strings.Cut(folder, "/")
		if top == "" || top == "cmd" || top == "deploy" || strings.Contains(folder, "internal") {
			continue
		}
		checked++
		ran, idle := examplesOf(t, folder)
		require.NotZero(t, ran, "%s has no example with an Output", folder)
		require.Empty(t, idle, "%s: these examples have no Output", folder)
	}
	require.GreaterOrEqual(t, checked, 10)
}

// examplesOf counts the examples of a package that run, and names the others.
func examplesOf(t testing.TB, folder string) (ran int, idle []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(folder), "*_test.go"))
	require.NoError(t, err)
	slices.Sort(files)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, e := range doc.Examples(parsed) {
			if e.Output == "" && !e.EmptyOutput {
				idle = append(idle, "Example"+e.Name)
				continue
			}
			ran++
		}
	}
	return ran, idle
}
