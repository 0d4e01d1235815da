package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// One instance accepts, another delivers, and the guard looks long after the
// test: each hint has to arrive, whatever waits for a later time.
func TestWhatOneInstanceAcceptsAnotherDeliversAtItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	accepts := w.serve("MAX_IN_FLIGHT=0", "GUARD_INTERVAL=1h")
	w.serve("GUARD_INTERVAL=1h")
	for n := range 3 {
		accepts.publish(wire.Message{ID: fmt.Sprint("later", n), URL: w.receiver.URL(0), Delay: hour / wire.Duration(n+1)})
		accepts.publish(wire.Message{ID: fmt.Sprint("now", n), URL: w.receiver.URL(0)})
		w.receiver.wait(fmt.Sprint("now", n), 1)
		p := accepts.publish(wire.Message{ID: fmt.Sprint("soon", n), URL: w.receiver.URL(0), Delay: wire.Duration(100 * time.Millisecond)})
		came := w.receiver.wait(fmt.Sprint("soon", n), 1)
		require.False(t, came.at.Before(p.Deliveries[0].NextAttemptAt.Time))
	}
	_, all := w.receiver.ids()
	require.Equal(t, 6, all)
}

// 64 destinations that never answer, with a backlog each, and one that does:
// while the hung ones hang it gets everything.
func TestHungDestinationsDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(newBarrier().answer("hung"))
	const permits, hung, backlog, healthy = 256, 64, 8, 50 // what hangs would take twice the permits
	i := w.serve("LOG_LEVEL=info", fmt.Sprint("MAX_IN_FLIGHT=", permits))
	_, port, _ := strings.Cut(strings.TrimPrefix(w.receiver.URL(0), "http://"), ":")
	for round := range backlog {
		var batch []wire.Message
		for n := range hung {
			batch = append(batch, wire.Message{ID: fmt.Sprint("hung", round, "-", n), Topic: "t", Body: []byte("1"),
				URL: fmt.Sprintf("http://127.0.1.%d:%s/", n+1, port)})
		}
		_, err := i.PublishBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	w.receiver.untilDistinct(hung)
	for n := range healthy {
		i.send(fmt.Sprint("healthy", n))
	}
	w.receiver.waitAll(named("healthy", healthy)...)
	s, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.InFlight, int64(hung), "they still hang")
}

func TestWhatBecameDueWhileNobodyRanIsAttemptedAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, n int) {
		switch {
		case id == "before" && n == 1:
			newBarrier().wait(r)
		case strings.HasPrefix(id, "rung") && n == 1:
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	const settings, each = "LADDER=1h,1h", 5
	first := w.serve(settings, "MAX_IN_FLIGHT=1", "SHUTDOWN_GRACE=0s")
	var ids []string
	for n := range each {
		id := fmt.Sprint("rung", n)
		first.send(id)
		first.until(id, "retrying")
		ids = append(ids, id)
	}
	for n := range each {
		id := fmt.Sprint("delayed", n)
		first.publish(wire.Message{ID: id, URL: w.receiver.URL(0), Delay: hour})
		ids = append(ids, id)
	}
	first.send("before")
	w.receiver.wait("before", 1)
	for n := range each {
		id := fmt.Sprint("ready", n)
		first.send(id)
		ids = append(ids, id)
	}
	require.Zero(t, first.stop())
	w.makeDue(0) // while no instance runs

	second := w.serve(settings)
	for _, id := range append(ids, "before") {
		second.until(id, "delivered")
		want := 1
		if strings.HasPrefix(id, "rung") || id == "before" {
			want = 2
		}
		require.Len(t, w.receiver.arrivals(id), want, id)
	}
}

// An instance that stops takes no more requests, but answers those that were
// begun.
func TestAPublishDuringAStopIsTakenOrRefusedButNeverLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	const callers = 8
	var wg sync.WaitGroup
	var mu sync.Mutex // guards taken
	var taken []string
	for c := range callers {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprint("m-", c, "-", n)
				_, err := i.Publish(t.Context(), &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")})
				if err != nil {
					return
				}
				mu.Lock()
				taken = append(taken, id)
				mu.Unlock()
			}
		})
	}
	w.receiver.untilDistinct(101)
	require.Zero(t, i.stop())
	wg.Wait()
	second := w.serve()
	for _, id := range taken {
		second.until(id, "delivered")
	}
	distinct, came := w.receiver.ids()
	require.Equal(t, distinct, came, "nothing came twice")
}

// name waits until one more instance than those known is alive in the queue,
// and answers what it is called there.
func (w *world) name(known ...string) (name string) {
	w.t.Helper()
	eventually(w.t, "one more instance", func() bool {
		names := w.rdb.HKeys(w.t.Context(), "{default}:instances").Val()
		for _, n := range names {
			if len(names) == len(known)+1 && !strings.Contains(strings.Join(known, " "), n) {
				name = n
			}
		}
		return name != ""
	})
	return name
}

// One of two instances is killed while both work. Its callers go on with the
// other one, which takes over what it held, and only that may come twice.
func TestARunningInstanceTakesOverFromAKilledOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier() // until its caller is gone, or the kill where the other instance took it
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, n int) {
		if strings.HasPrefix(id, "held") && n == 1 {
			h.wait(r)
		}
	})
	stays := w.serve()
	stayer := w.name()
	dies := w.serve("REDIS_URL=" + w.redis.URL() + "?client_name=dies")
	victim := w.name(stayer)
	c := startCallers(4, 0, stays, dies)
	c.goOn(100)
	leasesOf := func() []string {
		return w.rdb.ZRange(context.WithoutCancel(t.Context()), "{default:0}:leases:"+victim, 0, -1).Val()
	}
	for n, held := 0, 0; held < 5; n++ { // either instance may take it
		id := fmt.Sprint("held", n)
		lane, _, _ := strings.Cut(dies.publish(wire.Message{ID: id, URL: w.receiver.URL(n + 1)}).Deliveries[0].ID, ":")
		w.receiver.wait(id, 1)
		if slices.Contains(leasesOf(), lane+":"+id) {
			held++
		}
	}
	require.Contains(t, w.rdb.ClientList(t.Context()).Val(), "name=dies")
	dies.Kill()
	killed := time.Now()
	eventually(t, "Redis has carried out what it was sent before", func() bool {
		return !strings.Contains(w.rdb.ClientList(t.Context()).Val(), "name=dies")
	})
	leases := leasesOf()
	close(h.release)
	w.receiver.arrived(c.end())

	require.NotEmpty(t, leases)
	twice, took := map[string]bool{}, time.Duration(0)
	for _, name := range leases {
		_, id, _ := strings.Cut(name, ":")
		twice[id] = true
		stays.until(id, "delivered")
		list := w.receiver.arrivals(id)
		require.True(t, list[len(list)-1].at.After(killed), id)
		took = max(took, list[len(list)-1].at.Sub(killed))
	}
	t.Logf("all that was in flight was attempted anew within %s", took.Round(time.Millisecond))
	w.counted(stays)
	w.alive(1)
	for id := range w.receiver.bodies {
		came := len(w.receiver.arrivals(id))
		require.NotZero(t, came, "%s never came", id)
		if !twice[id] {
			require.Equal(t, 1, came, "%s was not in flight at who was killed", id)
		}
		require.LessOrEqual(t, came, 2)
	}
	stays.says(fmt.Sprintf(`"msg":"takeover","instance":"%s","deliveries":%d}`, victim, len(leases)))
}
