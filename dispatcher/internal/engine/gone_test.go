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
	"github.com/hookladder/hookladder/signer"
)

func gone(context.Context, d.Call) d.Answer { return d.Answer{Status: 410} }

func TestAnEndpointThatIsGoneIsDisabledBeforeThatIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = gone
		r.start(t)
		view := r.create(t, uid("main"))
		later := to("main", "later")
		later.Delay = time.Hour
		r.publish(t, later)
		r.store.journal(r.queue)
		r.publish(t, to("main", "m"))
		pass(time.Second)
		require.Equal(t, []string{"limit", "change endpoint", "limit", "settle"}, r.queue.order("change endpoint", "limit", "settle"))
		require.True(t, r.store.stored(view.ID).Disabled)
		require.Equal(t, d.LaneDisabled, r.queue.limitsOf(view.Lane()).Mode)
		status, reason := r.queue.ended(view.Lane(), "m")
		require.Equal(t, d.StatusDead, status)
		require.Equal(t, d.ReasonGone, reason)
		status, reason = r.queue.ended(view.Lane(), "later")
		require.Equal(t, d.StatusDead, status)
		require.Equal(t, d.ReasonDisabled, reason, "what waits is swept")
		require.Regexp(t, `msg="endpoint disabled" by=system lane=`+view.ID+` url=\S+ why=gone`, r.log.String())
		require.Equal(t, 1024, r.FreePermits())
		r.stop(t)
	})
}

// goneAfter answers 410 after a time.
func goneAfter(wait time.Duration) func(context.Context, d.Call) d.Answer {
	return func(ctx context.Context, c d.Call) d.Answer {
		takes(wait)(ctx, c)
		return d.Answer{Status: 410}
	}
}

func TestABareURLThatIsGoneEndsThatDeliveryOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = gone
		s := deliverOne(t, r.rig, claimed(message("m")))
		require.Equal(t, d.ReasonGone, s.Reason)
		require.Zero(t, r.store.count("change endpoint"))
		require.Empty(t, r.queue.seen("limit"))
	})
}

func TestManyThatAreGoneAtOnceDisableOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = goneAfter(time.Second)
		r.queue.direct = true
		r.start(t)
		view := r.create(t, uid("main"))
		for _, m := range messages("m", 20) {
			m.URL, m.Endpoint = "", "main"
			r.publish(t, m)
		}
		pass(time.Minute)
		require.Len(t, r.sender.sent(), 20)
		require.Equal(t, int64(2), r.store.stored(view.ID).Version)
		require.Equal(t, 1, r.store.count("change endpoint"), "all of them are one change")
		require.Equal(t, map[d.Verdict]int{d.Dead: 20}, r.queue.verdicts())
		require.NotContains(t, r.log.String(), "endpoint not disabled")
		r.stop(t)
	})
}

func TestAnEndpointThatCantBeDisabledHoldsUpNoOutcome(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(string) error{
		"the store fails": failing("change endpoint", d.ErrUnavailable), "the store hangs": slow("change endpoint", 10*time.Second),
		"somebody changes it all the time": failing("change endpoint", d.ErrStale),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.sender.answer = gone
				r.start(t)
				r.create(t, uid("main"))
				r.store.set(func() { r.store.hook = fault })
				r.publish(t, to("main", "m"))
				synctest.Wait()
				require.Equal(t, 1024, r.FreePermits(), "it holds no permit")
				pass(time.Minute)
				require.Equal(t, map[d.Verdict]int{d.Dead: 1}, r.queue.verdicts())
				require.Contains(t, r.log.String(), "endpoint not disabled")
				r.store.set(func() { r.store.hook = nil })
				r.publish(t, to("main", "next"))
				pass(time.Second)
				require.Contains(t, r.log.String(), "endpoint disabled", "the next message does it")
				r.stop(t)
			})
		})
	}
}

func TestADeletedEndpointThatIsGoneIsNoFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = func(ctx context.Context, c d.Call) d.Answer {
			takes(time.Second)(ctx, c)
			return d.Answer{Status: 410}
		}
		r.start(t)
		r.create(t, uid("main"))
		r.publish(t, to("main", "m"))
		synctest.Wait()
		_, err := r.DeleteEndpoint(t.Context(), "main")
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, map[d.Verdict]int{d.Dead: 1}, r.queue.verdicts())
		require.NotContains(t, r.log.String(), "endpoint not disabled")
		r.stop(t)
	})
}

