//go:build linux

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hostile is what a stranger may have a text say: ESC, BEL, C1 and a mark that reverses letters.
const hostile = "\x1b]0;PWN\a\x1b[2J\u009b31m\u202e"

// onTerminal runs a command whose output and errors go to a terminal, and returns what the
// terminal got. ok: there are terminals here.
func onTerminal(t *testing.T, environ []string, args ...string) (shown string, ok bool) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Log("no terminals here: ", err)
		return "", false
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Log("no terminals here: ", err)
		return "", false
	}
	got := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // the end of a terminal is an error
		got <- string(text)
	}()
	run(t.Context(), world{args: args, environ: environ, in: strings.NewReader(""), out: slave, err: slave})
	require.NoError(t, slave.Close())
	return <-got, true
}

func TestNoOutputSendsControlsToATerminal(t *testing.T) {
	text := `"` + strings.NewReplacer("\x1b", `\u001b`, "\a", `\u0007`).Replace(hostile) + `"`
	lines := strings.TrimSuffix(text, `"`) + `\nep_1:forged,x"` // which stacks of handlers have
	const when = `"2026-01-31T11:00:00Z"`
	delivery := `{"id":"ep_1:m","message_id":"m","topic":` + text + `,"tenant":` + text + `,"subject":` + text + `,"destination":"ep_1","url":` + text +
		`,"status":"dead","created_at":` + when + `,"ended_at":` + when + `,"attempts":1,"dead_reason":` + text + `,"last_error":` + lines + `}`
	answers := map[string]string{
		"GET /v1/deliveries":             `{"data":[` + delivery + `],"next_cursor":null}`,
		"GET /v1/endpoints/a/deliveries": `{"data":[` + delivery + `],"next_cursor":null,"resume_cursor":` + text + `}`,
		"GET /v1/messages/m":             `{"id":"m","topic":` + text + `,"created_at":` + when + `,"deliveries":[` + delivery + `]}`,
		"GET /v1/audit":                  `{"data":[{"at":` + when + `,"by":` + text + `,"action":` + text + `,"target":` + text + `,"detail":` + text + `}],"next_cursor":null}`,
		"GET /v1/lanes":                  `{"data":[{"lane":"ep_1","url":` + text + `,"state":"paused","by":` + text + `,"reason":` + text + `}],"next_cursor":null}`,
		"GET /v1/endpoints":              `{"data":[{"id":"ep_1","url":` + text + `,"description":` + text + `,"tenant":` + text + `,"topics":[` + text + `]}],"next_cursor":null}`,
		"GET /readyz":                    `{"status":` + text + `,"store":{"kind":` + text + `,"version":` + text + `}}`,
		"GET /v1/links":                  `{"data":[{"id":` + text + `,"name":` + text + `,"tenant":` + text + `,"by":` + text + `}],"next_cursor":null}`,
		"GET /v1/jobs":                   `{"data":[{"id":` + text + `,"kind":"retry","state":"failed","by":` + text + `,"filter":{"tenant":[` + text + `]}}],"next_cursor":null}`,
		"GET /v1/dead":                   `{"data":[{"destination":` + text + `,"reason":` + text + `,"count":1}]}`,
		"POST /v1/queues/q/take":         `[{"id":"q_q:m","lease":"l","attempt":1,"message":{"id":"m","topic":` + text + `},"body":` + text + `}]`,
		"POST /v1/queues/q/settle":       `{"results":[{"id":"q_q:m","result":"ok"}]}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/attempts" && strings.Contains(r.Header.Get("Accept"), "event-stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 1\nevent: attempt\ndata: {\"at\":"+when+",\"outcome\":"+text+",\"destination\":"+text+",\"message_id\":"+text+",\"error\":"+lines+"}\n\n"+
				"event: end\ndata: {\"reason\":\"stop\"}\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			answer = `{"type":"conflict","title":` + text + `,"status":409,"detail":` + text + `}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer api.Close()
	environ := []string{"HOOKLADDER_URL=" + api.URL}
	for _, line := range []string{
		"deliveries", "deliveries --csv", "deliveries --json", "endpoints deliveries a", "endpoints deliveries a --csv", "get m", "get m --json", "why m",
		"audit list", "audit", "lanes", "lanes list", "endpoints list", "endpoints", "ping", "link list", "jobs", "dead", "cancel m", "retry m", "endpoints get x",
		"pause x", "consume q --max 1", "consume q --max 1 --exec cat", hostile, "get " + hostile, "--" + hostile, "verify " + hostile, "config",
	} {
		args := strings.Split(line, " ")
		shown, ok := onTerminal(t, append(environ, "CONSOLE_NAME="+hostile), args...)
		if !ok {
			return // not tested
		}
		require.NotEmpty(t, shown, line)
		for _, r := range strings.NewReplacer("\r\r\n", "\n", "\r\n", "\n").Replace(shown) { // CSV ends lines with CR LF, and the terminal adds a CR
			require.False(t, r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)), "%s shows %q", line, shown)
		}
		require.NotContains(t, shown, "\nep_1:forged", "%s: a text of others looks like a line of ours", line)
	}
}
