package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAProgressLineTellsWhatIsKnown(t *testing.T) {
	job := func(state string, matched, done int) wire.Job {
		return wire.Job{ID: "job_7", State: state, Matched: matched, Done: done}
	}
	for want, got := range map[string]string{
		"job_7 [============            ] 50 of 100, running":       jobProgress(job("running", 50, 50), 100, 0, 0),
		"job_7 [============            ] 50 of 100, 25/s, waiting": jobProgress(job("waiting", 60, 50), 100, 0, 2*time.Second),
		"job_7 1,754 so far, running":                               jobProgress(job("running", 1754, 1754), 0, 0, 0), // how many there are it does not know
		"job_7 [========================] 1,754 of 1,754, done":     jobProgress(job("done", 1754, 1754), 0, 0, 0),
		"job_7 [========================] 0 of 0, done":             jobProgress(job("done", 0, 0), 100, 0, 0),
		"job_7 [========================] 120 of 120, running":      jobProgress(job("running", 120, 120), 100, 0, 0),
	} {
		require.Equal(t, want, got)
	}
}

// A response may be a whole page, and no line of it looks like one of the command.
func TestAnAnswerIsShownBehindBarsAndCut(t *testing.T) {
	for text, want := range map[string]string{
		"out of stock\x1b[2J\nattempt 9 forged\n": "    | out of stock\\u{1b}[2J\n    | attempt 9 forged\n",
		strings.Repeat("<p>\n", 20):               strings.Repeat("    | <p>\n", 7) + "    | <p> ...\n",
		strings.Repeat("x", 2000):                 "    | " + strings.Repeat("x", 512) + " ...\n",
		"":                                        "",
	} {
		var out strings.Builder
		printExcerpt(&out, text)
		require.Equal(t, want, out.String())
	}
}

func TestARetrySaysWhatItLeftAndWhy(t *testing.T) {
	const delivery = `{"id":"ep_1:m","destination":"ep_1","message_id":"m","status":"in_flight",`
	environ, _ := newTestAPI(t, http.StatusAccepted, `{"id":"m","deliveries":[`+delivery+`"why":"in_flight"},`+delivery+`"why":"delivered"},`+delivery+`"retried":true}]}`)
	got := command(t, environ, "", "retry", "m")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?s)  left +an attempt is under way\n.*  left +it was delivered; --all or --destination sends it again\n.*  retry +now\n`, got.out)

	environ, _ = newTestAPI(t, http.StatusConflict, `{"type":"/problems/not-retryable","status":409,"title":"Nothing is attempted","deliveries":[`+delivery+`"why":"in_flight"}]}`)
	got = command(t, environ, "", "retry", "m", "--destination", "ep_1")
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `(?m)^  left +an attempt is under way$`, got.out)
}

func TestTheFilterOfAJobIsShownWhole(t *testing.T) {
	at := wire.Time{Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	require.Equal(t, "dead_reason=gone destination=u_1 failed since=2026-01-31T12:00:00Z status=dead,cancelled subject=order 7 tenant=m7 topic=a.* until=2026-01-31T12:00:00Z",
		jobFilterText(wire.JobFilter{
			Status: []string{"dead", "cancelled"}, Topic: []string{"a.*"}, Tenant: []string{"m7"}, Subject: []string{"order 7"}, Failed: true,
			Destination: []string{"u_1"}, DeadReason: []string{"gone"}, Since: at, Until: at,
		}))
}

// getCSV returns what the API answers as CSV.
func getCSV(t testing.TB, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Accept", "text/csv")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	require.NotEmpty(t, resp.Header.Get(wire.HeaderResumeCursor))
	return string(text)
}

// endedAt finds the end behind created_at. That of the archive is the time of a line of the log, which may be a ms later.
var endedAt = regexp.MustCompile(`(Z,)[0-9T:.-]+Z(,\d+,)`)

func TestEveryCSVOfADeliveryIsTheSame(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("webhook-id") == "dead" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(receiver.Close)
	port, err := kit.FreePort()
	require.NoError(t, err)
	at := kit.Loopback(port)
	api := "http://" + at
	archive := []string{"ARCHIVE_URL=" + pgtest.New(t), "ENCRYPTION_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
	server := start(t, append([]string{
		"LISTEN=" + at, "REDIS_URL=" + redistest.Start(t).URL(), "ALLOW_NETS=127.0.0.0/8", "SIGNING_SECRET=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
	}, archive...), "serve")
	environ := []string{"HOOKLADDER_URL=" + api}
	require.Eventually(t, func() bool { return command(t, environ, "", "ping").code == exitOK }, patience, 10*time.Millisecond)
	var endpoint struct{ ID string }
	made := command(t, environ, "", "endpoints", "create", "--url", receiver.URL+"/a,b", "--tenant", "shop", "--json")
	require.Equal(t, exitOK, made.code, made.err)
	require.NoError(t, json.Unmarshal([]byte(made.out), &endpoint))
	for _, id := range []string{"delivered", "dead"} { // the death disables the endpoint
		subject := `=1+1, "` + id + `"`
		sent := command(t, environ, "", "send", "--endpoint", endpoint.ID, "--tenant", "shop", "--id", id, "--topic", "a.b", "--subject", subject, "--body", "1")
		require.Equal(t, exitOK, sent.code, sent.err)
		var exported string
		require.Eventually(t, func() bool {
			got := command(t, archive, "", "export", "--subject", subject)
			exported = got.out
			return got.code == exitOK && strings.Count(exported, "\n") == 2
		}, patience, 100*time.Millisecond)
		require.True(t, strings.HasPrefix(exported, csvHeader+endpoint.ID+":"+id+","+id+",shop,"), exported)
		require.Contains(t, exported, ","+endpoint.ID+`,"`+receiver.URL+`/a,b",`+id+",")
		answered := getCSV(t, api+"/v1/endpoints/"+endpoint.ID+"/deliveries?status="+id)
		require.Equal(t, endedAt.ReplaceAllString(answered, "$1$2"), endedAt.ReplaceAllString(exported, "$1$2"))
		for _, args := range [][]string{
			{"endpoints", "deliveries", endpoint.ID, "--status", id}, {"deliveries", "--status", id}, {"deliveries", "--tenant", "shop", "--subject", subject},
		} {
			got := command(t, environ, "", append(args, "--csv")...)
			require.Equal(t, exitOK, got.code, got.err)
			require.Equal(t, answered, got.out, args)
		}
	}
	require.Equal(t, exitOK, server.end())
}
