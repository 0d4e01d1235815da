package interop_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-github/v74/github"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

func TestGitHubsLibraryJudgesOurCallbacks(t *testing.T) {
	first, second, now := signer.GitHub.NewSecret(), signer.GitHub.NewSecret(), time.Now()
	for _, body := range [][]byte{[]byte(`{"zen":"Anything added dilutes everything else."}`), everyByte(), {}} {
		s := mustSigner(t, signer.GitHub, first, second)
		header := s.Sign("msg_1", now, body)
		judge := func(body []byte, secret signer.Secret) error {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.Header.Set("content-type", "application/json")
			r.Header.Set(s.Header(), header)
			got, err := github.ValidatePayload(r, []byte(secret.Reveal()))
			if err == nil {
				require.Equal(t, body, got)
			}
			return err
		}
		require.NoError(t, judge(body, first))
		require.Error(t, judge(body, second), "there is room for the first secret's signature only")
		require.Error(t, judge(append(body, ' '), first))

		ours := signer.Verifier{Scheme: signer.GitHub, Secrets: []signer.Secret{second, first}}
		require.NoError(t, ours.Verify(signer.Signed{Signature: header}, body))
	}
}

func TestGitHubsLibraryTakesAnyKeyThatWeTake(t *testing.T) {
	for _, text := range []string{"It's-a-Secret-to-Everybody", "0123456789abcdef", "whsec_" + "!~\"\\,;=:/?#[]{}"} {
		secret, err := signer.GitHub.ParseSecret(text)
		require.NoError(t, err)
		header := mustSigner(t, signer.GitHub, secret).Sign("msg_1", time.Now(), []byte("{}"))
		require.NoError(t, github.ValidateSignature(header, []byte("{}"), []byte(text)))
	}
}
