package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// waitsAfter waits until the delivery of a message waits after so many attempts.
func (i *instance) waitsAfter(id string, attempts int) (d wire.Delivery) {
	i.t.Helper()
	require.Eventually(i.t, func() bool {
		d = i.delivery(id)
		return d.Attempts == attempts && !d.NextAttemptAt.IsZero()
	}, e2eWait, 10*time.Millisecond)
	return d
}

func TestE2EWhatAPersonAsksForStandsBesideTheLadder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusInternalServerError))
	i := w.serve("LADDER=1h,20ms,20ms", "GUARD_INTERVAL=1s")
	own, err := ladder.New(time.Hour)
	require.NoError(t, err)

	i.publish(wire.Message{ID: "climbs", URL: w.receiver.URL})
	due := i.waitsAfter("climbs", 1).NextAttemptAt
	_, err = i.Retry(t.Context(), "climbs", "")
	require.NoError(t, err)
	require.Equal(t, "true", w.receiver.wait("climbs", 2).header.Get("hookladder-resend"))
	d := i.waitsAfter("climbs", 2)
	require.Equal(t, due, d.NextAttemptAt)
	require.Equal(t, due, d.History[1].NextAttemptAt)

	i.publish(wire.Message{ID: "last", URL: w.receiver.URL, Ladder: &own})
	due = i.waitsAfter("last", 1).NextAttemptAt
	for n := 2; n <= 4; n++ {
		_, err := i.Retry(t.Context(), "last", "")
		require.NoError(t, err)
		d := i.waitsAfter("last", n)
		require.Equal(t, "retrying", d.Status, "on its last rung it is not buried")
		require.Equal(t, due, d.NextAttemptAt)
	}

	i.publish(wire.Message{ID: "later", URL: w.receiver.URL, Delay: hour})
	due = i.delivery("later").NextAttemptAt
	_, err = i.Retry(t.Context(), "later", "")
	require.NoError(t, err)
	d = i.waitsAfter("later", 1)
	require.Equal(t, "scheduled", d.Status)
	require.Equal(t, due, d.NextAttemptAt)

	w.makeDue(0, i.delivery("climbs").ID)
	d = i.until("climbs", "dead")
	require.Equal(t, "exhausted", d.DeadReason)
	require.Equal(t, 5, d.Attempts, "all four of its ladder, and the one beside it")
	for n := 3; n <= 5; n++ {
		require.Empty(t, w.receiver.wait("climbs", n).header.Get("hookladder-resend"))
	}
}
