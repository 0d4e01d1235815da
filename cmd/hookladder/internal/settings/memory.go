package settings

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// How much garbage may be there before the collector runs: mostPercent of the memory in use, but
// no more than budget, and at least leastPercent.
//
// With 300 % a tenth more deliveries a second are made than with 100, and with 400 no more. If
// thousands of receivers hang, 300 % of the memory in use would be more than 100 MiB of garbage.
const (
	mostPercent   = 300
	leastPercent  = 50
	garbageBudget = 40 << 20
)

// The percentage of a container's memory that Go may take. The rest is for memory that Go does
// not count, and for the kernel's buffers of connections. With DATA_DIR a redis-server shares the
// container.
const (
	memoryPart       = 90
	memoryPartBeside = 50
)

// unlimitedMemory is more than any machine has. Version 1 of cgroups returns such a number if
// there is no limit.
const unlimitedMemory = 1 << 50

// SetMemory sets the collector, and returns the limit of memory in bytes; 0: there is none. Operators
// decide otherwise with GOGC and GOMEMLIMIT. beside reports that a redis-server shares the
// container.
func SetMemory(vars map[string]string, beside bool) int64 {
	if vars["GOGC"] == "" {
		debug.SetGCPercent(mostPercent)
		eachCollection(adaptCollector)
	}
	return limitMemory(vars, memlimit.FromCgroup, beside)
}

// limitMemory makes the garbage collector work harder before the memory of the container is full,
// unless the operator set GOMEMLIMIT.
func limitMemory(vars map[string]string, container func() (uint64, error), beside bool) int64 {
	if vars["GOMEMLIMIT"] == "" {
		share := uint64(memoryPart)
		if beside {
			share = memoryPartBeside
		}
		// Without cgroups, or if they can't be read, there is no limit.
		if most, err := container(); err == nil && most > 0 && most < unlimitedMemory {
			debug.SetMemoryLimit(int64(most / 100 * share))
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

// eachCollection calls f after each garbage collection.
func eachCollection(f func()) {
	// An object without a reference is found by the next collection. It must not be so small that
	// the allocator puts it beside others, which would keep it.
	sentinel := new([64]byte)
	runtime.AddCleanup(sentinel, func(struct{}) {
		f()
		eachCollection(f)
	}, struct{}{})
}

// adaptCollector sets the percentage for the memory that is in use now.
func adaptCollector() {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/gogc:percent"},
	}
	metrics.Read(samples)
	var used uint64
	for _, s := range samples[:3] {
		used += s.Value.Uint64()
	}
	// To set it stops all goroutines for some microseconds, so small changes are left out.
	now, want := int(samples[3].Value.Uint64()), garbagePercent(used)
	if diff := now - want; diff > now/10 || -diff > now/10 {
		debug.SetGCPercent(want)
	}
}

// garbagePercent returns the percentage for a number of bytes in use.
func garbagePercent(used uint64) int {
	return int(min(max(garbageBudget*100/max(used, 1), leastPercent), mostPercent))
}
