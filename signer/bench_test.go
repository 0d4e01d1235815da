package signer_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// What is signed and verified: an id as the API makes them, and 1 KiB.
const benchID = "msg_01JXYZABCDEFGHJKMNPQRSTVWX"

var benchBody = make([]byte, 1024)

// What each attempt pays.
func BenchmarkSign(b *testing.B) {
	for _, scheme := range signer.Schemes() {
		s, err := scheme.NewSigner(scheme.NewSecret())
		require.NoError(b, err)
		b.Run(scheme.String(), func(b *testing.B) {
			b.SetBytes(int64(len(benchBody)))
			b.ReportAllocs()
			for b.Loop() {
				s.Sign(benchID, signedAt, benchBody)
			}
		})
	}
}

// What it would pay without a Signer, which keeps what was keyed.
func BenchmarkSignUnpooled(b *testing.B) {
	secret := signer.NewSecret()
	b.SetBytes(int64(len(benchBody)))
	b.ReportAllocs()
	for b.Loop() {
		signer.Sign(secret, benchID, signedAt, benchBody)
	}
}

// What a receiver pays.
func BenchmarkVerify(b *testing.B) {
	at := strconv.FormatInt(signedAt.Unix(), 10)
	for _, scheme := range signer.Schemes() {
		secret := scheme.NewSecret()
		s, err := scheme.NewSigner(secret)
		require.NoError(b, err)
		v := mustVerifier(b, scheme, secret.Reveal())
		signature := s.Sign(benchID, signedAt, benchBody)
		b.Run(scheme.String(), func(b *testing.B) {
			b.SetBytes(int64(len(benchBody)))
			b.ReportAllocs()
			for b.Loop() {
				if err := v.Verify(signer.Signed{ID: benchID, Timestamp: at, Signature: signature}, benchBody); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
