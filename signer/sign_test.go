package signer_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

var signedAt = time.Unix(1_750_000_000, 0)

func mustSigner(t testing.TB, secrets ...signer.Secret) *signer.Signer {
	t.Helper()
	s, err := signer.NewSigner(secrets...)
	require.NoError(t, err)
	return s
}

// verifierAt is a receiver whose clock stands at the given time.
func verifierAt(now time.Time, secrets ...signer.Secret) *signer.Verifier {
	return &signer.Verifier{Secrets: secrets, Now: func() time.Time { return now }}
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func TestNewSignerNeedsSecrets(t *testing.T) {
	_, err := signer.NewSigner()
	require.ErrorIs(t, err, signer.ErrNoSecret)
	_, err = signer.NewSigner(signer.NewSecret(), signer.Secret{})
	require.ErrorIs(t, err, signer.ErrNoSecret)
	require.ErrorContains(t, err, "secret 2")

	many := make([]signer.Secret, signer.MaxSecrets+1)
	for i := range many {
		many[i] = signer.NewSecret()
	}
	_, err = signer.NewSigner(many...)
	require.EqualError(t, err, "more than 16 secrets")

	// What a signer with as many secrets as may be makes, a verifier takes.
	s := mustSigner(t, many[1:]...)
	signature := s.Sign("msg_1", signedAt, nil)
	require.NoError(t, verifierAt(signedAt, many[16]).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: signature}, nil))
}

func TestSignMakesOneSignatureForEachSecret(t *testing.T) {
	a, b := signer.NewSecret(), signer.NewSecret()
	body := []byte(`{"n":1}`)
	both := mustSigner(t, a, b).Sign("msg_1", signedAt, body)
	require.Equal(t, signer.Sign(a, "msg_1", signedAt, body)+" "+signer.Sign(b, "msg_1", signedAt, body), both)

	require.NoError(t, verifierAt(signedAt, a).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: both}, body))
	require.NoError(t, verifierAt(signedAt, b).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: both}, body))
}

func TestSignTellsNothingWhereItMayNot(t *testing.T) {
	secret := signer.NewSecret()
	require.Empty(t, signer.Sign(signer.Secret{}, "msg_1", signedAt, nil))
	for _, id := range []string{"", "a.b", ".", strings.Repeat("a", 257)} {
		require.Empty(t, signer.Sign(secret, id, signedAt, nil), "%q", id)
	}
	require.NotEmpty(t, signer.Sign(secret, strings.Repeat("a", 256), signedAt, nil))
}

func TestSignerKeepsNothingOfTheCallBefore(t *testing.T) {
	secret := signer.NewSecret()
	s := mustSigner(t, secret)
	first := s.Sign("a_rather_long_message_id", signedAt, bytes.Repeat([]byte("x"), 1000))
	s.Sign("b", signedAt.Add(time.Hour), []byte("y"))
	require.Equal(t, first, s.Sign("a_rather_long_message_id", signedAt, bytes.Repeat([]byte("x"), 1000)))
	require.Equal(t, first, s.Sign("a_rather_long_message_id", signedAt.Add(time.Second-1), bytes.Repeat([]byte("x"), 1000)),
		"only whole seconds count")
}

func TestSignerServesManyGoroutines(t *testing.T) {
	a, b := signer.NewSecret(), signer.NewSecret()
	s := mustSigner(t, a, b)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				id, body := fmt.Sprintf("msg_%d_%d", g, i), bytes.Repeat([]byte{byte(g)}, i)
				want := signer.Sign(a, id, signedAt, body) + " " + signer.Sign(b, id, signedAt, body)
				if got := s.Sign(id, signedAt, body); got != want {
					t.Errorf("%s: got %s, want %s", id, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestSignAllocatesLittle(t *testing.T) {
	s := mustSigner(t, signer.NewSecret())
	body := make([]byte, 1024)
	allocs := testing.AllocsPerRun(200, func() { s.Sign("msg_1", signedAt, body) })
	// It is 1, the text; 4 under the race detector, for which a pool forgets some
	// of what it was given. Keyed anew each time it would be 15.
	require.LessOrEqual(t, allocs, 8.0)
}
