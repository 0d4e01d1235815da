package endpoints

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// large is a queue with a lane of a hundred pages.
type large struct {
	Lanes
	swept int
	end   func() // called when a lane is given up
}

func (q *large) Sweep(context.Context, string, dispatcher.Lane, string) (int, string, error) {
	if q.swept++; q.swept == 100 {
		q.end()
		return 1, "", nil
	}
	return 1, "more", nil
}

func (q *large) Cut(context.Context, string, dispatcher.Lane, time.Time) (int, bool, error) {
	q.end()
	return 0, false, nil
}

// many is a store with a hundred pages of endpoints, and the queue with their lanes.
type many struct {
	dispatcher.EndpointStore
	Lanes
	listed []string // the cursors
	fails  int      // how many times the second page can't be read
	wrong  string   // the page whose endpoint can't be compared the first time
	last   func()   // called after the last page
}

func (m *many) ListEndpoints(_ context.Context, f dispatcher.EndpointFilter) ([]*dispatcher.Endpoint, string, error) {
	if m.listed = append(m.listed, f.Cursor); f.Cursor == "1" && m.fails > 0 {
		m.fails--
		return nil, "", dispatcher.ErrUnavailable
	}
	if f.Cursor == "99" {
		m.last()
		return nil, "", nil
	}
	n, _ := strconv.Atoi(f.Cursor)
	if f.Cursor != "" && f.Cursor == m.wrong {
		return []*dispatcher.Endpoint{{ID: "ep_000000007"}}, strconv.Itoa(n + 1), nil
	}
	return nil, strconv.Itoa(n + 1), nil
}

// laneless reads lanes of which none is stopped.
type laneless struct{ LaneReads }

func (laneless) LaneStates(_ context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	return make([]dispatcher.LaneState, len(lanes)), nil
}

func (m *many) EndpointVersions(context.Context, []string) ([]dispatcher.EndpointVersion, error) {
	m.wrong = ""
	return nil, dispatcher.ErrUnavailable
}

func (laneless) StoppedLanes(context.Context, string) ([]dispatcher.StoppedLane, string, error) {
	return nil, "", nil
}

func (m *many) DeletedEndpoints(context.Context, string) (map[string]int64, string, error) {
	return nil, "", nil
}

func (m *many) Cut(context.Context, string, dispatcher.Lane, time.Time) (int, bool, error) {
	m.last()
	return 0, false, nil
}

func newTestRepairs(q Lanes) *Registry {
	log := slog.New(slog.DiscardHandler)
	return New(Options{Queue: q, Log: log, Outages: outage.New(log, "away", "back"), Name: func() string { return "one" }, OnActivity: func() {}})
}

func TestALargeSweepDelaysNoOtherRepair(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := &large{end: cancel}
	r := newTestRepairs(q)
	r.repairs.sweep("u_large", 0)
	r.GiveUp("u_failing", nil, time.Now())
	require.NoError(t, r.Run(ctx))
	require.LessOrEqual(t, q.swept, 1, "a page at a time")
}

func TestALaneIsSweptAgainIfThatIsRequestedAfterItsSweepBegan(t *testing.T) {
	q := newTestRepairs(&large{}).repairs
	q.sweep("u_1", 0)
	q.sweep("u_1", 0)
	q.sweep("u_2", 0)
	require.Len(t, q.sweeps, 2, "what has not begun is not repeated")
	do, _ := q.take()
	require.NotNil(t, do)
	do(t.Context())
	require.True(t, q.busy())
	q.sweep("u_1", 0)
	require.Len(t, q.sweeps, 3, "what is accepted since may lie behind its cursor")
}

func TestAComparisonOfAllEndpointsDelaysNoOtherRepair(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := &many{last: cancel}
	r := newTestRepairs(m)
	r.Store, r.LaneReads = m, laneless{}
	r.SuspectAll()
	r.GiveUp("u_failing", nil, time.Now())
	require.NoError(t, r.Run(ctx))
	require.LessOrEqual(t, len(m.listed), 1, "a page at a time")
}

// An endpoint whose version can't be read holds up none of the others, and all are compared once more.
func TestAnEndpointThatCannotBeComparedStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &many{wrong: "7", last: func() {}}
		m.last = func() {
			if len(m.listed) > 100 {
				cancel()
			}
		}
		r := newTestRepairs(m)
		r.Store, r.LaneReads = m, laneless{}
		r.SuspectAll()
		require.NoError(t, r.Run(ctx))
		require.Len(t, m.listed, 200, "each page twice")
	})
}

func TestAComparisonOfAllEndpointsGoesOnWhereItFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &many{last: cancel, fails: 3}
		r := newTestRepairs(m)
		r.Store, r.LaneReads = m, laneless{}
		r.SuspectAll()
		require.NoError(t, r.Run(ctx))
		require.Equal(t, []string{"", "1", "1", "1", "1", "2"}, m.listed[:6])
		require.Len(t, m.listed, 103, "each page once, besides the three tries")
		require.True(t, r.repairs.pages.running, "the last page came as Run ended")
	})
}
