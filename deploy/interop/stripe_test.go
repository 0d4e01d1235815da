package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v82/webhook"

	"github.com/hookladder/hookladder/signer"
)

func mustSigner(t testing.TB, scheme signer.Scheme, secrets ...signer.Secret) *signer.Signer {
	t.Helper()
	s, err := scheme.NewSigner(secrets...)
	require.NoError(t, err)
	return s
}

func TestStripesLibraryJudgesOurCallbacks(t *testing.T) {
	fresh, old, now := signer.Stripe.NewSecret(), signer.Stripe.NewSecret(), time.Now()
	body := []byte(`{"id":"evt_1","object":"event","type":"payment_intent.succeeded"}`)
	alone := mustSigner(t, signer.Stripe, fresh).Sign("msg_1", now, body)
	both := mustSigner(t, signer.Stripe, fresh, old).Sign("msg_1", now, body)
	judge := func(header string, body []byte, secret signer.Secret) error {
		return webhook.ValidatePayload(body, header, secret.Reveal())
	}
	require.NoError(t, judge(alone, body, fresh))
	require.NoError(t, judge(both, body, fresh), "during a rotation, with the new secret")
	require.NoError(t, judge(both, body, old), "during a rotation, with the old secret")
	binary := everyByte()
	require.NoError(t, judge(mustSigner(t, signer.Stripe, fresh).Sign("msg_1", now, binary), binary, fresh))

	require.ErrorIs(t, judge(alone, body, old), webhook.ErrNoValidSignature, "after a rotation, with the old secret")
	require.ErrorIs(t, judge(both, append(body, ' '), fresh), webhook.ErrNoValidSignature)
	require.ErrorIs(t, judge(strings.Replace(both, "t=", "t=1", 1), body, fresh), webhook.ErrNoValidSignature)
	stale := mustSigner(t, signer.Stripe, fresh).Sign("msg_1", now.Add(-10*time.Minute), body)
	require.ErrorIs(t, judge(stale, body, fresh), webhook.ErrTooOld)

	event, err := webhook.ConstructEventWithOptions(body, both, old.Reveal(), webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	require.NoError(t, err)
	require.Equal(t, "evt_1", event.ID)
}

func TestWeJudgeCallbacksOfStripesLibrary(t *testing.T) {
	mine, now := signer.Stripe.NewSecret(), time.Now()
	signed := func(at time.Time, scheme string, body []byte) string {
		return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
			Payload: body, Secret: mine.Reveal(), Timestamp: at, Scheme: scheme,
		}).Header
	}
	ours := signer.Verifier{Scheme: signer.Stripe, Secrets: []signer.Secret{signer.Stripe.NewSecret(), mine}}
	for _, body := range [][]byte{[]byte(`{"a":1}`), everyByte()} {
		header := signed(now, "v1", body)
		require.Equal(t, header, mustSigner(t, signer.Stripe, mine).Sign("", now, body))
		require.NoError(t, ours.Verify(signer.Signed{Signature: header}, body))
		require.ErrorIs(t, ours.Verify(signer.Signed{Signature: header}, body[1:]), signer.ErrMismatch)
		stranger := signer.Verifier{Scheme: signer.Stripe, Secrets: ours.Secrets[:1]}
		require.ErrorIs(t, stranger.Verify(signer.Signed{Signature: header}, body), signer.ErrMismatch)
		require.ErrorIs(t, ours.Verify(signer.Signed{Signature: signed(now.Add(-10*time.Minute), "v1", body)}, body), signer.ErrTooOld)
		require.ErrorIs(t, ours.Verify(signer.Signed{Signature: signed(now.Add(10*time.Minute), "v1", body)}, body), signer.ErrTooNew)
		require.ErrorIs(t, ours.Verify(signer.Signed{Signature: signed(now, "v0", body)}, body), signer.ErrNoVersion)
	}
}
