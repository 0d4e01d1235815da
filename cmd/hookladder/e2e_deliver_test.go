package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

func TestE2EAPublishedMessageArrivesSignedAndByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	body := "{ \"n\":12345678901234567890,\t\"f\": 1.0e+2, \"s\":\"\\u00e9é\" , \"nested\":[ [ ] ,{}]}"
	before := time.Now().Unix()
	p := i.publish(wire.Message{ID: "m1", Tenant: "acme", URL: w.receiver.URL + "/hooks?x=1", Body: []byte(body),
		Headers: map[string]string{"X-Shop": "7", "authorization": "Basic abc"}})
	require.False(t, p.Duplicate)
	require.Equal(t, 1, p.Matched)

	got := w.receiver.wait("m1", 1)
	require.Equal(t, body, got.body)
	for name, value := range map[string]string{
		"content-type": "application/json", "hookladder-topic": "order.paid", "hookladder-attempt": "1",
		"hookladder-tenant": "acme", "hookladder-resend": "", "x-shop": "7", "authorization": "Basic abc",
		"webhook-id": "m1", "accept-encoding": "",
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
	require.Equal(t, http.StatusOK, d.LastStatusCode)
	require.False(t, d.DeliveredAt.IsZero())
	require.True(t, d.NextAttemptAt.IsZero())
	r, err := i.Message(t.Context(), "m1")
	require.NoError(t, err)
	require.Equal(t, body, string(r.Body))
}

func TestE2EAnotherStatusOf2xxIsRememberedAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusAccepted))
	i := w.serve()
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL})
	require.Equal(t, http.StatusAccepted, i.until("m1", "delivered").LastStatusCode)
}

func TestE2ERawBodiesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	text := "a=1&b=%C4%E3"
	_, err := i.Publish(t.Context(), &wire.Message{ID: "form", Topic: "t", URL: w.receiver.URL, RawBody: &text, ContentType: "application/x-www-form-urlencoded"})
	require.NoError(t, err)
	_, err = i.Publish(t.Context(), &wire.Message{ID: "bytes", Topic: "t", URL: w.receiver.URL, RawBodyBase64: []byte("\x00\xff\xfe\n"), ContentType: "text/xml; charset=gbk"})
	require.NoError(t, err)
	form, bytes := w.receiver.wait("form", 1), w.receiver.wait("bytes", 1)
	require.Equal(t, text, form.body)
	require.Equal(t, "application/x-www-form-urlencoded", form.header.Get("content-type"))
	require.Equal(t, "\x00\xff\xfe\n", bytes.body)
	require.Equal(t, "text/xml; charset=gbk", bytes.header.Get("content-type"))
}

func TestE2EAFailingReceiverIsTriedAtEachRungAndThenHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, _ string, n int) {
		if n <= 3 {
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(rw, "down "+r.Header.Get(signer.HeaderSignature))
		}
	})
	i := w.serve("LADDER=100ms,200ms,300ms")
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL})
	d := i.until("m1", "delivered")
	require.Equal(t, 4, d.Attempts)
	require.Len(t, d.History, 4)
	all := w.receiver.arrivals("m1")
	require.Len(t, all, 4)
	for n, attempt := range d.History {
		require.Equal(t, n+1, attempt.Attempt)
		require.Equal(t, fmt.Sprint(n+1), all[n].attempt)
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

func TestE2EOneThatAlwaysFailsIsDeadAfterTheLastRung(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusServiceUnavailable))
	i := w.serve("LADDER=20ms/20ms")
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL})
	d := i.until("m1", "dead")
	require.Equal(t, "exhausted", d.DeadReason)
	require.Equal(t, 3, d.Attempts)
	require.Len(t, d.History, 3)
	require.Equal(t, "dead", d.History[2].Outcome)
	require.Equal(t, "status 503", d.LastError)
	page, err := i.Deliveries(t.Context(), client.Filter{Statuses: []string{"dead"}, Reasons: []string{"exhausted"}})
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	i.says("delivery dead")
}

func TestE2EAGoneReceiverEndsItAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusGone))
	i := w.serve()
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL})
	require.Equal(t, "gone", i.until("m1", "dead").DeadReason)
	require.Len(t, w.receiver.arrivals("m1"), 1)
}

func TestE2EARefusedAddressIsRefusedWhenItIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("ALLOW_NETS=")
	_, err := i.Publish(t.Context(), &wire.Message{Topic: "t", URL: w.receiver.URL, Body: []byte("1")})
	p := problemOf(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, p.Status)
	require.Equal(t, "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32", p.Errors[0].Detail)
}

// The settings may change while a message waits: the address is judged again
// when it is called.
func TestE2EAnAddressThatIsRefusedByNowIsDeadUnattempted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := w.serve("MAX_IN_FLIGHT=0")
	open.publish(wire.Message{ID: "m1", URL: w.receiver.URL})
	closed := w.serve("ALLOW_NETS=")
	d := closed.until("m1", "dead")
	require.Equal(t, "refused", d.DeadReason)
	require.Empty(t, w.receiver.arrivals("m1"))
}

