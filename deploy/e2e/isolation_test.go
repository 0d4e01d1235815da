package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// opened counts how many callbacks are open at each path, and the most there were.
type opened struct {
	mu   sync.Mutex
	open map[string]int
	most map[string]int
}

func newOpened() *opened { return &opened{open: map[string]int{}, most: map[string]int{}} }

func (o *opened) enter(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[path]++
	o.most[path] = max(o.most[path], o.open[path])
}

func (o *opened) leave(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[path]--
}

func (o *opened) now(path string) (open, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[path], o.most[path]
}

func TestThreeInstancesTogetherKeepALanesLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	instances := []*instance{w.serve(), w.serve(), w.serve()}
	crowd, pass := newOpened(), make(chan struct{})
	w.receiver.answers(func(_ http.ResponseWriter, req *http.Request, _ string, _ int) {
		crowd.enter(req.URL.Path)
		defer crowd.leave(req.URL.Path)
		select {
		case <-pass:
		case <-req.Context().Done():
		}
	})
	limits := map[string]int{"/one": 1, "/three": 3, "/five": 5} // each begins with 2, or less
	for path, most := range limits {
		instances[0].endpoint(path, wire.Endpoint{MaxInFlight: most})
	}
	const messages = 40
	for n := range messages {
		instances[n%3].publish(wire.Message{ID: fmt.Sprint("m", n)})
	}
	eventually(t, "two are open", func() bool { open, _ := crowd.now("/five"); return open == 2 })
	for range messages * len(limits) {
		select {
		case pass <- struct{}{}:
		case <-time.After(kit.Patience):
			require.FailNow(t, "nothing more comes")
		}
	}
	for path, most := range limits {
		w.receiver.until("all of "+path, func() bool { return len(w.receiver.at(path)) == messages })
		_, met := crowd.now(path)
		require.LessOrEqual(t, met, most, path)
	}
}

func TestABreakerHoldsALaneAndSpendsNoRungs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("BREAKER=3/10m", "LADDER=10ms,10ms,10ms,10ms,10ms,10ms")
	var broken atomic.Bool
	broken.Store(true)
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		if broken.Load() && req.URL.Path == "/e" {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	i.endpoint("/e", wire.Endpoint{UID: "bad", Topics: []string{}})
	i.endpoint("/good", wire.Endpoint{UID: "good", Topics: []string{}})
	for n := range 10 {
		i.publish(wire.Message{ID: fmt.Sprint("m", n), Endpoint: "bad"})
	}
	i.says(`"msg":"breaker opened"`)
	eventually(t, "the breaker holds all", func() bool {
		view, err := i.Endpoint(context.WithoutCancel(t.Context()), "bad")
		return err == nil && view.State == "open" && view.InFlight == 0 && view.Waiting == 10
	})
	tried := len(w.receiver.at("/e"))
	require.Less(t, tried, 6, "three failures, and what was in flight then")
	require.Equal(t, "breaker", i.until("m9", "ready").WaitingFor)
	i.publish(wire.Message{ID: "other", Endpoint: "good"})
	w.receiver.wait("other", 1)

	broken.Store(false)
	require.Len(t, w.receiver.at("/e"), tried, "nothing is tried while it is open")
	_, err := i.ResumeEndpoint(t.Context(), "bad")
	require.NoError(t, err)
	attempts := 0
	for n := range 10 {
		attempts += i.until(fmt.Sprint("m", n), "delivered").Attempts
	}
	require.Equal(t, tried+10, attempts)
	i.says(`"msg":"breaker closed"`)
}

func TestABreakersProbeClosesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("BREAKER=2/200ms", "LADDER=10ms,10ms,10ms,10ms,10ms,10ms,10ms,10ms")
	crowd := newOpened()
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		crowd.enter("all")
		defer crowd.leave("all")
		if len(w.receiver.at("/e")) <= 6 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i.endpoint("/e", wire.Endpoint{UID: "bad"})
	for n := range 20 {
		i.publish(wire.Message{ID: fmt.Sprint("m", n), Endpoint: "bad"})
	}
	attempts := 0
	for n := range 20 {
		attempts += i.until(fmt.Sprint("m", n), "delivered").Attempts
	}
	require.Equal(t, 26, attempts, "each failure cost one rung, and waiting none")
	require.GreaterOrEqual(t, strings.Count(i.log(), `"msg":"breaker opened"`), 2, "a failed probe opens it again")
	i.says(`"msg":"breaker closed"`)
}

func TestRetryAfterSlowsTheLaneAndBlamesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("BREAKER=1/10m", "LADDER=10ms")
	var busy atomic.Bool
	busy.Store(true)
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		if busy.Load() && req.URL.Path == "/e" {
			rw.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	})
	i.endpoint("/e", wire.Endpoint{UID: "busy", Topics: []string{}})
	i.endpoint("/good", wire.Endpoint{UID: "good", Topics: []string{}})
	i.publish(wire.Message{ID: "first", Endpoint: "busy"})
	d := i.until("first", "retrying")
	require.Greater(t, time.Until(d.NextAttemptAt.Time), 50*time.Minute)
	i.publish(wire.Message{ID: "second", Endpoint: "busy"})
	i.publish(wire.Message{ID: "other", Endpoint: "good"})
	w.receiver.wait("other", 1)
	require.Equal(t, "retry_after", i.until("second", "ready").WaitingFor)
	view, err := i.Endpoint(t.Context(), "busy")
	require.NoError(t, err)
	require.Equal(t, "active", view.State)
	require.Len(t, w.receiver.at("/e"), 1)
	busy.Store(false)
	_, err = i.ResumeEndpoint(t.Context(), "busy")
	require.NoError(t, err)
	w.receiver.wait("second", 1)
}

