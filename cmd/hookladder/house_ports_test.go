//go:build !race

package main_test

import (
	"fmt"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostMethods is how many methods of an interface a reader keeps in mind. An interface with
// more is split by its readers.
const mostMethods = 20

// broad are the interfaces that have more methods today. The list may only shrink.
var broad = []string{}

func TestTheInterfacesOfTheHouseAreSmall(t *testing.T) {
	h, _ := mustTypeOurs(t)
	found := broadOf(h.interfaces())
	for name, methods := range found {
		require.Contains(t, broad, name, "it has %d methods, at most %d", methods, mostMethods)
	}
	require.Empty(t, stale(broad, found), "these are small or gone: take them out of broad")
}

func TestTheHouseFindsABroadInterface(t *testing.T) {
	var many strings.Builder
	for i := range mostMethods {
		fmt.Fprintf(&many, "M%d(); ", i)
	}
	h := mustTypeHouse(t, map[string]string{"dispatcher/a/a.go": "package a; type Most interface { " + many.String() + "}; " +
		"type More interface { Most; One() }; type again interface { More }"})
	require.Equal(t, map[string]int{"dispatcher/a.More": mostMethods + 1, "dispatcher/a.again": mostMethods + 1}, broadOf(h.interfaces()))
}

// broadOf counts the methods of the interfaces that have too many, embedded ones included.
func broadOf(interfaces []*types.TypeName) map[string]int {
	found := map[string]int{}
	for _, i := range interfaces {
		if n := i.Type().Underlying().(*types.Interface).NumMethods(); n > mostMethods {
			found[strings.TrimPrefix(i.Pkg().Path(), module+"/")+"."+i.Name()] = n
		}
	}
	return found
}
