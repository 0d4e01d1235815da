package signer_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// vector is one request of testdata/vectors.json; the README beside it has the
// meaning of its fields.
type vector struct {
	Name      string   `json:"name"`
	Secrets   []string `json:"secrets"`
	ID        string   `json:"id"`
	Timestamp string   `json:"timestamp"`
	Body      []byte   `json:"body"`
	Signature string   `json:"signature"`
	Now       int64    `json:"now"`
	Tolerance int64    `json:"tolerance"`
	Expected  string   `json:"expected"`
}

// reasons are the words of the vectors.
var reasons = map[string]error{
	"no_secret":     signer.ErrNoSecret,
	"no_id":         signer.ErrNoID,
	"bad_id":        signer.ErrID,
	"no_timestamp":  signer.ErrNoTimestamp,
	"bad_timestamp": signer.ErrTimestamp,
	"too_old":       signer.ErrTooOld,
	"too_new":       signer.ErrTooNew,
	"no_signature":  signer.ErrNoSignature,
	"no_version":    signer.ErrNoVersion,
	"bad_signature": signer.ErrSignature,
	"mismatch":      signer.ErrMismatch,
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

func (v vector) verifier(t testing.TB) *signer.Verifier {
	t.Helper()
	made := &signer.Verifier{
		Tolerance: time.Duration(v.Tolerance) * time.Second,
		Now:       func() time.Time { return time.Unix(v.Now, 0) },
	}
	for _, text := range v.Secrets {
		made.Secrets = append(made.Secrets, mustSecret(t, text))
	}
	return made
}

func mustSecret(t testing.TB, text string) signer.Secret {
	t.Helper()
	s, err := signer.ParseSecret(text)
	require.NoError(t, err)
	return s
}

func TestVectors(t *testing.T) {
	met := map[string]bool{}
	for _, v := range readVectors(t) {
		met[v.Expected] = true
		t.Run(v.Name, func(t *testing.T) {
			err := v.verifier(t).Verify(v.ID, v.Timestamp, v.Signature, v.Body)
			if v.Expected == "ok" {
				require.NoError(t, err)
				return
			}
			want, known := reasons[v.Expected]
			require.True(t, known, "no such reason: %s", v.Expected)
			require.ErrorIs(t, err, want)
			for word, other := range reasons {
				if word != v.Expected {
					require.NotErrorIs(t, err, other)
				}
			}
		})
	}
	for word := range reasons {
		require.True(t, met[word], "no vector is refused with %s", word)
	}
}

func TestSignMakesTheSignaturesOfTheVectors(t *testing.T) {
	compared := 0
	for _, v := range readVectors(t) {
		if v.Expected != "ok" || len(v.Secrets) != 1 || len(v.Signature) != len("v1,")+44 {
			continue
		}
		var seconds int64
		require.NoError(t, json.Unmarshal([]byte(v.Timestamp), &seconds))
		got := signer.Sign(mustSecret(t, v.Secrets[0]), v.ID, time.Unix(seconds, 0), v.Body)
		require.Equal(t, v.Signature, got, v.Name)
		compared++
	}
	require.Greater(t, compared, 10)
}
