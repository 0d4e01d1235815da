package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// More deliveries finish than RETENTION_MAX keeps: the oldest go before their
// age, which the log, the stats and the metrics tell, and their ids stay known.
func TestRetentionByNumberIsToldAndIDsStayKnown(t *testing.T) {
	t.Parallel()
	const finished, kept = 300, 100
	w := newWorld(t)
	i := w.serve(fmt.Sprint("RETENTION_MAX=", kept))
	message := func(n int) wire.Message {
		return wire.Message{ID: fmt.Sprint("m", n), Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")}
	}
	var batch []wire.Message
	for n := range finished {
		batch = append(batch, message(n))
	}
	_, err := i.PublishBatch(t.Context(), batch)
	require.NoError(t, err)
	for n := range finished {
		w.receiver.wait(fmt.Sprint("m", n), 1)
	}
	i.says("finished deliveries forgotten before their age")
	delivered := func() int64 {
		st, err := i.Stats(t.Context())
		require.NoError(t, err)
		return st.Counts["delivered"]
	}
	// What is trimmed follows the work: some above the number may stay until more ends.
	eventually(t, "what is too much is forgotten", func() bool { return delivered() < kept+64 })
	require.GreaterOrEqual(t, delivered(), int64(kept))
	st, err := i.Stats(t.Context())
	require.NoError(t, err)
	require.Less(t, st.Retention, kit.Patience.Seconds(), "of a day")

	for n := range finished {
		require.True(t, i.publish(message(n)).Duplicate, "m%d", n)
	}
	other := message(0)
	other.Body = []byte("2")
	_, err = i.Publish(t.Context(), &other)
	require.Equal(t, http.StatusConflict, problemOf(t, err).Status)
	distinct, all := w.receiver.ids()
	require.Equal(t, []int{finished, finished}, []int{distinct, all}, "no repeat was delivered")

	_, text := i.call(http.MethodGet, "/metrics", "", nil)
	for _, line := range []string{
		fmt.Sprintf(`hookladder_attempts_total{class="none",outcome="delivered"} %d`, finished),
		fmt.Sprintf(`hookladder_accepted_total{result="accepted"} %d`, finished),
		fmt.Sprintf(`hookladder_accepted_total{result="duplicate"} %d`, finished),
		`hookladder_accepted_total{result="conflict"} 1`, "hookladder_store_up 1", "hookladder_instances 1",
		fmt.Sprintf("hookladder_lateness_seconds_count %d", finished), "hookladder_permits 1024",
	} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	require.NotContains(t, text, "hookladder_retention_seconds 86400")
}
