package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestADispatcherWithoutAnAPITellsHowItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve(append(archived(pgtest.New(t)), "LISTEN=off", "METRICS_LISTEN=127.0.0.1:0")...)
	i.troubled = true
	res, text := i.call("GET", "/healthz", "", nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.JSONEq(t, `{"status":"ok"}`, text)
	res, text = i.call("GET", "/readyz", "", nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	var ready wire.Ready
	require.NoError(t, json.Unmarshal([]byte(text), &ready))
	require.Equal(t, "ready", ready.Status)
	require.NotNil(t, ready.Store, "there are no keys, and only this host can ask")
	require.Contains(t, text, `"archive"`)
	res, _ = i.call("GET", "/v1/stats", "", nil)
	require.Equal(t, http.StatusNotFound, res.StatusCode, "nothing else is there")

	env := []string{"LISTEN=off", "METRICS_LISTEN=" + i.Started("metrics")}
	got := mustRun(t, env, "", "ping")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, "^ready, on (redis|valkey)", got.out)
	w.redis.Stop()
	got = mustRun(t, env, "", "ping")
	require.Equal(t, exitFailed, got.code, "it answers, but its store can't be used: %s", got.err)
	res, _ = i.call("GET", "/healthz", "", nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "it is alive")
	i.Kill()
	require.Equal(t, exitUnreachable, mustRun(t, env, "", "ping").code)
}

func TestAReadyzThatStrangersReachTellsThemWhetherAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const key = "0123456789abcdef"
	for name, settings := range map[string][]string{
		"with keys":    {"METRICS_LISTEN=127.0.0.1:0", "API_KEYS=" + key + ":read"},
		"without keys": {"METRICS_LISTEN=0.0.0.0:0", "LISTEN=off"},
	} {
		i := w.serve(settings...)
		url := "http://" + strings.Replace(i.Started("metrics"), "0.0.0.0", "127.0.0.1", 1)
		ask := func(key string) (ready wire.Ready) {
			req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/readyz", nil)
			require.NoError(t, err)
			req.Host = "pod.example" // as an orchestrator may call it
			if key != "" {
				req.Host = ""
				req.Header.Set("Authorization", "Bearer "+key)
			}
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close() //nolint:errcheck // it was read
			if name == "with keys" && key == "" {
				require.Equal(t, http.StatusForbidden, res.StatusCode, "on a loopback address that is a page of another site")
				return ready
			}
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.NoError(t, json.NewDecoder(res.Body).Decode(&ready))
			require.Equal(t, "ready", ready.Status)
			return ready
		}
		require.Nil(t, ask("").Store, name)
		require.Nil(t, ask("some other key, not known").Store, name)
		if name == "with keys" {
			require.NotNil(t, ask(key).Store)
		}
	}
}

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
	i.send("m1")
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
