package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// While the store is away the process lives, and says that it can't work.
func TestWithoutAStoreItIsAliveButNotReady(t *testing.T) {
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
func TestAFullRedisIsAnsweredWith503AndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "maxmemory 8mb")
	i := w.serve()
	i.troubled = true
	body := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	var taken []string
	for n := 0; ; n++ {
		require.Less(t, n, 200, "it is never full")
		id := fmt.Sprint("m", n)
		_, err := i.Publish(t.Context(), &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL(0), Body: body, Delay: hour})
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

// Memory becomes full while two instances work. Only accepting stops: what is
// in flight is settled, what is due is attempted, and what a killed instance
// held is taken over. When there is room again, publishing goes on.
func TestWithoutMemoryOnlyAcceptingStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, n int) {
		switch {
		case id == "flying":
			h.wait(r)
		case strings.HasPrefix(id, "held") && n == 1:
			newBarrier().wait(r) // until its caller is gone
		}
	})
	stays, dies := w.serve("GUARD_INTERVAL=1s"), w.serve()
	stays.send("flying")
	w.receiver.wait("flying", 1)
	const each = 3
	for n := range each {
		id := fmt.Sprint("held", n)
		dies.publish(wire.Message{ID: id, URL: w.receiver.URL(n + 1)})
		w.receiver.wait(id, 1)
		stays.publish(wire.Message{ID: fmt.Sprint("soon", n), URL: w.receiver.URL(0), Delay: hour})
	}
	stays.troubled = true // it is told once that the store is full
	w.limit("1")
	w.makeDue(0)

	_, err := stays.Publish(t.Context(), &wire.Message{ID: "more", Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")})
	p := problemOf(t, err)
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.Equal(t, "/problems/full", p.Type)
	require.Positive(t, p.RetryAfter)
	close(h.release)
	stays.until("flying", "delivered")
	dies.Kill()
	for n := range each {
		stays.until(fmt.Sprint("soon", n), "delivered")
		stays.until(fmt.Sprint("held", n), "delivered")
		require.Len(t, w.receiver.arrivals(fmt.Sprint("held", n)), 2)
	}
	stays.says(`"msg":"takeover"`)
	_, err = stays.Publish(t.Context(), &wire.Message{ID: "more", Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")})
	require.Equal(t, http.StatusServiceUnavailable, problemOf(t, err).Status, "it is full all the time")

	w.limit("0")
	stays.publish(wire.Message{ID: "more", Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")})
	stays.until("more", "delivered")
	require.Len(t, w.receiver.arrivals("more"), 1)
}

// limit sets how much memory Redis may use.
func (w *world) limit(bytes string) {
	w.t.Helper()
	require.NoError(w.t, w.rdb.ConfigSet(w.t.Context(), "maxmemory", bytes).Err())
}

func TestAServeThatIsThereBeforeItsRedisWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redis.Stop()
	i, began := w.begin(), time.Now()
	i.troubled = true
	i.says(`"msg":"waiting for the store"`)
	i.says(`REDIS_URL: open redis`)
	w.redis.Restart()
	i.says(`"msg":"started"`)
	require.Equal(t, exitOK, i.stop())
	most := 2 + int(time.Since(began)/time.Second)
	require.LessOrEqual(t, strings.Count(i.log(), `"msg":"waiting for the store"`), most, "every few seconds")

	w.serve().publish(wire.Message{ID: "m1", URL: w.receiver.URL(0)})
}

func TestWhatNoWaitMendsIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.rdb.ConfigSet(t.Context(), "requirepass", "geheim").Err())
	for name, url := range map[string]string{
		"without its password":    w.redis.URL(),
		"with another password":   strings.Replace(w.redis.URL(), "://", "://:falsch@", 1),
		"no Redis but a receiver": strings.Replace(w.receiver.URL(0), "http", "redis", 1),
	} {
		got := mustRun(t, []string{"REDIS_URL=" + url, "LISTEN=127.0.0.1:0"}, "", "serve")
		require.NotEqual(t, exitOK, got.code, name)
		require.Contains(t, got.err, "open redis", name)
		require.NotContains(t, got.err, "waiting for the store", "%s: it does not wait", name)
		require.NotContains(t, got.err, "falsch")
	}
}

func TestServeGivesUpOnARedisThatDoesNotRespond(t *testing.T) {
	t.Parallel()
	got := mustRun(t, []string{"REDIS_URL=redis://127.0.0.1:1", "LISTEN=127.0.0.1:0"}, "", "serve")
	require.Equal(t, exitUnreachable, got.code, got.err)
	for _, want := range []string{"REDIS_URL: ", "127.0.0.1:1", "connection refused (waited 30s for it)"} {
		require.Contains(t, got.err, want)
	}
	require.Empty(t, got.out)
}
