package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/signer"
)

// newTakerRig has an engine without permits: only takers lease.
func newTakerRig(t testing.TB, change func(*engine.Options)) *rig {
	return newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) {
		o.MaxInFlight = 0
		if change != nil {
			change(o)
		}
	})
}

// takeOf leases what is ready, as a taker does.
func takeOf(r *rig, n int) ([]d.Claimed, error) {
	r.Note()
	call, err := r.BeginLease(context.Background())
	if err != nil {
		return nil, err
	}
	claimed, err := r.conn.Claim(call.Ctx, call.By, d.Claim{Wanted: n, Free: n})
	return claimed, r.EndLease(call, claimed, err)
}

// outcomesOf collects what Finish tells.
type outcomesOf struct {
	mu  sync.Mutex // guards all
	all []d.Settled
}

func (o *outcomesOf) done(s d.Settled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, s)
}

func (o *outcomesOf) list() []d.Settled {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all
}

func TestWhatATakerMadeOfADeliveryIsRecordedAndTold(t *testing.T) {
	t.Parallel()
	after := 40 * time.Second
	for name, c := range map[string]struct {
		h    d.Handled
		is   d.Verdict
		wait time.Duration
	}{
		"delivered":         {d.Handled{Verdict: d.Delivered}, d.Delivered, 0},
		"the first rung":    {d.Handled{Verdict: d.Retry, Error: "no"}, d.Retry, 15 * time.Second},
		"a wait of its own": {d.Handled{Verdict: d.Retry, After: &after}, d.Retry, after},
		"rejected":          {d.Handled{Verdict: d.Dead}, d.Dead, 0},
		"its lease ended":   {d.Handled{Verdict: d.Retry, Class: d.ClassLease}, d.Retry, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				watch := &seen{}
				r := newTakerRig(t, func(o *engine.Options) { o.Observer = watch })
				r.start(t)
				r.queue.fill(1)
				got, err := takeOf(r, 4)
				require.NoError(t, err)
				require.Len(t, got, 1)
				require.Equal(t, 1, r.Leases())
				c.h.At = r.queue.now()
				pass(2 * time.Second)
				outcomes := &outcomesOf{}
				require.Equal(t, c.is, r.Finish(got[0], c.h, outcomes.done))
				synctest.Wait()
				require.Equal(t, []d.Settled{{Result: d.SettledOK}}, withoutDeath(outcomes.list()))
				require.Zero(t, r.Leases())
				s := r.queue.outcomes()[0]
				require.Equal(t, c.is, s.Verdict)
				require.Equal(t, c.wait, s.Wait)
				require.Equal(t, 1, s.Attempt.Number)
				require.InDelta(t, 2*time.Second, s.Attempt.Duration, float64(moment))
				require.False(t, s.Blame || s.Fails)
				if c.is == d.Dead {
					require.Equal(t, d.ReasonRejected, s.Reason)
				}
				require.Len(t, watch.attempts, 1)
				require.True(t, watch.attempts[0].Taken)
				require.Zero(t, r.FreePermits(), "no permit was taken, and none is given back")
				r.stop(t)
			})
		})
	}
}

func withoutDeath(list []d.Settled) []d.Settled {
	for i := range list {
		list[i].Died = nil
	}
	return list
}

func TestATakerIsToldThatItsOutcomeWasNotRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		r.queue.fill(2)
		got, err := takeOf(r, 4)
		require.NoError(t, err)
		require.Len(t, got, 2)
		r.queue.set(func() { r.queue.hook = failing("settle", d.ErrUnavailable) })
		outcomes := &outcomesOf{}
		r.Finish(got[0], d.Handled{Verdict: d.Delivered}, outcomes.done)
		pass(time.Minute)
		require.Empty(t, outcomes.list(), "it is tried again as long as this instance runs")
		r.stop(t)
		require.Len(t, outcomes.list(), 1)
		require.ErrorIs(t, outcomes.list()[0].Err, d.ErrUnavailable)
		r.Finish(got[1], d.Handled{Verdict: d.Delivered}, outcomes.done)
		require.Len(t, outcomes.list(), 2, "at once: nothing is recorded any more")
		require.ErrorIs(t, outcomes.list()[1].Err, d.ErrUnavailable)
		_, err = r.BeginRegain(t.Context())
		require.ErrorIs(t, err, d.ErrUnavailable, "it has left")
	})
}

