package app_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// halves are changes of which only the first step was made, since the instance
// that made them died between the two: what another makes of them.
var halves = map[string]struct {
	paused bool // before the change
	half   func(ctx context.Context, s *redisq.Store, e *dispatcher.Endpoint) error
	status string
	reason string
}{
	"a resume": {true, changed(func(e *dispatcher.Endpoint) { e.Paused, e.Since = false, e.Version }), "delivered", ""},
	"a corrected URL that goes on": {true, changed(func(e *dispatcher.Endpoint) {
		e.URL, e.Since, e.Paused = e.URL+"?new", e.Version, false
	}), "delivered", ""},
	"a paused one is disabled": {true, changed(func(e *dispatcher.Endpoint) { e.Disabled = true }), "dead", "disabled"},
	"a paused one is deleted": {true, func(ctx context.Context, s *redisq.Store, e *dispatcher.Endpoint) error {
		_, err := s.Endpoints.DeleteEndpoint(ctx, e.ID)
		return err
	}, "cancelled", ""},
	"one is disabled":                  {false, changed(func(e *dispatcher.Endpoint) { e.Disabled = true }), "dead", "disabled"},
	"a description while it is paused": {true, changed(func(e *dispatcher.Endpoint) { e.Description = "new" }), "ready", ""},
	"a pause":                          {false, changed(func(e *dispatcher.Endpoint) { e.Paused = true }), "ready", ""},
	"one is deleted": {false, func(ctx context.Context, s *redisq.Store, e *dispatcher.Endpoint) error {
		_, err := s.Endpoints.DeleteEndpoint(ctx, e.ID)
		return err
	}, "cancelled", ""},
}

func changed(change func(e *dispatcher.Endpoint)) func(context.Context, *redisq.Store, *dispatcher.Endpoint) error {
	return func(ctx context.Context, s *redisq.Store, e *dispatcher.Endpoint) error {
		e = e.Clone()
		e.Version++
		change(e)
		return s.Endpoints.ChangeEndpoint(ctx, e)
	}
}

func TestAChangeThatStoppedHalfWayIsFinishedByAnotherInstance(t *testing.T) {
	server := redistest.Start(t)
	for name, c := range halves {
		t.Run(name, func(t *testing.T) {
			o := newTestOptions(server.URL())
			o.Project = strings.ReplaceAll(name, " ", "_")
			r := newTestReceiver(t)
			r.answer <- struct{}{}
			accepts := o
			accepts.Engine.MaxInFlight = 0
			first := start(t, accepts)
			e, _, err := first.client().CreateEndpoint(t.Context(), &wire.Endpoint{UID: "main", URL: r.URL, Topics: []string{"*"}, Secret: secret.Reveal()})
			require.NoError(t, err)
			if c.paused {
				_, err = first.client().PauseEndpoint(t.Context(), "main")
				require.NoError(t, err)
			}
			m := message("one", "")
			m.Endpoint = e.ID
			_, err = first.client().Publish(t.Context(), m)
			require.NoError(t, err)
			require.NoError(t, first.end())

			store, err := redisq.Open(t.Context(), redisq.Options{
				URL: server.URL(), Project: o.Project, LaneMaxInFlight: 16, Permits: 64, Log: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			defer store.Close() //nolint:errcheck // it was read
			there, err := store.Endpoints.Endpoints(t.Context(), []string{e.ID})
			require.NoError(t, err)
			require.NoError(t, c.half(t.Context(), store, there[0]))

			second := start(t, o)
			require.EventuallyWithT(t, func(a *assert.CollectT) {
				versions, err := store.Endpoints.EndpointVersions(context.WithoutCancel(t.Context()), []string{e.ID})
				require.NoError(a, err)
				states, err := store.LaneReader.LaneStates(context.WithoutCancel(t.Context()), []dispatcher.Lane{dispatcher.Lane(e.ID)})
				require.NoError(a, err)
				require.Zero(a, versions[0].End, "nothing of it is left to be done")
				if versions[0].Version > 0 {
					require.Equal(a, versions[0].Version, states[0].Limits.Version, "the copy is as new")
				}
				record, err := second.client().Message(context.WithoutCancel(t.Context()), "one")
				require.NoError(a, err)
				require.Equal(a, c.status, record.Deliveries[0].Status)
				require.Equal(a, c.reason, record.Deliveries[0].DeadReason)
			}, patience, 10*time.Millisecond)
			require.NoError(t, second.end())
		})
	}
}
