// Package memory sets how Go's garbage collector trades memory for time.
package memory

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
	mostPercent  = 300
	leastPercent = 50
	budget       = 40 << 20
)

// The percentage of a container's memory that Go may take. The rest is for memory that Go does
// not count, and for the kernel's buffers of connections. With DATA_DIR a redis-server shares the
// container.
const (
	part       = 90
	partBeside = 50
)

// unlimited is more than any machine has. Version 1 of cgroups returns such a number if
// there is no limit.
const unlimited = 1 << 50

// Set sets the collector, and returns the limit of memory in bytes; 0: there is none. Operators
// decide otherwise with GOGC and GOMEMLIMIT. beside reports that a redis-server shares the
// container.
func Set(vars map[string]string, beside bool) int64 {
	if vars["GOGC"] == "" {
		debug.SetGCPercent(mostPercent)
		eachCollection(adapt)
	}
	return limit(vars, memlimit.FromCgroup, beside)
}

// limit makes the garbage collector work harder before the memory of the container is full,
// unless the operator set GOMEMLIMIT.
func limit(vars map[string]string, container func() (uint64, error), beside bool) int64 {
	if vars["GOMEMLIMIT"] == "" {
		share := uint64(part)
		if beside {
			share = partBeside
		}
		// Without cgroups, or if they can't be read, there is no limit.
		if most, err := container(); err == nil && most > 0 && most < unlimited {
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

// adapt sets the percentage for the memory that is in use now.
func adapt() {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/gogc:percent"},
	}
	metrics.Read(samples)
	var used uint64
	for _, s := range samples[:3] {
		used += s.Value.Uint64()
	}
	// To set it stops all goroutines for some microseconds, so small changes are left out.
	now, want := int(samples[3].Value.Uint64()), percent(used)
	if diff := now - want; diff > now/10 || -diff > now/10 {
		debug.SetGCPercent(want)
	}
}

// percent returns the percentage for a number of bytes in use.
func percent(used uint64) int {
	return int(min(max(budget*100/max(used, 1), leastPercent), mostPercent))
}
