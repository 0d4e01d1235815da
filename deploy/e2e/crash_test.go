package e2e_test

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
func TestWhatWasAcknowledgedOutlivesAnyNumberOfCrashes(t *testing.T) {
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
		_, err := i.Publish(t.Context(), &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL(0), Body: []byte("1"), Delay: wire.Duration(delay)})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, id)
		}
	}
	const crashes, burst = 3, 40
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
		dies.Kill()
		wg.Wait()
	}
	require.Greater(t, len(acknowledged), crashes*burst)
	for _, id := range acknowledged {
		stays.until(id, "delivered")
		require.NotEmpty(t, w.receiver.arrivals(id))
	}
	w.alive(1)
	// What was stored without an answer ends too.
	eventually(t, "what was stored without an answer ends", func() bool {
		keys := w.keys()
		return !slices.Contains(keys, "due") && !slices.Contains(keys, "marks")
	})
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

// The same with endpoints: one instance is killed again and again while both
// fan out. Everything arrives everywhere, and what is ordered stays so.
func TestEndpointsOutliveCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "appendfsync always")
	seed := rand.Uint64()
	t.Log("seed", seed)
	w.receiver.answers(failing(seed))
	const settings, parts = "LADDER=20ms,50ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms", "PARTITIONS=4"
	stays := w.serve(settings, parts)
	endpoints := map[string]wire.Endpoint{
		"/ordered": {Ordered: true}, "/keys": {}, "/small": {MaxInFlight: 2}, "/rated": {Rate: "500/s"},
	}
	for path, e := range endpoints {
		e.Tenant = "acme"
		stays.endpoint(path, e)
	}
	var mu sync.Mutex // guards acknowledged
	var acknowledged []string
	const crashes, burst = 3, 25
	for crash := range crashes {
		dies := w.serve(settings, parts)
		var wg sync.WaitGroup
		for n, i := range []*instance{stays, dies} {
			wg.Go(func() {
				for m := range burst { // in order: the next is published when this one was answered
					id := fmt.Sprintf("m%d-%03d", n, crash*burst+m)
					p, err := i.Publish(t.Context(), &wire.Message{ID: id, Topic: "t", Tenant: "acme", OrderingKey: fmt.Sprint("by", n), Body: []byte("1")})
					if err != nil {
						return
					}
					mu.Lock()
					acknowledged = append(acknowledged, id)
					mu.Unlock()
					if p.Matched != len(endpoints) {
						t.Errorf("%s went to %d endpoints", id, p.Matched)
					}
				}
			})
		}
		w.receiver.until("something of this burst", func() bool {
			return len(w.receiver.arrivals(fmt.Sprintf("m1-%03d", crash*burst+burst/3))) > 0
		})
		dies.Kill()
		wg.Wait()
	}
	require.Greater(t, len(acknowledged), crashes*burst)
	for _, id := range acknowledged {
		eventually(t, id, func() bool {
			for _, d := range stays.deliveries(id) {
				if d.Status != "delivered" {
					return false
				}
			}
			return true
		})
	}
	for path := range endpoints {
		came := w.receiver.at(path)
		for _, id := range acknowledged {
			require.Contains(t, came, id, path)
		}
		if path != "/ordered" && path != "/keys" {
			continue
		}
		for n := range 2 { // a crash may repeat one, but none comes back once a later one came
			mine := slices.DeleteFunc(slices.Clone(came), func(id string) bool { return id[:2] != fmt.Sprint("m", n) })
			require.True(t, slices.IsSorted(mine), "%s: %v", path, mine)
		}
	}
}

// What waits in every way, and what a killed instance held, goes on after a
// repartition as if there had been none.
func TestRepartitionMovesEverythingWhileNothingRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, n int) {
		switch {
		case id == "flying" && n == 1:
			h.wait(r)
		case n == 1 && id[:4] == "slow":
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	to := func(n int) string {
		return w.receiver.URL(n%20 + 1)
	}
	environ := append([]string{"SIGNING_SECRET=" + w.secret.Reveal()}, w.settings...)
	first := w.serve("PARTITIONS=2", "LADDER=1h")
	ids := []string{"flying"}
	for n := range 40 {
		early, slow, later := fmt.Sprint("early", n), fmt.Sprint("slow", n), fmt.Sprint("later", n)
		first.publish(wire.Message{ID: early, URL: to(n)})
		first.publish(wire.Message{ID: slow, URL: to(n)})
		first.publish(wire.Message{ID: later, URL: to(n), Delay: hour})
		ids = append(ids, early, slow, later)
	}
	for n := range 40 { // what is recorded is not attempted again
		first.until(fmt.Sprint("early", n), "delivered")
		first.until(fmt.Sprint("slow", n), "retrying")
	}
	first.publish(wire.Message{ID: "flying", URL: to(7)})
	w.receiver.wait("flying", 1)

	alive := mustRun(t, environ, "", "repartition", "--to", "8")
	require.Equal(t, exitFailed, alive.code)
	require.Contains(t, alive.err, "an instance is alive")
	first.Kill()
	close(h.release)
	dry := mustRun(t, environ, "", "repartition", "--to", "8", "--dry-run")
	require.Equal(t, exitOK, dry.code, dry.err)
	require.Contains(t, dry.out, "would move project default from 2 to 8 partitions")
	done := mustRun(t, append(environ, "PARTITIONS=2"), "", "repartition", "--to", "8")
	require.Equal(t, exitOK, done.code, done.err)
	require.Contains(t, done.out, "moved project default from 2 to 8 partitions")
	require.Contains(t, done.out, "now set PARTITIONS=8")

	for n := range 8 {
		w.makeDue(n) // an instance that starts looks at all of them
	}
	second := w.serve("PARTITIONS=8", "LADDER=1h")
	for _, id := range ids {
		second.until(id, "delivered")
	}
	require.Len(t, w.receiver.arrivals("flying"), 2, "its first attempt was cut with its instance")
	for n := range 40 {
		require.Len(t, w.receiver.arrivals(fmt.Sprint("early", n)), 1)
		require.Len(t, w.receiver.arrivals(fmt.Sprint("slow", n)), 2)
		require.Len(t, w.receiver.arrivals(fmt.Sprint("later", n)), 1)
		require.True(t, second.publish(wire.Message{ID: fmt.Sprint("early", n), URL: to(n)}).Duplicate)
	}
}
