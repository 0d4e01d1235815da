//go:build !race

package main_test

import (
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unproven are the stores whose package does not have queuetest.Run prove them.
var unproven = []string{}

func TestTheQueuesOfTheHouseAreProven(t *testing.T) {
	house, texts := mustTypeOurs(t)
	queues, proven := house.queues(), provenFolders(texts)
	require.NotEmpty(t, queues)
	require.NotEmpty(t, proven)
	open := unprovenOf(queues, proven)
	for _, q := range slices.Sorted(maps.Keys(open)) {
		require.Contains(t, unproven, q, "%s is a store for an engine, and no test of its package calls queuetest.Run; all: %q", q, queues)
	}
	require.Empty(t, stale(unproven, open), "these are proven or gone: take them out of unproven")
}

// unprovenOf are the implementations that no suite of their package proves.
func unprovenOf(queues []string, proven map[string]bool) map[string]bool {
	found := map[string]bool{}
	for _, q := range queues {
		if !proven[strings.TrimSuffix(q, path.Ext(q))] {
			found[q] = true
		}
	}
	return found
}

// enginePackage has the struct Queue: all ports through which an engine uses its store.
const enginePackage = "dispatcher/internal/engine"

// queues are the types that implement the storePorts of an engine's Queue.
func (h *typedHouse) queues() []string {
	if p := h.proper[enginePackage]; p != nil {
		if queue, ok := p.Scope().Lookup("Queue").(*types.TypeName); ok {
			return h.implementing(queue, portsOf)
		}
	}
	return nil
}

// storePorts are the ports of an engine's Queue that change deliveries, lanes and instances.
// Readers implement the other ports.
var storePorts = []string{"Deliveries", "Instances", "Store", "Lanes"}

// portsOf has the methods of the interfaces that are fields of a struct, if these are
// ports of a store.
func portsOf(t types.Type) *types.Interface {
	var ports []types.Type
	for f := range t.Underlying().(*types.Struct).Fields() {
		if slices.Contains(storePorts, f.Name()) {
			ports = append(ports, f.Type())
		}
	}
	return types.NewInterfaceType(nil, ports).Complete()
}

// provenFolders are the folders whose tests run the suite for stores.
func provenFolders(texts map[string]string) map[string]bool {
	found := map[string]bool{}
	for file, text := range texts {
		if strings.HasSuffix(file, "_test.go") && strings.Contains(text, "queuetest.Run(") {
			found[path.Dir(file)] = true
		}
	}
	return found
}
