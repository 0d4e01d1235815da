package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func TestAPingWithAKeyTellsWhatIsPausedAndTheInstances(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "application/json")
		if r.URL.Path == "/v1/instances" {
			fmt.Fprint(w, `{"data":[{"name":"a-01","version":"0.1.0","started_at":"2026-01-31T11:00:00Z","seen_at":null,"permits":1024,"in_flight":9,"partitions":2},
				{"name":"odd","version":"","started_at":null,"seen_at":null}],"next_cursor":null}`)
			return
		}
		fmt.Fprint(w, `{"status":"ready","store":{"kind":"redis","version":"7.2"},"paused_lanes":4,"paused":[
			{"lane":"*","since":"2026-01-31T11:00:00Z","by":"night"},{"lane":"ep_1","uid":"shop-7","since":"2026-01-31T11:00:00Z","by":"ops"}]}`)
	}))
	t.Cleanup(server.Close)
	got := command(t, []string{"HOOKLADDER_URL=" + server.URL}, "", "ping")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `^ready, on redis 7.2\nevery lane is paused since 2026-01-31 .* by night\nshop-7 is paused since .* by ops\nand 2 more\n$`, got.out)
	got = command(t, []string{"HOOKLADDER_URL=" + server.URL}, "", "ping", "--instances")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `a-01 +0.1.0 +\d+h\d+m\d+s +- +9 +1024 +2\nodd +- +- +- +0 +0 +0\n$`, got.out)
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

func TestACommandThatOpensTheStoreNamesTheSettingOfOneThatIsNotThere(t *testing.T) {
	for _, line := range []string{"doctor", "repartition --to 8", "doctor --seal"} {
		got := command(t, []string{"REDIS_URL=redis://127.0.0.1:1", "ENCRYPTION_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}, "", strings.Fields(line)...)
		require.Equal(t, exitUnreachable, got.code, got.err)
		require.Contains(t, got.err, "REDIS_URL: open redis: ", line)
	}
}
