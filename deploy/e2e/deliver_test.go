package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAPublishedMessageArrivesSignedAndByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusAccepted))
	i := w.serve()
	body := "{ \"n\":12345678901234567890,\t\"f\": 1.0e+2, \"s\":\"\\u00e9é\" , \"nested\":[ [ ] ,{}]}"
	before := time.Now().Unix()
	p := i.publish(wire.Message{ID: "m1", Tenant: "acme", URL: w.receiver.URL(0) + "/hooks?x=1", Body: []byte(body),
		Headers: map[string]string{"X-Shop": "7", "authorization": "Basic abc"}})
	require.False(t, p.Duplicate)
	require.Equal(t, 1, p.Matched)

	got := w.receiver.wait("m1", 1)
	require.Equal(t, body, got.body)
	for name, value := range map[string]string{
		"content-type": "application/json", "hookladder-topic": "order.paid", "hookladder-attempt": "1",
		"hookladder-tenant": "acme", "hookladder-resend": "", "x-shop": "7", "authorization": "Basic abc",
		"webhook-id": "m1", "accept-encoding": "identity",
	} {
		require.Equal(t, value, got.header.Get(name), name)
	}
	require.True(t, strings.HasPrefix(got.header.Get("user-agent"), "Hookladder/"))
	require.True(t, strings.HasPrefix(got.header.Get("webhook-signature"), "v1,"))
	var at int64
	_, err := fmt.Sscan(got.header.Get("webhook-timestamp"), &at)
	require.NoError(t, err)
	require.GreaterOrEqual(t, at, before-1)

	d := i.until("m1", "delivered")
	require.Equal(t, 1, d.Attempts)
	require.Equal(t, http.StatusAccepted, d.LastStatusCode, "as it was")
	require.False(t, d.DeliveredAt.IsZero())
	require.True(t, d.NextAttemptAt.IsZero())
	r, err := i.Message(t.Context(), "m1")
	require.NoError(t, err)
	require.Equal(t, body, string(r.Body))
	require.Regexp(t, `"msg":"attempt finished".*"wait_s":0,.*"took_ms":[0-9.]+,`, i.log())
}
