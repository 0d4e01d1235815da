package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Rows of a key go one after the other, so that none overtakes one that is refused.
func TestTheRowsOfAKeyKeepTheirOrder(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.engine.refuses["k2"] = 429
		for _, id := range []string{"k1", "k2", "k3", "l1", "l2", "free"} {
			m := map[string]any{"endpoint": "shop", "ordering_key": id[:1]}
			if id == "free" {
				delete(m, "ordering_key")
			}
			r.outbox.put(id, m)
		}
		r.outbox.put("elsewhere", map[string]any{"endpoint": "other", "ordering_key": "k"})
		r.outbox.put("fan", map[string]any{"tenant": "t", "ordering_key": "k"})
	}, time.Second, func(r *relayRig) {
		require.Equal(t, [][]string{{"k1", "l1", "free"}, {"k2", "l2"}, {"elsewhere"}}, r.engine.batches)
		require.Equal(t, []string{"k2", "k3", "fan"}, r.left(), "a fan-out may go to the same endpoint")
		r.outbox.put("k4", map[string]any{"endpoint": "shop", "ordering_key": "k"})
		r.pass(0)
		require.Equal(t, []string{"k2", "k3", "fan", "k4"}, r.left(), "in the next batch too")
		r.pass(3 * time.Second)
		require.Len(t, r.engine.batches, 3, "for 5 s nothing is tried")
		delete(r.engine.refuses, "k2")
		r.pass(3 * time.Second)
	})
	require.Empty(t, r.left())
	mine := slices.DeleteFunc(r.engine.taken, func(id string) bool { return id[0] != 'k' && id != "fan" })
	require.Equal(t, []string{"k1", "k2", "k3", "fan", "k4"}, mine)
}

func TestURLsOfOneOriginAreOnePlace(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.engine.refuses["1"] = 429
		for n, url := range []string{"https://a.example/1", "https://A.example:443/2", "https://b.example/", "https://a.example/"} {
			r.outbox.put(fmt.Sprint(n+1), map[string]any{"url": url, "ordering_key": "k", "tenant": []string{"t", "t", "t", "u"}[n]})
		}
		r.outbox.put("5", map[string]any{"queue": "q", "ordering_key": "k"})
	}, time.Second, none)
	require.Equal(t, []string{"3", "4", "5"}, r.engine.taken)
}

// The same id twice in one batch: the second is a repeat, and must be seen as one.
func TestAnIDStandsInACallOnce(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		for range 3 {
			r.outbox.put("same", map[string]any{})
		}
	}, time.Second, none)
	require.Equal(t, [][]string{{"same"}, {"same"}, {"same"}}, r.engine.batches)
	require.Equal(t, int64(2), r.relay.Relayed()["duplicate"])
}

// The longer a destination is full, the fewer rows ask again.
func TestARowWaitsByItsAge(t *testing.T) {
	tries := 0
	r := relaying(t, func(r *relayRig) {
		r.engine.refuses["full"] = 429
		r.engine.during = func([]string) { tries++ }
		r.outbox.put("full", map[string]any{})
	}, 100*time.Second, func(r *relayRig) { // 5 s each for 40 s, then an eighth of its age
		require.InDelta(t, 15, tries, 2)
		tries = 0
		r.pass(time.Hour)
		require.InDelta(t, 65, tries, 7)
	})
	require.Equal(t, []string{"full"}, r.left())
}
