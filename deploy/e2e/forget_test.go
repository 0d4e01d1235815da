package e2e_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestATenantIsForgottenInTheStoreAndInTheArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	w.receiver.answers(func(w http.ResponseWriter, _ *http.Request, id string, _ int) {
		if id == "dies" || id == "waits" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve(append(archived(url), "LADDER=1h", "PARTITIONS=16")...) // which are seldom looked at of themselves
	send := func(tenant string, m wire.Message) {
		m.URL, m.Tenant = w.receiver.URL(0), tenant
		i.publish(m)
	}
	send("gone", wire.Message{ID: "done"})
	send("gone", wire.Message{ID: "dies", MaxAttempts: 1})
	send("gone", wire.Message{ID: "waits"})
	send("gone", wire.Message{ID: "later", Delay: hour})
	send("stays", wire.Message{ID: "other"})
	i.until("done", "delivered")
	i.until("dies", "dead")
	i.until("waits", "retrying")
	i.until("other", "delivered")
	mustRows(t, url, "select count(*) from hookladder.event", "4")

	run := func(flags ...string) string {
		got := mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, archived(url))...), "", append([]string{"forget"}, flags...)...)
		require.Zero(t, got.code, got.err)
		return got.out
	}
	out := run("--tenant", "gone", "--yes")
	require.Contains(t, out, "forgot 4 deliveries in Redis, 2 of them cancelled; in the archive 4 messages and")

	for _, id := range []string{"done", "dies", "waits", "later"} {
		_, err := i.Message(t.Context(), id)
		require.Equal(t, http.StatusNotFound, problemOf(t, err).Status, id)
	}
	mustRows(t, url, "select id from hookladder.message", "other")
	mustRows(t, url, "select distinct id from hookladder.event", "other")
	mustRows(t, url, "select count(*) from hookladder.open", "0")
	mustRows(t, url, "select what from hookladder.audit where detail::text not like '%gone%'", "forget")
	require.Equal(t, "delivered", i.delivery("other").Status)
	_, err := i.Publish(t.Context(), &wire.Message{ID: "done", Topic: "order.paid", Tenant: "gone", URL: w.receiver.URL(0), Body: []byte(`{"id":"done"}`)})
	require.NoError(t, err)
	require.Len(t, w.receiver.arrivals("done"), 1, "its id is still known")
	page, err := i.Audit(t.Context(), client.AuditFilter{What: []string{"forget"}})
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	require.NotContains(t, page.Data[0].Detail+page.Data[0].Tenant, "gone")

	require.Contains(t, run("--tenant", "gone", "--yes"), "forgot 0 deliveries in Redis")

	send("late", wire.Message{ID: "idle", Delay: hour})
	mustRows(t, url, "select id from hookladder.open", "idle")
	require.Contains(t, run("--tenant", "late", "--yes"), "forgot 1 deliveries in Redis", "nothing else tells the instance of it")
	i.counts("all counts hold", func(s wire.Stats) bool {
		return s.Counts["delivered"] == 1 && s.Counts["dead"] == 0 && s.Counts["cancelled"] == 0
	})
	got := mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, archived(url))...), "", "doctor")
	require.Zero(t, got.code, got.out)
}
