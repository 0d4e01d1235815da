package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Whatever a delivery dies of, and whichever stage meets it: it is one line of
// the log, one of the metric, and one of what the store counts for ever.
func TestEveryDeathIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	barrier := newBarrier()
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		if req.URL.Path == "/held" && !barrier.wait(req) {
			return
		}
		code := map[string]int{"/gone": http.StatusGone, "/fails": http.StatusInternalServerError, "/held": http.StatusInternalServerError}[req.URL.Path]
		if code > 0 {
			rw.WriteHeader(code)
		}
	})
	const far = wire.Duration(time.Hour)
	url := func(path string) string { return w.receiver.URL(0) + path }
	open := w.serve("MAX_IN_FLIGHT=0")
	open.publish(wire.Message{ID: "refused", URL: strings.Replace(url("/"), "127.0.0.1", "127.0.0.2", 1)})
	require.Zero(t, open.stop())
	i := w.serve("ALLOW_NETS=127.0.0.1/32", "LADDER=100ms", "ENDPOINT_MAX_WAITING=3")

	i.publish(wire.Message{ID: "gone", URL: url("/gone"), Tenant: "a"})
	i.publish(wire.Message{ID: "exhausted", URL: url("/fails"), Tenant: "b", MaxAttempts: 1})

	// Between two attempts, and before the first: both behind a pause.
	_, err := i.PauseLane(t.Context(), url("/"), "paused")
	require.NoError(t, err)
	i.expiring(wire.Message{ID: "expired-first", URL: url("/"), Tenant: "paused"}, time.Millisecond)
	var again []string // the last of them was attempted in time
	soon := time.Second
	for attempted := false; !attempted; soon *= 2 {
		id := fmt.Sprint("expired-again", len(again))
		again = append(again, id)
		i.expiring(wire.Message{ID: id, URL: url("/held"), Tenant: "c"}, soon)
		eventually(t, id+" is attempted or too late for it", func() bool {
			attempted = len(w.receiver.arrivals(id)) > 0
			return attempted || i.delivery(id).Status == "dead"
		})
	}
	last := again[len(again)-1]
	_, err = i.PauseLane(t.Context(), url("/"), "c")
	require.NoError(t, err)
	close(barrier.release)
	require.True(t, kit.Rest(t.Context(), soon))
	for tenant, id := range map[string]string{"paused": "expired-first", "c": last} {
		_, err = i.ResumeLane(t.Context(), url("/"), tenant)
		require.NoError(t, err)
		i.until(id, "dead")
	}
	require.Equal(t, 1, i.delivery(last).Attempts)
	require.Empty(t, w.receiver.arrivals("expired-first"))

	// Scheduled, ready and published after.
	e := i.endpoint("/off", wire.Endpoint{UID: "off", Tenant: "d"})
	_, err = i.PauseEndpoint(t.Context(), "off")
	require.NoError(t, err)
	i.publish(wire.Message{ID: "disabled-scheduled", Tenant: "d", Delay: far})
	i.publish(wire.Message{ID: "disabled-ready", Tenant: "d"})
	i.publish(wire.Message{ID: "fills", Tenant: "d"})
	i.publish(wire.Message{ID: "overflow", Tenant: "d"})
	_, err = i.PatchEndpoint(t.Context(), e.ID, map[string]any{"disabled": true})
	require.NoError(t, err)
	require.False(t, i.publish(wire.Message{ID: "disabled-new", Endpoint: "off"}).Deliveries[0].EndedAt.IsZero())

	poison(t, i, w)

	want := map[string]int{"gone": 1, "exhausted": 1, "expired": 1 + len(again), "disabled": 4, "overflow": 1, "poison": 1, "refused": 1}
	reasons := map[string]string{
		"gone": "gone", "exhausted": "exhausted", "expired-first": "expired", "overflow": "overflow",
		"disabled-scheduled": "disabled", "disabled-ready": "disabled", "fills": "disabled", "disabled-new": "disabled",
		"poison": "poison", "refused": "refused",
	}
	for _, id := range again {
		reasons[id] = "expired"
	}
	for id, reason := range reasons {
		d := i.until(id, "dead")
		require.Equal(t, reason, d.DeadReason, id)
		require.False(t, d.EndedAt.IsZero(), id)
		i.says(fmt.Sprintf(`"msg":"delivery dead","delivery_id":%q,"reason":%q,"attempts":%d`, d.ID, reason, d.Attempts))
	}
	st, err := i.Stats(t.Context())
	require.NoError(t, err)
	text := i.metrics()
	all := 0
	for reason, n := range want {
		all += n
		require.EqualValues(t, n, st.Ends.Dead[reason], reason)
		require.Contains(t, text, fmt.Sprintf("\nhookladder_dead_total{reason=%q} %d\n", reason, n))
	}
	// The endpoint is off, and the lane of what was poison is paused.
	for _, line := range []string{`lanes{state="disabled"} 1`, `lanes{state="paused"} 1`, `held{why="paused"} 0`, "oldest_due_seconds 0"} {
		require.Contains(t, text, "\nhookladder_"+line+"\n")
	}
	require.Equal(t, all, strings.Count(i.log(), `"msg":"delivery dead"`))
	_, err = i.Retry(t.Context(), "gone", "")
	require.NoError(t, err)
	i.until("gone", "dead")
	st, err = i.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, st.Ends.Dead["gone"], "no retry takes the first one away")
}

// poison leaves a delivery with an instance that is gone, as the third that held
// it.
func poison(t *testing.T, i *instance, w *world) {
	t.Helper()
	_, err := i.PauseLane(t.Context(), w.receiver.URL(0)+"/", "e")
	require.NoError(t, err)
	lane, _, _ := strings.Cut(i.publish(wire.Message{ID: "poison", URL: w.receiver.URL(0) + "/", Tenant: "e"}).Deliveries[0].ID, ":")
	_, err = w.rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), "{default:0}:ready:"+lane)
		p.HSet(t.Context(), "{default:0}:in", lane, "1 0")
		p.HIncrBy(t.Context(), "{default:0}:counts", "ready", -1)
		p.HIncrBy(t.Context(), "{default:0}:counts", "in_flight", 1)
		p.HSet(t.Context(), "{default:0}:progress", lane+":poison", "0 0 3 0 0 - 0 0") // two died, and the third had begun the attempt
		p.ZAdd(t.Context(), "{default:0}:leases:gone", redis.Z{Score: float64(time.Now().UnixMilli()), Member: lane + ":poison"})
		p.HSet(t.Context(), "{default}:instances", "gone", 1)
		return nil
	})
	require.NoError(t, err)
	d := i.until("poison", "dead")
	require.Equal(t, 3, d.Attempts)
	require.Equal(t, "the last 3 instances that held it died before they had an answer", d.LastError)
}

// expiring publishes a message that expires soon, or later where the machine
// is too busy to publish it before.
func (i *instance) expiring(m wire.Message, soon time.Duration) {
	i.t.Helper()
	m.Topic, m.Body = "t", []byte("1")
	for ; ; soon *= 2 {
		m.ExpiresAt = wire.Time{Time: time.Now().Add(soon)}
		_, err := i.Publish(i.t.Context(), &m)
		if err == nil {
			return
		}
		require.Equal(i.t, "$.expires_at", problemOf(i.t, err).Errors[0].Path)
	}
}
