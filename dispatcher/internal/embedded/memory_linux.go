package embedded

import "github.com/KimMachineGun/automemlimit/memlimit"

// memory returns the server's maxmemory: half of the memory that this process may use, or
// of the machine's. The rest is for this process, and for the copy while the file is
// rewritten. Without a limit the kernel would kill one of both, but with it Redis refuses
// to publish.
func memory() int64 { return lowest(memlimit.FromSystem, memlimit.FromCgroup) / 2 }

// lowest returns the lowest limit that is known; 0: none is. Version 1 of control groups
// returns more than any machine has if there is no limit.
func lowest(limits ...memlimit.Provider) (least int64) {
	for _, limit := range limits {
		if n, err := limit(); err == nil && n > 0 && (least == 0 || n < uint64(least)) {
			least = int64(n)
		}
	}
	return least
}
