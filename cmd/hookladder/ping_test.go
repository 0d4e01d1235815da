package main

import (
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
