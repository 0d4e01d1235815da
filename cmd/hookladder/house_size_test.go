//go:build !race

package main_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostFiles is how many files a reader keeps in mind: non-test Go files of one package.
const mostFiles = 20

func TestTheHouseHasNoCrowdedPackage(t *testing.T) {
	require.Empty(t, crowds(mustCountFiles(t)))
}

func TestTheHouseFindsACrowdedPackage(t *testing.T) {
	require.Equal(t, []string{"a: 21 files, at most 20"}, crowds(map[string]int{"a": mostFiles + 1, "b": mostFiles, "c": 1}))
}

// crowds lists the folders that have too many files.
func crowds(files map[string]int) (found []string) {
	for _, folder := range slices.Sorted(maps.Keys(files)) {
		if n := files[folder]; n > mostFiles {
			found = append(found, fmt.Sprintf("%s: %d files, at most %d", folder, n, mostFiles))
		}
	}
	return found
}

// mustCountFiles counts the non-test Go files of every folder.
func mustCountFiles(t *testing.T) map[string]int {
	t.Helper()
	files := map[string]int{}
	mustWalkHouse(t, func(file, _ string) {
		if path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") {
			files[path.Dir(file)]++
		}
	})
	return files
}

func TestTheHouseHasNoLongScript(t *testing.T) {
	var found []string
	mustWalkHouse(t, func(file, text string) { found = append(found, longScript(file, text)...) })
	require.Empty(t, found)
}

func TestTheHouseFindsALongScript(t *testing.T) {
	text := strings.Repeat("return 1\n", mostLines)
	require.Empty(t, longScript("a/a.lua", text))
	require.Empty(t, longScript("a/a.md", text+text))
	require.Equal(t, []string{"a/a.lua: 401 lines, at most 400"}, longScript("a/a.lua", text+"return 1\n"))
}

// longScript returns a Lua file that is longer than a Go file may be.
func longScript(file, text string) []string {
	n := strings.Count(text, "\n")
	return when(path.Ext(file) == ".lua" && n > mostLines, fmt.Sprintf("%s: %d lines, at most %d", file, n, mostLines))
}

// mustWalkHouse hands every file of the house to visit, with its path below the top level.
func mustWalkHouse(t *testing.T, visit func(file, text string)) {
	t.Helper()
	files, err := readFiles()
	require.NoError(t, err)
	for _, f := range files {
		visit(f.name, f.text)
	}
}

// A houseFile is one file of the house, with its path below the top level.
type houseFile struct{ name, text string }

// readFiles reads the files of the house once for all tests.
var readFiles = sync.OnceValues(func() (files []houseFile, err error) {
	top := filepath.Join("..", "..")
	err = filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci"
		if d.IsDir() && file != top && (hidden || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		files = append(files, houseFile{filepath.ToSlash(name), string(text)})
		return nil
	})
	return files, err
})
