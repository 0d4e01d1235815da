package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

// half makes only the first step of a change: it changes the endpoint and tells no
// instance.
func (r *endpointRig) half(view d.EndpointView, change func(*d.Endpoint)) {
	e := view.Endpoint.Clone()
	e.Version++
	change(e)
	r.store.put(e)
}

// TestAHeldLaneLearnsOfAChangeThatStoppedHalfWay has each way in which an
// instance comes to look.
func TestAHeldLaneLearnsOfAChangeThatStoppedHalfWay(t *testing.T) {
	t.Parallel()
	goOn := func(e *d.Endpoint) { e.Paused, e.Since = false, e.Version }
	for name, mustBe := range map[string]func(t *testing.T, r *endpointRig, view d.EndpointView){
		"at the start": func(t *testing.T, r *endpointRig, view d.EndpointView) {
			r.half(view, goOn)
			r.start(t)
		},
		"with the guard": func(t *testing.T, r *endpointRig, view d.EndpointView) {
			r.start(t)
			r.half(view, goOn)
			pass(61 * time.Second)
		},
		"when changes are heard again": func(t *testing.T, r *endpointRig, view d.EndpointView) {
			r.start(t)
			r.half(view, goOn)
			r.queue.ears.OnGap()
			pass(2 * time.Second)
		},
		"after a takeover": func(t *testing.T, r *endpointRig, view d.EndpointView) {
			r.queue.other("other", 7)
			r.start(t)
			r.half(view, goOn)
			pass(20 * time.Second)
			require.Equal(t, 1, r.queue.count("reap other"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				view := r.create(t, paused)
				c := claimed(to(view.ID, "m"))
				c.ID.Lane, c.Version = view.Lane(), 2
				r.queue.put(c)
				mustBe(t, r, view)
				require.Equal(t, d.LaneLimits{Version: 2}, r.queue.limitsOf(view.Lane()))
				limits := r.queue.seen("limit")
				require.True(t, limits[len(limits)-1].clear, "a resume closes the breaker too")
				require.Len(t, r.sender.sent(), 1)
				require.Contains(t, r.log.String(), "change of an endpoint finished")
				r.stop(t)
			})
		})
	}
}

// TestAnEndpointOvertakesALaneThatIsNewer has each way in which an instance finds that a
// failover lost the endpoint's last changes, of which the lane knows.
func TestAnEndpointOvertakesALaneThatIsNewer(t *testing.T) {
	t.Parallel()
	describe := func(t *testing.T, r *endpointRig, id string) {
		require.Equal(t, "new", r.change(t, id, func(e *d.Endpoint) { e.Description = "new" }).Description)
	}
	wait := func(*testing.T, *endpointRig, string) { pass(61 * time.Second) }
	lease := func(_ *testing.T, r *endpointRig, id string) {
		r.leaseTo(d.Lane(id), "m")
		pass(10 * time.Second)
	}
	publish := func(t *testing.T, r *endpointRig, id string) {
		r.publish(t, to(id, "m"))
		pass(61 * time.Second)
	}
	for name, c := range map[string]struct {
		before func(*d.Endpoint)
		lane   d.LaneMode // since the last change, of which the store of endpoints does not know
		find   func(t *testing.T, r *endpointRig, id string)
		want   d.EndpointState
	}{
		"a pause, by the guard":         {nil, d.LanePaused, wait, d.StatePaused},
		"a pause, by a change":          {nil, d.LanePaused, describe, d.StatePaused},
		"it was disabled, by the guard": {nil, d.LaneDisabled, wait, d.StateDisabled},
		"a resume, by a publish":        {paused, d.LaneNormal, publish, d.StateActive},
		"a resume, by a change":         {paused, d.LaneNormal, describe, d.StateActive},
		"a resume, by a claim":          {paused, d.LaneNormal, lease, d.StateActive},
		"another change, by a publish":  {nil, d.LaneNormal, publish, d.StateActive},
		"it was deleted, by a publish":  {nil, d.LaneDeleted, publish, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				with := c.before
				if with == nil {
					with = func(*d.Endpoint) {}
				}
				view := r.create(t, with)
				r.start(t)
				pass(2 * time.Second)
				limits := view.Limits()
				limits.Version, limits.Mode, limits.By = 4, c.lane, "key:shop"
				_, err := r.queue.still().Limit(t.Context(), "other", view.Lane(), limits, false)
				require.NoError(t, err)
				c.find(t, r, view.ID)
				stored := r.store.stored(view.ID)
				if c.want == "" {
					require.Nil(t, stored)
					r.stop(t)
					return
				}
				require.GreaterOrEqual(t, stored.Version, int64(5))
				require.Equal(t, stored.Limits().Version, r.queue.limitsOf(view.Lane()).Version)
				again, err := r.Endpoint(t.Context(), view.ID)
				require.NoError(t, err)
				require.Equal(t, c.want, again.State)
				if c.want != d.StateActive {
					require.Equal(t, "key:shop", again.StoppedBy)
				}
				require.Contains(t, r.log.String(), "lost the last changes of an endpoint")
				for _, mode := range []d.LaneMode{d.LanePaused, d.LaneNormal} {
					r.change(t, view.ID, func(e *d.Endpoint) { e.Paused, e.Disabled = mode == d.LanePaused, false })
					require.Equal(t, mode, r.queue.limitsOf(view.Lane()).Mode, "the lane takes the next changes")
				}
				r.stop(t)
			})
		})
	}
}

func TestADeleteThatStoppedHalfWayIsFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		view := r.create(t, paused)
		for i := range 4 {
			c := claimed(to(view.ID, fmt.Sprintf("m%d", i)))
			c.ID.Lane = view.Lane()
			if i == 0 {
				r.queue.put(c)
				continue
			}
			r.queue.later(c.ID.Lane, c.ID.Message, time.Hour)
		}
		end, err := r.store.DeleteEndpoint(t.Context(), view.ID) // and died
		require.NoError(t, err)
		r.start(t)
		pass(2 * time.Second)
		for i := range 4 {
			status, _ := r.queue.ended(view.Lane(), fmt.Sprintf("m%d", i))
			require.Equal(t, d.StatusCancelled, status, i)
		}
		require.Equal(t, d.LaneLimits{Version: end, Mode: d.LaneDeleted}, r.queue.limitsOf(view.Lane()))
		require.Zero(t, r.store.deleted(view.ID), "nothing of it is left to do")
		r.stop(t)
	})
}

func TestADeleteThatIsRepeatedFinishesAndIsThenUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, paused)
		for i := range 3 {
			r.publish(t, to(view.ID, fmt.Sprintf("m%d", i)))
		}
		r.queue.set(func() { r.queue.hook = failing("limit", d.ErrUnavailable) })
		_, err := r.DeleteEndpoint(t.Context(), view.ID)
		require.ErrorIs(t, err, d.ErrUnavailable)
		_, err = r.Endpoint(t.Context(), view.ID)
		require.ErrorIs(t, err, d.ErrNoEndpoint)
		r.queue.set(func() { r.queue.hook = nil })
		n, err := r.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		require.Equal(t, 3, n, "what was left")
		pass(time.Minute)
		_, err = r.DeleteEndpoint(t.Context(), view.ID)
		require.ErrorIs(t, err, d.ErrNoEndpoint)
		r.stop(t)
	})
}

func TestAnEndpointThatTheStoreLostEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t)
		r.store.set(func() { delete(r.store.byID, view.ID) })
		r.queue.ears.OnGap()
		r.leaseTo(view.Lane(), "m")
		pass(5 * time.Minute)
		status, _ := r.queue.ended(view.Lane(), "m")
		require.Empty(t, status)
		require.Equal(t, d.LaneNormal, r.queue.limitsOf(view.Lane()).Mode)
		require.LessOrEqual(t, r.queue.verdicts()[d.Back], 31, "nor is it taken in a circle")
		require.Contains(t, r.log.String(), "an endpoint that does not exist")
		r.store.put(view.Endpoint)
		pass(10 * time.Second)
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}

func TestAPausedLaneSaysThatItsEndpointIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, paused)
		r.publish(t, to(view.ID, "m"))
		r.store.set(func() { delete(r.store.byID, view.ID) })
		r.queue.ears.OnGap()
		pass(61 * time.Second)
		states, err := r.queue.still().LaneStates(t.Context(), []d.Lane{view.Lane()})
		require.NoError(t, err)
		state, why := states[0].Standing()
		require.Equal(t, []any{d.StateLimited, d.WhyMissing}, []any{state, why})
		status, _ := r.queue.ended(view.Lane(), "m")
		require.Empty(t, status)
		require.Empty(t, r.sender.sent())
		r.stop(t)
	})
}

func TestACreationThatFailsLeavesNoLane(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"the store is full": d.ErrFull, "it can't be stored": fmt.Errorf("broken")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.store.hook = failing("create endpoint", fault)
				for range 3 {
					_, _, err := r.CreateEndpoint(t.Context(), newTestEndpoint())
					require.ErrorIs(t, err, fault)
				}
				for _, c := range r.queue.seen("limit") {
					require.False(t, r.queue.hasLane(c.lane))
				}
			})
		})
	}
}

func TestACreationWithoutAnAnswerLeavesItsLaneUntilItIsSureThatThereIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		r.store.set(func() { r.store.hook = failing("create endpoint", d.ErrUnavailable) })
		_, _, err := r.CreateEndpoint(t.Context(), newTestEndpoint(paused))
		require.ErrorIs(t, err, d.ErrUnavailable)
		lane := r.queue.seen("limit")[0].lane
		pass(9 * time.Minute)
		require.True(t, r.queue.hasLane(lane), "it may be made yet")
		pass(3 * time.Minute)
		require.False(t, r.queue.hasLane(lane))
		r.stop(t)
	})
}

// What a 410 says of an endpoint that changed meanwhile.

func TestA410OfWhatWasCorrectedMeanwhileDisablesNothing(t *testing.T) {
	t.Parallel()
	resume := func(t *testing.T, r *endpointRig, id string) {
		_, err := r.Pause(t.Context(), id, "")
		require.NoError(t, err)
		_, err = r.Resume(t.Context(), id, "")
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		correct  func(t *testing.T, r *endpointRig, id string)
		disabled bool
	}{
		"another URL": {func(t *testing.T, r *endpointRig, id string) { r.change(t, id, address("https://new.example/")) }, false},
		"a resume":    {resume, false},
		"another URL and back": {func(t *testing.T, r *endpointRig, id string) {
			old := r.store.stored(id).URL
			r.change(t, id, address("https://new.example/"))
			r.change(t, id, address(old))
		}, false},
		"what has nothing to do with it": {func(t *testing.T, r *endpointRig, id string) {
			r.change(t, id, func(e *d.Endpoint) { e.Description = "new" })
		}, true},
		"nothing": {func(*testing.T, *endpointRig, string) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.sender.answer = goneAfter(3 * time.Second)
				r.start(t)
				view := r.create(t)
				r.publish(t, to(view.ID, "m"))
				pass(time.Second)
				require.Len(t, r.sender.sent(), 1, "it is under way")
				c.correct(t, r, view.ID)
				pass(time.Minute)
				require.Equal(t, c.disabled, r.store.stored(view.ID).Disabled)
				require.Equal(t, map[d.Verdict]int{d.Dead: 1}, r.queue.verdicts(), "that delivery ends in any case")
				r.stop(t)
			})
		})
	}
}
