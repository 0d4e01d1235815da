package httpapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Endpoint has every field.
func Endpoint(t testing.TB) *dispatcher.Endpoint {
	t.Helper()
	l, err := ladder.Parse("15s/3m")
	require.NoError(t, err)
	s, err := success.Parse(`{"status":["200"],"body":"ok"}`)
	require.NoError(t, err)
	return &dispatcher.Endpoint{
		ID: "ep_123456789", Version: 7, UID: "merchant:7", Tenant: "m7", URL: "https://shop.example/hooks?k=1&l=2",
		Topics: []string{"payment.*"}, Description: "the shop", Metadata: map[string]string{"plan": "gold"},
		Signature: signer.Standard,
		Secrets: []dispatcher.EndpointSecret{
			{Secret: MustSecret(t, signer.Standard, SecretNew)},
			{Secret: MustSecret(t, signer.Standard, SecretOld), Until: Now.Add(time.Hour)},
		},
		Ladder: &l, Timeout: 2 * time.Second, MaxInFlight: 5, Rate: dispatcher.Rate{Count: 100, Per: time.Second},
		Headers: []dispatcher.Header{{Name: "Authorization", Value: "Bearer hunter2"}, {Name: "x-b", Value: "hunter3"}},
		Success: s, Ordered: true, Trace: true, CreatedAt: Now, UpdatedAt: Now.Add(time.Minute),
	}
}

// Secrets of testEndpoint, and one with public keys.
const (
	SecretNew = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="
	SecretOld = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w="
	SecretEd  = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// MustSecret parses a secret.
func MustSecret(t testing.TB, s signer.Scheme, text string) signer.Secret {
	t.Helper()
	secret, err := s.ParseSecret(text)
	require.NoError(t, err)
	return secret
}

// Now is the time of all clocks.
var Now = time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.FixedZone("", 3600))

// Accepted is the result of a message that was stored.
func Accepted(m *dispatcher.Message) dispatcher.Published {
	u, _ := url.Parse(m.URL)
	return dispatcher.Published{
		Result: dispatcher.Accepted, CreatedAt: Now,
		Deliveries: []dispatcher.Delivery{{
			ID:  dispatcher.DeliveryID{Lane: dispatcher.URLLane(u, ""), Message: m.ID},
			URL: m.URL, Status: dispatcher.StatusReady, Due: Now,
		}},
	}
}

// Message is a message as JSON, with more members or other ones.
func Message(more string) string {
	m := `{"topic":"payment.paid","url":"https://shop.example/hooks"`
	if !strings.HasPrefix(more, `"body`) && !strings.HasPrefix(more, `"raw`) {
		m += `,"body":{"a":1}`
	}
	if more != "" {
		m += "," + more
	}
	return m + "}"
}

// Link has every field.
func Link() dispatcher.Link {
	return dispatcher.Link{
		ID: dispatcher.LinkID("x"), Tenant: "m7", Endpoint: "ep_123456789", Manage: true, Name: "Anna", By: "key:ops",
		CreatedAt: Now, ExpiresAt: Now.Add(time.Hour),
	}
}

// LogPage has an attempt and an end without one.
var LogPage = dispatcher.LogPage{
	Lines: []dispatcher.Logged{
		{
			ID: dispatcher.DeliveryID{Lane: "u_1", Message: "m1"}, Topic: "a.b", Tenant: "acme", Subject: "order 7", Happening: dispatcher.HappenedDelivered,
			Attempt: dispatcher.Attempt{
				Number: 2, At: Now, Duration: 12345 * time.Microsecond, Status: 200, Verdict: dispatcher.Delivered,
				URL: "https://a.example/hook", Address: "192.0.2.1:443", Resend: true, ShortHello: true, Excerpt: []byte("ok\xff"),
			}, Job: 7,
		},
		{
			ID: dispatcher.DeliveryID{Lane: "u_1", Message: "m2"}, Happening: dispatcher.HappenedDead, Reason: dispatcher.ReasonDisabled,
			Attempt: dispatcher.Attempt{Number: 1, At: Now},
		},
	},
	Next: "1-0-0-0", LookedAt: 7, CompleteSince: Now,
}

// Batch is a batch of messages.
func Batch(messages ...string) string {
	return `{"messages":[` + strings.Join(messages, ",") + `]}`
}

// Bare is a message without a destination, and without its last brace.
const Bare = `{"topic":"payment.paid","tenant":"m7","body":1`

// ManyHeaders is n headers as members of an object.
func ManyHeaders(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"x-%d":"v"`, i)
	}
	return strings.Join(all, ",")
}

// ClipName shortens the name of a case.
func ClipName(s string) string { return s[:min(len(s), 120)] }

// Record is a message with three deliveries.
func Record(t testing.TB) dispatcher.MessageView {
	t.Helper()
	l, err := ladder.Parse("15s/3m")
	require.NoError(t, err)
	s, err := success.Parse(`{"status":["200"],"body":{"path":"code","equals":"SUCCESS"}}`)
	require.NoError(t, err)
	return dispatcher.MessageView{
		Message: dispatcher.Message{
			ID: "a", Topic: "payment.paid", Tenant: "m7", Subject: "order 17", URL: "http://a/x?q=\"<&", OrderingKey: "k:1", Body: []byte(`{ "n" : 12345678901234567890, "h":"<" }`),
			ContentType: "application/json", Delay: 90 * time.Second, ExpiresAt: Now.Add(time.Hour), CreatedAt: Now,
			Headers: []dispatcher.Header{{Name: "x-b", Value: "2\xff"}}, Ladder: &l, MaxAttempts: 2, Timeout: 2 * time.Second, Success: s,
		},
		Deliveries: []dispatcher.Delivery{
			{
				ID: dispatcher.DeliveryID{Lane: "u_1", Message: "a"}, Topic: "payment.paid", Tenant: "m7", URL: "http://a/x",
				Status: dispatcher.StatusRetrying, Due: Now.Add(time.Minute), Attempts: 1, LastStatus: 500, LastError: "status 500", WaitingFor: "rung",
				History: []dispatcher.Attempt{{
					Number: 1, At: Now, Duration: 1500 * time.Microsecond, Status: 500, Verdict: dispatcher.Retry,
					Error: "status 500", Excerpt: []byte("oops\xff"), Next: Now.Add(time.Minute),
				}},
			},
			{ID: dispatcher.DeliveryID{Lane: "u_2", Message: "a"}, Status: dispatcher.StatusDelivered, Ended: Now, Delivered: Now, Attempts: 1, LastStatus: 200},
			{ID: dispatcher.DeliveryID{Lane: "u_3", Message: "a"}, Status: dispatcher.StatusDead, Ended: Now, Reason: dispatcher.ReasonExhausted},
		},
	}
}
