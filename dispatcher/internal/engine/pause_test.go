package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

func TestWhatComesForAPausedDestinationIsHeldAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"))
		bare := message("bare")
		lane, err := r.Lane(t.Context(), bare.URL, "")
		require.NoError(t, err)
		cases := map[string]struct {
			lane d.Lane
			m    *d.Message
		}{
			"main":             {view.Lane(), to("main", "by_uid")},
			view.ID:            {view.Lane(), to(view.ID, "by_id")},
			bare.URL + "?x=1":  {lane, bare},
			string(lane):       {lane, message("by_lane")},
			string(d.AllLanes): {d.AllLanes, message("all")},
		}
		_, err = r.Resume(t.Context(), bare.URL, "") // so that it is there
		require.NoError(t, err)
		ctx := d.WithCaller(t.Context(), "key:ops")
		sent := 0
		for name, c := range cases {
			state, err := r.Pause(ctx, name, "")
			require.NoError(t, err, name)
			require.Equal(t, c.lane, state.Lane)
			require.Equal(t, d.StatePaused, state.State())
			require.Equal(t, "key:ops", state.By)
			require.Equal(t, d.StatusReady, r.publish(t, c.m).Deliveries[0].Status)
			pass(5 * time.Minute)
			require.Len(t, r.sender.sent(), sent, "%s: nothing goes", name)
			state, err = r.Resume(ctx, name, "")
			require.NoError(t, err, name)
			require.Equal(t, d.StateActive, state.State())
			require.Empty(t, state.By)
			synctest.Wait()
			sent++
			require.Len(t, r.sender.sent(), sent, "%s: at once", name)
		}
		for _, text := range []string{
			`msg="lane paused" by=key:ops lane=` + string(lane), `msg="lane resumed" by=key:ops lane=` + string(lane),
			`msg="all lanes paused" by=key:ops lane=*`, `msg="all lanes resumed" by=key:ops lane=*`,
		} {
			require.Contains(t, r.log.String(), text)
		}
		for _, c := range r.queue.seen("limit") {
			if !c.lane.IsEndpoint() {
				require.Zero(t, c.limits.Version)
			}
		}
		r.stop(t)
	})
}

// A host that many merchants share must not be held for all by what one of
// their receivers there says.
func TestEachTenantHasALaneOfItsOwnAtAnOrigin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		send := func(id, tenant string) d.Delivery {
			m := message(id)
			m.Tenant = tenant
			got := r.publish(t, m)
			require.Len(t, got.Deliveries, 1)
			return got.Deliveries[0]
		}
		lanes := map[d.Lane]string{}
		for _, tenant := range []string{"", "good", "evil"} {
			lane := send("first_"+tenant, tenant).ID.Lane
			require.Empty(t, lanes[lane], "%q", tenant)
			lanes[lane] = "is " + tenant
			require.Equal(t, lane, send("second_"+tenant, tenant).ID.Lane)
			asked, err := r.Lane(t.Context(), message("m").URL, tenant)
			require.NoError(t, err)
			require.Equal(t, lane, asked)
		}
		pass(time.Second)
		require.Len(t, r.sender.sent(), 6)

		_, err := r.Pause(t.Context(), message("m").URL, "evil")
		require.NoError(t, err)
		paused := send("held", "evil")
		send("goes", "good")
		send("goes_too", "")
		pass(time.Second)
		require.Len(t, r.sender.sent(), 8, "one tenant's lane is paused")
		lane, err := r.MessageLane(t.Context(), "held", message("m").URL)
		require.NoError(t, err)
		require.Equal(t, paused.ID.Lane, lane, "a URL means the lane of the message's own tenant")
		_, err = r.MessageLane(t.Context(), "unknown", message("m").URL)
		require.ErrorIs(t, err, d.ErrNotFound)
		r.stop(t)
	})
}

func TestResumeClearsWhateverHeldADestination(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"))
		r.queue.openBreaker(view.Lane())
		view = r.change(t, "main", func(e *d.Endpoint) { e.Paused, e.Disabled = true, true })
		require.Equal(t, d.StateDisabled, view.State)
		urlLane, err := r.Lane(t.Context(), "https://shop.example/hook", "")
		require.NoError(t, err)
		for name, lane := range map[string]d.Lane{"main": view.Lane(), "https://shop.example": urlLane} {
			if !lane.IsEndpoint() {
				r.queue.openBreaker(lane)
			}
			_, err = r.Pause(t.Context(), name, "")
			require.NoError(t, err)
			cleared := func() bool { // other lanes are compared with their endpoints meanwhile
				calls := slices.DeleteFunc(r.queue.seen("limit"), func(c call) bool { return c.lane != lane })
				return calls[len(calls)-1].clear
			}
			require.False(t, cleared())
			state, err := r.Resume(t.Context(), name, "")
			require.NoError(t, err)
			require.True(t, cleared())
			require.Equal(t, d.StateActive, state.State())
			require.Zero(t, state.Opened)
			require.True(t, state.Until.IsZero())
			require.Contains(t, r.log.String(), "lane="+string(lane))
		}
		e := r.store.stored(view.ID)
		require.False(t, e.Paused)
		require.False(t, e.Disabled)
		r.stop(t)
	})
}