func TestE2EADelayAndATimeAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	at := time.Now().Add(1200 * time.Millisecond).Truncate(time.Millisecond)
	for _, m := range []wire.Message{
		{ID: "delay", URL: w.receiver.URL, Delay: wire.Duration(700 * time.Millisecond)},
		{ID: "at", URL: w.receiver.URL, DeliverAt: wire.Time{Time: at}},
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

func TestE2EWhatHasExpiredIsDeadUnattempted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, _ int) {
		if id == "before" {
			h.wait(r)
		}
	})
	i := w.serve("MAX_IN_FLIGHT=1")
	i.publish(wire.Message{ID: "before", URL: w.receiver.URL})
	w.receiver.wait("before", 1)
	expires := time.Now().Add(5 * time.Second) // in which it has to be published
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL, ExpiresAt: wire.Time{Time: expires}})
	require.Eventually(t, func() bool { return time.Now().After(expires) }, e2eWait, 10*time.Millisecond)
	close(h.release)
	require.Equal(t, "expired", i.until("m1", "dead").DeadReason)
	require.Empty(t, w.receiver.arrivals("m1"))
}

func TestE2EARepeatIsADuplicateAndOtherContentAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	first := i.publish(wire.Message{ID: "m1", URL: w.receiver.URL, Body: []byte(`{"a":1}`)})
	i.until("m1", "delivered")
	again := i.publish(wire.Message{ID: "m1", URL: w.receiver.URL, Body: []byte(`{"a":1}`), Delay: wire.Duration(time.Hour)})
	require.True(t, again.Duplicate)
	require.Equal(t, "delivered", again.Deliveries[0].Status)
	require.Equal(t, first.CreatedAt, again.CreatedAt)
	_, err := i.Publish(t.Context(), &wire.Message{ID: "m1", Topic: "order.paid", URL: w.receiver.URL, Body: []byte(`{"a":2}`)})
	require.Equal(t, http.StatusConflict, problemOf(t, err).Status)
	i.publish(wire.Message{ID: "last", URL: w.receiver.URL})
	w.receiver.wait("last", 1)
	require.Len(t, w.receiver.arrivals("m1"), 1)
}

func TestE2EABatchTakesTheGoodOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	good := func(id string) wire.Message {
		return wire.Message{ID: id, Topic: "t", URL: w.receiver.URL, Body: []byte("1")}
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

func TestE2EListsArePagedAndFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	other := strings.Replace(w.receiver.URL, "127.0.0.1", "127.0.0.2", 1)
	var want []string
	for n := range 25 {
		id, url := fmt.Sprintf("m%02d", n), w.receiver.URL
		if n%5 == 0 {
			url = other
		} else {
			want = append(want, id)
		}
		i.publish(wire.Message{ID: id, URL: url, Delay: wire.Duration(time.Hour)})
	}
	var got []string
	f := client.Filter{Statuses: []string{"scheduled"}, Destinations: []string{w.receiver.URL}, Limit: 7}
	for pages := 1; ; pages++ {
		page, err := i.Deliveries(t.Context(), f)
		require.NoError(t, err)
		for _, d := range page.Data {
			_, id, _ := strings.Cut(d.ID, ":")
			got = append(got, id)
		}
		if page.NextCursor == nil {
			break
		}
		f.Cursor = *page.NextCursor
	}
	slices.Reverse(want)
	require.Equal(t, want, got, "newest first, each once")
	s, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(25), s.Counts["scheduled"])
	require.Len(t, s.Lanes, 2)
}

// The waits of the contract. What waits is made due by moving its score, and
// whatever the queue is asked next finds it.
func TestE2ETheDefaultLadderWaitsAsItSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusInternalServerError))
	i := w.serve()
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL})
	const m, h = time.Minute, time.Hour
	waits := []time.Duration{15 * time.Second, 3 * m, 10 * m, 30 * m, 30 * m, h, 2 * h, 6 * h, 15 * h}
	for rung, wait := range waits {
		n := rung + 1
		w.receiver.wait("m1", n)
		var d wire.Delivery
		require.Eventually(t, func() bool {
			d = i.delivery("m1")
			return d.Status == "retrying" && d.Attempts == n
		}, e2eWait, 20*time.Millisecond)
		last := d.History[len(d.History)-1]
		ended := last.At.Add(time.Duration(last.DurationMS) * time.Millisecond)
		after := d.NextAttemptAt.Sub(ended)
		require.GreaterOrEqual(t, after, wait-time.Millisecond, "rung %d", n) // history has whole ms
		require.Less(t, after, wait+e2eWait, "rung %d: what is longer is another rung", n)
		require.Equal(t, d.NextAttemptAt, last.NextAttemptAt)
		w.makeDue(0, d.ID)
		i.publish(wire.Message{ID: fmt.Sprint("other", n), URL: w.receiver.URL, Delay: wire.Duration(time.Hour)})
	}
	d := i.until("m1", "dead")
	require.Equal(t, "exhausted", d.DeadReason)
	require.Equal(t, 10, d.Attempts)
	require.Len(t, d.History, 10)
}
