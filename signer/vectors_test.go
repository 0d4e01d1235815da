package signer_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// vector is one request of testdata/vectors.json, schemes.json or forms.json; the README
// beside them has the meaning of its fields.
type vector struct {
	Scheme    signer.Scheme `json:"scheme"`
	Form      signer.Form   `json:"form"`
	Name      string        `json:"name"`
	Secrets   []string      `json:"secrets"`
	Public    []string      `json:"public_keys"`
	Signers   []string      `json:"signers"`
	ID        string        `json:"id"`
	Timestamp string        `json:"timestamp"`
	Body      []byte        `json:"body"`
	Signature string        `json:"signature"`
	Now       int64         `json:"now"`
	Tolerance int64         `json:"tolerance"`
	Expected  string        `json:"expected"`
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

// vectorFile is vectors.json, or schemes.json, which has more.
type vectorFile struct {
	Vectors []vector `json:"vectors"`
	Derived []struct {
		Secret  string `json:"secret"`
		Tenant  string `json:"tenant"`
		Derived string `json:"derived"`
	} `json:"derived"`
	Keys []struct {
		Private string `json:"private"`
		Public  string `json:"public"`
	} `json:"keys"`
}

func readVectorFile(t testing.TB, name string) (file vectorFile) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Vectors)
	return file
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	return slices.Concat(readVectorFile(t, "vectors.json").Vectors, readVectorFile(t, "schemes.json").Vectors, readVectorFile(t, "forms.json").Vectors)
}

func (v vector) verifier(t testing.TB) *signer.Verifier {
	t.Helper()
	made := &signer.Verifier{
		Scheme:    v.Scheme,
		Form:      v.Form,
		Secrets:   mustSecrets(t, v.Scheme, v.Secrets...),
		Tolerance: time.Duration(v.Tolerance) * time.Second,
		Now:       func() time.Time { return time.Unix(v.Now, 0) },
	}
	for _, text := range v.Public {
		key, err := signer.ParsePublicKey(text)
		require.NoError(t, err)
		made.PublicKeys = append(made.PublicKeys, key)
	}
	return made
}

func mustSecrets(t testing.TB, scheme signer.Scheme, texts ...string) (secrets []signer.Secret) {
	t.Helper()
	for _, text := range texts {
		s, err := scheme.ParseSecret(text)
		require.NoError(t, err)
		require.Equal(t, text, s.Reveal())
		secrets = append(secrets, s)
	}
	return secrets
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
		t.Run(v.Scheme.String()+" "+v.Name, func(t *testing.T) {
			err := v.verifier(t).Verify(signer.Signed{ID: v.ID, Timestamp: v.Timestamp, Signature: v.Signature}, v.Body)
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
	for _, v := range readVectorFile(t, "vectors.json").Vectors {
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

func TestSignersMakeTheSignaturesOfTheSchemes(t *testing.T) {
	compared := map[signer.Scheme]int{}
	for _, v := range readVectorFile(t, "schemes.json").Vectors {
		if len(v.Signers) == 0 {
			continue
		}
		s, err := v.Scheme.NewSigner(mustSecrets(t, v.Scheme, v.Signers...)...)
		require.NoError(t, err)
		const sentAt = 1_750_000_000 // of every vector that is signed
		require.Equal(t, v.Signature, s.Sign(v.ID, time.Unix(sentAt, 999), v.Body), v.Name)
		compared[v.Scheme]++
	}
	for _, scheme := range signer.Schemes()[1:5] {
		require.GreaterOrEqual(t, compared[scheme], 5, scheme)
	}
}

func TestSignersMakeTheSignaturesOfTheForms(t *testing.T) {
	compared := 0
	for _, v := range readVectorFile(t, "forms.json").Vectors {
		if len(v.Signers) == 0 {
			continue
		}
		s, err := v.Scheme.NewSignerIn(v.Form, mustSecrets(t, v.Scheme, v.Signers...)...)
		require.NoError(t, err)
		require.Equal(t, v.Signature, s.Sign("m", time.Unix(v.Now, 999), v.Body), v.Name)
		compared++
	}
	require.GreaterOrEqual(t, compared, 10)
}

func TestDerivedSecretsAreThoseOfTheVectors(t *testing.T) {
	derived := readVectorFile(t, "schemes.json").Derived
	require.NotEmpty(t, derived)
	for _, d := range derived {
		require.Equal(t, d.Derived, mustSecret(t, d.Secret).Derive(d.Tenant).Reveal(), d.Tenant)
	}
}

func TestPublicKeysAreThoseOfTheVectors(t *testing.T) {
	keys := readVectorFile(t, "schemes.json").Keys
	require.NotEmpty(t, keys)
	for _, k := range keys {
		got, ok := mustSecrets(t, signer.StandardEd25519, k.Private)[0].PublicKey()
		require.True(t, ok)
		require.Equal(t, k.Public, got)
	}
}