func TestAPauseOfADisabledEndpointLeavesItDisabled(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t, disabled)
	state, err := r.Pause(t.Context(), view.ID, "")
	require.NoError(t, err)
	require.Equal(t, d.StateDisabled, state.State())
	require.True(t, r.store.stored(view.ID).Disabled)
}

func TestADestinationMeansALane(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t, uid("main"))
	cases := map[string]d.Lane{
		"*": d.AllLanes, view.ID: view.Lane(), "main": view.Lane(), "ep_unknown00": "ep_unknown00", "u_AbCdEfGhIj": "u_AbCdEfGhIj", "q_jobs": "q_jobs",
		"q_" + longQueue: d.QueueLane(longQueue), string(d.QueueLane(longQueue)): d.QueueLane(longQueue),
	}
	for destination, want := range cases {
		lane, err := r.Lane(t.Context(), destination, "")
		require.NoError(t, err)
		require.Equal(t, want, lane)
	}
	one, err := r.Lane(t.Context(), "https://shop.example/a", "")
	require.NoError(t, err)
	two, err := r.Lane(t.Context(), "https://SHOP.example:443/b?c=d", "")
	require.NoError(t, err)
	require.Equal(t, one, two, "the lane of its origin")
	other, err := r.Lane(t.Context(), "https://shop.example/a", "t")
	require.NoError(t, err)
	require.NotEqual(t, one, other, "each tenant has its own")
	for destination, want := range cases {
		lane, err := r.Lane(t.Context(), destination, "t")
		require.NoError(t, err)
		require.Equal(t, want, lane, "which is no matter where a lane is named")
	}
	refused := map[string]error{"nobody": d.ErrNoEndpoint, "a b": d.ErrNoEndpoint, "": d.ErrNoEndpoint, "ep_00000000000001": d.ErrNotFound, "u_a/b": d.ErrNotFound}
	for destination, want := range refused {
		_, err = r.Lane(t.Context(), destination, "")
		require.ErrorIs(t, err, want, "%q", destination)
		_, err = r.Pause(t.Context(), destination, "")
		require.ErrorIs(t, err, want, "%q", destination)
	}
	_, err = r.Lane(t.Context(), "ftp://shop.example", "")
	require.Error(t, err)
	_, err = r.Pause(t.Context(), "ep_unknown00", "")
	require.ErrorIs(t, err, d.ErrNoEndpoint)
	state, err := r.Pause(t.Context(), "q_"+longQueue, "")
	require.NoError(t, err)
	require.Equal(t, []any{d.QueueLane(longQueue), longQueue}, []any{state.Lane, state.Queue}, "it is paused before its first message")
}

// longQueue is a queue whose lane has a hash of its name.
const longQueue = "cancel_unpaid_orders.v2"

func TestLanesTellWhereTheyLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		r.publish(t, message("bare"))
		pass(time.Second)
		view := r.create(t, uid("main"))
		_, err := r.Pause(t.Context(), "*", "")
		require.NoError(t, err)
		states, next, err := r.Lanes(t.Context(), 1, "")
		require.NoError(t, err)
		require.Equal(t, d.AllLanes, states[0].Lane)
		require.Equal(t, d.StatePaused, states[0].State())
		rest := states[1:]
		other, _, err := r.Lanes(t.Context(), 1, next)
		require.NoError(t, err)
		require.Len(t, rest, 1)
		require.Len(t, other, 1)
		require.Equal(t, "https://shop.example", other[0].URL)
		require.Equal(t, view.Lane(), rest[0].Lane)
		require.Equal(t, "https://acme.example", rest[0].URL, "its origin")
		require.Equal(t, "main", rest[0].UID)
		r.stop(t)
	})
}