// A message that only tries an endpoint.

func TestATestTellsWhatTheReceiverSaid(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		answer  d.Answer
		verdict d.Verdict
		class   d.Class
	}{
		"it took it":          {d.Answer{Status: 200, Body: []byte("thanks"), Took: time.Second}, d.Delivered, d.ClassNone},
		"it refused it":       {d.Answer{Status: 503, Body: []byte("thanks"), RetryAfter: "60"}, d.Retry, d.ClassStatus},
		"it is gone":          {d.Answer{Status: 410, Body: []byte("thanks")}, d.Dead, d.ClassStatus},
		"it did not answer":   {d.Answer{Class: d.ClassConnect, Err: context.DeadlineExceeded}, d.Retry, d.ClassConnect},
		"it may not be asked": {d.Answer{Class: d.ClassRefused, Err: context.DeadlineExceeded}, d.Dead, d.ClassRefused},
	}
	for name, c := range cases {
		for state, with := range map[string]func(*d.Endpoint){"active": uid("main"), "paused": paused, "disabled": disabled} {
			t.Run(name+", "+state, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newTestEndpointRig(t, nil)
					r.sender.answer = func(context.Context, d.Call) d.Answer { return c.answer }
					view := r.create(t, uid("main"), with, func(e *d.Endpoint) { e.UID = "main" })
					calls := len(r.queue.seen(""))
					result, err := r.TestEndpoint(t.Context(), "main") // also where nothing runs yet
					require.NoError(t, err)
					require.Equal(t, c.verdict, result.Attempt.Verdict)
					require.Equal(t, c.class, result.Attempt.Class)
					require.Equal(t, c.answer.Status, result.Attempt.Status)
					require.Equal(t, c.answer.Took, result.Attempt.Duration)
					require.Equal(t, string(c.answer.Body), string(result.Attempt.Excerpt))
					require.Equal(t, 1, result.Attempt.Number)
					require.Len(t, r.sender.sent(), 1)
					sent := r.sender.sent()[0]
					require.Equal(t, view.URL, sent.URL.String())
					require.Regexp(t, "^msg_[0-9A-Z]{26}$", result.MessageID)
					require.Equal(t, result.MessageID, sent.Header.Get("Webhook-Id"))
					require.Equal(t, d.TestTopic, sent.Header.Get("Hookladder-Topic"))
					require.Equal(t, "acme", sent.Header.Get("Hookladder-Tenant"))
					require.Contains(t, string(sent.Body), `"`+view.ID+`"`)
					require.True(t, verifies(t, r.rig, signer.Standard, view.Secrets[0].Secret, sent))
					if c.verdict == d.Delivered {
						require.Len(t, r.queue.seen("works"), 1)
						calls++
					}
					require.Len(t, r.queue.seen(""), calls, "nothing of it is kept")
					require.Equal(t, int64(1), r.store.stored(view.ID).Version, "nor does it change anything")
				})
			})
		}
	}
}

func TestATestLastsNoLongerThanAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = takes(time.Hour)
		r.create(t, uid("main"), func(e *d.Endpoint) { e.Timeout = 3 * time.Second })
		began := time.Now()
		result, err := r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, d.ClassTimeout, result.Attempt.Class)
		_, err = r.TestEndpoint(t.Context(), "nobody")
		require.ErrorIs(t, err, d.ErrNoEndpoint)
	})
}

func TestOnlySomeTestsAreUnderWayAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = takes(time.Second)
		r.create(t, uid("main"))
		var all sync.WaitGroup
		for range engine.MostTests {
			all.Go(func() {
				if _, err := r.TestEndpoint(t.Context(), "main"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		_, err := r.TestEndpoint(t.Context(), "main")
		require.ErrorIs(t, err, d.ErrBusy)
		require.Len(t, r.sender.sent(), engine.MostTests)
		all.Wait()
		_, err = r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
	})
}
