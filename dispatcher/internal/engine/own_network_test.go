package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// fakeNetwork is a sender that knows whether its network works. Its calls fail while it does
// not, but for those of some lanes.
type fakeNetwork struct {
	works map[d.Lane]bool // whatever the network does

	mu      sync.Mutex // guards the fields below
	state   d.NetworkState
	broken  bool
	checks  int
	began   map[d.Lane][]time.Time
	changed func(d.EgressFault, error)
}

var errResolver = errors.New("lookup shop.example: connection refused")

func (n *fakeNetwork) Send(_ context.Context, c d.Call) d.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began[c.Lane] = append(n.began[c.Lane], time.Now())
	if !n.broken || n.works[c.Lane] {
		return d.Answer{Status: 200}
	}
	n.found(d.NetworkDown, errResolver)
	return d.Answer{Class: d.ClassEgress, Err: &d.EgressError{Why: d.FaultResolver, Err: errResolver}}
}

// found notes what a control found. mu is held.
func (n *fakeNetwork) found(state d.NetworkState, err error) {
	if n.state == state {
		return
	}
	n.state = state
	if changed := n.changed; changed != nil {
		go changed(d.FaultResolver, err)
	}
}

func (n *fakeNetwork) NetworkState() d.NetworkState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

func (n *fakeNetwork) WatchNetwork(_ context.Context, changed func(d.EgressFault, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = changed
}

func (n *fakeNetwork) CheckNetwork() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checks++
}

// set breaks the network or mends it. Controls find the mending at once.
func (n *fakeNetwork) set(broken bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken = broken; !broken {
		n.found(d.NetworkUp, nil)
	}
}

// starts are the times of the attempts in some lanes, all where none is named.
func (n *fakeNetwork) starts(lanes ...d.Lane) (all []time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for lane, list := range n.began {
		if len(lanes) == 0 || slices.Contains(lanes, lane) {
			all = append(all, list...)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// newTestNetwork is a rig over such a sender.
func newTestNetwork(t testing.TB, change func(*engine.Options)) (*rig, *fakeNetwork) {
	r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.breaker = 3 })
	o := newTestOptions(t, r.log)
	if change != nil {
		change(&o)
	}
	n := &fakeNetwork{works: map[d.Lane]bool{}, began: map[d.Lane][]time.Time{}}
	r.instance = newTestInstance(t, r.conn, n, o)
	return r, n
}

func TestOurOwnNetworkCostsNoRungAndBlamesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		r, n := newTestNetwork(t, func(o *engine.Options) { o.Notify = h.notify })
		n.set(true)
		r.queue.fillLane("u_a", 1)
		r.start(t)
		pass(10 * time.Minute)
		var waits []time.Duration
		starts := n.starts("u_a")
		for i := range 6 {
			waits = append(waits, starts[i+1].Sub(starts[i]).Round(100*time.Millisecond))
		}
		second := time.Second
		require.Equal(t, []time.Duration{second, 2 * second, 4 * second, 8 * second, 15 * second, 15 * second}, waits)
		require.Equal(t, map[d.Verdict]int{d.Back: len(starts)}, r.queue.verdicts())
		up, faults := r.Network()
		require.False(t, up)
		require.EqualValues(t, len(starts), faults[d.FaultResolver])
		require.InDelta(t, 10, strings.Count(r.log.String(), "our own network failed"), 1, "once a minute")
		require.Equal(t, d.News{
			Notice: d.NoticeEgressDown, At: h.of(d.NoticeEgressDown)[0].At, Since: starts[0].UTC().Truncate(time.Millisecond),
			Reason: "resolver", Detail: errResolver.Error(),
		}, h.of(d.NoticeEgressDown)[0])

		pass(time.Second) // somewhere in a wait
		n.set(false)
		pass(100 * time.Millisecond)
		require.Equal(t, 1, r.queue.verdicts()[d.Delivered], "at once, though its wait is not over")
		for _, s := range r.queue.outcomes() {
			if s.Verdict == d.Delivered {
				require.Equal(t, 1, s.Attempt.Number)
			}
		}
		up, _ = r.Network()
		require.True(t, up)
		require.Len(t, h.of(d.NoticeEgressUp), 1)
		require.Contains(t, r.log.String(), "our own network works again")
		r.stop(t)
	})
}

func TestLanesThatWaitForOurNetworkShareTwentyAttemptsASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lanes = 60
		r, n := newTestNetwork(t, nil)
		n.set(true)
		n.works["u_well"] = true
		r.queue.spread(lanes)
		r.start(t)
		pass(6 * time.Second)
		starts := n.starts()
		require.Greater(t, len(starts), lanes+20*3, "and hardly fewer")
		for i := lanes; i+20 < len(starts); i++ { // each lane has its first attempt without a limit
			require.GreaterOrEqual(t, starts[i+20].Sub(starts[i]), time.Second, "attempt %d", i)
		}
		require.Less(t, r.queue.count("claim"), 6*100, "claims that come too early are few")

		before := time.Now()
		r.queue.fillLane("u_well", 5)
		r.Note()
		pass(time.Millisecond)
		require.Len(t, n.starts("u_well"), 5, "a lane without such a fault is not slowed")
		require.WithinDuration(t, before, n.starts("u_well")[4], 5*time.Millisecond)

		n.set(false)
		pass(time.Second)
		require.Equal(t, lanes+5, r.queue.verdicts()[d.Delivered], "all at once")
		r.stop(t)
	})
}

func TestAfterAnHourTheReceiverIsBlamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, n := newTestNetwork(t, nil)
		n.set(true)
		r.queue.fillLane("u_a", 1)
		r.start(t)
		pass(59 * time.Minute)
		require.Empty(t, r.queue.verdicts()[d.Retry])
		pass(2 * time.Minute)
		counted := slices.DeleteFunc(r.queue.outcomes(), func(s d.Settlement) bool { return s.Verdict == d.Back })
		require.NotEmpty(t, counted)
		for i, s := range counted {
			require.Equal(t, d.ClassDNS, s.Attempt.Class)
			require.Equal(t, errResolver.Error(), s.Attempt.Error)
			require.Equal(t, i+1, s.Attempt.Number)
			require.True(t, s.Blame)
		}
		pass(10 * time.Minute)
		require.Equal(t, 1, r.queue.verdicts()[d.Dead], "it climbs its ladder, and does not wait another hour for each rung")
		r.stop(t)
	})
}

// TestLaneThatAnotherInstanceLeftHasTheNetworkChecked: this instance has made no control yet.
func TestLaneThatAnotherInstanceLeftHasTheNetworkChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, n := newTestNetwork(t, nil)
		c := claimed(message("m"))
		r.queue.lease("quiet", c)
		back := d.Settlement{ID: c.ID, Verdict: d.Back, Due: time.Now(), Stalled: d.WhyEgress, Pause: time.Second}
		require.NoError(t, r.queue.still().Settle(t.Context(), "quiet", []d.Settlement{back})[0].Err)
		r.start(t)
		pass(2 * time.Second)
		require.Equal(t, 1, r.queue.verdicts()[d.Delivered])
		n.mu.Lock()
		defer n.mu.Unlock()
		require.Equal(t, 1, n.checks)
	})
}