func TestTheDeadOfATenantAreThoseOfItsEndpointsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = gone
		r.start(t)
		view := r.create(t, uid("main"))
		r.create(t, uid("others"), tenant("other"))
		bare := message("bare")
		bare.Tenant = "acme"
		other := to("others", "other")
		other.Tenant = "other"
		for _, m := range []*d.Message{to("main", "m"), bare, other} {
			r.publish(t, m)
		}
		pass(time.Second)
		page, err := r.Dead(t.Context(), d.DeadFilter{Tenants: []string{"acme"}})
		require.NoError(t, err)
		require.Len(t, page.Groups, 2)
		for _, g := range page.Groups {
			require.Equal(t, "acme", g.Tenant)
			require.Equal(t, int64(1), g.Count)
			require.Equal(t, 410, g.LastStatus)
			require.Equal(t, g.Lane == view.Lane(), g.UID == "main")
			require.Equal(t, g.Lane == view.Lane(), g.URL == "https://acme.example", "its origin")
		}
		page, err = r.Dead(t.Context(), d.DeadFilter{})
		require.NoError(t, err)
		require.Len(t, page.Groups, 3)
		r.stop(t)
	})
}

func TestABreakerThatOpensOrClosesIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.breaker = 2 })
		var good atomic.Bool
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			if good.Load() {
				return d.Answer{Status: 200}
			}
			return d.Answer{Status: 500}
		}
		r.start(t)
		_, err := r.Publish(t.Context(), messages("m", 2))
		require.NoError(t, err)
		synctest.Wait()
		require.Contains(t, r.log.String(), "breaker opened")
		require.Contains(t, r.log.String(), "wait_s=30")
		for _, s := range r.queue.outcomes() {
			require.True(t, s.Blame)
		}
		good.Store(true)
		pass(time.Hour)
		require.Contains(t, r.log.String(), "breaker closed")
		r.stop(t)
	})
}

func TestAReceiverThatAsksForItHasItsLanePaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = func(context.Context, d.Call) d.Answer { return d.Answer{Status: 429, RetryAfter: "120"} }
		s := deliverOne(t, r, claimed(message("m")))
		require.Equal(t, 2*time.Minute, s.Pause)
		require.Equal(t, 2*time.Minute, s.Wait)
		require.False(t, s.Blame)
	})
}

func TestAResumeWhoseAnswerWasLostCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		m := message("m")
		_, err := r.Pause(t.Context(), m.URL, "")
		require.NoError(t, err)
		_, err = r.Publish(t.Context(), []*d.Message{m})
		require.NoError(t, err)
		pass(10 * time.Second)
		require.Empty(t, r.sender.sent())
		r.queue.set(func() { r.queue.after = failing("limit", d.ErrUnavailable) })
		_, err = r.Resume(t.Context(), m.URL, "")
		require.ErrorIs(t, err, d.ErrUnavailable)
		pass(engine.PollLeast)
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}

// A sweep.

func TestWhatWaitsForATimeIsSweptPageByPage(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"at once": false, "after errors": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.queue.pages = 2
				r.start(t)
				view := r.create(t, uid("main"))
				for _, m := range messages("m", 5) {
					m.URL, m.Endpoint, m.Delay = "", "main", 24*time.Hour
					r.publish(t, m)
				}
				if fails {
					r.queue.set(func() { r.queue.hook = failing("sweep", d.ErrUnavailable) })
				}
				r.change(t, "main", disabled)
				pass(10 * time.Second)
				if fails {
					require.Less(t, r.queue.count("sweep"), 100, "it waits between")
					require.Greater(t, r.queue.count("sweep"), 3)
					due, _, _ := r.queue.places()
					require.Equal(t, 5, due)
					r.queue.set(func() { r.queue.hook = nil })
					pass(5 * time.Second)
				} else {
					require.Equal(t, 3, r.queue.count("sweep"), "until there are no more")
				}
				for _, m := range messages("m", 5) {
					status, reason := r.queue.ended(view.Lane(), m.ID)
					require.Equal(t, d.StatusDead, status)
					require.Equal(t, d.ReasonDisabled, reason)
				}
				require.Contains(t, r.log.String(), "deliveries=5")
				require.Empty(t, r.sender.sent())
				calls := r.queue.count("sweep")
				pass(10 * time.Minute)
				require.Equal(t, calls, r.queue.count("sweep"))
				r.stop(t)
			})
		})
	}
}

func TestASweepEndsWithTheDispatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		r.create(t, uid("main"))
		r.queue.set(func() { r.queue.hook = failing("sweep", d.ErrUnavailable) })
		_, err := r.DeleteEndpoint(t.Context(), "main")
		require.NoError(t, err)
		pass(time.Minute)
		began := time.Now()
		r.stop(t)
		require.Zero(t, time.Since(began))
	})
}
