package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestWhatBecameDueWhileNobodyRanIsAttemptedAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, n int) {
		switch {
		case id == "before" && n == 1:
			newHeld().wait(r)
		case strings.HasPrefix(id, "rung") && n == 1:
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	const settings, each = "LADDER=1h,1h", 5
	first := w.serve(settings, "MAX_IN_FLIGHT=1", "SHUTDOWN_GRACE=0s")
	var ids []string
	for n := range each {
		id := fmt.Sprint("rung", n)
		first.publish(wire.Message{ID: id, URL: w.receiver.URL(0)})
		first.until(id, "retrying")
		ids = append(ids, id)
	}
	for n := range each {
		id := fmt.Sprint("delayed", n)
		first.publish(wire.Message{ID: id, URL: w.receiver.URL(0), Delay: hour})
		ids = append(ids, id)
	}
	first.publish(wire.Message{ID: "before", URL: w.receiver.URL(0)})
	w.receiver.wait("before", 1)
	for n := range each {
		id := fmt.Sprint("ready", n)
		first.publish(wire.Message{ID: id, URL: w.receiver.URL(0)})
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
	w.receiver.until("some of the load", func() bool { distinct, _ := w.receiver.ids(); return distinct > 100 })
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

// mover is a caller who goes on with another instance when its own is gone.
type mover struct {
	name   string
	to     *instance
	other  *instance
	gone   chan struct{} // closed when its own is gone for good
	enough chan struct{} // closed when it may come to an end
}

func (m *mover) run() {
	for n, more := 0, 20; more > 0; n++ {
		select {
		case <-m.enough:
			more--
		default:
		}
		message := wire.Message{ID: fmt.Sprint(m.name, "-", n), Topic: "t", URL: m.to.receiver.URL(0), Body: []byte("1")}
		_, err := m.to.Publish(m.to.t.Context(), &message)
		if errors.Is(err, client.ErrUnreachable) && m.to != m.other {
			<-m.gone
			m.to = m.other
			_, err = m.to.Publish(m.to.t.Context(), &message) // the same again: it may have been taken
		}
		if err != nil {
			m.to.t.Errorf("publish %s: %v", message.ID, err)
			return
		}
	}
}

// One of two instances is killed while both work. Its callers go on with the
// other one, which takes over what it held, and only that may come twice.
func TestARunningInstanceTakesOverFromAKilledOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, n int) {
		if strings.HasPrefix(id, "held") && n == 1 {
			newHeld().wait(r) // until its caller is gone
		}
	})
	stays := w.serve("ATTEMPT_TIMEOUT=60s")
	stayer := w.name()
	dies := w.serve("ATTEMPT_TIMEOUT=60s", "REDIS_URL="+w.redis.URL()+"?client_name=dies")
	victim := w.name(stayer)
	gone, enough := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for n, to := range []*instance{stays, dies, stays, dies} {
		m := &mover{name: fmt.Sprint("m", n), to: to, other: stays, gone: gone, enough: enough}
		wg.Go(m.run)
	}
	w.receiver.until("some of the load", func() bool { distinct, _ := w.receiver.ids(); return distinct > 100 })
	const held = 10 // not earlier: each ends by itself after a minute
	for n := range held {
		id := fmt.Sprint("held", n)
		url := w.receiver.URL(n + 1)
		dies.publish(wire.Message{ID: id, URL: url})
		w.receiver.wait(id, 1)
	}
	require.Contains(t, w.rdb.ClientList(t.Context()).Val(), "name=dies")
	dies.Kill()
	killed := time.Now()
	eventually(t, "Redis has carried out what it was sent", func() bool { // Redis still carries out what it was sent before
		return !strings.Contains(w.rdb.ClientList(t.Context()).Val(), "name=dies")
	})
	leases := w.rdb.ZRange(t.Context(), "{default:0}:leases:"+victim, 0, -1).Val()
	close(gone)
	close(enough)
	wg.Wait()

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
	eventually(t, "all is counted", func() bool {
		s, err := stays.Stats(t.Context())
		distinct, _ := w.receiver.ids()
		return err == nil && s.Counts["delivered"] == int64(distinct) && s.Instances == 1
	})
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