func TestAnOutcomeThatIsRefusedForGoodIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		r.queue.fill(1)
		got, err := takeOf(r, 4)
		require.NoError(t, err)
		r.queue.set(func() { r.queue.bad = func(d.Settlement) bool { return true } })
		outcomes := &outcomesOf{}
		r.Finish(got[0], d.Handled{Verdict: d.Delivered}, outcomes.done)
		pass(time.Minute)
		require.Len(t, outcomes.list(), 1)
		require.Error(t, outcomes.list()[0].Err)
		r.stop(t)
	})
}

func TestATakerLeasesOnlyWhileItsInstanceMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		_, err := r.BeginLease(t.Context())
		require.ErrorIs(t, err, d.ErrUnavailable, "it has not beaten yet")
		r.start(t)
		r.queue.set(func() { r.queue.hook = failing("beat", d.ErrUnavailable) })
		pass(2 * wait.BeatOld)
		_, err = r.BeginLease(t.Context())
		require.ErrorIs(t, err, d.ErrUnavailable, "it may have been declared dead")
		_, err = r.BeginRegain(t.Context())
		require.ErrorIs(t, err, d.ErrUnavailable)
		r.queue.set(func() { r.queue.hook = nil })
		pass(wait.BeatEvery)
		r.drain(t.Context())
		_, err = r.BeginLease(t.Context())
		require.ErrorIs(t, err, d.ErrUnavailable, "it stops")
		call, err := r.BeginRegain(t.Context())
		require.NoError(t, err, "a taken delivery is settled as long as outcomes are recorded")
		require.NoError(t, r.EndLease(call, nil, nil))
		r.stop(t)
	})
}

func TestATakerThatWasFencedGoesOnUnderAnotherName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		r.queue.fence("here")
		r.queue.fill(1)
		_, err := takeOf(r, 1)
		require.ErrorIs(t, err, d.ErrFenced)
		require.ErrorIs(t, err, d.ErrUnavailable)
		require.Equal(t, "here-2", r.Name())
		pass(2 * wait.BeatEvery)
		got, err := takeOf(r, 1)
		require.NoError(t, err)
		require.Len(t, got, 1)
		r.HandBack(got...)
		pass(time.Second)
		require.Equal(t, map[d.Verdict]int{d.Back: 1}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestWhatALostAnswerLeasedToATakerGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		r.queue.fill(3)
		r.queue.set(func() { r.queue.after = once("claim", d.ErrUnavailable) })
		_, err := takeOf(r, 3)
		require.ErrorIs(t, err, d.ErrUnavailable)
		pass(time.Minute)
		require.Equal(t, map[d.Verdict]int{d.Back: 3}, r.queue.verdicts())
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}

func TestTheCallOfATakerThatIsGoneIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		call, err := r.BeginLease(ctx)
		require.NoError(t, err)
		_, bounded := call.Ctx.Deadline()
		require.True(t, bounded)
		require.NoError(t, r.EndLease(call, nil, call.Ctx.Err()))
		r.stop(t)
	})
}

func TestATakersInstanceThatDiesIsTakenOverFrom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		r.queue.fill(2)
		got, err := takeOf(r, 2)
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.Positive(t, r.queue.count("join"))
		other := newTestInstance(t, connect(t, r.queue, 64), r.sender, func() engine.Options {
			o := newTestOptions(t, r.log)
			o.Instance, o.MaxInFlight = "other", 64
			return o
		}())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- other.Run(ctx) }()
		pass(30 * time.Second)
		require.Empty(t, r.queue.outcomes(), "a lease lasts as long as its holder lives")
		r.queue.set(func() { r.queue.hook = failingOf(r.queue, "beat", "here") })
		pass(30 * time.Second)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 2}, r.queue.verdicts())
		outcomes := &outcomesOf{}
		r.queue.set(func() { r.queue.hook = nil })
		r.Finish(got[0], d.Handled{Verdict: d.Retry}, outcomes.done)
		synctest.Wait()
		require.Equal(t, []d.Settled{{Result: d.SettledLate}}, outcomes.list())
		cancel()
		require.NoError(t, <-ended)
		r.stop(t)
	})
}

// failingOf fails the calls of a name that one instance makes.
func failingOf(q *testQueue, name, by string) func(string) error {
	return func(called string) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if last := q.calls[len(q.calls)-1]; called == name && last.by == by {
			return d.ErrUnavailable
		}
		return nil
	}
}

func TestWhatIsTakenHasTheHeadersOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		secret := signer.NewSecret()
		at := time.Unix(1_700_000_000, 0)
		m := message("m_1")
		m.URL, m.Queue, m.Tenant = "", "orders", "acme"
		m.Headers = []d.Header{{Name: "x-shop", Value: "7"}}
		c := claimed(m)
		c.ID.Lane = d.QueueLane("orders")
		c.Attempt, c.Asked = 3, true

		r := newTakerRig(t, func(o *engine.Options) { o.Secrets = nil })
		h, err := r.Headers(c, at)
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Webhook-Id": "m_1", "Webhook-Timestamp": "1700000000", "Hookladder-Topic": "payment.captured",
			"Hookladder-Attempt": "3", "Hookladder-Tenant": "acme", "Hookladder-Resend": "true", "X-Shop": "7", "User-Agent": "Hookladder/test",
		} {
			require.Equal(t, value, h.Get(name), name)
			h.Del(name)
		}
		require.Empty(t, h, "unsigned: there is no secret")
		_, err = r.Headers(claimed(message("m_2")), at)
		require.Error(t, err, "what is called is never unsigned")

		r = newTakerRig(t, func(o *engine.Options) { o.Secrets, o.DeriveTenant = []signer.Secret{secret}, true })
		h, err = r.Headers(c, at)
		require.NoError(t, err)
		own, err := signer.NewSigner(secret.Derive("acme"))
		require.NoError(t, err)
		require.Equal(t, own.Sign("m_1", at, m.Body), h.Get("webhook-signature"))
	})
}

func TestTheTimeOfAHandlerIsTheMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		c := claimed(message("m"))
		require.Equal(t, 15*time.Second, r.Timeout(c))
		c.Message.Timeout = time.Hour
		require.Equal(t, time.Hour, r.Timeout(c))
	})
}

func TestWhatCanNotBeGivenOutIsNotGivenOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		poison, sealed := claimed(message("poison")), claimed(message("sealed"))
		poison.Message = nil
		sealed.Message.Sealed = "?"
		fits := claimed(message("fits"))
		fit, unfit := r.Fit(t.Context(), []d.Claimed{poison, fits, sealed}, 1000)
		require.Equal(t, []d.Claimed{fits}, fit)
		require.Len(t, unfit, 2)
		require.Equal(t, d.Dead, unfit[0].Verdict)
		require.Equal(t, d.ReasonPoison, unfit[0].Reason)
		require.Equal(t, d.Back, unfit[1].Verdict)
		require.Equal(t, d.WhySealed, unfit[1].Stalled)
		require.Positive(t, unfit[1].Wait)
		require.Zero(t, unfit[1].Pause, "its lane does not wait")
	})
}

func TestATakerGetsSoManyBytesOfBodiesAndTheRestKeepsItsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		for i := range 5 {
			m := message(string(rune('a' + i)))
			m.Body = []byte(strings.Repeat("x", 100))
			if i == 1 {
				m.Body = []byte(strings.Repeat("y", 20<<10)) // it is stored apart
			}
			r.queue.schedule(r.queue.entry("u_0", m))
		}
		got, err := takeOf(r, 5)
		require.NoError(t, err)
		require.Len(t, got, 5)
		fit, unfit := r.Fit(t.Context(), got, 20<<10+200)
		require.Equal(t, "abc", idsOf(fit))
		require.Len(t, fit[1].Message.Body, 20<<10)
		r.Settle(unfit...)
		r.HandBack(fit...)
		pass(time.Second)
		require.Equal(t, map[d.Verdict]int{d.Back: 5}, r.queue.verdicts())
		got, err = takeOf(r, 5)
		require.NoError(t, err)
		fit, unfit = r.Fit(t.Context(), got[1:], 1)
		require.Equal(t, 1, len(fit), "one, however large")
		require.Len(t, unfit, 3)
		r.stop(t)
	})
}

func idsOf(list []d.Claimed) (all string) {
	for _, c := range list {
		all += c.ID.Message
	}
	return all
}

func TestADeliveryWhoseBodyIsGoneIsNotGivenOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTakerRig(t, nil)
		r.start(t)
		m := message("a")
		m.Body = []byte(strings.Repeat("y", 20<<10))
		r.queue.schedule(r.queue.entry("u_0", m))
		got, err := takeOf(r, 5)
		require.NoError(t, err)
		r.queue.set(func() { r.queue.hook = failing("body", d.ErrUnavailable) })
		_, unfit := r.Fit(t.Context(), got, 1<<20)
		require.Equal(t, d.Back, unfit[0].Verdict)
		require.Positive(t, unfit[0].Pause, "else it would be taken again at once")
		r.queue.set(func() { r.queue.hook, r.queue.bodiless = nil, true })
		_, unfit = r.Fit(t.Context(), got, 1<<20)
		require.Equal(t, d.ReasonPoison, unfit[0].Reason)
		r.Settle(unfit...)
		synctest.Wait()
		require.Equal(t, map[d.Verdict]int{d.Dead: 1}, r.queue.verdicts())
		r.stop(t)
	})
}
