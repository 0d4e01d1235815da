package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestE2EAStopLetsAttemptsFinishAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, _ int) {
		if strings.HasPrefix(id, "flying") {
			h.wait(r)
		}
	})
	first := w.serve("MAX_IN_FLIGHT=4")
	for n := range 2 {
		first.publish(wire.Message{ID: fmt.Sprint("flying", n), URL: w.receiver.URL})
		w.receiver.wait(fmt.Sprint("flying", n), 1)
	}
	for n := range 20 {
		first.publish(wire.Message{ID: fmt.Sprint("waiting", n), URL: w.receiver.URL, Delay: hour})
	}
	code := make(chan int)
	go func() { code <- first.stop() }()
	first.says(`"msg":"stopping"`)
	close(h.release)
	require.Zero(t, <-code)
	first.says(`"msg":"stopped"`)
	require.Empty(t, w.rdb.HGetAll(t.Context(), "{default}:instances").Val(), "it signed off")

	second := w.serve()
	for n := range 20 {
		_, err := second.Retry(t.Context(), fmt.Sprint("waiting", n), "")
		require.NoError(t, err)
		second.until(fmt.Sprint("waiting", n), "delivered")
	}
	distinct, all := w.receiver.ids()
	require.Equal(t, 22, distinct)
	require.Equal(t, 22, all, "nothing came twice")
}

func TestE2EWhatOutlivesTheGraceGoesBackToTheHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHeld()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, _ string, n int) {
		if n == 1 {
			h.wait(r)
		}
	})
	first := w.serve("SHUTDOWN_GRACE=100ms")
	first.publish(wire.Message{ID: "m1", URL: w.receiver.URL})
	w.receiver.wait("m1", 1)
	require.Zero(t, first.stop())
	second := w.serve()
	require.Equal(t, "1", w.receiver.wait("m1", 2).attempt, "no rung was spent")
	require.Equal(t, 1, second.until("m1", "delivered").Attempts)
}

func TestE2EWhatAKilledInstanceHeldIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, _ string, n int) {
		if n == 1 {
			newHeld().wait(r) // until the instance is gone
		}
	})
	first := w.serve()
	const flying, ready = 2, 30
	for n := range flying + ready {
		first.publish(wire.Message{ID: fmt.Sprint("m", n), URL: w.receiver.URL})
	}
	w.receiver.until("what fits the window", func() bool { distinct, _ := w.receiver.ids(); return distinct >= flying })
	first.kill()
	w.receiver.answers(nil)
	second := w.serve()
	for n := range flying + ready {
		second.until(fmt.Sprint("m", n), "delivered")
	}
	for n := range flying + ready {
		came := len(w.receiver.arrivals(fmt.Sprint("m", n)))
		require.LessOrEqual(t, came, 2)
	}
	_, all := w.receiver.ids()
	require.LessOrEqual(t, all, flying+ready+flying, "only what was in flight came twice")
	second.says(`"msg":"takeover"`)
	w.alive(1)
}

func TestE2ETwoInstancesShareTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	instances := []*instance{w.serve(), w.serve()}
	const each = 150
	var wg sync.WaitGroup
	for _, i := range instances {
		for caller := range 3 {
			wg.Go(func() {
				for n := range each / 3 {
					mu.Lock()
					id := fmt.Sprintf("%s-%d-%d", i.url[len(i.url)-5:], caller, n)
					mu.Unlock()
					m := wire.Message{ID: strings.ReplaceAll(id, ":", "_"), Topic: "t", URL: w.receiver.URL, Body: []byte("1"), Delay: wire.Duration(n%2) * wire.Duration(50*time.Millisecond)}
					if _, err := i.Publish(t.Context(), &m); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		s, err := instances[0].Stats(t.Context())
		return err == nil && s.Counts["delivered"] == 2*each
	}, e2eWait, 50*time.Millisecond)
	distinct, all := w.receiver.ids()
	require.Equal(t, 2*each, distinct)
	require.Equal(t, 2*each, all)
	for _, i := range instances {
		require.Contains(t, i.log.String(), `"msg":"attempt finished"`, "both work")
	}
}

// One instance accepts, another delivers, and the guard looks long after the
// test: each hint has to arrive, whatever waits for a later time.
func TestE2EWhatOneInstanceAcceptsAnotherDeliversAtItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	accepts := w.serve("MAX_IN_FLIGHT=0", "GUARD_INTERVAL=1h")
	w.serve("GUARD_INTERVAL=1h")
	for n := range 3 {
		accepts.publish(wire.Message{ID: fmt.Sprint("later", n), URL: w.receiver.URL, Delay: hour / wire.Duration(n+1)})
		accepts.publish(wire.Message{ID: fmt.Sprint("now", n), URL: w.receiver.URL})
		w.receiver.wait(fmt.Sprint("now", n), 1)
		p := accepts.publish(wire.Message{ID: fmt.Sprint("soon", n), URL: w.receiver.URL, Delay: wire.Duration(100 * time.Millisecond)})
		came := w.receiver.wait(fmt.Sprint("soon", n), 1)
		require.False(t, came.at.Before(p.Deliveries[0].NextAttemptAt.Time))
	}
	_, all := w.receiver.ids()
	require.Equal(t, 6, all)
}

// With appendfsync everysec what was acknowledged in the last second may be
// lost with Redis; this is about what Hookladder does.
func TestE2ERedisMayBeKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "appendfsync always")
	i := w.serve()
	i.publish(wire.Message{ID: "before", URL: w.receiver.URL, Delay: hour})
	i.troubled = true
	w.redis.Kill()
	require.Eventually(t, func() bool {
		_, err := i.Publish(t.Context(), &wire.Message{ID: "between", Topic: "t", URL: w.receiver.URL, Body: []byte("1")})
		if err == nil {
			return false
		}
		p := problemOf(t, err)
		return p.Status == http.StatusServiceUnavailable && p.RetryAfter > 0
	}, e2eWait, 20*time.Millisecond)
	_, err := i.Ready(t.Context())
	require.Error(t, err)
	w.redis.Restart()
	require.Eventually(t, func() bool {
		_, err := i.Publish(t.Context(), &wire.Message{ID: "between", Topic: "t", URL: w.receiver.URL, Body: []byte("1")})
		return err == nil
	}, e2eWait, 20*time.Millisecond)
	i.until("between", "delivered")
	_, err = i.Retry(t.Context(), "before", "")
	require.NoError(t, err)
	i.until("before", "delivered")
	i.says(`"msg":"store lost"`)
	i.says(`"msg":"store back"`)
}

