package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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
	require.Contains(t, out, "deleted 4 deliveries in Redis, 2 of them cancelled; in the archive 4 messages and")

	for _, id := range []string{"done", "dies", "waits", "later"} {
		status := 0
		eventually(t, "the archive is read in time", func() bool {
			_, err := i.Message(t.Context(), id)
			status = problemOf(t, err).Status
			return status != http.StatusServiceUnavailable
		})
		require.Equal(t, http.StatusNotFound, status, id)
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
	require.Regexp(t, `^deliveries 4, cancelled 2, left 0, jobs 0; archive: messages 4, events \d+, unfinished \d+, months 0; arguments hmac:[0-9a-f]{64}$`, page.Data[0].Detail)
	_, mac, _ := strings.Cut(page.Data[0].Detail, "hmac:")
	require.Contains(t, out, "the audit entry has the arguments as hmac:"+mac)
	mustRows(t, url, "select detail->>'arguments_hmac' from hookladder.audit", mac)

	again := run("--tenant", "gone", "--yes")
	require.Contains(t, again, "deleted 0 deliveries in Redis")
	require.Contains(t, again, mac, "the same arguments")
	require.NotContains(t, run("--tenant", "gon", "--yes"), mac)

	send("late", wire.Message{ID: "idle", Delay: hour})
	mustRows(t, url, "select id from hookladder.open", "idle")
	require.Contains(t, run("--tenant", "late", "--yes"), "deleted 1 deliveries in Redis", "nothing else tells the instance of it")
	i.counts("all counts hold", func(s wire.Stats) bool {
		return s.Counts["delivered"] == 1 && s.Counts["dead"] == 0 && s.Counts["cancelled"] == 0
	})
	got := mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, archived(url))...), "", "doctor")
	require.Zero(t, got.code, got.out)
}

// What is paused, has no takers, or died as it was accepted is forgotten at once. What a
// taker has is left, and the exit code tells that.
func TestWhatIsHeldIsForgottenAtOnceAndWhatIsLeasedIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	i := w.serve(append(archived(url), "ENDPOINT_MAX_WAITING=3")...)
	e := i.endpoint("/held", wire.Endpoint{Tenant: "vic", Topics: []string{"*"}})
	_, err := i.PauseEndpoint(t.Context(), e.ID)
	require.NoError(t, err)
	for n := range 5 {
		i.publish(wire.Message{ID: fmt.Sprint("held", n), Tenant: "vic", Subject: "alice"})
	}
	i.publish(wire.Message{ID: "nobody", Tenant: "vic", Queue: "nobody"})
	i.publish(wire.Message{ID: "taken", Tenant: "vic", Queue: "taken"})
	taken := i.takeOne("taken", time.Hour)
	mustRows(t, url, "select id from hookladder.event where reason = 'overflow' and tenant = 'vic' order by id", "held3", "held4")
	dead := 0
	for _, err := range i.EachDelivery(t.Context(), client.Filter{Tenants: []string{"vic"}, Statuses: []string{"dead"}}) {
		require.NoError(t, err)
		dead++
	}
	require.Equal(t, 2, dead)
	var job wire.Job
	i.answered(http.StatusAccepted, &job, "POST", "/v1/deliveries/retry", `{"tenant":["vic"]}`)

	forget := func() result {
		return mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, archived(url))...), "", "forget", "--tenant", "vic", "--yes")
	}
	got := forget()
	require.Equal(t, exitFailed, got.code, got.out)
	require.Contains(t, got.out, "deleted 6 deliveries in Redis, 4 of them cancelled; in the archive 6 messages")
	require.Contains(t, got.out, "in the filters of 1 jobs")
	require.Contains(t, got.err, "1 deliveries are left, because an attempt is running or a taker has a lease")
	mustRows(t, url, "select id from hookladder.message", "taken")
	_, shown := i.call("GET", "/v1/jobs/"+job.ID, "", nil)
	require.NotContains(t, shown, "vic")
	i.refusedWith(http.StatusConflict, "not-stopped", "POST", "/v1/jobs/"+job.ID+"/resume", "")
	i.counts("nothing else waits", func(s wire.Stats) bool {
		return s.Counts["ready"] == 0 && s.Counts["in_flight"] == 1 && s.Counts["dead"] == 0
	})

	i.settle(i.Client, "taken", outcomeOf(&taken, "delivered"))
	got = forget()
	require.Zero(t, got.code, got.err)
	mustRows(t, url, "select (select count(*) from hookladder.message) + (select count(*) from hookladder.event) + (select count(*) from hookladder.open)", "0")
	got = mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, archived(url))...), "", "doctor")
	require.Zero(t, got.code, got.out)
}
