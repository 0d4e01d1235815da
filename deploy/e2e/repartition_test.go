package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// What waits in every way, and what a killed instance held, goes on after a
// repartition as if there had been none.
func TestRepartitionMovesEverythingWhileNothingRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, n int) {
		switch {
		case id == "flying" && n == 1:
			h.wait(r)
		case n == 1 && id[:4] == "slow":
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	to := func(n int) string {
		return w.receiver.URL(n%20 + 1)
	}
	environ := append([]string{"SIGNING_SECRET=" + w.secret.Reveal()}, w.settings...)
	first := w.serve("PARTITIONS=2", "LADDER=1h")
	ids := []string{"flying"}
	for n := range 40 {
		early, slow, later := fmt.Sprint("early", n), fmt.Sprint("slow", n), fmt.Sprint("later", n)
		first.publish(wire.Message{ID: early, URL: to(n)})
		first.publish(wire.Message{ID: slow, URL: to(n)})
		first.publish(wire.Message{ID: later, URL: to(n), Delay: hour})
		ids = append(ids, early, slow, later)
	}
	for n := range 40 { // what is recorded is not attempted again
		first.until(fmt.Sprint("early", n), "delivered")
		first.until(fmt.Sprint("slow", n), "retrying")
	}
	first.publish(wire.Message{ID: "flying", URL: to(7)})
	w.receiver.wait("flying", 1)

	alive := mustRun(t, environ, "", "repartition", "--to", "8")
	require.Equal(t, exitFailed, alive.code)
	require.Contains(t, alive.err, "an instance is alive")
	first.Kill()
	close(h.release)
	dry := mustRun(t, environ, "", "repartition", "--to", "8", "--dry-run")
	require.Equal(t, exitOK, dry.code, dry.err)
	require.Contains(t, dry.out, "would move project default from 2 to 8 partitions")
	done := mustRun(t, append(environ, "PARTITIONS=2"), "", "repartition", "--to", "8")
	require.Equal(t, exitOK, done.code, done.err)
	require.Contains(t, done.out, "moved project default from 2 to 8 partitions")
	require.Contains(t, done.out, "now set PARTITIONS=8")

	for n := range 8 {
		w.makeDue(n) // an instance that starts looks at all of them
	}
	second := w.serve("PARTITIONS=8", "LADDER=1h")
	for _, id := range ids {
		second.until(id, "delivered")
	}
	require.Len(t, w.receiver.arrivals("flying"), 2, "its first attempt was cut with its instance")
	for n := range 40 {
		require.Len(t, w.receiver.arrivals(fmt.Sprint("early", n)), 1)
		require.Len(t, w.receiver.arrivals(fmt.Sprint("slow", n)), 2)
		require.Len(t, w.receiver.arrivals(fmt.Sprint("later", n)), 1)
		require.True(t, second.publish(wire.Message{ID: fmt.Sprint("early", n), URL: to(n)}).Duplicate)
	}
}
