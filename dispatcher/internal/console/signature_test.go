package console_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/signer"
)

const (
	signedSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	signedKey    = "0123456789abcdef0123456789abcdef"
	signedBody   = kit.MistakenBody
)

var attemptAt = time.Date(2026, 1, 31, 11, 0, 0, 100e6, time.UTC)

func hmacOf(key, text string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// newSignatureTest serves the pages of a message that was attempted once.
func newSignatureTest(t *testing.T, change ...func(*console.Options)) func(*http.Request) string {
	t.Helper()
	message := `{"id":"order_17","topic":"t","content_type":"application/json","created_at":"2026-01-31T11:00:00.000Z","body":` + signedBody + `,"deliveries":[
		{"id":"ep_1:order_17","destination":"ep_1","url":"https://api.shop.example/hooks","status":"retrying","attempts":1,
		"history":[{"attempt":1,"at":"2026-01-31T11:00:00.100Z","status_code":401,"outcome":"retry"}]},
		{"id":"u_1:order_17","destination":"u_1","url":"https://bare.example/","status":"delivered"}]}`
	api := &testAPI{answers: map[string]string{"GET /v1/messages/order_17": message}}
	secret, err := signer.ParseSecret(signedSecret)
	require.NoError(t, err)
	older, newer := signer.NewSecret(), signer.NewSecret()
	ask := newTestConsole(t, api.ServeHTTP, always, append([]func(*console.Options){func(o *console.Options) {
		o.Signing = func(_ context.Context, id string) (*dispatcher.Endpoint, error) {
			require.Equal(t, "ep_1", id)
			return &dispatcher.Endpoint{ID: id, Signature: signer.Standard, Secrets: []dispatcher.EndpointSecret{
				{Secret: newer, Since: attemptAt.Add(time.Second)}, {Secret: secret, Since: attemptAt.Add(-time.Hour), Until: attemptAt.Add(24 * time.Hour)},
				{Secret: older, Until: attemptAt.Add(-time.Hour)},
			}}, nil
		}
	}}, change...)...)
	return func(r *http.Request) string {
		page := ask(r).Body.String()
		require.NotContains(t, page, signedSecret[6:30], "the secret stays here")
		require.NotContains(t, page, older.Fingerprint(), "it did not sign any more")
		require.NotContains(t, page, newer.Fingerprint(), "it did not sign yet")
		for _, call := range api.calls {
			require.NotContains(t, call, "v1,", "what was typed goes nowhere")
		}
		return page
	}
}

func TestWhatAReceiversCodeDoesWithASignatureIsNamed(t *testing.T) {
	ask := newSignatureTest(t)
	second := strconv.FormatInt(attemptAt.Unix(), 10)
	earlier := strconv.FormatInt(attemptAt.Unix()-1, 10) // the clock of the history was read later
	b64 := base64.StdEncoding.EncodeToString
	right := b64(hmacOf(signedKey, "order_17."+second+"."+signedBody))
	computed := kit.SignatureMistakes(signedSecret, "order_17", attemptAt)
	maps.Copy(computed, map[string]kit.Mistake{
		"it is right":                      {Computed: "v1," + right, Cause: "comparison"},
		"it is right, without its version": {Computed: right, Cause: "comparison"},
		"it is right, a second earlier":    {Computed: b64(hmacOf(signedKey, "order_17."+earlier+"."+signedBody)), Cause: "comparison"},
		"it is no signature":               {Computed: "oops", Cause: "signature_malformed"},
	})
	for name, c := range computed {
		page := ask(post("/console/messages/order_17/signature", url.Values{"to": {"ep_1"}, "computed": {c.Computed}}))
		require.Contains(t, page, `data-cause="`+c.Cause+`"`, name)
		require.Equal(t, c.Cause == "comparison", strings.Contains(page, "Your code&#39;s value is right") || strings.Contains(page, "Your code's value is right"), name)
		require.NotContains(t, page, c.Computed+`"`, "what was typed is not shown again")
	}
}

func TestThePageOfASignatureShowsWhatWasSigned(t *testing.T) {
	ask := newSignatureTest(t)
	secret, err := signer.ParseSecret(signedSecret)
	require.NoError(t, err)
	page := ask(get("/console/messages/order_17/signature"))
	for _, text := range []string{
		"webhook-timestamp", strconv.FormatInt(attemptAt.Unix(), 10), secret.Fingerprint(),
		"v1," + base64.StdEncoding.EncodeToString(hmacOf(signedKey, "order_17."+strconv.FormatInt(attemptAt.Unix(), 10)+"."+signedBody)),
	} {
		require.Contains(t, strings.ReplaceAll(page, "&#43;", "+"), text)
	}
	require.Contains(t, page, `</code>, since <time datetime="2026-01-31T10:00:00.1Z" data-at>2026-01-31 10:00:00.100 UTC</time>, until <time`)
	for computed, want := range map[string]string{signedSecret: "This is a secret", "whsk_abc": "This is a secret", "": "Paste the signature"} {
		page = ask(post("/console/messages/order_17/signature", url.Values{"computed": {computed}}))
		require.Contains(t, page, want)
		require.NotContains(t, page, "data-cause")
	}
	page = ask(post("/console/messages/order_17/signature", url.Values{"computed": {"v1,abc"}, "timestamp": {"today"}}))
	require.Contains(t, page, "whole seconds")
}

// An attempt was signed by the secrets of its time.
func TestASecretIsOfItsTime(t *testing.T) {
	for want, since := range map[string]time.Time{
		"not known since when":                {},
		"was rotated after this attempt":      attemptAt.Add(time.Millisecond),
		", since <time datetime=\"2026-01-31": attemptAt,
	} {
		ask := newSignatureTest(t, func(o *console.Options) {
			o.Signing = func(_ context.Context, id string) (*dispatcher.Endpoint, error) {
				return &dispatcher.Endpoint{ID: id, Signature: signer.Standard, Secrets: []dispatcher.EndpointSecret{{Secret: signer.NewSecret(), Since: since}}}, nil
			}
		})
		require.Contains(t, ask(get("/console/messages/order_17/signature")), want)
	}
}

// A message is kept for longer than an endpoint that is deleted.
func TestTheSignatureOfADeletedEndpointCantBeChecked(t *testing.T) {
	ask := newSignatureTest(t, func(o *console.Options) {
		o.Signing = func(context.Context, string) (*dispatcher.Endpoint, error) { return nil, dispatcher.ErrNoEndpoint }
	})
	page := ask(get("/console/messages/order_17/signature"))
	require.Contains(t, page, "Its endpoint was deleted")
	require.NotContains(t, page, "Redis")
}

// A signature that a receiver still accepts could be replayed by somebody who may only look.
func TestAFreshSignatureIsShownToThoseWhoMayManage(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration
		manage bool
		shown  bool
	}{
		"a manager, at once":            {time.Second, true, true},
		"a viewer, at once":             {time.Second, false, false},
		"a viewer, five minutes later":  {5 * time.Minute, false, false},
		"a viewer, when it is too old":  {5*time.Minute + time.Second, false, true},
		"a manager, when it is too old": {time.Hour, true, true},
	} {
		ask := newSignatureTest(t, func(o *console.Options) {
			o.Now = func() time.Time { return attemptAt.Add(c.age) }
			o.May = func(_ dispatcher.Browser, operation string) (may, known bool) {
				return operation != "patch-endpoint" || c.manage, true
			}
		})
		page := strings.ReplaceAll(ask(get("/console/messages/order_17/signature")), "&#43;", "+")
		right := base64.StdEncoding.EncodeToString(hmacOf(signedKey, "order_17."+strconv.FormatInt(attemptAt.Unix(), 10)+"."+signedBody))
		require.Equal(t, c.shown, strings.Contains(page, right), name)
		require.Equal(t, !c.shown, strings.Contains(page, "it could be replayed"), name)
	}
}
