package engine_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/signer"
)

func TestOurHeadersBeginAsTheReceiversKnowThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) {
			o.HeaderPrefix, o.UserAgent = "x-pay-", "Notifier 2"
		})
		m := message("m")
		m.Tenant = "shop"
		m.Headers = []d.Header{{Name: "X-Pay-Resend", Value: "forged"}, {Name: "x_pay_topic", Value: "forged"}, {Name: "hookladder-topic", Value: "forged"}, {Name: "x-pay-order", Value: "7"}}
		c := claimed(m)
		c.Attempt = 3
		deliverOne(t, r, c)
		sent := r.sender.sent()[0].Header
		require.Equal(t, []string{
			"Content-Type", "User-Agent", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp",
			"X-Pay-Attempt", "X-Pay-Order", "X-Pay-Tenant", "X-Pay-Topic",
		}, slices.Sorted(maps.Keys(sent)), "what was stored under another prefix never passes for ours")
		require.Equal(t, []string{"Notifier 2"}, sent["User-Agent"])
		require.Equal(t, []string{"3"}, sent["X-Pay-Attempt"])
		require.Equal(t, []string{"shop"}, sent["X-Pay-Tenant"])
		require.Equal(t, []string{m.Topic}, sent["X-Pay-Topic"])
	})
}

func TestASignatureHasTheFormOfItsEndpoint(t *testing.T) {
	t.Parallel()
	for _, form := range []signer.Form{
		{Header: "X-Convoy-Signature", Hash: signer.SHA512, Encoding: signer.Base64, Content: signer.TimeCommaBody},
		{Header: "X-Outpost-Signature", Prefix: "v0="},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newTestEndpointRig(t, nil)
			r.start(t)
			view := r.create(t, uid("main"), func(e *d.Endpoint) { e.Signature, e.Form = signer.HMAC, form })
			rotated, err := r.RotateSecret(t.Context(), "main", signer.Secret{}, time.Hour)
			require.NoError(t, err)
			r.publish(t, to("main", "m"))
			synctest.Wait()
			sent := r.sender.sent()[0]
			accepted := func(s signer.Secret) bool {
				v := &signer.Verifier{Scheme: signer.HMAC, Form: form, Secrets: []signer.Secret{s}, Now: r.queue.now}
				return v.Verify(signer.Signed{Signature: sent.Header.Get(form.Header)}, sent.Body) == nil
			}
			require.True(t, accepted(rotated.Secrets[0].Secret))
			require.Equal(t, form.Content != "", accepted(view.Secrets[0].Secret), "a form with a time has room for both")
			r.stop(t)
		})
	}
}

func TestASignatureIsInTheHeaderThatTheEndpointNames(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]d.HeaderPrefix{"a name of its own": "", "a name that became one of ours since": "x-acme-"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.HeaderPrefix = prefix })
				r.start(t)
				view := r.create(t, tenant(""), uid("main"), func(e *d.Endpoint) {
					e.Signature, e.Form.Header = signer.HMACHex, "x-Acme-Topic"
				})
				m := to("main", "m")
				m.Headers = []d.Header{{Name: "X-ACME-TOPIC", Value: "forged"}}
				r.publish(t, m)
				synctest.Wait()
				sent := r.sender.sent()[0]
				v := &signer.Verifier{Scheme: signer.HMACHex, Secrets: []signer.Secret{view.Secrets[0].Secret}}
				require.NoError(t, v.Verify(signer.Signed{Signature: sent.Header.Get("x-acme-topic")}, sent.Body))
				require.NotContains(t, sent.Header, "X-Signature")
				r.stop(t)
			})
		})
	}
}
