package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
