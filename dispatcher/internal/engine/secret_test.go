package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// verifies reports whether a call verifies with one secret.
func verifies(t testing.TB, r *rig, scheme signer.Scheme, secret signer.Secret, c d.Call) bool {
	t.Helper()
	v := &signer.Verifier{Scheme: scheme, Secrets: []signer.Secret{secret}, Now: r.queue.now}
	return v.Verify(signer.Signed{ID: c.Header.Get("Webhook-Id"), Timestamp: c.Header.Get("Webhook-Timestamp"), Signature: c.Header.Get(scheme.Header())}, c.Body) == nil
}

func TestBothSecretsSignUntilTheOverlapEnds(t *testing.T) {
	t.Parallel()
	for _, scheme := range []signer.Scheme{signer.Standard, signer.StandardEd25519, signer.Stripe} {
		t.Run(scheme.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.start(t)
				first := r.create(t, uid("main"), func(e *d.Endpoint) { e.Signature = scheme })
				next := scheme.NewSecret()
				rotated, err := r.RotateSecret(t.Context(), "main", next, 5*time.Minute)
				require.NoError(t, err)
				require.Len(t, rotated.Secrets, 2)
				require.True(t, rotated.Secrets[0].Secret.Equal(next))
				require.True(t, rotated.Secrets[0].Until.IsZero())
				require.True(t, rotated.Secrets[1].Until.Equal(r.queue.now().Add(5*time.Minute).Truncate(time.Millisecond)))
				old := first.Secrets[0].Secret
				send := func(id string) d.Call {
					r.publish(t, to("main", id))
					synctest.Wait()
					sent := r.sender.sent()
					return sent[len(sent)-1]
				}
				during := send("during")
				require.True(t, verifies(t, r.rig, scheme, old, during))
				require.True(t, verifies(t, r.rig, scheme, next, during))
				pass(time.Until(rotated.Secrets[1].Until) - time.Millisecond)
				require.True(t, verifies(t, r.rig, scheme, old, send("last")), "until its very end")
				pass(time.Millisecond)
				after := send("after") // nothing is read, told or changed
				require.False(t, verifies(t, r.rig, scheme, old, after))
				require.True(t, verifies(t, r.rig, scheme, next, after))
				r.stop(t)
			})
		})
	}
}

func TestWhereOneSignatureHasRoomTheNewSecretMakesIt(t *testing.T) {
	t.Parallel()
	for _, scheme := range []signer.Scheme{signer.GitHub, signer.HMACHex} {
		synctest.Test(t, func(t *testing.T) {
			r := newTestEndpointRig(t, nil)
			r.start(t)
			first := r.create(t, uid("main"), func(e *d.Endpoint) { e.Signature = scheme })
			rotated, err := r.RotateSecret(t.Context(), "main", signer.Secret{}, time.Hour)
			require.NoError(t, err)
			r.publish(t, to("main", "m"))
			synctest.Wait()
			require.False(t, verifies(t, r.rig, scheme, first.Secrets[0].Secret, r.sender.sent()[0]))
			require.True(t, verifies(t, r.rig, scheme, rotated.Secrets[0].Secret, r.sender.sent()[0]))
			r.stop(t)
		})
	}
}

func TestWithoutAnOverlapTheOldSecretEndsNow(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t)
	rotated, err := r.RotateSecret(t.Context(), view.ID, signer.Secret{}, 0)
	require.NoError(t, err)
	require.Len(t, rotated.Secrets, 1)
	require.False(t, rotated.Secrets[0].Secret.Equal(view.Secrets[0].Secret), "one is made")
	require.True(t, rotated.Secrets[0].Until.IsZero())
}

func TestSecretsThatAreRotatedAgainEndWhenTheySaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		one := r.create(t)
		rotate := func(overlap time.Duration) d.EndpointView {
			view, err := r.RotateSecret(t.Context(), one.ID, signer.Secret{}, overlap)
			require.NoError(t, err)
			return view
		}
		began := time.Now()
		two := rotate(time.Hour)
		pass(10 * time.Minute)
		three := rotate(2 * time.Hour)
		require.Len(t, three.Secrets, 3)
		require.True(t, three.Secrets[1].Secret.Equal(two.Secrets[0].Secret))
		require.Equal(t, 130*time.Minute, three.Secrets[1].Until.Sub(began).Round(time.Second))
		require.True(t, three.Secrets[2].Secret.Equal(one.Secrets[0].Secret))
		require.Equal(t, time.Hour, three.Secrets[2].Until.Sub(began).Round(time.Second), "no longer than it had")
		require.Equal(t, 10*time.Minute, three.Secrets[0].Since.Sub(began).Round(time.Second))
		require.True(t, three.Secrets[2].Since.Equal(one.CreatedAt))
		four := rotate(time.Minute)
		require.Len(t, four.Secrets, 4)
		for _, s := range four.Secrets[1:] {
			require.Equal(t, 11*time.Minute, s.Until.Sub(began).Round(time.Second), "but sooner")
		}
		pass(time.Minute)
		require.Len(t, rotate(time.Hour).Secrets, 2, "what has ended is gone")
		require.Len(t, rotate(0).Secrets, 1)

		for range signer.MaxSecrets + 3 {
			four = rotate(time.Hour)
		}
		require.Len(t, four.Secrets, signer.MaxSecrets, "the oldest goes")
		_, err := signer.NewSigner(four.Secrets[0].Secret, four.Secrets[signer.MaxSecrets-1].Secret)
		require.NoError(t, err)
	})
}

func TestASecretThatIsRotatedToItselfIsThereOnce(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t)
	same := view.Secrets[0].Secret
	again, err := r.RotateSecret(t.Context(), view.ID, same, time.Hour)
	require.NoError(t, err)
	require.Len(t, again.Secrets, 1)
	require.True(t, again.Secrets[0].Until.IsZero())
	require.True(t, again.Secrets[0].Since.Equal(view.CreatedAt))

	_, err = r.RotateSecret(t.Context(), view.ID, signer.Secret{}, time.Hour)
	require.NoError(t, err)
	back, err := r.RotateSecret(t.Context(), view.ID, same, time.Hour)
	require.NoError(t, err)
	require.Len(t, back.Secrets, 2)
	require.True(t, back.Secrets[0].Secret.Equal(same), "an old one is the current one again")
	require.True(t, back.Secrets[0].Until.IsZero())
}

func TestASecretThatDoesNotFitIsNotTaken(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t)
	_, err := r.RotateSecret(t.Context(), view.ID, signer.Stripe.NewSecret(), time.Hour)
	require.ErrorIs(t, err, signer.ErrMisfit)
	require.Equal(t, view.Endpoint, r.store.stored(view.ID))
}
