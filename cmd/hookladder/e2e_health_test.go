package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestE2EADispatcherWithoutAnAPITellsHowItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LISTEN=off", "METRICS_LISTEN=127.0.0.1:0")
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
	res, _ = i.call("GET", "/v1/stats", "", nil)
	require.Equal(t, http.StatusNotFound, res.StatusCode, "nothing else is there")

	env := []string{"LISTEN=off", "METRICS_LISTEN=" + i.tells("metrics")}
	got := mustRun(t, env, "", "ping")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "ready, on redis")
	w.redis.Stop()
	got = mustRun(t, env, "", "ping")
	require.Equal(t, exitFailed, got.code, "it answers, but its store can't be used: %s", got.err)
	res, _ = i.call("GET", "/healthz", "", nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "it is alive")
	i.kill()
	require.Equal(t, exitUnreachable, mustRun(t, env, "", "ping").code)
}

func TestE2EAReadyzThatStrangersReachTellsThemWhetherAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const key = "0123456789abcdef"
	for name, settings := range map[string][]string{
		"with keys":    {"METRICS_LISTEN=127.0.0.1:0", "API_KEYS=" + key + ":read"},
		"without keys": {"METRICS_LISTEN=0.0.0.0:0", "LISTEN=off"},
	} {
		i := w.serve(settings...)
		url := "http://" + strings.Replace(i.tells("metrics"), "0.0.0.0", "127.0.0.1", 1)
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

func TestAPingOfADispatcherWithoutAnyAddressSaysHowToGiveItOne(t *testing.T) {
	for _, environ := range [][]string{{"LISTEN=off"}, {"LISTEN=off", "PORT=8080"}} {
		got := command(t, environ, "", "ping")
		require.Equal(t, exitUsage, got.code, "neither ready nor unreachable")
		require.Contains(t, got.err, "METRICS_LISTEN=127.0.0.1:9464")
	}
	got := command(t, []string{"LISTEN=off", "METRICS_LISTEN=:1"}, "", "ping")
	require.Equal(t, exitUnreachable, got.code, got.err)
	require.Contains(t, got.err, "127.0.0.1:1")
	got = command(t, []string{"LISTEN=off", "METRICS_LISTEN=:1"}, "", "get", "m1")
	require.Equal(t, exitUsage, got.code, "that is no API")
	require.Contains(t, got.err, "HOOKLADDER_URL")
}

// The image's own settings, with LISTEN=off added: its health check finds whom
// to ask.
func TestTheImagesHealthCheckWorksForADispatcher(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	require.NoError(t, err)
	vars := map[string]string{"LISTEN": "off"}
	for _, found := range regexp.MustCompile(`(?m)^(?:ENV|   ) *(\w+)=(\S+)`).FindAllStringSubmatch(string(text), -1) {
		vars[found[1]] = found[2]
	}
	require.Equal(t, "8080", vars["PORT"])
	require.NotEmpty(t, vars["METRICS_LISTEN"])
	require.Contains(t, string(text), `CMD ["hookladder", "ping"]`)
	url, err := healthServer(vars)
	require.NoError(t, err)
	require.Equal(t, "http://"+vars["METRICS_LISTEN"], url)
}
