package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

type store = redisqtest.Whole

// other is another instance that wrote a number.
func (q *testQueue) other(name string, number int64) {
	q.HSet("{"+project+"}"+keys.Instances, name, strconv.FormatInt(number, 10))
}

// forget has an instance's number be gone, as if it were declared dead.
func (q *testQueue) forget(name string) { q.HDel("{"+project+"}"+keys.Instances, name) }

// number is an instance's.
func (q *testQueue) number(name string) int64 {
	n, _ := strconv.ParseInt(q.HGet("{"+project+"}"+keys.Instances, name), 10, 64)
	return n
}

// isThere reports whether an instance is known.
func (q *testQueue) isThere(name string) bool {
	return q.HGet("{"+project+"}"+keys.Instances, name) != ""
}

// fence takes over from an instance, which is alive.
func (q *testQueue) fence(name string) {
	_, err := q.still().Reap(context.Background(), "quiet", name)
	require.NoError(q.t, err)
}

// lease leases a delivery to an instance, which is not told.
func (q *testQueue) lease(by string, c d.Claimed) {
	batch := []d.Entry{q.entry(c.ID.Lane, c.Message)}
	out, err := q.still().Schedule(context.Background(), by, 1024, 1, batch)
	require.NoError(q.t, err)
	require.NoError(q.t, out[0].Err)
	require.Equal(q.t, d.StatusInFlight, out[0].Placed[0].Status)
}

// openBreaker opens the breaker of a lane.
func (q *testQueue) openBreaker(lane d.Lane) {
	c := claimed(message("failing_" + string(lane)))
	c.ID.Lane = lane
	q.lease("quiet", c)
	settled := q.still().Settle(context.Background(), "quiet", []d.Settlement{{
		ID: c.ID, Verdict: d.Dead, Reason: d.ReasonExhausted, Blame: true, Attempt: d.Attempt{Number: 1, Verdict: d.Dead},
	}})
	require.NoError(q.t, settled[0].Err)
}

// hint is what another instance tells of partition 0, where nothing is due.
func (q *testQueue) hint(now time.Time, weight int) {
	s := q.still()
	q.Publish("{"+project+"}"+keys.WakeChannel, fmt.Sprintf("%s 0 %d 0 %d other", s.Conn().ID(), now.UnixMicro(), weight))
}

// take has another instance claim what is ready.
func (q *testQueue) take(by string, n int) {
	var in []int
	for p := range q.partitions {
		in = append(in, p)
	}
	claimed, _, err := q.still().ClaimIn(context.Background(), by, in, d.Claim{Wanted: n, Free: 1024})
	require.NoError(q.t, err)
	require.Len(q.t, claimed, n)
}

// testConn is one instance's store.
type testConn struct {
	*store
	q *testQueue
}

// connect is a new connection for an instance with so many permits.
func connect(t testing.TB, q *testQueue, permits int) *testConn {
	t.Helper()
	c := &testConn{store: q.open(permits, false), q: q}
	c.Client().AddHook(c)
	return c
}

func (c *testConn) Nodes() int { return max(c.q.nodes, 1) }

func (c *testConn) Schedule(ctx context.Context, by string, free, lease int, batch []d.Entry) ([]d.ScheduleResult, error) {
	ctx = naming(ctx, call{name: "schedule", by: by, n: len(batch), free: free, leased: lease})
	q := c.q
	q.mu.Lock()
	if !q.direct {
		lease = 0
	}
	out := make([]d.ScheduleResult, len(batch))
	var parts [2][]d.Entry // those that there is memory for, and the others
	var at [2][]int
	for i, e := range batch {
		full := flag(q.full > 0 || q.tight && q.memory == 0)
		if full == 1 {
			q.full--
		} else {
			q.memory--
		}
		parts[full], at[full] = append(parts[full], e), append(at[full], i)
	}
	undurable := q.undurable
	q.mu.Unlock()
	for full, some := range parts {
		if len(some) == 0 {
			continue
		}
		got, err := c.store.Schedule(context.WithValue(ctx, fullKey{}, full == 1), by, free, lease, some)
		if err != nil {
			return out, err
		}
		for k := range got {
			out[at[full][k]] = got[k]
			if undurable {
				out[at[full][k]].Err = fmt.Errorf("message %s: stored, but not durable: %w", some[k].Message.ID, d.ErrUnavailable)
			}
		}
	}
	return out, nil
}