func TestE2EScriptsThatRedisForgotAreGivenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	require.NoError(t, w.rdb.ScriptFlush(t.Context()).Err())
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL, Delay: wire.Duration(50 * time.Millisecond)})
	require.NoError(t, w.rdb.ScriptFlush(t.Context()).Err())
	i.until("m1", "delivered")
	require.Len(t, w.receiver.arrivals("m1"), 1)
}

// 200 destinations that never answer, with a backlog each, and one that does:
// while the hung ones hang it gets everything.
func TestE2EHungDestinationsDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, _ int) {
		if strings.HasPrefix(id, "hung") {
			newHeld().wait(r)
		}
	})
	i := w.serve("ATTEMPT_TIMEOUT=60s", "LOG_LEVEL=info")
	_, port, _ := strings.Cut(strings.TrimPrefix(w.receiver.URL, "http://"), ":")
	const hung, backlog, healthy = 200, 10, 150 // together twice as many as there are permits
	for round := range backlog {
		var batch []wire.Message
		for n := range hung {
			batch = append(batch, wire.Message{ID: fmt.Sprint("hung", round, "-", n), Topic: "t", Body: []byte("1"),
				URL: fmt.Sprintf("http://127.0.1.%d:%s/", n+1, port)})
		}
		_, err := i.PublishBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	w.receiver.until("every hung destination", func() bool {
		distinct, _ := w.receiver.ids()
		return distinct >= hung
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := range healthy {
		<-tick.C
		i.publish(wire.Message{ID: fmt.Sprint("healthy", n), URL: w.receiver.URL})
	}
	for n := range healthy {
		w.receiver.wait(fmt.Sprint("healthy", n), 1)
	}
	s, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.InFlight, int64(hung), "they still hang")
}

func TestE2EAfterALoadOnlyWhatShouldBeIsLeftInRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LOG_LEVEL=info")
	const callers, each = 16, 125
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := range each {
				id := fmt.Sprintf("m_%d_%d", caller, n)
				m := wire.Message{ID: id, Topic: "t", URL: w.receiver.URL, Body: []byte(`{"id":"` + id + `","pad":"` + strings.Repeat("x", 1000) + `"}`)}
				if _, err := i.Publish(t.Context(), &m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		return w.rdb.HGet(t.Context(), "{default:0}:counts", "delivered").Val() == fmt.Sprint(callers*each)
	}, e2eWait, 50*time.Millisecond)
	distinct, all := w.receiver.ids()
	require.Equal(t, callers*each, distinct)
	require.Equal(t, callers*each, all)
	for caller := range callers {
		for n := range each {
			id := fmt.Sprintf("m_%d_%d", caller, n)
			require.True(t, strings.HasPrefix(w.receiver.wait(id, 1).body, `{"id":"`+id+`"`))
		}
	}
	require.Zero(t, i.stop())
	require.Equal(t, []string{"attempts", "counts", "done", "in", "known", "lane", "messages", "names"}, w.keys())
	require.Equal(t, map[string]string{"delivered": fmt.Sprint(callers * each)}, w.rdb.HGetAll(t.Context(), "{default:0}:counts").Val())
	for lane, state := range w.rdb.HGetAll(t.Context(), "{default:0}:in").Val() {
		require.Equal(t, "0 0", state, lane)
	}
	require.Empty(t, w.rdb.HKeys(t.Context(), "{default}:instances").Val())
}
