package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// caller publishes one message after the other, and each again until it is
// taken, as a service should. It ends when it has published more after enough
// was closed.
type caller struct {
	i       *instance
	name    string
	more    int
	enough  chan struct{}
	refused chan struct{} // 1 deep: it was answered 503
	taken   []string      // ids that were acknowledged
}

func (c *caller) run() {
	for n, left := 0, c.more; left > 0; n++ {
		select {
		case <-c.enough:
			left--
		default:
		}
		id := fmt.Sprint(c.name, "-", n)
		m := wire.Message{ID: id, Topic: "t", URL: c.i.receiver.URL, Body: []byte(`{"id":"` + id + `"}`), Delay: wire.Duration(n%2) * wire.Duration(30*time.Millisecond)}
		if !c.publish(&m) {
			return
		}
		c.taken = append(c.taken, id)
	}
}

// publish publishes until it is taken.
func (c *caller) publish(m *wire.Message) bool {
	for late := time.After(e2eWait); ; {
		_, err := c.i.Publish(c.i.t.Context(), m)
		if err == nil {
			return true
		}
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable || p.Type != "/problems/unavailable" || p.RetryAfter <= 0 {
			c.i.t.Errorf("publish while the store is away: %v", err)
			return false
		}
		select {
		case c.refused <- struct{}{}:
		default:
		}
		select {
		case <-time.After(p.RetryAfter):
		case <-late:
			c.i.t.Errorf("%s is never taken: %v", m.ID, err)
			return false
		}
	}
}

// Callers go on publishing while Redis is stopped and started again, and an
// attempt comes to its end meanwhile: whatever was acknowledged arrives, once.
func TestE2ENothingIsLostWhileRedisIsStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	throughTrouble(t, w, w.redis.Stop, w.redis.Restart)
}

// A Redis that hangs carries out, when it goes on, what was given up meanwhile.
func TestE2ENothingIsLostWhileRedisHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	throughTrouble(t, w, w.redis.Pause, w.redis.Resume)
}

func throughTrouble(t *testing.T, w *world, begin, end func()) {
	t.Helper()
	h := newHeld()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, _ int) {
		if id == "flying" {
			h.wait(r)
		}
	})
	i := w.serve("ATTEMPT_TIMEOUT=60s")
	i.troubled = true
	i.publish(wire.Message{ID: "flying", URL: w.receiver.URL})
	w.receiver.wait("flying", 1)

	const callers = 4
	enough, wg, all := make(chan struct{}), sync.WaitGroup{}, make([]*caller, callers)
	for n := range all {
		all[n] = &caller{i: i, name: fmt.Sprint("c", n), more: 10, enough: enough, refused: make(chan struct{}, 1)}
		wg.Go(all[n].run)
	}
	w.receiver.until("some of the load", func() bool { distinct, _ := w.receiver.ids(); return distinct > 50 })
	begin()
	close(h.release) // an outcome that nobody can record yet
	for _, c := range all {
		select {
		case <-c.refused:
		case <-time.After(e2eWait):
			require.FailNow(t, "a caller is not told that the store is away")
		}
	}
	end()
	close(enough)
	wg.Wait()

	for _, c := range all {
		require.GreaterOrEqual(t, len(c.taken), 10)
		for _, id := range c.taken {
			i.until(id, "delivered")
		}
	}
	i.until("flying", "delivered")
	distinct, came := w.receiver.ids()
	require.Equal(t, distinct, came, "nothing came twice")
	i.says(`"msg":"store lost"`)
	i.says(`"msg":"store back"`)
	s, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(distinct), s.Counts["delivered"])
}

// While the store is away the process lives, and says that it can't work.
func TestE2EWithoutAStoreItIsAliveButNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.troubled = true
	w.redis.Stop()
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable,
		"/v1/stats": http.StatusServiceUnavailable, "/v1/deliveries": http.StatusServiceUnavailable,
		"/v1/messages/m1": http.StatusServiceUnavailable,
	} {
		res, text := i.call(http.MethodGet, path, "", nil)
		require.Equal(t, want, res.StatusCode, "%s: %s", path, text)
		if want == http.StatusServiceUnavailable {
			require.NotEmpty(t, res.Header.Get("Retry-After"), path)
		}
	}
	require.Zero(t, i.stop(), "it stops in order all the same")
}

// A Redis that is full of unfinished work takes no more, and forgets nothing.
func TestE2EAFullRedisIsAnsweredWith503AndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "maxmemory 8mb")
	i := w.serve()
	i.troubled = true
	body := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	var taken []string
	for n := 0; ; n++ {
		require.Less(t, n, 200, "it is never full")
		id := fmt.Sprint("m", n)
		_, err := i.Publish(t.Context(), &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL, Body: body, Delay: hour})
		if err == nil {
			taken = append(taken, id)
			continue
		}
		p := problemOf(t, err)
		require.Equal(t, http.StatusServiceUnavailable, p.Status)
		require.Equal(t, "/problems/full", p.Type)
		require.Positive(t, p.RetryAfter)
		break
	}
	require.NotEmpty(t, taken)
	for _, id := range taken {
		_, err := i.Retry(t.Context(), id, "")
		require.NoError(t, err)
	}
	for _, id := range taken {
		w.receiver.wait(id, 1)
		i.until(id, "delivered")
	}
	_, came := w.receiver.ids()
	require.Equal(t, len(taken), came)
}

// Whatever the end, nothing of a delivery outlives its time: no record, no
// history, no count.
func TestE2EWhatIsOldIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, n int) {
		if id == "dies" || id == "climbs" && n < 3 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve("LADDER=10ms,10ms", "RETENTION=1s", "DEAD_RETENTION=1s", "GUARD_INTERVAL=1s")
	for _, id := range []string{"plain", "climbs", "dies", "cancelled"} {
		m := wire.Message{ID: id, URL: w.receiver.URL}
		if id == "cancelled" {
			m.Delay = hour
		}
		i.publish(m)
	}
	_, err := i.Cancel(t.Context(), "cancelled", "")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return w.rdb.HLen(context.WithoutCancel(t.Context()), "{default:0}:messages").Val() == 0
	}, e2eWait, 50*time.Millisecond)
	require.Len(t, w.receiver.arrivals("climbs"), 3)
	require.Len(t, w.receiver.arrivals("dies"), 3)
	_, err = i.Message(t.Context(), "dies")
	require.Equal(t, http.StatusNotFound, problemOf(t, err).Status)
	require.Equal(t, []string{"attempts", "in", "known", "lane"}, w.keys())

	again := i.publish(wire.Message{ID: "plain", URL: w.receiver.URL})
	require.False(t, again.Duplicate, "its id is forgotten too")
	w.receiver.wait("plain", 2)
}
