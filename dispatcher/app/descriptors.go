package app

import (
	"fmt"
	"math"
	"runtime"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// descriptors distributes the file descriptors of the process. Each attempt, idle connection
// and accepted connection takes one.
type descriptors struct {
	limit    int // of the process; 0: none, or unknown
	attempts int // MAX_IN_FLIGHT, or less if it does not fit
	loans    int // attempts in new lanes beyond those
	idle     int // connections kept to receivers
	accepted int // connections to the API
	reserve  int // for Redis, lookups, listeners and files
}

const (
	// leastDescriptors is the minimum for a process.
	leastDescriptors = 64
	// leastAttempts is the minimum for attempts and idle connections that MAX_CONNECTIONS must
	// leave.
	leastAttempts = 16
	// mostAccepted connections take 75 MiB while they are idle, and much more while they are
	// used. MAX_CONNECTIONS allows more.
	mostAccepted = 4096
	// mostIdle is enough for one connection to each of many receivers. Without one, each call
	// opens a connection, which takes twice the CPU time. But an idle connection is probed every
	// second, and all of these take 10 to 20 ms.
	mostIdle = 16384
	// figuresConnections are for METRICS_LISTEN. They are part of the reserve, like the
	// connections that both servers accept above their limit.
	figuresConnections = 32
)

// shareDescriptors distributes a limit. permits is MAX_IN_FLIGHT. connections is
// MAX_CONNECTIONS; 0: the limit decides.
func shareDescriptors(limit, permits, connections int) (descriptors, error) {
	all := limit
	if limit <= 0 {
		all = math.MaxInt32
	}
	if all < leastDescriptors {
		return descriptors{}, fmt.Errorf("this process may open %d files, and needs at least %d: raise the limit (ulimit -n, LimitNOFILE, nofile)", limit, leastDescriptors)
	}
	// go-redis opens ten connections per core to each node, and there may be several nodes.
	d := descriptors{limit: max(limit, 0), reserve: min(ownDescriptors(), all/4)}
	rest := all - d.reserve
	if most := rest - leastAttempts; connections > most {
		return descriptors{}, fmt.Errorf("MAX_CONNECTIONS=%d does not fit: this process may open %d files, and needs some for its own calls; set it to at most %d, or raise the limit (ulimit -n, LimitNOFILE, nofile)",
			connections, limit, most)
	}
	if connections > 0 {
		d.accepted = connections
		rest -= connections
		d.attempts = min(permits, max(rest/2, leastAttempts), rest-1)
	} else {
		d.attempts = min(permits, rest/2)
		d.accepted = min(mostAccepted, (rest-d.attempts)/2)
		rest -= d.accepted
	}
	d.loans = min(engine.LoansFor(d.attempts), (rest-d.attempts)/2)
	d.idle = min(mostIdle, max(rest-d.attempts-d.loans, 1))
	return d, nil
}

// ownDescriptors returns the number of descriptors for the process itself.
func ownDescriptors() int {
	return 32 + figuresConnections + 2*callers.Overflow + 20*runtime.GOMAXPROCS(0)
}

// fitting returns the limit that a number of permits needs.
func fitting(permits, connections int) int {
	return ownDescriptors() + 2*permits + connections
}

// budget distributes the descriptors, lowers MAX_IN_FLIGHT if it does not fit, and logs the
// result.
func (o *Options) budget(limit int) (descriptors, error) {
	d, err := shareDescriptors(limit, o.Engine.MaxInFlight, o.MaxConnections)
	if err != nil {
		return descriptors{}, err
	}
	if d.attempts < o.Engine.MaxInFlight {
		o.Log.Warn("MAX_IN_FLIGHT is lowered: there are too few file descriptors",
			"asked", o.Engine.MaxInFlight, "permits", d.attempts, "descriptors", d.limit,
			"cure", fmt.Sprintf("raise the limit (ulimit -n, LimitNOFILE, nofile) to %d", fitting(o.Engine.MaxInFlight, o.MaxConnections)))
		o.Engine.MaxInFlight = d.attempts
	}
	o.Engine.Loans = d.loans
	o.Log.Info("resources", "descriptors", d.limit, "attempts", d.attempts, "idle", d.idle, "connections", d.accepted,
		"reserve", d.reserve, "memory_limit", o.MemoryLimit, "request_bodies", o.bodyBudget())
	return d, nil
}

const (
	// Bodies of requests may take a sixteenth of the memory. A body on its way to the store
	// takes three more times its size.
	bodyPart    = 16
	leastBodies = 8<<20 + 64<<10 // two of the largest batches, and the ends of their buffers
	mostBodies  = 64 << 20
)

// bodyBudget returns how many bytes of requests are in memory at once.
func (o *Options) bodyBudget() int64 {
	if o.MemoryLimit <= 0 {
		return mostBodies
	}
	return min(max(o.MemoryLimit/bodyPart, leastBodies), mostBodies)
}
