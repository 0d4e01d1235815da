package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
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
	i.send("later")
	w.receiver.wait("later", 1)
	require.Empty(t, w.receiver.arrivals("m1"))
}

func TestCancelledWhileReadyItNeverArrives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(h.answer(""))
	i := w.serve("MAX_IN_FLIGHT=1")
	i.send("before")
	w.receiver.wait("before", 1)
	for _, id := range []string{"m1", "m2"} {
		i.send(id)
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
	h := newBarrier()
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, _ int) {
		h.wait(r)
		if id == "fails" {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve("LADDER=10ms,10ms,10ms")
	for _, id := range []string{"succeeds", "fails"} {
		i.send(id)
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
	i.send("m1")
	i.until("m1", "retrying")
	require.Equal(t, int64(1), w.waiting())
	_, err := i.Cancel(t.Context(), "m1", "")
	require.NoError(t, err)
	require.Zero(t, w.waiting(), "its rung never comes")
	i.send("later")
	w.receiver.wait("later", 1)
	d := i.delivery("m1")
	require.Equal(t, "cancelled", d.Status)
	require.Len(t, d.History, 1)
	require.Len(t, w.receiver.arrivals("m1"), 1)
}

func TestRetryOfWhatIsReadyOrInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(h.answer(""))
	i := w.serve("MAX_IN_FLIGHT=1")
	i.send("flying")
	w.receiver.wait("flying", 1)
	i.send("ready")
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
	i.send("dead")
	i.send("delivered")
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

// waitsAfter waits until the delivery of a message waits after so many attempts.
func (i *instance) waitsAfter(id string, attempts int) (d wire.Delivery) {
	i.t.Helper()
	eventually(i.t, "it waits", func() bool {
		d = i.delivery(id)
		return d.Attempts == attempts && !d.NextAttemptAt.IsZero()
	})
	return d
}

func TestWhatAPersonAsksForStandsBesideTheLadder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(status(http.StatusInternalServerError))
	i := w.serve("LADDER=1h,20ms,20ms", "GUARD_INTERVAL=1s")
	own, err := ladder.New(time.Hour)
	require.NoError(t, err)

	i.send("climbs")
	due := i.waitsAfter("climbs", 1).NextAttemptAt
	_, err = i.Retry(t.Context(), "climbs", "")
	require.NoError(t, err)
	require.Equal(t, "true", w.receiver.wait("climbs", 2).header.Get("hookladder-resend"))
	d := i.waitsAfter("climbs", 2)
	require.Equal(t, due, d.NextAttemptAt)
	require.Equal(t, due, d.History[1].NextAttemptAt)
	require.Equal(t, 1, d.Rung)
	require.Equal(t, 1, d.LadderFrom)
	require.Equal(t, "1h,20ms,20ms", d.Ladder.String())

	i.publish(wire.Message{ID: "last", URL: w.receiver.URL(0), Ladder: &own})
	due = i.waitsAfter("last", 1).NextAttemptAt
	for n := 2; n <= 4; n++ {
		_, err := i.Retry(t.Context(), "last", "")
		require.NoError(t, err)
		d := i.waitsAfter("last", n)
		require.Equal(t, "retrying", d.Status, "on its last rung it is not buried")
		require.Equal(t, due, d.NextAttemptAt)
		require.Equal(t, 1, d.Rung)
		require.Equal(t, own.String(), d.Ladder.String())
	}

	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0), Delay: hour})
	due = i.delivery("later").NextAttemptAt
	_, err = i.Retry(t.Context(), "later", "")
	require.NoError(t, err)
	d = i.waitsAfter("later", 1)
	require.Equal(t, "scheduled", d.Status)
	require.Equal(t, due, d.NextAttemptAt)
	require.Zero(t, d.Rung)

	w.makeDue(0, i.delivery("climbs").ID)
	d = i.until("climbs", "dead")
	require.Equal(t, "exhausted", d.DeadReason)
	require.Equal(t, 5, d.Attempts, "all four of its ladder, and the one beside it")
	require.Equal(t, 3, d.Rung)
	for n := 3; n <= 5; n++ {
		require.Empty(t, w.receiver.wait("climbs", n).header.Get("hookladder-resend"))
	}
	_, err = i.Retry(t.Context(), "climbs", "")
	require.NoError(t, err)
	d = i.waitsAfter("climbs", 6)
	require.Equal(t, 6, d.LadderFrom, "it began anew")
	require.Equal(t, 1, d.Rung)
}

// left are the reasons for which a retry left deliveries, by destination; empty
// for those that are attempted.
func left(list []wire.RetriedDelivery) map[string]string {
	why := map[string]string{}
	for _, d := range list {
		why[d.Destination] = d.Why
	}
	return why
}

func TestRetryOfAFanOutTellsWhichItLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		switch req.URL.Path {
		case "/hangs":
			h.wait(req)
		case "/fails":
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve()
	all := []string{"*"}
	has, hangs, fails := i.endpoint("/has", wire.Endpoint{Topics: all}), i.endpoint("/hangs", wire.Endpoint{Topics: all}), i.endpoint("/fails", wire.Endpoint{Topics: all})
	i.publish(wire.Message{ID: "fan", MaxAttempts: 1})
	stand := func() bool {
		ds := i.deliveries("fan")
		return ds[has.ID].Status == "delivered" && ds[hangs.ID].Status == "in_flight" && ds[fails.ID].Status == "dead"
	}
	eventually(t, "each stands as it should", stand)

	list, err := i.Retry(t.Context(), "fan", "")
	require.NoError(t, err)
	require.Equal(t, map[string]string{has.ID: "delivered", hangs.ID: "in_flight", fails.ID: ""}, left(list))
	w.receiver.until("the failing one again", func() bool { return len(w.receiver.at("/fails")) == 2 })
	require.Len(t, w.receiver.at("/has"), 1, "it has it")
	eventually(t, "each stands as it should", stand)

	env := []string{"HOOKLADDER_URL=" + i.URL}
	got := mustRun(t, env, "", "retry", "fan")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?m)^  left +it was delivered; --all or --destination sends it again$`, got.out)
	require.Regexp(t, `(?m)^  left +an attempt is under way$`, got.out)
	require.Regexp(t, `(?m)^  retry +now$`, got.out)
	w.receiver.until("the failing one a third time", func() bool { return len(w.receiver.at("/fails")) == 3 })

	got = mustRun(t, env, "", "retry", "fan", "--destination", hangs.ID)
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `(?m)^  left +an attempt is under way$`, got.out)
	require.Equal(t, 1, strings.Count(got.out, "fan\n"))

	before := i.deliveries("fan")[has.ID]
	_, err = i.Retry(t.Context(), "fan", has.ID)
	require.NoError(t, err, "it is named")
	w.receiver.until("the one that has it again", func() bool { return len(w.receiver.at("/has")) == 2 })
	eventually(t, "each stands as it should", stand)
	got = mustRun(t, env, "", "retry", "fan", "--all", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, `"why": "in_flight"`)
	w.receiver.until("the one that has it a third time", func() bool { return len(w.receiver.at("/has")) == 3 })
	eventually(t, "each stands as it should", stand)
	after := i.deliveries("fan")[has.ID]
	require.Equal(t, before.DeliveredAt, after.DeliveredAt)
	require.Equal(t, "delivered", after.History[0].Outcome)
	require.Equal(t, 1, after.History[0].Attempt)
	close(h.release)
}

func TestWhatWasDeliveredStaysDeliveredWhateverItsResendBrings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, n int) {
		if n > 1 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve()
	i.publish(wire.Message{ID: "m", URL: w.receiver.URL(0), MaxAttempts: 1})
	before := i.until("m", "delivered")
	_, err := i.Retry(t.Context(), "m", "")
	p := problemOf(t, err)
	require.Equal(t, http.StatusConflict, p.Status)
	require.Equal(t, "/problems/delivered", p.Type)
	require.Equal(t, "delivered", p.Deliveries[0].Why)
	require.Len(t, w.receiver.arrivals("m"), 1)

	_, err = i.Resend(t.Context(), "m")
	require.NoError(t, err)
	d := i.until("m", "dead")
	require.Equal(t, before.DeliveredAt, d.DeliveredAt)
	require.Len(t, d.History, 2)
	require.Equal(t, "delivered", d.History[0].Outcome)
	require.Equal(t, http.StatusOK, d.History[0].StatusCode)
}

func TestWhatHasExpiredIsNotRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	_, err := i.PauseLane(t.Context(), w.receiver.URL(0), "")
	require.NoError(t, err)
	i.expiring(wire.Message{ID: "late", URL: w.receiver.URL(0)}, 500*time.Millisecond)
	eventually(t, "it has expired", func() bool {
		_, err := i.Retry(t.Context(), "late", "")
		return problemOf(t, err).Type == "/problems/expired" // and ready until then
	})
	_, err = i.ResumeLane(t.Context(), w.receiver.URL(0), "")
	require.NoError(t, err)
	require.Equal(t, "expired", i.until("late", "dead").DeadReason)
	_, err = i.Retry(t.Context(), "late", w.receiver.URL(0))
	p := problemOf(t, err)
	require.Equal(t, http.StatusConflict, p.Status)
	require.Contains(t, p.Detail, "publish it anew under another id")
	require.Equal(t, "expired", p.Deliveries[0].Why)
	got := mustRun(t, []string{"HOOKLADDER_URL=" + i.URL}, "", "retry", "late")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "it has expired; publish it anew under another id")
	require.Empty(t, w.receiver.arrivals("late"))
}

func TestOnlyTheDestinationAskedForIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL(0), Delay: hour})
	for _, change := range []func() error{
		func() error { _, err := i.Retry(t.Context(), "m1", "http://127.0.0.9:1/"); return err },
		func() error { _, err := i.Cancel(t.Context(), "m1", "http://127.0.0.9:1/"); return err },
	} {
		p := problemOf(t, change())
		require.Equal(t, http.StatusNotFound, p.Status)
		require.Contains(t, p.Detail, "it does not go to this destination")
		require.NotContains(t, p.Detail, "never published")
	}
	require.Equal(t, "scheduled", i.delivery("m1").Status)
	ds, err := i.Cancel(t.Context(), "m1", w.receiver.URL(0)+"/another/path")
	require.NoError(t, err)
	require.Equal(t, "cancelled", ds[0].Status)
	retried, err := i.Retry(t.Context(), "m1", ds[0].Destination)
	require.NoError(t, err)
	require.Len(t, retried, 1)
	require.True(t, retried[0].Retried)
	require.Equal(t, 1, i.until("m1", "delivered").Attempts)
}
