package engine_test

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

func claimed(m *d.Message) d.Claimed {
	return d.Claimed{ID: d.DeliveryID{Lane: "u_0", Message: m.ID}, Message: m, Attempt: 1, Rung: 1, First: true}
}

// deliverOne makes one delivery ready and answers what came of its attempt.
func deliverOne(t *testing.T, r *rig, c d.Claimed) d.Settlement {
	t.Helper()
	r.queue.put(c)
	r.start(t)
	pass(time.Minute) // longer than any attempt
	r.stop(t)
	all := r.queue.outcomes()
	require.NotEmpty(t, all)
	require.Equal(t, r.FreePermits(), 1024)
	require.Zero(t, r.Leases())
	return r.queue.settled[c.ID][0]
}

func TestAReceiverGetsTheHeadersOfTheContract(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		secret := signer.NewSecret()
		r := newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) {
			o.Secrets = []signer.Secret{secret}
			q.skew.Store(int64(-time.Hour)) // the host's clock is an hour ahead
		})
		m := message("msg_1")
		m.Tenant, m.Body, m.ContentType = "acme", []byte(`{"amount": 4200}`), "application/json; charset=utf-8"
		m.Headers = []d.Header{
			{Name: "x-Shop", Value: "7"}, {Name: "Authorization", Value: "Bearer abc"},
			{Name: "webhook-ID", Value: "forged"}, {Name: "Webhook-signature", Value: "forged"}, {Name: "webhook-timestamp", Value: "1"},
			{Name: "CONTENT-TYPE", Value: "text/plain"}, {Name: "user-agent", Value: "forged"}, {Name: "hookladder-topic", Value: "forged"},
			{Name: "hookladder-Attempt", Value: "99"}, {Name: "hookladder-tenant", Value: "forged"}, {Name: "hookladder-resend", Value: "true"},
			{Name: "Connection", Value: "close"}, {Name: "Content-Length", Value: "0"},
		}
		c := claimed(m)
		c.Attempt, c.Rung = 4, 2
		r.queue.put(c)
		began := r.queue.now()
		r.start(t)
		require.Len(t, r.sender.sent(), 1)
		sent := r.sender.sent()[0]
		signature := sent.Header.Get("Webhook-Signature")
		stamp := strconv.FormatInt(began.Unix(), 10)
		require.Equal(t, http.Header{
			"Content-Type": {m.ContentType}, "User-Agent": {"Hookladder/test"},
			"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature},
			"Hookladder-Topic": {"payment.captured"}, "Hookladder-Attempt": {"4"}, "Hookladder-Tenant": {"acme"},
			"X-Shop": {"7"}, "Authorization": {"Bearer abc"},
		}, sent.Header)
		require.Equal(t, signer.Sign(secret, "msg_1", began, m.Body), signature)
		require.Equal(t, m.Body, sent.Body)
		require.Equal(t, m.URL, sent.URL.String())
		verifier := &signer.Verifier{Secrets: []signer.Secret{secret}, Now: r.queue.now}
		require.NoError(t, verifier.Verify(signer.Signed{ID: "msg_1", Timestamp: stamp, Signature: signature}, sent.Body))
		r.stop(t)
	})
}

func TestTenantAndResendAreToldOnlyWhereTheyAreSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		m := message("m")
		m.Headers = []d.Header{{Name: "Hookladder-Tenant", Value: "forged"}, {Name: "hookladder-resend", Value: "true"}}
		deliverOne(t, r, claimed(m))
		names := slices.Sorted(maps.Keys(r.sender.sent()[0].Header))
		require.Equal(t, []string{
			"Content-Type", "Hookladder-Attempt", "Hookladder-Topic", "User-Agent", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp",
		}, names)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		c := claimed(message("m"))
		c.Asked = true
		deliverOne(t, r, c)
		require.Equal(t, []string{"true"}, r.sender.sent()[0].Header["Hookladder-Resend"])
	})
}

func TestAnAttemptHasTheTimeOfItsMessage(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]time.Duration{"its own": 3 * time.Second, "none: the dispatcher's": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				var took time.Duration
				r.sender.answer = func(ctx context.Context, _ d.Call) d.Answer {
					began := time.Now()
					<-ctx.Done()
					took = time.Since(began)
					return d.Answer{Class: d.ClassTimeout, Err: ctx.Err(), Took: took}
				}
				m := message("m")
				m.Timeout = own
				s := deliverOne(t, r, claimed(m))
				want := own
				if own == 0 {
					want = 15 * time.Second
				}
				require.Equal(t, want, took)
				require.Equal(t, d.Retry, s.Verdict)
				require.Equal(t, d.ClassTimeout, s.Attempt.Class)
			})
		})
	}
}

