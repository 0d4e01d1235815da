package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// flying publishes messages to as many destinations, and waits until the
// receiver holds an attempt of each.
func (i *instance) flying(n int) (ids []string) {
	i.t.Helper()
	for k := range n {
		id := fmt.Sprint("flying", k)
		url := i.receiver.URL(k + 1)
		i.publish(wire.Message{ID: id, URL: url})
		i.receiver.wait(id, 1)
		ids = append(ids, id)
	}
	return ids
}

// signal sends one, and returns when a stop has begun.
func (i *instance) signal(s syscall.Signal) {
	i.t.Helper()
	require.NoError(i.t, i.Signal(s))
	i.says(`"msg":"stopping"`)
}

// holdFirst holds the first attempt of what flies until it is released.
func (w *world) holdFirst() *barrier {
	h := newBarrier()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, n int) {
		if strings.HasPrefix(id, "flying") && n == 1 {
			h.wait(r)
		}
	})
	return h
}

// While attempts end, the API says that it leaves, and goes on taking: a load
// balancer finds out without a caller meeting a closed door.
func TestAStopIsToldBeforeItHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.holdFirst()
	leaves := w.serve("SHUTDOWN_GRACE=1h")
	leaves.flying(1)
	stays := w.serve()
	res, _ := leaves.call(http.MethodGet, "/healthz", "", nil)
	require.False(t, res.Close)
	leaves.signal(syscall.SIGINT)

	eventually(t, "it says that it leaves", func() bool {
		res, body := leaves.call(http.MethodGet, "/readyz", "", nil)
		return res.StatusCode == http.StatusServiceUnavailable && strings.Contains(body, "This instance stops")
	})
	res, _ = leaves.call(http.MethodGet, "/healthz", "", nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.True(t, res.Close, "the next request goes elsewhere")
	for n := range 5 {
		id := fmt.Sprint("late", n)
		leaves.send(id)
		stays.until(id, "delivered")
		require.NotContains(t, leaves.log(), `:`+id+`"`, "who leaves begins nothing")
	}
	close(h.release)
	require.Zero(t, leaves.ExitCode())
	require.Equal(t, "delivered", stays.delivery("flying0").Status)
	w.receiver.once()
	require.NotContains(t, stays.log(), "takeover", "it signed off")
}

// Whatever ends a stop before its time, another instance goes on.
func TestAStopThatIsCutShortLosesNothing(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]syscall.Signal{
		"by a second signal": syscall.SIGTERM, "by another second signal": syscall.SIGINT, "by a kill": syscall.SIGKILL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.holdFirst()
			leaves, stays := w.serve("ATTEMPT_TIMEOUT=60s", "SHUTDOWN_GRACE=1h"), w.serve()
			ids := leaves.flying(5)
			c := startCallers(3, 0, leaves, stays)
			c.goOn(60)
			leaves.signal(syscall.SIGTERM)
			c.goOn(60)
			leaves.endBy(cut)
			require.NotZero(t, leaves.ExitCode())
			c.goOn(60)
			for _, one := range c.end() {
				stays.until(one.id, "delivered")
			}
			for _, id := range ids {
				require.Equal(t, 1, stays.until(id, "delivered").Attempts, "no rung was spent")
			}
			stays.says(`"msg":"takeover"`)
			w.alive(1)
		})
	}
}

// Attempts that outlive the grace go back to the head of their lanes.
func TestAfterItsGraceAStopHandsAttemptsBack(t *testing.T) {
	t.Parallel()
	for _, grace := range []string{"0s", "100ms"} {
		t.Run(grace, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.holdFirst()
			leaves := w.serve("SHUTDOWN_GRACE=" + grace)
			ids := leaves.flying(10)
			require.Zero(t, leaves.stop())
			require.Empty(t, w.names(), "it signed off")
			for _, key := range w.keys() {
				require.NotContains(t, key, "leases")
			}
			next := w.serve()
			for _, id := range ids {
				require.Equal(t, 1, w.receiver.wait(id, 2).attempt, "no rung was spent")
				require.Equal(t, 1, next.until(id, "delivered").Attempts)
			}
		})
	}
}

// An instance is stopped for so long that another takes over what it has in
// flight, and goes on later with all it had in its memory. It notices that it
// was declared dead. Of what it still has to say only a success counts, of a
// delivery that is not finished.
func TestAnInstanceThatWasStoppedGoesOnUnderAnotherName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := map[string]*barrier{"unfinished": newBarrier(), "finished": newBarrier(), "failed": newBarrier()}
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
	stopped.send("after")
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
