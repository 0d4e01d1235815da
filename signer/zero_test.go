package signer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

func TestZeroValuesOfTheSignerReturnErrors(t *testing.T) {
	t.Parallel()
	for _, s := range []*signer.Signer{nil, {}} {
		require.Empty(t, s.Sign("a", time.Now(), nil))
		require.Empty(t, s.Header())
	}
	for _, v := range []*signer.Verifier{nil, {}} {
		require.Error(t, v.Verify(signer.Signed{Signature: ""}, nil))
		_, err := v.VerifyRequest(nil)
		require.Error(t, err)
	}
	_, err := signer.NewSigner()
	require.ErrorIs(t, err, signer.ErrNoSecret)
	_, err = signer.NewSigner(signer.Secret{})
	require.ErrorIs(t, err, signer.ErrNoSecret)
	require.Empty(t, signer.Sign(signer.Secret{}, "a", time.Time{}, nil))
	var zero signer.Secret
	require.True(t, zero.Derive("a").IsZero())
	require.Empty(t, zero.Reveal())
	_, ok := zero.PublicKey()
	require.False(t, ok)
}