func TestTheMessageDecidesWhatItsAnswerMeans(t *testing.T) {
	t.Parallel()
	own, err := ladder.New(time.Second, 2*time.Second, 3*time.Second)
	require.NoError(t, err)
	anyStatus, err := success.Parse("*")
	require.NoError(t, err)
	cases := map[string]struct {
		status  int
		rung    int
		change  func(m *d.Message)
		verdict d.Verdict
		wait    time.Duration
		reason  d.DeadReason
	}{
		"delivered":                 {status: 204, rung: 1, verdict: d.Delivered},
		"the dispatcher's ladder":   {status: 500, rung: 2, verdict: d.Retry, wait: 3 * time.Minute},
		"its top":                   {status: 500, rung: 3, verdict: d.Dead, reason: d.ReasonExhausted},
		"its own ladder":            {status: 500, rung: 3, change: func(m *d.Message) { m.Ladder = &own }, verdict: d.Retry, wait: 3 * time.Second},
		"its ladder is cut":         {status: 500, rung: 2, change: func(m *d.Message) { m.MaxAttempts = 2 }, verdict: d.Dead, reason: d.ReasonExhausted},
		"its own meaning of a word": {status: 500, rung: 1, change: func(m *d.Message) { m.Success = anyStatus }, verdict: d.Delivered},
		"gone":                      {status: 410, rung: 1, verdict: d.Dead, reason: d.ReasonGone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.sender.answer = func(context.Context, d.Call) d.Answer { return d.Answer{Status: c.status} }
				m := message("m")
				if c.change != nil {
					c.change(m)
				}
				one := claimed(m)
				one.Attempt, one.Rung, one.First = c.rung+5, c.rung, false
				began := r.queue.now()
				s := deliverOne(t, r, one)
				require.Equal(t, c.verdict, s.Verdict)
				require.Equal(t, c.wait, s.Wait)
				require.Equal(t, c.reason, s.Reason)
				require.Equal(t, c.rung+5, s.Attempt.Number)
				require.Equal(t, c.status, s.Attempt.Status)
				require.WithinDuration(t, began, s.Attempt.At, moment)
			})
		})
	}
}

func TestAnOutcomeHasTheEvidenceOfItsAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first bool
		kept  int
	}{"a first success, of which only the log tells": {true, d.ProofBytes}, "a later one": {false, 200}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Excerpt = 200 })
				r.sender.answer = func(context.Context, d.Call) d.Answer {
					return d.Answer{Status: 200, Address: "192.0.2.1:443", Body: bytes.Repeat([]byte("x"), 1000)}
				}
				one := claimed(message("m"))
				one.First, one.Asked = c.first, true
				a := deliverOne(t, r, one).Attempt
				require.Equal(t, "192.0.2.1:443", a.Address)
				require.True(t, a.Resend)
				require.Len(t, a.Excerpt, c.kept)
			})
		})
	}
}

func TestADeliveryClimbsItsLadderAndIsNeverEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		began := time.Now()
		var at []time.Duration
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			at = append(at, time.Since(began).Truncate(10*moment))
			return d.Answer{Status: 500}
		}
		r.start(t)
		_, err := r.Publish(t.Context(), messages("m", 1))
		require.NoError(t, err)
		pass(time.Hour)
		require.Equal(t, []time.Duration{0, 15 * time.Second, 195 * time.Second}, at)
		require.Equal(t, map[d.Verdict]int{d.Retry: 2, d.Dead: 1}, r.queue.verdicts())
		require.Contains(t, r.log.String(), "delivery dead")
		r.stop(t)
	})
}

func TestNothingIsSentUnsigned(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		id     string
		change func(*engine.Options, *testQueue, *fakeSender)
		says   string
	}{
		"there is no secret":     {id: "m", change: func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Secrets = nil }, says: "SIGNING_SECRET"},
		"the id can't be signed": {id: "a.b", says: "can't be signed"},
		"there is no id":         {id: "", says: "can't be signed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, c.change)
				one := claimed(message("m"))
				one.Message.ID = c.id
				s := deliverOne(t, r, one)
				require.Empty(t, r.sender.sent())
				require.Equal(t, d.Retry, s.Verdict)
				require.Equal(t, 15*time.Second, s.Wait)
				require.Equal(t, d.ClassInternal, s.Attempt.Class)
				require.Contains(t, s.Attempt.Error, c.says)
			})
		})
	}
}

func TestAURLThatCannotBeReadIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		m := message("m")
		m.URL = "https://user:secret@[::1"
		s := deliverOne(t, r, claimed(m))
		require.Empty(t, r.sender.sent())
		require.Equal(t, d.ClassInternal, s.Attempt.Class)
		require.NotContains(t, s.Attempt.Error+r.log.String(), "secret@")
	})
}

func TestARecordThatCannotBeReadIsDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		c := claimed(message("m"))
		c.Message = nil
		s := deliverOne(t, r, c)
		require.Empty(t, r.sender.sent())
		require.Equal(t, d.Dead, s.Verdict)
		require.Equal(t, d.ReasonPoison, s.Reason)
	})
}

func TestAMessageWhoseStoredSuccessCannotBeReadIsDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		m := message("m")
		m.Success = success.Stored(`{"body":{"matches":"("}}`)
		s := deliverOne(t, r, claimed(m))
		require.Empty(t, r.sender.sent())
		require.Equal(t, d.Dead, s.Verdict)
		require.Equal(t, d.ReasonPoison, s.Reason)
	})
}

func TestAPanicCostsARungAndNotTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = func(_ context.Context, c d.Call) d.Answer {
			if c.Header.Get("Hookladder-Attempt") == "1" {
				panic("the sender broke")
			}
			return d.Answer{Status: 200}
		}
		r.queue.fill(3)
		r.start(t)
		require.Equal(t, map[d.Verdict]int{d.Retry: 3}, r.queue.verdicts())
		for _, s := range r.queue.outcomes() {
			require.Equal(t, d.ClassInternal, s.Attempt.Class)
			require.Equal(t, 15*time.Second, s.Wait)
			require.NotContains(t, s.Attempt.Error, "sender broke", "the history is for the caller's eyes")
		}
		require.Contains(t, r.log.String(), "the sender broke")
		require.Contains(t, r.log.String(), "deliver_test.go", "the log has the stack")
		require.Equal(t, 3, strings.Count(r.log.String(), "attempt panicked"))
		require.Equal(t, 1024, r.FreePermits())
		pass(time.Minute)
		require.Equal(t, map[d.Verdict]int{d.Retry: 3, d.Delivered: 3}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestASignatureThatIsEchoedIsMasked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = func(_ context.Context, c d.Call) d.Answer {
			return d.Answer{Status: 400, Body: []byte("you sent " + c.Header.Get("Webhook-Signature"))}
		}
		s := deliverOne(t, r, claimed(message("m")))
		require.Equal(t, "you sent v1,[signature]", string(s.Attempt.Excerpt))
	})
}

// A message whose headers this instance can't open waits for one that can.
func TestAMessageWhoseHeadersAreSealedWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		c := claimed(message("m"))
		c.Message.Headers, c.Message.Sealed = []d.Header{{Name: "X-Token"}}, "seal1.00000000.xx"
		s := deliverOne(t, r, c)
		require.Empty(t, r.sender.sent())
		require.Equal(t, d.Back, s.Verdict)
		require.Equal(t, d.WhySealed, s.Stalled)
		require.Equal(t, 10*time.Second, s.Wait, "it waits")
		require.Zero(t, s.Pause, "its lane does not")
		require.False(t, s.Blame)
	})
}

// A hundred thousand of them must not take the time of the others, and a key that comes back must
// not find them asleep.
func TestMessagesThatNoKeyOpensAreAttemptedAgainAtABoundedRate(t *testing.T) {
	t.Parallel()
	var w engine.SealedWaits
	now := time.Now()
	require.Equal(t, 10*time.Second, w.Next(now))
	require.Equal(t, 10*time.Second+10*time.Millisecond, w.Next(now))
	require.Equal(t, 10*time.Second, w.Next(now.Add(time.Second)))
	for range 100_000 {
		w.Next(now)
	}
	require.Equal(t, 10*time.Minute, w.Next(now), "at most so long")
	require.Equal(t, 10*time.Second, w.Next(now.Add(time.Hour)))
}

func TestAHeaderOfTheMessageThatIsEchoedIsMasked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = func(_ context.Context, c d.Call) d.Answer {
			return d.Answer{Status: 400, Body: []byte("you sent " + c.Header.Get("X-Token"))}
		}
		m := message("m")
		m.Headers = []d.Header{{Name: "X-Token", Value: "hunter2-and-more-of-it"}}
		s := deliverOne(t, r, claimed(m))
		require.NotContains(t, string(s.Attempt.Excerpt), "hunter2")
	})
}

func TestWhatExpiresAtTheGateIsNotAttempted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = takes(time.Second)
		var batch []d.Entry
		for _, m := range messages("m", 400) {
			m.ExpiresAt = time.Now().Add(engine.SlowAfter / 2)
			batch = append(batch, r.queue.entry("u_0", m))
		}
		r.queue.schedule(batch...)
		r.start(t)
		begun := len(r.sender.sent()) // time stands still: only the places run
		require.Less(t, begun, 400)
		pass(time.Minute)
		require.Len(t, r.sender.sent(), begun)
		require.Equal(t, map[d.Verdict]int{d.Delivered: begun, d.Dead: 400 - begun}, r.queue.verdicts())
		for _, s := range r.queue.outcomes() {
			if s.Verdict == d.Dead {
				require.Equal(t, d.ReasonExpired, s.Reason)
				require.Equal(t, d.ClassExpired, s.Attempt.Class)
				require.Zero(t, s.Attempt.Number, "no attempt was made")
			}
		}
		r.stop(t)
	})
}

type brokenObserver struct{}

func (brokenObserver) Attempted(d.Attempted) { panic("the observer broke") }
func (brokenObserver) Published(d.Published) { panic("the observer broke") }
func (brokenObserver) TookOver(int)          { panic("the observer broke") }
func (brokenObserver) Died(d.Death)          { panic("the observer broke") }

func TestAnObserverThatPanicsEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Observer = brokenObserver{} })
		s := deliverOne(t, r, claimed(message("m")))
		require.Equal(t, d.Delivered, s.Verdict)
		require.Contains(t, r.log.String(), "the observer broke")
	})
}
