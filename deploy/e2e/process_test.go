package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestTwoInstancesShareTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	instances := w.serves(2)
	c := startCallers(6, 0, instances...)
	c.goOn(240)
	w.receiver.arrived(c.end())
	w.counted(instances[0])
	w.receiver.once()
	for _, i := range instances {
		require.Contains(t, i.log(), `"msg":"attempt finished"`, "both work")
	}
}

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

// 200 destinations that never answer, with a backlog each, and one that does:
// while the hung ones hang it gets everything.
func TestHungDestinationsDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, _ int) {
		if strings.HasPrefix(id, "hung") {
			newHeld().wait(r)
		}
	})
	i := w.serve("ATTEMPT_TIMEOUT=60s", "LOG_LEVEL=info")
	_, port, _ := strings.Cut(strings.TrimPrefix(w.receiver.URL(0), "http://"), ":")
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
	for n := range healthy {
		i.send(fmt.Sprint("healthy", n))
	}
	for n := range healthy {
		w.receiver.wait(fmt.Sprint("healthy", n), 1)
	}
	s, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.InFlight, int64(hung), "they still hang")
}

func TestAfterALoadOnlyWhatShouldBeIsLeftInRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LOG_LEVEL=info")
	c := startCallers(16, 0, i)
	c.goOn(400)
	all := c.end()
	w.receiver.arrived(all)
	w.counted(i)
	w.receiver.once()
	require.Zero(t, i.stop())
	require.Equal(t, []string{"attempts", "counts", "done", "in", "known", "lane", "messages", "names"}, w.keys())
	require.Equal(t, map[string]string{"delivered": fmt.Sprint(len(all))}, w.rdb.HGetAll(t.Context(), "{default:0}:counts").Val())
	for lane, state := range w.rdb.HGetAll(t.Context(), "{default:0}:in").Val() {
		require.Equal(t, "0 0", state, lane)
	}
	require.Empty(t, w.names())
}
