package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

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

// Whatever the end, nothing of a delivery outlives its time: no record, no
// history. That it ended stays counted.
func TestWhatIsOldIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, n int) {
		if id == "dies" || id == "climbs" && n < 3 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve("LADDER=10ms,10ms", "RETENTION=1s", "DEAD_RETENTION=1s", "GUARD_INTERVAL=1s")
	for _, id := range []string{"plain", "climbs", "dies", "cancelled"} {
		m := wire.Message{ID: id, URL: w.receiver.URL(0)}
		if id == "cancelled" {
			m.Delay = hour
		}
		i.publish(m)
	}
	_, err := i.Cancel(t.Context(), "cancelled", "")
	require.NoError(t, err)
	eventually(t, "all is forgotten", func() bool {
		return w.rdb.HLen(context.WithoutCancel(t.Context()), "{default:0}:messages").Val() == 0
	})
	require.Len(t, w.receiver.arrivals("climbs"), 3)
	require.Len(t, w.receiver.arrivals("dies"), 3)
	_, err = i.Message(t.Context(), "dies")
	require.Equal(t, http.StatusNotFound, problemOf(t, err).Status)
	require.Equal(t, []string{"attempts", "ends", "in", "known", "lane", "names"}, w.keys(), "how many ended stays counted, by reason")

	again := i.publish(wire.Message{ID: "plain", URL: w.receiver.URL(0)})
	require.False(t, again.Duplicate, "its id is forgotten too")
	w.receiver.wait("plain", 2)
}
