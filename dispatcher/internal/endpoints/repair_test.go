package endpoints

import (
	"context"
	"log/slog"
	"testing"
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
