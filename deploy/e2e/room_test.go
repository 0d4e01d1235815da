package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Memory becomes full while two instances work. Only accepting stops: what is
// in flight is settled, what is due is attempted, and what a killed instance
// held is taken over. When there is room again, publishing goes on.
func TestWithoutMemoryOnlyAcceptingStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, n int) {
		switch {
		case id == "flying":
			h.wait(r)
		case strings.HasPrefix(id, "held") && n == 1:
			newHeld().wait(r) // until its caller is gone
		}
	})
	stays, dies := w.serve("GUARD_INTERVAL=1s"), w.serve()
	stays.publish(wire.Message{ID: "flying", URL: w.receiver.URL(0)})
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
