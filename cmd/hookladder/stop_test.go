package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// killTimeouts are how files of ours tell a platform after how long to kill, as most
// platforms write it.
var killTimeouts = regexp.MustCompile(`(?i)(?:kill_timeout|stop-timeout|stop-time|stop_timeout|stop_grace_period|TimeoutStopSec|terminationGracePeriodSeconds)\W{0,5}(\d+(?:\.\d+)?)(m?s)?`)

// killedAfter finds the kill timeouts in a text.
func killedAfter(t testing.TB, text string) (found []time.Duration) {
	t.Helper()
	for _, m := range killTimeouts.FindAllStringSubmatch(text, -1) {
		unit := m[2]
		if unit == "" {
			unit = "s"
		}
		d, err := time.ParseDuration(m[1] + unit)
		require.NoError(t, err)
		found = append(found, d)
	}
	return found
}

// mostShipped is the longest time that a setting has in a text, or its default.
func mostShipped(t testing.TB, text, name string) time.Duration {
	t.Helper()
	var most time.Duration
	for _, row := range settings.Table() {
		if row.Name == name {
			most = mustParse(t, row.Default)
		}
	}
	for _, m := range regexp.MustCompile(name+`[ ="']+(\d+m?s)\b`).FindAllStringSubmatch(text, -1) {
		most = max(most, mustParse(t, m[1]))
	}
	return most
}

func mustParse(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// A stop takes the delay, the grace, and some seconds to answer and to sign off. No
// platform that we describe kills earlier.
func TestNothingThatWeShipKillsAnInstanceThatStops(t *testing.T) {
	var all strings.Builder
	found := map[string][]time.Duration{}
	for _, pattern := range []string{"fly.toml", "Dockerfile", "README.md", "deploy/README.md", "deploy/docs/*.md", "*.y*ml", "deploy/*.y*ml", "deploy/systemd/*.service"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(text)
			found[filepath.ToSlash(file)] = killedAfter(t, string(text))
		}
	}
	delay, grace := mostShipped(t, all.String(), "SHUTDOWN_DELAY"), mostShipped(t, all.String(), "SHUTDOWN_GRACE")
	require.Equal(t, 5*time.Second, delay, "of the image")
	require.Equal(t, 20*time.Second, grace)
	for file, timeouts := range found {
		for _, d := range timeouts {
			require.GreaterOrEqual(t, d, delay+grace+15*time.Second, file)
		}
	}
	require.Len(t, found["../../fly.toml"], 1)
	require.Len(t, found["../../Dockerfile"], 2, "each target")
	require.Len(t, found["../../deploy/systemd/hookladder.service"], 1)
	require.Len(t, found["../../deploy/README.md"], 4, "docker three times, and Kubernetes")
}

func TestKillTimeoutsAreFoundAsPlatformsWriteThem(t *testing.T) {
	text := "kill_timeout = \"45s\"\ndocker run --stop-timeout 46 x\nTimeoutStopSec=47\nterminationGracePeriodSeconds: 48\nstop_grace_period: 49500ms\n"
	require.Equal(t, []time.Duration{45 * time.Second, 46 * time.Second, 47 * time.Second, 48 * time.Second, 49500 * time.Millisecond}, killedAfter(t, text))
	require.Equal(t, 7*time.Second, mostShipped(t, "SHUTDOWN_DELAY=7s SHUTDOWN_DELAY = \"3s\"", "SHUTDOWN_DELAY"))
}

// What polls /readyz notices within the delay.
func TestTheImageAndFlyPollBeforeTheDelayIsOver(t *testing.T) {
	for file, pattern := range map[string]string{"Dockerfile": `--interval=(\d+s)`, "fly.toml": `\n    interval = "(\d+s)"`} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		m := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		require.NotNil(t, m, file)
		require.Equal(t, 2*time.Second, mustParse(t, m[1]), file)
		require.Equal(t, 5*time.Second, mostShipped(t, string(text), "SHUTDOWN_DELAY"), file)
	}
}

// Something that hangs must not keep a process for ever, nor its lock of DATA_DIR.
func TestAStopThatHangsEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var log bytes.Buffer
		exits := make(chan int, 1)
		o := app.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Delay: 5 * time.Second, Engine: app.EngineOptions{Grace: 20 * time.Second}}
		ctx, stop := context.WithCancel(t.Context())
		world{exit: func(code int) { exits <- code }}.detach(ctx, &o)
		time.Sleep(time.Hour)
		require.Empty(t, exits, "nothing asked it to stop")
		stop()
		require.Equal(t, exitFailed, <-exits)
		require.Equal(t, time.Hour+34*time.Second, time.Since(began), "a second is for the last line")
		require.Contains(t, log.String(), "the stop did not end in time")
	})
}

// The pipe of standard error may have no reader any more when a process ends with an error.
func TestAnErrorThatNobodyReadsKeepsNoProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unread, errs := io.Pipe()
		code := run(t.Context(), world{args: []string{"nothing"}, in: strings.NewReader(""), out: io.Discard, err: errs})
		require.Equal(t, exitUsage, code)
		require.NoError(t, unread.Close())
	})
}
