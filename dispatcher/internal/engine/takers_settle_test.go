package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

// taken takes messages, and answers their leases.
func taken(t *testing.T, q *fakeQueue, messages ...string) (leases map[string]string) {
	t.Helper()
	q.put(lane, messages...)
	leases = map[string]string{}
	for _, g := range func() []d.Given { c := q.call(t, d.TakerAsk{Most: 100}); <-c.over; return c.given }() {
		leases[g.ID.Message] = g.Lease
	}
	require.Len(t, leases, len(messages))
	return leases
}

func outcome(message, lease string, v d.Verdict) d.TakerOutcome {
	return d.TakerOutcome{ID: idOf(message), Lease: lease, Handled: d.Handled{Verdict: v}}
}

func TestWhatACallerSaysIsRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		leases := taken(t, q, "a", "b", "c", "d", "e")
		results, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{
			outcome("a", leases["a"], d.Delivered), outcome("b", leases["b"], d.Retry), outcome("c", leases["c"], d.Dead),
			{ID: idOf("d"), Lease: leases["d"], Extend: time.Minute}, outcome("e", "", d.Delivered),
		})
		require.NoError(t, err)
		require.Equal(t, []d.TakerSettled{
			{ID: idOf("a"), Result: d.TakerOK, Status: d.StatusDelivered},
			{ID: idOf("b"), Result: d.TakerOK, Status: d.StatusRetrying},
			{ID: idOf("c"), Result: d.TakerOK, Status: d.StatusDead},
			{ID: idOf("d"), Result: d.TakerOK, Status: d.StatusInFlight, Until: time.Now().Add(time.Minute)},
			{ID: idOf("e"), Result: d.TakerOK, Status: d.StatusDelivered},
		}, results)
		require.Equal(t, []string{"delivered a", "retry b", "dead c", "delivered e"}, q.finished)
		require.Len(t, q.taken, 1)
	})
}

func TestALeaseThatIsNotOursIsUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		leases := taken(t, q, "a", "b")
		forged := "4" + leases["a"][1:]
		for name, o := range map[string]d.TakerOutcome{
			"another's delivery":    outcome("a", leases["b"], d.Delivered),
			"a forged attempt":      outcome("a", forged, d.Delivered),
			"no lease at all":       outcome("a", "lease", d.Delivered),
			"a number alone":        outcome("a", "3", d.Delivered),
			"a lane of another one": {ID: d.DeliveryID{Lane: "q_other", Message: "a"}, Handled: d.Handled{Verdict: d.Delivered}},
		} {
			results, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{o})
			require.NoError(t, err)
			require.Equal(t, d.TakerUnknown, results[0].Result, name)
		}
		for _, lease := range []string{leases["a"], ""} {
			results, err := q.t.SettleTaken(context.Background(), lane, "you", []d.TakerOutcome{outcome("a", lease, d.Delivered), {ID: idOf("a"), Lease: lease, Extend: time.Second}})
			require.NoError(t, err)
			require.Equal(t, d.TakerUnknown, results[0].Result)
			require.Equal(t, d.TakerUnknown, results[1].Result)
		}
		require.Empty(t, q.finished)
	})
}

func TestWithoutALeaseOnlyWhatWasTakenIsKnown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		q.set(func() {
			q.statuses["waiting"], q.statuses["retrying"], q.statuses["done"] = d.StatusReady, d.StatusRetrying, d.StatusDelivered
		})
		results, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{
			outcome("nope", "", d.Delivered), outcome("waiting", "", d.Delivered), outcome("retrying", "", d.Delivered),
			outcome("done", "", d.Delivered),
		})
		require.NoError(t, err)
		require.Equal(t, []d.TakerSettled{
			{ID: idOf("nope"), Result: d.TakerUnknown}, {ID: idOf("waiting"), Result: d.TakerUnknown},
			{ID: idOf("retrying"), Result: d.TakerUnknown},
			{ID: idOf("done"), Result: d.TakerLate, Status: d.StatusDelivered}, // its last lease is not known any more
		}, results)
	})
}

