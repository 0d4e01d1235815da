package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

func TestADeliveryGoesToItsEndpointAsItIsAtTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.sender.answer = func(context.Context, d.Call) d.Answer { return d.Answer{Status: 500} }
		r.start(t)
		r.create(t, uid("main"), func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "x-token", Value: "first"}} })
		out := r.publish(t, to("main", "m"))
		synctest.Wait()
		var took time.Duration
		r.sender.answer = func(ctx context.Context, _ d.Call) d.Answer {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return d.Answer{Status: 404, Body: []byte("taken")}
		}
		secret := signer.StandardEd25519.NewSecret()
		changed := r.change(t, "main", func(e *d.Endpoint) {
			e.URL, e.Timeout, e.Success = "https://rescued.example/new", 3*time.Second, mustSuccess(t, `{"status":["404"],"body":"taken"}`)
			e.Headers = []d.Header{{Name: "x-token", Value: "second"}}
			e.Signature, e.Secrets = signer.StandardEd25519, []d.EndpointSecret{{Secret: secret}}
		})
		pass(time.Minute)
		sent := r.sender.sent()
		require.Len(t, sent, 2)
		require.Equal(t, "https://acme.example/hook", sent[0].URL.String())
		require.Equal(t, []string{"first"}, sent[0].Header["X-Token"])
		require.Equal(t, changed.URL, sent[1].URL.String())
		require.Equal(t, []string{"second"}, sent[1].Header["X-Token"])
		require.True(t, verifies(t, r.rig, signer.StandardEd25519, secret, sent[1]))
		require.Equal(t, 3*time.Second, took)
		require.Equal(t, map[d.Verdict]int{d.Retry: 1, d.Delivered: 1}, r.queue.verdicts())
		record, err := r.Message(t.Context(), "m")
		require.NoError(t, err)
		require.Equal(t, changed.URL, record.Deliveries[0].URL)
		require.Equal(t, out.Deliveries[0].ID, record.Deliveries[0].ID)
		r.stop(t)
	})
}

func TestAChangedLadderCountsFromTheNextRung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		began := time.Now()
		var at []time.Duration
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			at = append(at, time.Since(began).Truncate(10*moment))
			return d.Answer{Status: 500}
		}
		r.start(t)
		one, err := ladder.New(time.Second, time.Second, time.Second)
		require.NoError(t, err)
		two, err := ladder.New(time.Hour, time.Minute, time.Minute)
		require.NoError(t, err)
		r.create(t, uid("main"), func(e *d.Endpoint) { e.Ladder = &one })
		r.publish(t, to("main", "m"))
		synctest.Wait()
		r.change(t, "main", func(e *d.Endpoint) { e.Ladder = &two })
		pass(time.Hour + time.Minute)
		require.Equal(t, []time.Duration{0, time.Second, 61 * time.Second, 121 * time.Second}, at)
		r.stop(t)
	})
}

func TestWhatTheMessageSaysGoesBeforeItsEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		its, err := ladder.New(time.Hour)
		require.NoError(t, err)
		own, err := ladder.New(2*time.Second, 2*time.Second, 2*time.Second)
		require.NoError(t, err)
		var took time.Duration
		r.sender.answer = func(ctx context.Context, _ d.Call) d.Answer {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return d.Answer{Status: 200}
		}
		r.start(t)
		r.create(t, uid("main"), func(e *d.Endpoint) {
			e.Ladder, e.Timeout, e.Success = &its, 9*time.Second, mustSuccess(t, "200")
			e.Headers = []d.Header{{Name: "x-shop", Value: "endpoint"}, {Name: "X-Both", Value: "endpoint"}}
		})
		m := to("main", "m")
		m.Ladder, m.Timeout, m.Success = &own, 4*time.Second, mustSuccess(t, "201")
		m.Headers = []d.Header{{Name: "x-both", Value: "message"}, {Name: "X-Own", Value: "message"}}
		r.publish(t, m)
		pass(time.Minute)
		require.Equal(t, 4*time.Second, took)
		require.Equal(t, map[d.Verdict]int{d.Retry: 3, d.Dead: 1}, r.queue.verdicts())
		for _, s := range r.queue.outcomes()[:3] {
			require.Equal(t, 2*time.Second, s.Wait)
		}
		h := r.sender.sent()[0].Header
		require.Equal(t, []string{"endpoint"}, h["X-Shop"])
		require.Equal(t, []string{"message"}, h["X-Both"])
		require.Equal(t, []string{"message"}, h["X-Own"])
		r.stop(t)
	})
}

func TestAnEndpointsHeadersNeverReplaceOurs(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.start(t)
				names := []string{
					"content-type", "User-Agent", "webhook-id", "webhook-timestamp", "webhook-signature", "hookladder-topic", "Hookladder-Attempt",
					"hookladder-tenant", "hookladder-resend", "stripe-signature", "X-Hub-Signature-256", "x-signature", "Connection", "Host", "Content-Length",
				}
				view := r.create(t, tenant(""), uid("main"), func(e *d.Endpoint) {
					e.Signature = scheme
					for _, name := range names { // none of which a valid one has
						e.Headers = append(e.Headers, d.Header{Name: name, Value: "forged"})
					}
					e.Headers = append(e.Headers, d.Header{Name: "x-mine", Value: "kept"})
				})
				r.publish(t, to("main", "m"))
				synctest.Wait()
				sent := r.sender.sent()[0]
				for name, values := range sent.Header {
					require.NotContains(t, strings.Join(values, " "), "forged", name)
				}
				require.Equal(t, []string{"kept"}, sent.Header["X-Mine"])
				require.Len(t, sent.Header, 8, "content-type, user-agent, id, timestamp, signature, topic, attempt and its own")
				require.Len(t, sent.Header[scheme.Header()], 1)
				require.True(t, verifies(t, r.rig, scheme, view.Secrets[0].Secret, sent))
				require.NotEmpty(t, sent.Header.Get("Webhook-Id"))
				require.NotEmpty(t, sent.Header.Get("Webhook-Timestamp"))
				r.stop(t)
			})
		})
	}
}

