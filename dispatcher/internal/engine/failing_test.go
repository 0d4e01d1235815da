package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

func broken(context.Context, d.Call) d.Answer { return d.Answer{Status: 404} }

// failingAfter has destinations told as failing after ten seconds, and given up after twenty.
func failingAfter(o *engine.Options, _ *testQueue, s *fakeSender) {
	o.FailingAfter, o.DisableAfter, s.answer = 10*time.Second, 20*time.Second, broken
}

func mustRead(t testing.TB, r *endpointRig) d.EndpointView {
	t.Helper()
	view, err := r.Endpoint(t.Context(), "main")
	require.NoError(t, err)
	return view
}

func TestAnEndpointThatFailsForTooLongIsDisabled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, failingAfter)
		r.start(t)
		view := r.create(t, uid("main"))
		later := to("main", "later")
		later.Delay = time.Hour
		r.publish(t, later)
		began := time.Now()
		for _, id := range []string{"first", "second", "third", "fourth"} {
			r.publish(t, to("main", id))
			pass(8 * time.Second)
		}
		stored := r.store.stored(view.ID)
		require.True(t, stored.Disabled)
		require.Equal(t, d.WhyFailing, stored.Cause)
		status, reason := r.queue.ended(view.Lane(), "later")
		require.Equal(t, d.StatusDead, status)
		require.Equal(t, d.ReasonDisabled, reason, "what waits is swept")
		require.Contains(t, r.log.String(), "destination failing")
		require.Contains(t, r.log.String(), "why=failing")
		require.False(t, mustRead(t, r).Failing.Before(began.Truncate(time.Millisecond)))
		_, err := r.Resume(t.Context(), "main", "")
		require.NoError(t, err)
		now := mustRead(t, r)
		require.True(t, now.Failing.IsZero())
		require.Empty(t, now.Cause)
		r.stop(t)
	})
}

// audited keeps what is told to an audit.
type audited struct {
	d.Audit
	entries []d.AuditEntry
}

func (a *audited) Record(_ context.Context, e d.AuditEntry) { a.entries = append(a.entries, e) }

func TestWhyTheEngineDisablesAnEndpointIsAudited(t *testing.T) {
	t.Parallel()
	for detail, answer := range map[string]func(context.Context, d.Call) d.Answer{
		"none of its attempts succeeded for too long": broken, "its receiver answered 410": gone,
	} {
		synctest.Test(t, func(t *testing.T) {
			var log audited
			r := newTestEndpointRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
				failingAfter(o, q, s)
				o.Audit, s.answer = &log, answer
			})
			r.start(t)
			view := r.create(t, uid("main"))
			for _, id := range []string{"first", "second", "third", "fourth"} {
				r.publish(t, to("main", id))
				pass(8 * time.Second)
			}
			r.stop(t)
			require.Equal(t, []d.AuditEntry{{By: d.System, What: "endpoint.disable", Target: view.ID, Tenant: view.Tenant, Detail: detail}}, log.entries)
		})
	}
}

func TestASuccessfulTestEndsThatAnEndpointFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, failingAfter)
		r.start(t)
		r.create(t, uid("main"))
		r.publish(t, to("main", "m"))
		pass(time.Second)
		require.False(t, mustRead(t, r).Failing.IsZero())
		_, err := r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
		require.False(t, mustRead(t, r).Failing.IsZero(), "the test failed too")
		r.sender.answer = nil
		_, err = r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
		require.True(t, mustRead(t, r).Failing.IsZero())
		r.stop(t)
	})
}

func TestABareURLThatFailsForTooLongEndsWhatWasAcceptedUntilThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, failingAfter)
		r.start(t)
		later := message("later")
		later.Delay = time.Hour
		r.publish(t, later)
		for _, id := range []string{"first", "second", "third", "fourth"} {
			r.publish(t, message(id))
			pass(8 * time.Second)
		}
		u, err := d.ParseURL(later.URL)
		require.NoError(t, err)
		lane := d.URLLane(u, later.Tenant)
		status, reason := r.queue.ended(lane, "later")
		require.Equal(t, d.StatusDead, status)
		require.Equal(t, d.ReasonDisabled, reason)
		require.Contains(t, r.log.String(), "destination given up")
		r.sender.answer = nil
		r.publish(t, message("new"))
		pass(time.Minute)
		status, _ = r.queue.ended(lane, "new")
		require.Equal(t, d.StatusDelivered, status)
		r.stop(t)
	})
}

// fail has the first attempt of a delivery to a bare URL fail, at another instance. It
// answers since when its lane fails.
func (q *testQueue) fail(lane d.Lane, id string) time.Time {
	c := claimed(message(id))
	c.ID.Lane = lane
	q.lease("quiet", c)
	settled := q.still().Settle(context.Background(), "quiet", []d.Settlement{{
		ID: c.ID, Verdict: d.Retry, Wait: time.Hour, Fails: true, Attempt: d.Attempt{Number: 1, Status: 404, Verdict: d.Retry},
	}})
	require.NoError(q.t, settled[0].Err)
	states, err := q.still().LaneStates(context.Background(), []d.Lane{lane})
	require.NoError(q.t, err)
	return states[0].Failing
}

func TestWhatAnInstanceGaveUpBeforeItDiedIsEndedByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, failingAfter)
		since := r.queue.fail("u_0", "old")
		r.queue.later("u_0", "later", time.Hour)
		time.Sleep(time.Second)
		_, cut, err := r.queue.still().Cut(t.Context(), "gone", "u_0", since)
		require.NoError(t, err)
		require.True(t, cut)
		require.Equal(t, d.LaneCut, r.queue.limitsOf("u_0").Mode)
		time.Sleep(time.Second)
		r.queue.later("u_0", "new", time.Hour)
		r.start(t)
		pass(time.Second)
		for _, id := range []string{"old", "later"} {
			status, reason := r.queue.ended("u_0", id)
			require.Equal(t, d.StatusDead, status, id)
			require.Equal(t, d.ReasonDisabled, reason, id)
		}
		pass(3 * time.Minute)
		require.Equal(t, d.LaneLimits{}, r.queue.limitsOf("u_0"))
		status, _ := r.queue.ended("u_0", "new")
		require.Empty(t, status)
		r.stop(t)
	})
}
