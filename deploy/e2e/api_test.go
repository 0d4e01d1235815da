package e2e_test

import (
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
