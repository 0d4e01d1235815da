package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// What an instance remembers of endpoints.

func TestANewEndpointIsSeenAtOnceByWhoMadeIt(t *testing.T) {
	t.Parallel()
	for name, hears := range map[string]bool{"while it listens": true, "while it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, acceptsOnly)
				r.queue.hears = hears
				r.store.listen("here", nil) // its own change is not heard back
				r.start(t)
				require.Empty(t, r.publish(t, fan("acme", "before")).Deliveries)
				view := r.create(t)
				require.Len(t, r.publish(t, fan("acme", "after")).Deliveries, 1)
				r.change(t, view.ID, topics("refund.*"))
				require.Empty(t, r.publish(t, fan("acme", "changed")).Deliveries)
				r.change(t, view.ID, topics("*"))
				_, err := r.DeleteEndpoint(t.Context(), view.ID)
				require.NoError(t, err)
				require.Empty(t, r.publish(t, fan("acme", "deleted")).Deliveries)
				r.stop(t)
			})
		})
	}
}

func TestAChangeElsewhereIsSeenWhenItIsHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		var reported []d.EndpointChange
		r.store.listen("here", func(c d.EndpointChange) { reported = append(reported, c) }) // on its way
		r.start(t)
		other := newTestInstance(t, connect(t, r.queue, 1024), r.sender, func() engine.Options {
			o := newTestOptions(t, r.log)
			o.Instance, o.Endpoints = "other", r.store
			return o
		}())
		deliver := func() {
			for _, c := range reported {
				r.queue.notify(c)
			}
			reported = nil
		}
		require.Empty(t, r.publish(t, fan("acme", "before")).Deliveries)
		view, _, err := other.CreateEndpoint(t.Context(), newTestEndpoint())
		require.NoError(t, err)
		require.Empty(t, r.publish(t, fan("acme", "unheard")).Deliveries, "it is remembered that there is none")
		deliver()
		require.Len(t, r.publish(t, fan("acme", "heard")).Deliveries, 1)

		change := func(e *d.Endpoint) error { e.URL = "https://moved.example"; return nil }
		_, err = other.ChangeEndpoint(t.Context(), view.ID, change)
		require.NoError(t, err)
		deliver()
		require.Equal(t, "https://moved.example", r.publish(t, to(view.ID, "moved")).Deliveries[0].URL)
		require.Equal(t, "https://moved.example", r.publish(t, fan("acme", "moved_too")).Deliveries[0].URL)
		_, err = other.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		deliver()
		require.Empty(t, r.publish(t, fan("acme", "deleted")).Deliveries)
		r.stop(t)
	})
}

func TestEndpointsAreRememberedOnlyWhileChangesAreHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		r.queue.hears = false
		r.start(t)
		view := r.create(t)
		n := 0
		reads := func() (named, fanned int) {
			before, beforeAll := r.store.count("endpoints"), r.store.count("tenant endpoints")
			for range 3 {
				n++
				r.publish(t, to(view.ID, messages("to", n+1)[n].ID))
				r.publish(t, fan("acme", messages("fan", n+1)[n].ID))
			}
			return r.store.count("endpoints") - before, r.store.count("tenant endpoints") - beforeAll
		}
		named, fanned := reads()
		require.Equal(t, []int{3, 3}, []int{named, fanned}, "nobody would tell")
		r.queue.ears.OnGap() // it listens from now on
		named, fanned = reads()
		require.Equal(t, []int{1, 1}, []int{named, fanned})
		named, fanned = reads()
		require.Equal(t, []int{0, 0}, []int{named, fanned})
		r.queue.ears.OnGap() // it may have missed something
		named, fanned = reads()
		require.Equal(t, []int{1, 1}, []int{named, fanned})
		r.queue.notify(d.EndpointChange{ID: "ep_other0000", Tenant: "other", Version: 2})
		named, fanned = reads()
		require.Equal(t, []int{0, 0}, []int{named, fanned}, "another's change")
		r.stop(t)
	})
}

func TestWhenAWatchEndsWhatWasRememberedIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		r.queue.hears, r.queue.deaf = false, true
		r.start(t)
		view := r.create(t)
		pass(time.Second)
		r.queue.ears.OnGap()
		r.publish(t, to(view.ID, "one"))
		before := r.store.count("endpoints")
		r.publish(t, to(view.ID, "two"))
		require.Equal(t, before, r.store.count("endpoints"))
		pass(5 * time.Second) // watching began and ended again
		r.publish(t, to(view.ID, "three"))
		r.publish(t, to(view.ID, "four"))
		require.Equal(t, before+2, r.store.count("endpoints"))
		r.stop(t)
	})
}

