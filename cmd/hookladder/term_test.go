package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

func TestAFlagOfADurationReadsAndShowsDays(t *testing.T) {
	var lasts, delay time.Duration
	flags := pflag.NewFlagSet("any", pflag.ContinueOnError)
	durationVar(flags, &lasts, "lasts", 36*time.Hour, "how long")
	durationVar(flags, &delay, "delay", 0, "how late")
	require.Equal(t, 36*time.Hour, lasts)
	require.Contains(t, flags.FlagUsages(), "--lasts duration   how long (default 1d12h)")
	require.NotContains(t, flags.FlagUsages(), "0s", "no default is no default")
	require.NoError(t, flags.Parse([]string{"--lasts", "5d", "--delay", "1.5"}))
	require.Equal(t, 5*24*time.Hour, lasts)
	require.Equal(t, 1500*time.Millisecond, delay)
	require.ErrorContains(t, flags.Parse([]string{"--lasts", "soon"}), "use a duration such as 15s, 1h30m or 1d")
}

func TestAScreenEscapesWhatATerminalObeys(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n":                  "a\tb\n",
		"a,b\r\n":                 "a,b\r\n", // CSV
		"a\rb":                    `a\u{d}b`, // it would write over the line
		"\x1b]0;PWN\a\x1b[2J":     `\u{1b}]0;PWN\u{7}\u{1b}[2J`,
		"\u009b2J\u202eabc\u2028": `\u{9b}2J\u{202e}abc\u{2028}`,
		"\x9b2J":                  `\x9b2J`, // of a terminal that is not set to UTF-8
		"\x00\b\x7f":              `\u{0}\u{8}\u{7f}`,
		"支付 ＝ 5 € \ufffd":         "支付 ＝ 5 € \ufffd",
	} {
		for n := 1; n <= len(text); n++ { // writers cut where they like
			var out bytes.Buffer
			s := newScreen(&out)
			for rest := []byte(text); len(rest) > 0; rest = rest[min(n, len(rest)):] {
				wrote, err := s.Write(rest[:min(n, len(rest))])
				require.NoError(t, err)
				require.Equal(t, min(n, len(rest)), wrote)
			}
			require.Equal(t, want, out.String(), "%q in writes of %d bytes", text, n)
		}
	}
	require.True(t, isTerminal(newScreen(nil)))
}

// Progress clears its line. Text of others can't.
func TestOnlyProgressClearsALine(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	overwrite(s, "half\r\x1b[K")
	require.Equal(t, "\r\x1b[Khalf\\u{d}\\u{1b}[K", out.String())
}

// tableAnswers are pages with full rows and with rows in which each optional field is empty.
var tableAnswers = map[string]string{
	"/v1/deliveries":             `{"data":[` + deadOne + `,` + waitingOne + `],"next_cursor":"c2","looked_at":7,"complete_since":"2026-01-01T00:00:00Z"}`,
	"/v1/endpoints/e/deliveries": `{"data":[` + deadOne + `],"next_cursor":null,"resume_cursor":"c3","looked_at":7}`,
	"/v1/dead":                   `{"data":[{"destination":"u_1","reason":"gone","count":40,"newest":"2026-01-02T03:04:05Z"},{"destination":"u_2","reason":"exhausted","count":50,"newest":null}],"next_cursor":"c2"}`,
	"/v1/jobs": `{"data":[{"id":"job_7","kind":"retry","state":"done","filter":{"tenant":["m7"],"failed":true},"expected":41203,"matched":41203,"done":41200,"left":2,"failed":1,` +
		`"rate":"200/s","by":"key:ops","started_at":"2026-01-31T12:00:00Z","ended_at":"2026-01-31T12:00:09Z"},` +
		`{"id":"job_8","kind":"cancel","state":"running","filter":{},"started_at":"2026-01-31T12:00:00Z","ended_at":null}],"next_cursor":"c2"}`,
	"/v1/lanes": `{"data":[{"lane":"ep_1","url":"https://shop.example/a","state":"paused","why":"operator","since":"2026-01-31T12:00:00Z","by":"key:ops","in_flight":3,"window":64,"waiting":1000,` +
		`"until":"2026-01-31T13:00:00Z","tenant":"m7","uid":"shop-42","last_failure":{"message_id":"order_1","at":"2026-01-31T11:59:00Z","status_code":503,"class":"status","error":"status 503"}},{"lane":"q_orders","state":"closed","queue":"orders"},{"lane":"ep_2","state":"closed","kind":"pull"},{"lane":"*","state":"paused"}],"next_cursor":"c2"}`,
	"/v1/endpoints": `{"data":[{"id":"ep_1","uid":"shop-42","tenant":"m7","state":"disabled","disabled_reason":"gone","headers_held":true,"topics":["a.*","b"],"url":"https://shop.example/a"},` +
		`{"id":"ep_2","state":"active","kind":"pull"}],"next_cursor":"c2"}`,
	"/v1/links": `{"data":[{"id":"lnk_1","tenant":"m7","endpoint":"ep_1","manage":true,"name":"anna","by":"key:ops","expires_at":"2026-01-31T12:00:00Z"},` +
		`{"id":"lnk_2","tenant":"m7","by":"key:leaver","expires_at":"2026-01-31T12:00:00Z","ended":"key"}],"next_cursor":"c2"}`,
	"/v1/audit": `{"data":[{"at":"2026-01-31T12:00:00Z","by":"key:ops","what":"endpoint.update","target":"ep_1","tenant":"m7","detail":"url\tand\u202eheaders"},` +
		`{"at":"2026-01-31T12:00:00Z","by":"local","what":"lane.pause"}],"next_cursor":"c2"}`,
	"/v1/instances": `{"data":[{"name":"a-1","version":"0.1.0","seen_at":"2026-01-31T12:00:00Z","in_flight":3,"permits":64,"holding":9},{"name":"a-2"}],"next_cursor":null}`,
	"/readyz":       `{"status":"ready","store":{"kind":"redis","version":"8.0.2"},"paused_lanes":3,"paused":[{"lane":"ep_1","uid":"shop-42","since":"2026-01-31T12:00:00Z","by":"key:ops"},{"lane":"*"}]}`,
}

func TestTablesAreThoseOfTheGoldenFile(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(tableAnswers[r.URL.Path]))
	}))
	defer api.Close()
	var all strings.Builder
	for _, line := range []string{
		"deliveries --limit 2", "deliveries --limit 2 --csv", "endpoints deliveries e", "endpoints deliveries e --csv", "dead", "jobs", "lanes",
		"endpoints list", "link list", "audit", "ping --instances",
		"deliveries --limit 2 --json", "jobs --json", "lanes --json", "audit --json",
	} {
		got := command(t, []string{"HOOKLADDER_URL=" + api.URL}, "", strings.Fields(line)...)
		require.Equal(t, exitOK, got.code, "%s: %s", line, got.err)
		all.WriteString("$ hookladder " + line + "\n" + got.out + got.err + "\n")
	}
	var config bytes.Buffer
	require.NoError(t, printSettings(&config, []settings.Found{
		{Setting: settings.Setting{Name: "PROJECT"}, Value: "pay", Source: "environment"}, {Setting: settings.Setting{Name: "REDIS_URL", URL: true}, Value: "redis://a:b@c", Source: ".env"}, {Setting: settings.Setting{Name: "PORT"}, Source: "default"},
	}))
	all.WriteString("$ hookladder config\n" + config.String())
	got := strings.ReplaceAll(all.String(), "\r\n", "\n")
	golden := filepath.Join("testdata", "tables.txt")
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
