package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
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

func TestRawBodiesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	text := "a=1&b=%C4%E3"
	_, err := i.Publish(t.Context(), &wire.Message{ID: "form", Topic: "t", URL: w.receiver.URL(0), RawBody: &text, ContentType: "application/x-www-form-urlencoded"})
	require.NoError(t, err)
	_, err = i.Publish(t.Context(), &wire.Message{ID: "bytes", Topic: "t", URL: w.receiver.URL(0), RawBodyBase64: []byte("\x00\xff\xfe\n"), ContentType: "text/xml; charset=gbk"})
	require.NoError(t, err)
	form, bytes := w.receiver.wait("form", 1), w.receiver.wait("bytes", 1)
	require.Equal(t, text, form.body)
	require.Equal(t, "application/x-www-form-urlencoded", form.header.Get("content-type"))
	require.Equal(t, "\x00\xff\xfe\n", bytes.body)
	require.Equal(t, "text/xml; charset=gbk", bytes.header.Get("content-type"))
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

func TestARefusedAddressIsRefusedWhenItIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("ALLOW_NETS=")
	_, err := i.Publish(t.Context(), &wire.Message{Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")})
	p := problemOf(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, p.Status)
	require.Equal(t, "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32", p.Errors[0].Detail)
}

func TestADelayAndATimeAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	at := time.Now().Add(1200 * time.Millisecond).Truncate(time.Millisecond)
	for _, m := range []wire.Message{
		{ID: "delay", URL: w.receiver.URL(0), Delay: wire.Duration(700 * time.Millisecond)},
		{ID: "at", URL: w.receiver.URL(0), DeliverAt: wire.Time{Time: at}},
	} {
		sent := time.Now().Truncate(time.Millisecond)
		p := i.publish(m)
		due := p.Deliveries[0].NextAttemptAt.Time
		if time.Now().Before(due) { // else it was answered too late to say so
			require.Equal(t, "scheduled", p.Deliveries[0].Status)
		}
		if m.ID == "at" {
			require.True(t, due.Equal(at))
		}
		require.False(t, due.Before(sent.Add(time.Duration(m.Delay))), "its delay counts from the publish")
		require.False(t, w.receiver.wait(m.ID, 1).at.Before(due), "%s came early", m.ID)
	}
}

func TestABatchTakesTheGoodOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	good := func(id string) wire.Message {
		return wire.Message{ID: id, Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")}
	}
	bad := good("bad")
	bad.URL = "ftp://example.com"
	conflict := good("one")
	conflict.Body = []byte("2")
	results, err := i.PublishBatch(t.Context(), []wire.Message{good("one"), bad, good("two"), good("one"), conflict})
	require.NoError(t, err)
	var codes []int
	for _, r := range results {
		codes = append(codes, r.Status)
	}
	require.Equal(t, []int{202, 422, 202, 200, 409}, codes)
	require.Equal(t, "$.messages[1].url", results[1].Problem.Errors[0].Path)
	i.until("one", "delivered")
	i.until("two", "delivered")
	distinct, all := w.receiver.ids()
	require.Equal(t, 2, distinct)
	require.Equal(t, 2, all)
}

// The waits of the contract. What waits is made due by moving its score, and
// whatever the queue is asked next finds it.
func TestTheDefaultLadderWaitsAsItSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusInternalServerError))
	i := w.serve()
	i.send("m1")
	const m, h = time.Minute, time.Hour
	waits := []time.Duration{15 * time.Second, 3 * m, 10 * m, 30 * m, 30 * m, h, 2 * h, 6 * h, 15 * h}
	for rung, wait := range waits {
		n := rung + 1
		w.receiver.wait("m1", n)
		var d wire.Delivery
		eventually(t, "it stands as it should", func() bool {
			d = i.delivery("m1")
			return d.Status == "retrying" && d.Attempts == n
		})
		last := d.History[len(d.History)-1]
		ended := last.At.Add(time.Duration(last.DurationMS) * time.Millisecond)
		after := d.NextAttemptAt.Sub(ended)
		require.GreaterOrEqual(t, after, wait-time.Millisecond, "rung %d", n) // history has whole ms
		require.Less(t, after, wait+kit.Patience, "rung %d: what is longer is another rung", n)
		require.Equal(t, d.NextAttemptAt, last.NextAttemptAt)
		w.makeDue(0, d.ID)
		i.publish(wire.Message{ID: fmt.Sprint("other", n), URL: w.receiver.URL(0), Delay: wire.Duration(time.Hour)})
	}
	d := i.until("m1", "dead")
	require.Equal(t, "exhausted", d.DeadReason)
	require.Equal(t, 10, d.Attempts)
	require.Len(t, d.History, 10)
}