func TestAnOrderedEndpointHoldsTheRestBehindOneThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.serve("LADDER=50ms,50ms,50ms"), w.serve("LADDER=50ms,50ms,50ms")
	other := newBarrier() // until the other key is through
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, id string, n int) {
		if id == "a0" && n == 4 {
			other.wait(req)
		}
		if id == "m1" && n <= 2 || id == "a0" && n <= 3 || id == "m3" {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	one.endpoint("/ordered", wire.Endpoint{UID: "ordered", Ordered: true, Topics: []string{}})
	one.endpoint("/keys", wire.Endpoint{UID: "keys", Topics: []string{}})
	both := []*instance{one, two}
	for n := range 6 {
		both[n%2].publish(wire.Message{ID: fmt.Sprint("m", n), Endpoint: "ordered"})
	}
	w.receiver.wait("m5", 1)
	require.Equal(t, []string{"m0", "m1", "m1", "m1", "m2", "m3", "m3", "m3", "m3", "m4", "m5"}, w.receiver.at("/ordered"))
	require.Equal(t, "dead", one.until("m3", "dead").Status)

	for n := range 3 {
		for _, key := range []string{"a", "b"} {
			both[n%2].publish(wire.Message{ID: fmt.Sprint(key, n), Endpoint: "keys", OrderingKey: key})
		}
	}
	w.receiver.wait("b2", 1)
	close(other.release)
	w.receiver.wait("a2", 1)
	came := w.receiver.at("/keys")
	of := func(key string) []string {
		return slices.DeleteFunc(slices.Clone(came), func(id string) bool { return !strings.HasPrefix(id, key) })
	}
	require.Equal(t, []string{"a0", "a0", "a0", "a0", "a1", "a2"}, of("a"))
	require.Equal(t, []string{"b0", "b1", "b2"}, of("b"))
	require.Less(t, slices.Index(came, "b2"), slices.Index(came, "a1"), "the other key went on meanwhile")
}

func TestAFullLaneIsRefusedAndOverflowsInAFanOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("ENDPOINT_MAX_WAITING=2")
	full := i.endpoint("/full", wire.Endpoint{UID: "full", Tenant: "acme"})
	free := i.endpoint("/free", wire.Endpoint{Tenant: "acme"})
	_, err := i.PauseEndpoint(t.Context(), "full")
	require.NoError(t, err)
	for n := range 2 {
		i.publish(wire.Message{ID: fmt.Sprint("m", n), Endpoint: "full"})
	}
	_, err = i.Client.Publish(t.Context(), &wire.Message{ID: "m2", Topic: "t", Endpoint: "full", Body: []byte(`1`)})
	p := problemOf(t, err)
	require.Equal(t, http.StatusTooManyRequests, p.Status)
	_, err = i.Message(t.Context(), "m2")
	require.Equal(t, http.StatusNotFound, problemOf(t, err).Status)
	i.publish(wire.Message{ID: "fan", Tenant: "acme"})
	w.receiver.wait("fan", 1)
	eventually(t, "the other one has it", func() bool { return i.deliveries("fan")[free.ID].Status == "delivered" })
	require.Equal(t, "overflow", i.deliveries("fan")[full.ID].DeadReason)
	_, err = i.ResumeEndpoint(t.Context(), "full")
	require.NoError(t, err)
	w.receiver.wait("m1", 1)
	i.until("m1", "delivered")
	_, err = i.Retry(t.Context(), "fan", full.ID)
	require.NoError(t, err)
	w.receiver.wait("fan", 2)
}

// No more may begin in a time than the rate says; that all come as fast as it
// allows is measured by BenchmarkRate.
func TestARateIsKeptOverAllInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	instances := []*instance{w.serve(), w.serve(), w.serve()}
	instances[0].endpoint("/e", wire.Endpoint{UID: "slow", Rate: "20/s"})
	const messages = 40
	began := time.Now()
	for n := range messages {
		instances[n%3].publish(wire.Message{ID: fmt.Sprint("m", n), Endpoint: "slow"})
	}
	w.receiver.until("all", func() bool { return len(w.receiver.at("/e")) == messages })
	var last time.Time
	for n := range messages {
		d := instances[0].until(fmt.Sprint("m", n), "delivered")
		require.Equal(t, 1, d.Attempts, "to wait costs no attempt")
		if at := w.receiver.arrivals(fmt.Sprint("m", n))[0].at; at.After(last) {
			last = at
		}
	}
	// 50 ms apart, where up to 50 ms may be made up for, and none before it was published;
	// without the rate all come at once.
	require.GreaterOrEqual(t, last.Sub(began), (messages-2)*50*time.Millisecond)
}
