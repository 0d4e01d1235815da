package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestCancelledBeforeItsTimeItNeverArrives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL(0), Delay: hour})
	require.Equal(t, int64(1), w.waiting())
	ds, err := i.Cancel(t.Context(), "m1", "")
	require.NoError(t, err)
	require.Equal(t, "cancelled", ds[0].Status)
	require.Zero(t, w.waiting(), "its time never comes")
	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0)})
	w.receiver.wait("later", 1)
	require.Empty(t, w.receiver.arrivals("m1"))
}

func TestCancelledWhileReadyItNeverArrives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, _ string, _ int) { h.wait(r) })
	i := w.serve("MAX_IN_FLIGHT=1")
	i.publish(wire.Message{ID: "before", URL: w.receiver.URL(0)})
	w.receiver.wait("before", 1)
	for _, id := range []string{"m1", "m2"} {
		i.publish(wire.Message{ID: id, URL: w.receiver.URL(0)})
		require.Equal(t, "ready", i.delivery(id).Status)
	}
	_, err := i.Cancel(t.Context(), "m1", "")
	require.NoError(t, err)
	require.Equal(t, "cancelled", i.delivery("m1").Status)
	close(h.release)
	i.until("m2", "delivered")
	require.Empty(t, w.receiver.arrivals("m1"))
	require.Equal(t, "cancelled", i.delivery("m1").Status)
}

func TestCancelledInFlightASuccessWinsAndAFailureEndsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, _ int) {
		h.wait(r)
		if id == "fails" {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve("LADDER=10ms,10ms,10ms")
	for _, id := range []string{"succeeds", "fails"} {
		i.publish(wire.Message{ID: id, URL: w.receiver.URL(0)})
		w.receiver.wait(id, 1)
		require.Equal(t, "in_flight", i.delivery(id).Status)
		ds, err := i.Cancel(t.Context(), id, "")
		require.NoError(t, err)
		require.Equal(t, "cancelled", ds[0].Status)
	}
	close(h.release)
	i.until("succeeds", "delivered")
	eventually(t, "it stands as it should", func() bool { return i.delivery("fails").Attempts == 1 })
	require.Equal(t, "cancelled", i.delivery("fails").Status)
	require.Len(t, w.receiver.arrivals("fails"), 1)
}

func TestCancelledBetweenRungsItIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusInternalServerError))
	i := w.serve("LADDER=1h,1h")
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL(0)})
	i.until("m1", "retrying")
	require.Equal(t, int64(1), w.waiting())
	_, err := i.Cancel(t.Context(), "m1", "")
	require.NoError(t, err)
	require.Zero(t, w.waiting(), "its rung never comes")
	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0)})
	w.receiver.wait("later", 1)
	d := i.delivery("m1")
	require.Equal(t, "cancelled", d.Status)
	require.Len(t, d.History, 1)
	require.Len(t, w.receiver.arrivals("m1"), 1)
}

func TestRetryOfWhatIsReadyOrInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, _ string, _ int) { h.wait(r) })
	i := w.serve("MAX_IN_FLIGHT=1")
	i.publish(wire.Message{ID: "flying", URL: w.receiver.URL(0)})
	w.receiver.wait("flying", 1)
	i.publish(wire.Message{ID: "ready", URL: w.receiver.URL(0)})
	_, err := i.Retry(t.Context(), "flying", "")
	require.Equal(t, http.StatusConflict, problemOf(t, err).Status)
	_, err = i.Retry(t.Context(), "ready", "")
	require.Equal(t, "/problems/ready", problemOf(t, err).Type)
	close(h.release)
	i.until("ready", "delivered")
	i.until("flying", "delivered")
	require.Len(t, w.receiver.arrivals("ready"), 1)
	require.Len(t, w.receiver.arrivals("flying"), 1)
}

func TestRetryOfWhatEndedStartsANewLadder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, n int) {
		if id == "dead" && n <= 3 || id == "delivered" && n == 2 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve("LADDER=20ms")
	i.publish(wire.Message{ID: "dead", URL: w.receiver.URL(0)})
	i.publish(wire.Message{ID: "delivered", URL: w.receiver.URL(0)})
	i.publish(wire.Message{ID: "cancelled", URL: w.receiver.URL(0), Delay: hour})
	i.until("dead", "dead")
	i.until("delivered", "delivered")
	_, err := i.Cancel(t.Context(), "cancelled", "")
	require.NoError(t, err)
	for id, before := range map[string]int{"dead": 2, "delivered": 1, "cancelled": 0} {
		_, err := i.Resend(t.Context(), id)
		require.NoError(t, err)
		first := w.receiver.wait(id, before+1)
		require.Equal(t, "true", first.header.Get("hookladder-resend"), id)
		require.Positive(t, first.attempt)
	}
	// One more failure each for two of them, on the first rung of the new ladder.
	require.Equal(t, 4, w.receiver.wait("dead", 4).attempt)
	require.Equal(t, 3, w.receiver.wait("delivered", 3).attempt)
	require.Empty(t, w.receiver.wait("dead", 4).header.Get("hookladder-resend"))
	require.Equal(t, 4, i.until("dead", "delivered").Attempts)
	require.Equal(t, 3, i.until("delivered", "delivered").Attempts)
	require.Equal(t, 1, i.until("cancelled", "delivered").Attempts)
	_, err = i.Retry(t.Context(), "unknown", "")
	require.Equal(t, http.StatusNotFound, problemOf(t, err).Status)
}
