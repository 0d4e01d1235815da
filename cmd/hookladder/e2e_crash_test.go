package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// One instance stays, another is killed again and again, while both accept and
// deliver to a receiver that fails now and then: whatever was answered with
// 202 arrives.
func TestE2EWhatWasAcknowledgedOutlivesAnyNumberOfCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "appendfsync always")
	seed := rand.Uint64()
	t.Log("seed", seed)
	w.receiver.answers(failing(seed))
	const settings = "LADDER=20ms,50ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms"
	stays := w.serve(settings)

	var mu sync.Mutex // guards acknowledged
	var acknowledged []string
	publish := func(i *instance, id string, delay time.Duration) {
		_, err := i.Publish(t.Context(), &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL, Body: []byte("1"), Delay: wire.Duration(delay)})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, id)
		}
	}
	const crashes, burst = 4, 60
	for crash := range crashes {
		dies := w.serve(settings)
		var wg sync.WaitGroup
		for n, i := range []*instance{stays, dies} {
			wg.Go(func() {
				for m := range burst {
					publish(i, fmt.Sprintf("m-%d-%d-%d", crash, n, m), time.Duration(m%3)*20*time.Millisecond)
				}
			})
		}
		w.receiver.until("something of this burst", func() bool {
			return len(w.receiver.arrivals(fmt.Sprintf("m-%d-1-%d", crash, burst/3))) > 0
		})
		dies.kill()
		wg.Wait()
	}
	require.Greater(t, len(acknowledged), crashes*burst)
	for _, id := range acknowledged {
		stays.until(id, "delivered")
		require.NotEmpty(t, w.receiver.arrivals(id))
	}
	w.alive(1)
	// What was stored without an answer ends too.
	require.Eventually(t, func() bool {
		keys := w.keys()
		return !slices.Contains(keys, "due") && !slices.Contains(keys, "marks")
	}, e2eWait, 50*time.Millisecond)
}

// failing answers every fifth attempt with an error, by a chance that the seed
// decides.
func failing(seed uint64) func(http.ResponseWriter, *http.Request, string, int) {
	var mu sync.Mutex // guards random
	random := rand.New(rand.NewPCG(seed, 1))
	return func(w http.ResponseWriter, _ *http.Request, _ string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(5) == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}