func TestWhatWasReadBeforeAChangeIsNotRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		r.start(t)
		view := r.create(t)
		for _, call := range []string{"endpoints", "tenant endpoints"} {
			change := sync.OnceFunc(func() { // between the reading and its answer
				e := r.store.stored(view.ID).Clone()
				e.Version++
				e.URL += "/next"
				r.store.put(e)
				r.queue.notify(d.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
			})
			r.queue.ears.OnGap()
			r.store.set(func() {
				r.store.read = func(name string) {
					if name == call {
						change()
					}
				}
			})
			publish := func(id string) string {
				if call == "endpoints" {
					return r.publish(t, to(view.ID, id)).Deliveries[0].URL
				}
				return r.publish(t, fan("acme", id)).Deliveries[0].URL
			}
			old := publish("before_" + call[:6])
			now := publish("after_" + call[:6])
			require.NotEqual(t, old, now)
			require.Equal(t, r.store.stored(view.ID).URL, now)
		}
		r.stop(t)
	})
}

// What was leased and may not be sent.

// leaseTo makes a delivery to an endpoint's lane ready and has it claimed.
func (r *endpointRig) leaseTo(lane d.Lane, id string) {
	pass(time.Millisecond) // else it is no news
	m := to(string(lane), id)
	c := claimed(m)
	c.ID.Lane = lane
	r.queue.put(c)
	r.Note()
}

func TestALaneThatKnowsAnOlderVersionIsTold(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*d.Endpoint){"changed": address("https://new.example/"), "paused": paused, "disabled": disabled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.start(t)
				view := r.create(t)
				// The instance that changed it died before the lane was told.
				e := r.store.stored(view.ID).Clone()
				e.Version++
				change(e)
				r.store.put(e)
				r.queue.notify(d.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
				r.leaseTo(view.Lane(), "m")
				pass(time.Second)
				require.Equal(t, e.Limits(), r.queue.limitsOf(view.Lane()))
				require.Len(t, r.queue.limited(view.Lane()), 2, "once")
				if name == "changed" {
					require.Len(t, r.sender.sent(), 1)
					require.Equal(t, "new.example", r.sender.sent()[0].URL.Host)
				} else {
					require.Empty(t, r.sender.sent())
				}
				_, ready, leased := r.queue.places()
				require.Zero(t, leased)
				status, reason := r.queue.ended(view.Lane(), "m")
				switch name {
				case "paused":
					require.Equal(t, 1, ready, "it waits, no rung spent")
					require.Equal(t, map[d.Verdict]int{d.Back: 1}, r.queue.verdicts())
				case "disabled":
					require.Equal(t, d.StatusDead, status)
					require.Equal(t, d.ReasonDisabled, reason)
				}
				require.Equal(t, 1024, r.FreePermits())
				require.Zero(t, r.Leases())
				r.stop(t)
			})
		})
	}
}

func TestALaneThatKnowsANewerVersionIsBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t)
		r.publish(t, to(view.ID, "first"))
		synctest.Wait() // by now it is remembered
		r.store.listen("here", nil)
		e := r.store.stored(view.ID).Clone()
		e.Version, e.URL = 2, "https://new.example/"
		r.store.put(e)
		_, err := r.queue.still().Limit(t.Context(), "other", e.Lane(), e.Limits(), false)
		require.NoError(t, err)
		r.leaseTo(view.Lane(), "m")
		synctest.Wait()
		require.Len(t, r.sender.sent(), 2)
		require.Equal(t, "new.example", r.sender.sent()[1].URL.Host, "though nobody told of the change")
		require.Len(t, r.queue.limited(view.Lane()), 1)
		r.stop(t)
	})
}

func TestWhatIsLeasedForADeletedEndpointEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t)
		_, err := r.store.DeleteEndpoint(t.Context(), view.ID) // and died
		require.NoError(t, err)
		r.leaseTo(view.Lane(), "m")
		pass(time.Second)
		require.Empty(t, r.sender.sent())
		require.Equal(t, d.LaneLimits{Version: 2, Mode: d.LaneDeleted}, r.queue.limitsOf(view.Lane()))
		status, _ := r.queue.ended(view.Lane(), "m")
		require.Equal(t, d.StatusCancelled, status)
		require.Equal(t, 1024, r.FreePermits())
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}

