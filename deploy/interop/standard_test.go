package interop_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/interop"
	"github.com/hookladder/hookladder/signer"
)

func mustCases(t testing.TB) []interop.Case {
	t.Helper()
	cases, err := interop.Cases(time.Now())
	require.NoError(t, err)
	return cases
}

// request is the callback as a receiver has it.
func request(c interop.Callback) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.Body))
	for name, value := range c.Headers {
		r.Header.Set(name, value)
	}
	return r
}

func TestTheStandardsLibraryJudgesOurCallbacks(t *testing.T) {
	seen := map[bool]int{}
	for _, c := range mustCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			theirs, err := standardwebhooks.NewWebhook(c.Callback.Secret)
			require.NoError(t, err)
			judged := theirs.Verify([]byte(c.Callback.Body), request(c.Callback).Header)

			ours, err := signer.Standard.NewVerifier(c.Callback.Secret)
			require.NoError(t, err)
			_, judgedByUs := ours.VerifyRequest(request(c.Callback))

			if c.Genuine {
				require.NoError(t, judged)
				require.NoError(t, judgedByUs)
			} else {
				require.Error(t, judged)
				require.Error(t, judgedByUs)
			}
		})
		seen[c.Genuine]++
	}
	require.GreaterOrEqual(t, seen[true], 10)
	require.GreaterOrEqual(t, seen[false], 10)
}

func TestWeJudgeCallbacksOfTheStandardsLibrary(t *testing.T) {
	mine, other := signer.NewSecret(), signer.NewSecret()
	theirs, err := standardwebhooks.NewWebhook(mine.Reveal())
	require.NoError(t, err)
	for name, body := range map[string][]byte{
		"JSON": []byte(`{"a":[1,2]}`), "empty": {}, "every byte": everyByte(), "a percent": []byte("100%d"),
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			at := strconv.FormatInt(now.Unix(), 10)
			signature, err := theirs.Sign("msg_1", now, body)
			require.NoError(t, err)
			require.Equal(t, signer.Sign(mine, "msg_1", now, body), signature)

			ours := signer.Verifier{Secrets: []signer.Secret{other, mine}}
			require.NoError(t, ours.Verify(signer.Signed{ID: "msg_1", Timestamp: at, Signature: signature}, body))
			require.NoError(t, ours.Verify(signer.Signed{ID: "msg_1", Timestamp: at, Signature: "v1a,AAAA " + signature}, body))
			require.ErrorIs(t, ours.Verify(signer.Signed{ID: "msg_1", Timestamp: at, Signature: signature}, append(body, ' ')), signer.ErrMismatch)
			require.ErrorIs(t, ours.Verify(signer.Signed{ID: "msg_2", Timestamp: at, Signature: signature}, body), signer.ErrMismatch)

			stranger := signer.Verifier{Secrets: []signer.Secret{other}}
			require.ErrorIs(t, stranger.Verify(signer.Signed{ID: "msg_1", Timestamp: at, Signature: signature}, body), signer.ErrMismatch)

			before := now.Add(-10 * time.Minute)
			signature, err = theirs.Sign("msg_1", before, body)
			require.NoError(t, err)
			require.ErrorIs(t, ours.Verify(signer.Signed{ID: "msg_1", Timestamp: strconv.FormatInt(before.Unix(), 10), Signature: signature}, body), signer.ErrTooOld)
		})
	}
}

// everyByte is a body that is no text.
func everyByte() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
