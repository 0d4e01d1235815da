package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// lines are the lines of an instance's log that say msg.
func (i *instance) lines(msg string) (found []map[string]any) {
	i.t.Helper()
	for line := range strings.Lines(i.log()) {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "\n") {
			continue // not ours, or still being written
		}
		var l map[string]any
		require.NoError(i.t, json.Unmarshal([]byte(line), &l), line)
		if l["msg"] == msg {
			found = append(found, l)
		}
	}
	return found
}

func TestTheLogTellsTimesWithTheirUnit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, n int) {
		if n == 1 {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	i := w.serve("BREAKER=1/90s", "LADDER=1h", "SHUTDOWN_GRACE=1500ms")
	i.publish(wire.Message{ID: "m1", URL: w.receiver.URL(0)})
	i.says(`"msg":"breaker opened"`)
	_, err := i.ResumeLane(t.Context(), w.receiver.URL(0), "")
	require.NoError(t, err)
	i.says(`"msg":"breaker closed"`)
	require.Zero(t, i.stop())

	attempt, opened, stopping := i.lines("attempt finished"), i.lines("breaker opened"), i.lines("stopping")
	require.Len(t, attempt, 1)
	require.EqualValues(t, 3600, attempt[0]["wait_s"])
	require.Greater(t, attempt[0]["took_ms"], 0.0)
	require.Less(t, attempt[0]["took_ms"], 60_000.0)
	require.Len(t, opened, 1)
	require.LessOrEqual(t, opened[0]["wait_s"], 90.0)
	require.Greater(t, opened[0]["wait_s"], 60.0)
	require.Len(t, stopping, 1)
	require.EqualValues(t, 1.5, stopping[0]["grace_s"])
}