// fullKey says that a call finds no memory.
type fullKey struct{}

// outOfMemory is what Redis says then.
type outOfMemory struct{}

func (outOfMemory) Error() string { return "OOM command not allowed when used memory > 'maxmemory'." }
func (outOfMemory) RedisError()   {}

func (c *testConn) Move(ctx context.Context, by string) (time.Duration, []d.Claimed, error) {
	return c.store.Move(naming(ctx, call{name: "move", by: by}), by)
}

func (c *testConn) Begin(ctx context.Context, by string, l d.Lease, beside bool) (bool, error) {
	return c.store.Begin(naming(ctx, call{name: "begin", by: by}), by, l, beside)
}

func (c *testConn) Claim(ctx context.Context, by string, ask d.Claim) ([]d.Claimed, error) {
	wanted, free := ask.Wanted, ask.Free
	claimed, err := c.store.Claim(naming(ctx, call{name: "claim", by: by, n: wanted, free: free}), by, ask)
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if !errors.Is(err, d.ErrNothing) {
		c.q.calls = append(c.q.calls, call{name: "claimed", by: by, n: wanted, free: free, leased: len(claimed), at: time.Now()})
	}
	for i := range claimed {
		c.q.counts["unread"] += flag(claimed[i].Unread)
	}
	for i := range claimed {
		if change := c.q.changed[claimed[i].ID]; change != nil {
			change(&claimed[i])
		}
	}
	return claimed, err
}

func (c *testConn) Messages(ctx context.Context, unread []d.Claimed) error {
	return c.store.Messages(naming(ctx, call{name: "messages", n: len(unread)}), unread)
}

func (c *testConn) Leases(ctx context.Context, by string) ([]d.Lease, error) {
	return c.store.Leases(naming(ctx, call{name: "leases", by: by}), by)
}

func (c *testConn) Body(ctx context.Context, id d.DeliveryID, a d.Apart) ([]byte, error) {
	now := call{name: "body"}
	if c.q.bodiless {
		return nil, cmp.Or(c.q.begin(ctx, &now, nil), d.ErrNotFound)
	}
	return c.store.Body(naming(ctx, now), id, a)
}

// errBad is what a script says of an argument that it does not understand.
var errBad = errors.New("settle: ERR bad argument")

func (c *testConn) Settle(ctx context.Context, by string, batch []d.Settlement) []d.Settled {
	now := call{name: "settle", by: by, n: len(batch)}
	q := c.q
	out := make([]d.Settled, len(batch))
	fail := func(err error) []d.Settled {
		for i := range out {
			out[i] = d.Settled{Err: err}
		}
		return out
	}
	q.mu.Lock()
	if q.bad != nil && slices.ContainsFunc(batch, q.bad) { // a script checks all of a batch before it writes
		q.mu.Unlock()
		return fail(errBad)
	}
	var some []d.Settlement
	var at []int
	for i, s := range batch {
		if q.down[q.partition(s.ID.Lane)] == nil {
			q.given = append(q.given, s)
		}
		if q.refuse != nil && q.refuse(s.ID, q.refused[s.ID]) {
			q.refused[s.ID]++
			out[i].Err = fmt.Errorf("settle: %w", d.ErrUnavailable)
			continue
		}
		some, at = append(some, s), append(at, i)
	}
	q.mu.Unlock()
	if len(some) == 0 {
		_ = q.begin(ctx, &now, nil) // each has its error
		return out
	}
	got := c.store.Settle(naming(ctx, now), by, some)
	q.mu.Lock()
	for k, s := range got {
		out[at[k]] = s
		if r := s.Result; r != 0 && r != d.SettledLate && r != d.SettledBefore {
			q.settled[some[k].ID] = append(q.settled[some[k].ID], some[k])
		}
	}
	after := q.after
	q.mu.Unlock()
	if after != nil {
		if err := after("settle"); err != nil {
			return fail(err)
		}
	}
	return out
}

