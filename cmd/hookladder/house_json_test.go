//go:build !race

package main_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// strictJSON are the folders that may import go-json-experiment, each with its reason. All
// other JSON is for encoding/json.
var strictJSON = map[string]string{
	"cmd/hookladder":                       "trigger edits a developer's file, and verify formats a body as other programs do",
	"dispatcher/internal/httpapi":          "reads requests, and writes responses with < > & as they are",
	"dispatcher/internal/redisq/endpoints": "stored records keep their bytes",
	"dispatcher/queue":                     "checks a body as the API does",
	"dispatcher/success":                   "reads a caller's rule and a receiver's body",
}

func TestOnlyStrictDecodingOfTheHouseLeavesTheStandardLibrary(t *testing.T) {
	used := map[string]bool{}
	for folder, files := range mustReadHouse(t) {
		for name, s := range files {
			below, ok := lenient(s)
			require.True(t, ok, "%s/%s imports go-json-experiment: take encoding/json, or give the reason in strictJSON", folder, name)
			used[below] = true
		}
	}
	require.Empty(t, stale(slices.Sorted(maps.Keys(strictJSON)), used), "these do not import it any more: take them out of strictJSON")
}

func TestTheHouseFindsAnImportOfOtherJSON(t *testing.T) {
	const text = `package a; import _ "github.com/go-json-experiment/json/jsontext"`
	_, ok := lenient(mustParse(t, "dispatcher/internal/engine", "a.go", text))
	require.False(t, ok)
	below, ok := lenient(mustParse(t, "dispatcher/internal/httpapi/links", "a.go", text))
	require.True(t, ok)
	require.Equal(t, "dispatcher/internal/httpapi", below)
}

// lenient reports whether a file may have its imports, and for which folder of strictJSON, if
// it needs one.
func lenient(s source) (folder string, ok bool) {
	if s.test || len(importing(s, "github.com/go-json-experiment/")) == 0 {
		return "", true
	}
	for folder := range strictJSON {
		if below(s, folder) {
			return folder, true
		}
	}
	return "", false
}
