package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAnIdempotencyKeyMakesARepeatTheSameMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	post := func(body string) (int, wire.Published) {
		res, text := i.call(http.MethodPost, "/v1/messages",
			`{"topic":"order.paid","url":"`+w.receiver.URL(0)+`","body":`+body+`}`,
			http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"order_17"}})
		var p wire.Published
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		return res.StatusCode, p
	}
	w.receiver.expect("order_17", &wire.Message{Body: []byte(`{"n": 1}`)})
	code, first := post(`{"n": 1}`)
	require.Equal(t, http.StatusAccepted, code)
	require.Equal(t, "order_17", first.ID)
	code, again := post(`{"n": 1}`)
	require.Equal(t, http.StatusOK, code)
	require.True(t, again.Duplicate)
	require.Equal(t, first.CreatedAt, again.CreatedAt)
	require.Equal(t, first.Deliveries[0].ID, again.Deliveries[0].ID)
	code, _ = post(`{"n":1}`)
	require.Equal(t, http.StatusConflict, code, "other bytes are other content")

	i.until("order_17", "delivered")
	later := i.publish(wire.Message{ID: "order_17", Topic: "order.paid", URL: w.receiver.URL(0), Body: []byte(`{"n": 1}`), Delay: hour})
	require.True(t, later.Duplicate, "when it is due is not its content")
	require.Equal(t, "delivered", later.Deliveries[0].Status)
	i.send("last")
	w.receiver.wait("last", 1)
	require.Len(t, w.receiver.arrivals("order_17"), 1)
}

func TestAKeyOpensWhatItsScopesSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const publishes, reads, all = "publishes-0123456789", "reads-0123456789abc", "admin-0123456789abc"
	sum := sha256.Sum256([]byte(all))
	i := w.serve("API_KEYS=" + publishes + ":publish:shop," + reads + ":read,sha256:" + hex.EncodeToString(sum[:]) + ":admin")

	w.receiver.expect("m1", &wire.Message{Body: []byte("1")})
	message := `{"id":"m1","topic":"t","url":"` + w.receiver.URL(0) + `","body":1}`
	for _, c := range []struct {
		who, authorization string
		publish, read      int
	}{
		{"nobody", "", http.StatusUnauthorized, http.StatusUnauthorized},
		{"a stranger", "Bearer stranger-0123456789", http.StatusUnauthorized, http.StatusUnauthorized},
		{"a wrong scheme", "Basic " + publishes, http.StatusUnauthorized, http.StatusUnauthorized},
		{"who gives the hash for the key", "Bearer " + hex.EncodeToString(sum[:]), http.StatusUnauthorized, http.StatusUnauthorized},
		{"who may read", "Bearer " + reads, http.StatusForbidden, http.StatusOK},
		{"who may publish", "Bearer " + publishes, http.StatusAccepted, http.StatusForbidden},
		{"who may do all", "Bearer " + all, http.StatusOK, http.StatusOK}, // the same message again
	} {
		header := http.Header{"Content-Type": {"application/json"}}
		if c.authorization != "" {
			header.Set("Authorization", c.authorization)
		}
		res, text := i.call(http.MethodPost, "/v1/messages", message, header)
		require.Equal(t, c.publish, res.StatusCode, "%s publishes: %s", c.who, text)
		res, text = i.call(http.MethodGet, "/v1/stats", "", header)
		require.Equal(t, c.read, res.StatusCode, "%s reads: %s", c.who, text)
		if c.read == http.StatusUnauthorized {
			require.Equal(t, "Bearer", res.Header.Get("WWW-Authenticate"))
		}
	}
	for _, open := range []string{"/healthz", "/readyz", "/openapi.json"} {
		res, _ := i.call(http.MethodGet, open, "", nil)
		require.Equal(t, http.StatusOK, res.StatusCode, "%s needs no key", open)
	}
	w.receiver.wait("m1", 1)
	for _, key := range []string{publishes, reads, all} {
		require.NotContains(t, i.log(), key)
	}
	require.Contains(t, i.log(), `"key":"shop"`, "a name stands for it")
}

func TestWithoutKeysNoForeignPageIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	res, _ := i.call(http.MethodGet, "/v1/stats", "", http.Header{"Origin": {"https://evil.example"}})
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	res, _ = i.call(http.MethodGet, "/v1/stats", "", http.Header{"Origin": {i.URL}})
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// crowd publishes some deliveries for each status but ready, and waits until
// all have come to it. It answers the ids by status.
func crowd(w *world, i *instance) map[string][]string {
	w.t.Helper()
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, _ int) {
		switch kind, _, _ := strings.Cut(id, "-"); kind {
		case "dead", "retrying":
			rw.WriteHeader(http.StatusInternalServerError)
		case "gone":
			rw.WriteHeader(http.StatusGone)
		case "in_flight":
			newBarrier().wait(r)
		}
	})
	// A destination each, so that none waits for another's window.
	host := func(n int) string { return w.receiver.URL(n) }
	m := func(id string, n int) wire.Message {
		return wire.Message{ID: id, URL: host(n), Topic: "topic." + id[:4], Tenant: fmt.Sprint("tenant", n)}
	}
	ids := map[string][]string{}
	for n, kind := range []string{"delivered", "dead", "gone", "scheduled", "cancelled", "retrying", "in_flight"} {
		status := kind
		if kind == "gone" {
			status = "dead"
		}
		for k := range n + 1 {
			id := fmt.Sprintf("%s-%d", kind, k)
			one := m(id, 1+10*n+k)
			switch kind {
			case "scheduled", "cancelled":
				one.Delay = hour
			case "dead":
				one.MaxAttempts = 1
			}
			i.publish(one)
			if kind == "cancelled" {
				_, err := i.Cancel(w.t.Context(), id, "")
				require.NoError(w.t, err)
			}
			ids[status] = append(ids[status], id)
		}
	}
	for status, list := range ids {
		for _, id := range list {
			i.until(id, status)
		}
	}
	return ids
}

func TestStatsAndListsTellWhatThereIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("ATTEMPT_TIMEOUT=60s", "LADDER=1h")
	ids := crowd(w, i)

	s, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{
		"delivered": 1, "dead": 2 + 3, "scheduled": 4, "cancelled": 5, "retrying": 6, "in_flight": 7, "ready": 0,
	}, s.Counts)
	require.Equal(t, map[string]int64{"exhausted": 2, "gone": 3}, s.Dead)
	require.Equal(t, int64(7), s.InFlight)
	require.True(t, s.OldestDueAt.IsZero(), "nothing is due")
	require.Equal(t, 1, s.Instances)
	require.Contains(t, []string{"redis", "valkey"}, s.Store.Kind)
	require.Equal(t, "last_second", s.Store.WouldLose)
	require.Len(t, s.Lanes, 4+6+7, "those where something waits or is in flight")

	list := func(f client.Filter) []string {
		var got []string
		for {
			page, err := i.Deliveries(t.Context(), f)
			require.NoError(t, err)
			if f.Limit > 0 {
				require.LessOrEqual(t, len(page.Data), f.Limit)
			}
			for _, d := range page.Data {
				require.Empty(t, d.History, "lists are without")
				_, id, _ := strings.Cut(d.ID, ":")
				got = append(got, id)
			}
			if page.NextCursor == nil {
				slices.Sort(got)
				return got
			}
			f.Cursor = *page.NextCursor
		}
	}
	var all []string
	for status, want := range ids {
		all = append(all, want...)
		slices.Sort(want)
		require.Equal(t, want, list(client.Filter{Statuses: []string{status}, Limit: 2}), status)
	}
	slices.Sort(all)
	require.Equal(t, all, slices.Compact(list(client.Filter{Limit: 3})), "the list has each delivery; one that was attempted a moment ago can be there twice")
	waiting, err := i.Deliveries(t.Context(), client.Filter{Statuses: []string{"scheduled"}})
	require.NoError(t, err)
	for n, d := range waiting.Data {
		require.True(t, strings.HasSuffix(d.ID, fmt.Sprint(":scheduled-", n)), "the earliest first: %s", d.ID)
	}
	require.Len(t, list(client.Filter{Statuses: []string{"delivered", "dead"}}), 1+5)
	require.Len(t, list(client.Filter{Reasons: []string{"gone"}}), 3)
	require.Len(t, list(client.Filter{Topics: []string{"topic.canc", "topic.gone"}}), 5+3)
	d := i.delivery("gone-1")
	require.Equal(t, []string{"gone-1"}, list(client.Filter{Tenants: []string{d.Tenant}}))
	require.Equal(t, []string{"gone-1"}, list(client.Filter{Destinations: []string{d.URL}, Tenants: []string{d.Tenant}}))
	require.Equal(t, []string{"gone-1"}, list(client.Filter{Destinations: []string{d.Destination}}))
	require.Equal(t, ids["scheduled"], list(client.Filter{Statuses: []string{"scheduled"}, Since: time.Now().Add(time.Minute)}))
	require.Empty(t, list(client.Filter{Statuses: []string{"scheduled"}, Until: time.Now().Add(time.Minute)}))
}

func TestAFilterThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	i := newWorld(t).serve()
	for _, query := range []string{"status=lost", "limit=0", "limit=501", "cursor=x", "since=yesterday", "colour=red"} {
		res, text := i.call(http.MethodGet, "/v1/deliveries?"+query, "", nil)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, "%s: %s", query, text)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	}
}

func TestWithoutASecretNothingIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("SIGNING_SECRET=")
	_, err := i.Publish(t.Context(), &wire.Message{Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")})
	p := problemOf(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, p.Status)
	require.Contains(t, p.Errors[0].Detail, "SIGNING_SECRET")
	require.NotContains(t, w.keys(), "messages")
}