func TestAnExcerptTellsNothingThatIsSecret(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				echo := func(c d.Call) string { return fmt.Sprint(c.Header) }
				r.sender.answer = func(_ context.Context, c d.Call) d.Answer {
					return d.Answer{Status: 400, Body: []byte("got " + echo(c))}
				}
				r.start(t)
				view := r.create(t, uid("main"), func(e *d.Endpoint) {
					e.Signature = scheme
					e.Headers = []d.Header{{Name: "Authorization", Value: "Bearer tok_123456789"}, {Name: "X-Api-Key", Value: "key=abcdefgh12345"}}
				})
				r.publish(t, to("main", "m"))
				synctest.Wait()
				excerpt := string(r.queue.outcomes()[0].Attempt.Excerpt)
				require.Contains(t, excerpt, "Hookladder-Topic:[payment.captured]")
				require.NotContains(t, excerpt, "tok_123456789")
				require.NotContains(t, excerpt, "abcdefgh12345")
				signature := r.sender.sent()[0].Header.Get(scheme.Header())
				for _, part := range strings.FieldsFunc(signature, func(r rune) bool { return strings.ContainsRune(" ,=", r) }) {
					if len(part) > 20 {
						require.NotContains(t, excerpt, part)
					}
				}
				result, err := r.TestEndpoint(t.Context(), view.ID)
				require.NoError(t, err)
				require.Contains(t, string(result.Attempt.Excerpt), "Hookladder-Topic:[hookladder.test]")
				require.NotContains(t, string(result.Attempt.Excerpt), "tok_123456789")
				r.stop(t)
			})
		})
	}
}

func TestAnEndpointThatCantBeOpenedIsLeftAloneAndSpendsNoRung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t)
		sealed := r.store.stored(view.ID).Clone()
		sealed.Secrets, sealed.Disabled = nil, true // as a store reads it that lacks the key: nothing in it is sure
		r.store.put(sealed)
		r.queue.ears.OnGap()
		r.publish(t, to(view.ID, "m"))
		pass(95 * time.Second)
		require.Empty(t, r.sender.sent(), "nothing is sent unsigned")
		require.Equal(t, map[d.Verdict]int{d.Back: 10}, r.queue.verdicts(), "it does not spin")
		for _, s := range r.queue.outcomes() {
			require.Equal(t, 10*time.Second, s.Pause)
			require.Equal(t, d.WhySealed, s.Stalled)
			require.False(t, s.Blame, "it is not the receiver's fault")
		}
		require.Equal(t, d.LaneNormal, r.queue.limitsOf(view.Lane()).Mode, "its switch is not believed")
		_, err := r.TestEndpoint(t.Context(), view.ID)
		require.ErrorIs(t, err, d.ErrSealed)
		require.Equal(t, 2, strings.Count(r.log.String(), "deliveries wait for an endpoint that this instance can't open"), "once a minute")
		r.store.put(view.Endpoint) // the key is there again, and nothing tells so
		pass(10 * time.Second)
		require.Equal(t, map[d.Verdict]int{d.Back: 10, d.Delivered: 1}, r.queue.verdicts())
		require.Equal(t, 1, r.queue.outcomes()[10].Attempt.Number, "no rung was spent")
		r.stop(t)
	})
}

func TestATenantsBareURLsAreSignedWithItsOwnSecrets(t *testing.T) {
	t.Parallel()
	one, two := signer.NewSecret(), signer.NewSecret()
	for _, derive := range []bool{false, true} {
		t.Run(fmt.Sprintf("derived: %t", derive), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) {
					o.Secrets, o.DeriveTenant = []signer.Secret{one, two}, derive
				})
				r.start(t)
				for range 2 { // made, and remembered
					for _, tenant := range []string{"acme", "other", ""} {
						m := message(fmt.Sprint("m_", tenant, len(r.sender.sent())))
						m.Tenant = tenant
						_, err := r.Publish(t.Context(), []*d.Message{m})
						require.NoError(t, err)
						pass(time.Millisecond)
						sent := r.sender.sent()[len(r.sender.sent())-1]
						require.Equal(t, m.ID, sent.Header.Get("Webhook-Id"))
						for _, secret := range []signer.Secret{one, two} {
							require.Equal(t, !derive, verifies(t, r, signer.Standard, secret, sent), "%q", tenant)
							require.Equal(t, tenant == "" && derive, verifies(t, r, signer.Standard, secret.Derive(""), sent))
							require.Equal(t, tenant == "acme" && derive, verifies(t, r, signer.Standard, secret.Derive("acme"), sent))
						}
					}
				}
				r.stop(t)
			})
		})
	}
}

func TestAnEndpointIsSignedWithItsOwnSecretWhateverTheDispatchers(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]signer.Secret{"some": {signer.NewSecret()}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Secrets, o.DeriveTenant = secrets, true })
				r.start(t)
				view := r.create(t)
				r.publish(t, fan("acme", "m"))
				synctest.Wait()
				require.True(t, verifies(t, r.rig, signer.Standard, view.Secrets[0].Secret, r.sender.sent()[0]))
				r.stop(t)
			})
		})
	}
}
