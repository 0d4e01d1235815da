package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// testQueue is the queue in a Redis in memory, whose calls fail as tests tell them
// to. It notes the calls of all instances.
type testQueue struct {
	t testing.TB
	*mini

	partitions int
	down       map[int]error // partitions that don't answer, and why; changed with set
	reads      bool          // they may be read all the same
	nodes      int           // that they lie on; 0: one
	polls      bool          // nothing can be told
	breaker    int           // blamed failures in a row that open a lane; 0: none do
	maxWaiting int           // in a lane

	// hook runs at the start of each call, outside of mu: it may block or, with
	// an error, keep the call from being made. after runs when a call was made: its
	// error takes the place of the answer.
	hook, after func(call string) error

	heavy      atomic.Bool // claims find lanes that are heavier than what is free
	hangs      string      // calls of this name end with their context
	leasesRead func()      // runs between the reading of leases and their answer

	mu        sync.Mutex // guards the fields below
	calls     []call
	counts    map[string]int
	direct    bool // Schedule leases what it may
	bodiless  bool // large bodies are gone
	undurable bool // what Schedule stores is not as durable as asked for
	full      int  // entries, over all calls of Schedule, that there is no memory for
	tight     bool // memory counts
	memory    int  // entries that there is memory for
	old       int  // finished deliveries that Trim can make room of
	deaf      bool // Watch ends at once
	settled   map[d.DeliveryID][]d.Settlement
	refuse    func(id d.DeliveryID, times int) bool // outcomes that Settle does not record
	bad       func(s d.Settlement) bool             // an outcome for which Settle refuses its batch
	refused   map[d.DeliveryID]int
	given     []d.Settlement // as they came, also those that changed nothing
	more      int            // Trim has this many more batches
	pages     int            // Sweep has this many more, with nothing in them
	placing   bool           // Trim places a lane anew, and says so
	cut       struct {
		dead int
		age  time.Duration
	}
	ears    d.Subscriber
	hears   bool // Watch says at once that something may have been missed, as the real one does
	changed map[d.DeliveryID]func(*d.Claimed)

	filled int
	quiet  *redisqtest.Whole // changes the queue and tells no instance
}

// call is one call as the queue saw it.
type call struct {
	name   string
	by     string
	at     time.Time
	n      int // entries, outcomes, permits wanted, lanes
	free   int
	leased int // Schedule's lease
	room   bool
	asked  []int // partitions

	lane   d.Lane   // Limit, Sweep
	lanes  []d.Lane // EndWaits
	limits d.LaneLimits
	clear  bool

	noted bool
}

func newTestQueue(t testing.TB, partitions int) *testQueue {
	return &testQueue{
		t: t, mini: newMini(t), partitions: partitions, counts: map[string]int{}, settled: map[d.DeliveryID][]d.Settlement{},
		refused: map[d.DeliveryID]int{}, changed: map[d.DeliveryID]func(*d.Claimed){},
	}
}

func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

const (
	project         = "p"
	laneMaxInFlight = 1 << 20
	breakerWait     = 30 * time.Second
)

func (q *testQueue) open(permits int, silent bool) *redisqtest.Whole {
	s, err := redisq.Open(context.Background(), redisq.Options{
		URL: "redis://mini?pool_size=1000", Project: project, Partitions: q.partitions, Permits: permits, LaneMaxInFlight: laneMaxInFlight,
		BreakerFailures: max(q.breaker, flag(silent)), BreakerWait: breakerWait, MaxWaiting: q.maxWaiting,
		Dial: q.dial, Poll: q.polls || silent, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(q.t, err)
	q.t.Cleanup(func() { _ = s.Close() })
	return redisqtest.WholeOf(s)
}

// still is a store of which no instance is told anything.
func (q *testQueue) still() *redisqtest.Whole {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.quiet == nil {
		q.quiet = q.open(1024, true)
	}
	return q.quiet
}

// cutOff has partitions fail until they are in reach again.
func (q *testQueue) cutOff(partitions ...int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = map[int]error{}
	for _, n := range partitions {
		q.down[n] = fmt.Errorf("dial: %w", d.ErrUnavailable)
	}
}

func (q *testQueue) partition(lane d.Lane) int { return int(keys.CRC16(string(lane))) % q.partitions }