func (c *testConn) Beat(ctx context.Context, by string, number int64) (bool, map[string]int64, error) {
	return c.store.Beat(naming(ctx, call{name: "beat", by: by, n: int(number)}), by, number)
}

func (c *testConn) Reap(ctx context.Context, by, dead string) (int, error) {
	return c.store.Reap(naming(ctx, call{name: "reap " + dead, by: by}), by, dead)
}

func (c *testConn) Leave(ctx context.Context, by string) error {
	return c.store.Leave(naming(ctx, call{name: "leave", by: by}), by)
}

func (c *testConn) Trim(ctx context.Context, by string, keep d.Keep, where d.TrimWhere) (d.Trimmed, error) {
	return c.store.Trim(naming(ctx, call{name: "trim", by: by, room: where == d.TrimFull}), by, keep, where)
}

func (c *testConn) Limit(ctx context.Context, by string, lane d.Lane, l d.LaneLimits, clear bool) (d.LaneCount, error) {
	return c.store.Limit(naming(ctx, call{name: "limit", by: by, lane: lane, limits: l, clear: clear}), by, lane, l, clear)
}

func (c *testConn) Cut(ctx context.Context, by string, lane d.Lane, since time.Time) (int, bool, error) {
	return c.store.Cut(naming(ctx, call{name: "cut", by: by, lane: lane}), by, lane, since)
}

func (c *testConn) EndWaits(ctx context.Context, by string, lanes []d.Lane) error {
	return c.store.EndWaits(naming(ctx, call{name: "end_waits", by: by, lanes: lanes}), by, lanes)
}

func (c *testConn) Works(ctx context.Context, by string, lane d.Lane) error {
	return c.store.Works(naming(ctx, call{name: "works", by: by, lane: lane}), by, lane)
}

func (c *testConn) Uncut(ctx context.Context, by string, lane d.Lane) error {
	return c.store.Uncut(naming(ctx, call{name: "uncut", by: by, lane: lane}), by, lane)
}

func (c *testConn) Sweep(ctx context.Context, by string, lane d.Lane, cursor string) (int, string, error) {
	ended, next, err := c.store.Sweep(naming(ctx, call{name: "sweep", by: by, lane: lane}), by, lane, cursor)
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if err == nil && next == "" && c.q.pages > 0 {
		c.q.pages--
		next = "1"
	}
	return ended, next, err
}

func (c *testConn) Watch(ctx context.Context, by string, to d.Subscriber) error {
	q := c.q
	if err := q.begin(ctx, &call{name: "watch", by: by}, nil); err != nil {
		return err
	}
	q.mu.Lock()
	q.ears = to
	deaf, hears := q.deaf, q.hears
	q.mu.Unlock()
	if deaf {
		return nil
	}
	gap, first := to.OnGap, !hears
	to.OnGap = func() {
		if first {
			first = false
			return
		}
		gap()
	}
	return c.store.Watch(ctx, by, to)
}

func (c *testConn) Poll(ctx context.Context, all bool) (time.Duration, error) {
	return c.store.Poll(naming(ctx, call{name: "peek"}), all)
}

func (c *testConn) ReadClock(ctx context.Context) error {
	return c.store.ReadClock(naming(ctx, call{name: "peek"}))
}

func (c *testConn) Known(ctx context.Context, ids []string) ([]bool, error) {
	return c.store.Known(naming(ctx, call{name: "known", n: len(ids)}), ids)
}

func (c *testConn) List(ctx context.Context, f d.Filter) (d.Page, error) {
	return c.store.List(naming(ctx, call{name: "list"}), f)
}

func (c *testConn) Stats(ctx context.Context) (d.Stats, error) {
	return c.store.Stats(naming(ctx, call{name: "stats"}))
}
