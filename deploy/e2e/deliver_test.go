package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
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
}

func TestAFailingReceiverIsTriedAtEachRungAndThenHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, _ string, n int) {
		if n <= 3 {
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(rw, "down "+r.Header.Get(signer.HeaderSignature))
		}
	})
	i := w.serve("LADDER=100ms,200ms,300ms")
	i.send("m1")
	d := i.until("m1", "delivered")
	require.Equal(t, 4, d.Attempts)
	require.Len(t, d.History, 4)
	all := w.receiver.arrivals("m1")
	require.Len(t, all, 4)
	for n, attempt := range d.History {
		require.Equal(t, n+1, attempt.Attempt)
		require.Equal(t, n+1, all[n].attempt)
		if n == 3 {
			require.Equal(t, "delivered", attempt.Outcome)
			break
		}
		require.Equal(t, "retry", attempt.Outcome)
		require.Equal(t, http.StatusInternalServerError, attempt.StatusCode)
		require.Equal(t, "status 500", attempt.Error)
		wait := time.Duration(n+1) * 100 * time.Millisecond
		require.GreaterOrEqual(t, attempt.NextAttemptAt.Sub(attempt.At.Time), wait, "rung %d", n+1)
		require.False(t, all[n+1].at.Before(attempt.NextAttemptAt.Time), "attempt %d came early", n+2)
	}
	require.Equal(t, "down v1,[signature]", d.History[2].ResponseExcerpt)
}