func TestAStoreOfEndpointsThatFailsLosesNothingAndSpinsNot(t *testing.T) {
	t.Parallel()
	faults := map[string]struct {
		hook   func(string) error
		lasts  time.Duration
		claims int // fewer than that, because it waits between two of them
	}{
		"fails": {failing("endpoints", d.ErrUnavailable), time.Second, 50},
		"hangs": {slow("endpoints", 10*time.Second), 10 * time.Second, 20},
	}
	for name, fault := range faults {
		for _, direct := range []bool{false, true} {
			t.Run(map[bool]string{false: name, true: name + ", leased directly"}[direct], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newTestEndpointRig(t, nil)
					r.start(t)
					r.create(t, uid("main"))
					batch := []*d.Message{to("main", "one"), to("main", "two")}
					r.queue.direct = direct
					r.queue.set(func() {
						r.queue.hook = func(call string) error {
							if call == "schedule" { // by now the publish has read what it needs
								r.store.set(func() { r.store.hook = fault.hook })
								r.queue.ears.OnGap()
							}
							if call == "settle" {
								time.Sleep(time.Millisecond) // else what went back is no news
							}
							return nil
						}
					})
					out, err := r.Publish(t.Context(), batch)
					require.NoError(t, err)
					require.Equal(t, []d.Result{d.Accepted, d.Accepted}, resultsOf(out))
					pass(fault.lasts)
					require.Less(t, r.queue.count("claim"), fault.claims)
					r.store.set(func() { r.store.hook = nil })
					pass(time.Minute)
					require.Len(t, r.sender.sent(), 2)
					require.Equal(t, 2, r.queue.verdicts()[d.Delivered])
					require.Zero(t, r.queue.verdicts()[d.Retry], "no rung spent")
					require.Equal(t, 1024, r.FreePermits())
					require.Zero(t, r.Leases())
					r.stop(t)
				})
			})
		}
	}
}

func TestABareURLIsSentWhateverTheEndpointsStoreSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		view := r.create(t)
		r.store.hook = failing("endpoints", d.ErrUnavailable)
		c := claimed(to(view.ID, "to_endpoint"))
		c.ID.Lane = view.Lane()
		r.queue.put(c)
		r.queue.put(claimed(message("bare")))
		r.start(t)
		pass(time.Second)
		require.Len(t, r.sender.sent(), 1)
		require.Equal(t, "bare", r.sender.sent()[0].Header.Get("Webhook-Id"))
		r.stop(t)
	})
}

func TestAnEndpointThatIsHeldBetweenClaimAndAttemptIsNotCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = takes(time.Second)
		view := r.create(t)
		r.queue.fill(500) // more than run at once
		r.start(t)
		begun := len(r.sender.sent())
		require.Less(t, begun, 500)
		r.queue.direct = true
		r.publish(t, to(view.ID, "m")) // leased, and waits for a place
		go func() { _, _ = r.Pause(context.WithoutCancel(t.Context()), view.ID, "") }()
		pass(time.Minute)
		require.Len(t, r.sender.sent(), 500)
		_, ready, leased := r.queue.places()
		require.Equal(t, 1, ready)
		require.Zero(t, leased)
		require.Equal(t, 1, r.queue.verdicts()[d.Back])
		require.Equal(t, 1024, r.FreePermits())
		r.stop(t)
	})
}

func TestALaneThatLacksItsLimitsIsToldByAPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, func(e *d.Endpoint) { e.MaxInFlight = 7 })
		r.publish(t, to(view.ID, "before"))
		pass(time.Millisecond)
		r.queue.HDel("{"+project+":0}"+keys.Limits, string(view.Lane())) // the queue lost it
		r.publish(t, to(view.ID, "m"))
		synctest.Wait()
		require.Equal(t, view.Limits(), r.queue.limitsOf(view.Lane()))
		require.Len(t, r.sender.sent(), 2)
		calls := len(r.queue.limited(view.Lane()))
		r.publish(t, to(view.ID, "again"))
		require.Len(t, r.queue.limited(view.Lane()), calls)
		r.stop(t)
	})
}

func TestWhoHasNoStoreOfEndpointsDeletesNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Endpoints = nil })
		r.start(t)
		limits := d.LaneLimits{Version: 1}
		_, err := r.queue.still().Limit(t.Context(), "other", "ep_000000001", limits, false)
		require.NoError(t, err)
		r.leaseTo("ep_000000001", "m")
		pass(time.Second)
		require.Empty(t, r.sender.sent())
		require.Equal(t, limits, r.queue.limitsOf("ep_000000001"))
		status, _ := r.queue.ended("ep_000000001", "m")
		require.Empty(t, status, "it is left to those who know")
		require.Less(t, r.queue.count("claim"), 50, "and not taken in a circle")
		r.stop(t)
	})
}
