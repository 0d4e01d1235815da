package e2e_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// An instance is stopped for so long that another takes over what it has in
// flight, and goes on later with all it had in its memory. It notices that it
// was declared dead. Of what it still has to say only a success counts, of a
// delivery that is not finished.
func TestAnInstanceThatWasStoppedGoesOnUnderAnotherName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := map[string]*held{"unfinished": newHeld(), "finished": newHeld(), "failed": newHeld()}
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, n int) {
		h := answers[id]
		switch {
		case h == nil:
		case n == 1:
			if h.wait(r); id == "failed" {
				rw.WriteHeader(http.StatusInternalServerError)
			}
		case id == "unfinished":
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	stopped := w.serve("LADDER=1h", "ATTEMPT_TIMEOUT=60s")
	name := w.name()
	hosts := 0
	for id := range answers {
		hosts++ // a host of its own, or the third would have to wait
		stopped.publish(wire.Message{ID: id, URL: w.receiver.URL(hosts)})
		w.receiver.wait(id, 1)
	}
	stays := w.serve("LADDER=1h")

	require.NoError(t, stopped.Signal(syscall.SIGSTOP))
	for id := range answers {
		w.receiver.wait(id, 2)
	}
	stays.says(`"msg":"takeover","instance":"` + name + `","deliveries":3`)
	stays.until("unfinished", "retrying")
	stays.until("finished", "delivered")
	stays.until("failed", "delivered")

	stopped.troubled = true // its calls that were under way have become too late
	require.NoError(t, stopped.Signal(syscall.SIGCONT))
	stopped.says(`"msg":"declared dead, going on under another name","instance":"` + name)
	for _, h := range answers {
		close(h.release)
	}
	d := stays.until("unfinished", "delivered")
	require.Equal(t, http.StatusOK, d.LastStatusCode)
	stays.until("failed", "delivered")
	w.alive(2)
	for id := range answers {
		require.Len(t, w.receiver.arrivals(id), 2, id)
	}
	require.Equal(t, []string{name + "-2"}, namesLike(w, name))

	// It works as before.
	stays.Kill()
	stopped.publish(wire.Message{ID: "after", URL: w.receiver.URL(0)})
	w.receiver.wait("after", 1)
	stopped.until("after", "delivered")
}

// namesLike are the instances in the queue whose name begins so.
func namesLike(w *world, prefix string) (names []string) {
	w.t.Helper()
	for _, name := range w.rdb.HKeys(w.t.Context(), "{default}:instances").Val() {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}