func TestOnlyASuccessCountsAfterTheLeaseEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		leases := taken(t, q, "a", "b", "c", "d", "e")
		q.set(func() {
			q.ended, q.taken = q.taken, map[d.DeliveryID]d.TakenLease{}
			for m := range leases {
				q.statuses[m] = d.StatusRetrying
			}
			q.statuses["d"] = d.StatusCancelled
			q.results["a"], q.results["d"] = d.Settled{Result: d.SettledDone}, d.Settled{Result: d.SettledLate}
			q.results["e"] = d.Settled{Result: d.SettledDone}
		})
		results, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{
			outcome("a", leases["a"], d.Delivered), outcome("b", leases["b"], d.Retry), {ID: idOf("c"), Lease: leases["c"], Extend: time.Minute},
			outcome("d", leases["d"], d.Delivered), outcome("e", "", d.Delivered),
		})
		require.NoError(t, err)
		require.Equal(t, []d.TakerSettled{
			{ID: idOf("a"), Result: d.TakerLate, Status: d.StatusDelivered},
			{ID: idOf("b"), Result: d.TakerLate, Status: d.StatusRetrying},
			{ID: idOf("c"), Result: d.TakerLate, Status: d.StatusRetrying},
			{ID: idOf("d"), Result: d.TakerLate, Status: d.StatusCancelled},
			{ID: idOf("e"), Result: d.TakerLate, Status: d.StatusDelivered},
		}, results)
		require.Equal(t, []string{"late a 3", "late d 3", "late e 3"}, q.finished)
	})
}

func TestADeliveryThatWasCancelledMeanwhileIsToldAsItIs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		leases := taken(t, q, "a", "b", "c")
		q.set(func() {
			q.results["a"], q.statuses["a"] = d.Settled{Result: d.SettledEnd}, d.StatusCancelled
			q.results["b"], q.results["c"] = d.Settled{Result: d.SettledBefore}, d.Settled{Result: d.SettledEnd}
		})
		results, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{
			outcome("a", leases["a"], d.Retry), outcome("b", leases["b"], d.Dead), outcome("c", leases["c"], d.Retry),
		})
		require.NoError(t, err)
		require.Equal(t, []d.TakerSettled{
			{ID: idOf("a"), Result: d.TakerOK, Status: d.StatusCancelled},
			{ID: idOf("b"), Result: d.TakerOK, Status: d.StatusDead},
			{ID: idOf("c"), Result: d.TakerOK}, // it is no longer kept
		}, results)
	})
}

func TestASecondResultOfADeliveryMeetsTheFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		leases := taken(t, q, "a")
		q.set(func() { q.statuses["a"] = d.StatusDelivered })
		results, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{
			{ID: idOf("a"), Lease: leases["a"], Extend: time.Minute}, outcome("a", leases["a"], d.Delivered), outcome("a", leases["a"], d.Retry),
		})
		require.NoError(t, err)
		require.Equal(t, d.TakerOK, results[0].Result)
		require.Equal(t, d.TakerOK, results[1].Result)
		require.Equal(t, d.TakerSettled{ID: idOf("a"), Result: d.TakerLate, Status: d.StatusDelivered}, results[2])
	})
}

func TestWhatIsNotRecordedIsAnError(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		leases := taken(t, q, "a", "b", "c")
		one := func(m string) error {
			_, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{outcome(m, leases[m], d.Delivered)})
			return err
		}
		q.set(func() { q.err = d.ErrUnavailable })
		require.ErrorIs(t, one("a"), d.ErrUnavailable)
		_, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{{ID: idOf("a"), Lease: leases["a"], Extend: time.Minute}})
		require.ErrorIs(t, err, d.ErrUnavailable)
		q.set(func() { q.err, q.results["b"] = nil, d.Settled{Err: d.ErrUnavailable} })
		require.ErrorIs(t, one("b"), d.ErrUnavailable)
		q.set(func() { q.silent = true })
		begin := time.Now()
		require.ErrorIs(t, one("c"), d.ErrUnavailable, "it may be recorded later")
		require.Less(t, time.Since(begin), time.Minute)
	})
}

func TestNothingIsUnknownOfALaneWhoseDataWereLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		leases := taken(t, q, "a", "b")
		q.set(func() {
			delete(q.taken, idOf("b"))
			q.lost = errLost
		})
		results, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{outcome("a", leases["a"], d.Delivered)})
		require.NoError(t, err)
		require.Equal(t, d.TakerOK, results[0].Result)
		for _, o := range []d.TakerOutcome{outcome("b", leases["b"], d.Retry), outcome("b", "", d.Delivered), outcome("b", "no lease", d.Delivered)} {
			_, err := q.t.SettleTaken(context.Background(), lane, "me", []d.TakerOutcome{o})
			require.ErrorIs(t, err, errLost)
		}
	})
}
