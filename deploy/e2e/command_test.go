package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The exit codes of the contract.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
)

// result is what became of one command line.
type result struct {
	code     int
	out, err string
}

// mustRun carries out one command of the binary to its end, in an empty
// folder and with no other environment than is given.
func mustRun(t *testing.T, environ []string, in string, args ...string) result {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), kit.Patience)
	defer stop()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, mustBinary(t), args...)
	cmd.Env, cmd.Dir = append([]string{kit.NoExitSleep}, environ...), t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil || ctx.Err() != nil {
		require.FailNow(t, "it does not run to its end", "%v %s", err, errs.String())
	}
	return result{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
}

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redis := "REDIS_URL=" + server.URL()
	full := "REDIS_URL=" + redistest.Start(t, "maxmemory 100mb", "maxmemory-policy allkeys-lru").URL()
	const free = "LISTEN=127.0.0.1:0"
	for _, c := range []struct {
		name    string
		environ []string
		want    []string
		code    int
	}{
		{"without a Redis", nil, []string{"neither REDIS_URL nor DATA_DIR is set"}, exitUsage},
		{"with a folder and no program to run on it", []string{"DATA_DIR=" + t.TempDir(), "PATH=" + t.TempDir(), free}, []string{"DATA_DIR: neither redis-server nor valkey-server is installed"}, exitFailed},
		{"where its Redis does not answer", []string{"REDIS_URL=redis://127.0.0.1:1", free}, []string{"REDIS_URL: ", "127.0.0.1:1", "connection refused (waited 30s for it)"}, exitUnreachable},
		{"on a Redis that throws deliveries away", []string{full, free}, []string{"allkeys-lru", "noeviction"}, exitFailed},
		{"in the open without a key", []string{redis, "LISTEN=0.0.0.0:0"}, []string{"set API_KEYS=hk_"}, exitUsage},
		{"on an address that is taken", []string{redis, "LISTEN=" + strings.TrimPrefix(strings.TrimSuffix(server.URL(), "/0"), "redis://")},
			[]string{"choose another address with LISTEN or PORT"}, exitFailed},
		{"with settings that are wrong, and names them all",
			[]string{redis, "LADDER=soon", "MAX_BODY=-1", "ATTEMPT_TIMEOUT=1h", "API_KEYS=short:admin", "SIGNING_SECRET=whsec_x", "ALLOW_NETS=10.0.0.0/33", "WAKE=now"},
			[]string{"LADDER=", "MAX_BODY=", "ATTEMPT_TIMEOUT=", "API_KEYS", "SIGNING_SECRET", "ALLOW_NETS=", "WAKE"}, exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := mustRun(t, c.environ, "", "serve")
			require.Equal(t, c.code, got.code, got.err)
			for _, want := range c.want {
				require.Contains(t, got.err, want)
			}
			for _, secret := range []string{"short", "whsec_x"} {
				require.NotContains(t, got.err, secret, "secrets are not repeated")
			}
			require.Empty(t, got.out)
		})
	}
}

func TestOtherPartitionsThanTheFirstStartsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("PARTITIONS=4")
	for n := range 20 { // over all of them
		url := w.receiver.URL(n + 1)
		i.publish(wire.Message{ID: fmt.Sprint("m", n), URL: url})
	}
	i.untilAll("delivered", named("m", 20)...)
	got := mustRun(t, []string{"REDIS_URL=" + w.redis.URL(), "LISTEN=127.0.0.1:0", "PARTITIONS=8"}, "", "serve")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "PARTITIONS=8")
}

func TestSendAndGetTellByTheirExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.troubled = true
	env := []string{"HOOKLADDER_URL=" + i.URL}
	const body = `{ "n": 12345678901234567890 }`
	w.receiver.expect("m1", &wire.Message{Body: []byte(body)})
	send := []string{"send", "--topic", "order.paid", "--id", "m1", "--tenant", "acme", "--header", "x-shop: 7", "--url", w.receiver.URL(0)}

	got := mustRun(t, env, body, send...)
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "m1 accepted")
	arrived := w.receiver.wait("m1", 1)
	require.Equal(t, "7", arrived.header.Get("x-shop"))
	require.Equal(t, "acme", arrived.header.Get("hookladder-tenant"))
	i.until("m1", "delivered")
	got = mustRun(t, env, "", "get", "m1")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?m)^  status +delivered$`, got.out)
	got = mustRun(t, env, "", "get", "m1", "--json")
	require.Contains(t, got.out, "\n  \"body\": "+body+"\n}\n", "byte for byte")
	require.Contains(t, got.out, "\n  \"deliveries\": [\n")
	var record wire.MessageView
	require.NoError(t, json.Unmarshal([]byte(got.out), &record))
	require.Equal(t, 1, record.Deliveries[0].Attempts)

	got = mustRun(t, env, "", "send", "--topic", "t", "--id", "m2", "--body", "2", "--delay", "1d", "--url", w.receiver.URL(0), "--json")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, `"status": "scheduled"`)
	require.Equal(t, exitOK, mustRun(t, env, "", "cancel", "m2").code)
	require.Equal(t, "cancelled", i.delivery("m2").Status)
	w.receiver.expect("m2", &wire.Message{Body: []byte("2")})
	require.Equal(t, exitOK, mustRun(t, env, "", "retry", "m2").code)
	w.receiver.wait("m2", 1)

	nobody := []string{"HOOKLADDER_URL=http://127.0.0.1:1"}
	require.Equal(t, exitOK, mustRun(t, env, "", "ping").code)
	require.Equal(t, exitFailed, mustRun(t, env, "other content", send...).code, "a conflict")
	require.Equal(t, exitFailed, mustRun(t, env, "1", "send", "--topic", "not a topic", "--url", w.receiver.URL(0)).code)
	require.Equal(t, exitUsage, mustRun(t, env, "1", "send", "--url", w.receiver.URL(0)).code)
	require.Equal(t, exitUsage, mustRun(t, env, "", "ping", "--frob").code)
	require.Equal(t, exitNotFound, mustRun(t, env, "", "get", "unknown").code)
	for _, args := range [][]string{{"ping"}, {"get", "m1"}, send} {
		require.Equal(t, exitUnreachable, mustRun(t, nobody, "1", args...).code, "%q", args)
	}
	w.redis.Stop()
	require.Equal(t, exitFailed, mustRun(t, env, "", "ping").code, "it answers, but its store can't be used")
}

func TestGetShowsWhatTheReceiverSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signature := ""
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, _ int) {
		signature = r.Header.Get("webhook-signature")
		switch id {
		case "moved":
			rw.Header().Set("Location", "https://shop.example/T0KEN/"+signature+"?token=geheim")
			rw.WriteHeader(http.StatusMovedPermanently)
		case "says":
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprint(rw, "out of stock\x1b[2J\nattempt 9 forged\n")
		case "page":
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprint(rw, strings.Repeat("<p>\n", 20)+strings.Repeat("x", 2000))
		}
	})
	i := w.serve()
	get := func(id string) string {
		i.publish(wire.Message{ID: id, URL: w.receiver.URL(0), MaxAttempts: 1})
		i.until(id, "dead")
		got := mustRun(t, []string{"HOOKLADDER_URL=" + i.URL}, "", "get", id)
		require.Equal(t, exitOK, got.code, got.err)
		return got.out
	}
	out := get("moved")
	require.Contains(t, out, "status 301 to https://shop.example/T0KEN/v1,[signature]: redirects are not followed")
	require.NotContains(t, out, "geheim")
	require.NotContains(t, i.log(), "T0KEN", "what may be the receiver's own URL stays out of the log")
	out = get("says")
	require.Contains(t, out, "\n    | out of stock\\u{1b}[2J\n    | attempt 9 forged\n")
	out = get("page")
	require.Equal(t, 8, strings.Count(out, "    | "))
	require.True(t, strings.HasSuffix(out, "    | <p> ...\n"), out)
}

func TestACallWithoutAKeySaysWhereItsKeyComesFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("API_KEYS=0123456789abcdef:read")
	env := []string{"HOOKLADDER_URL=" + i.URL}
	got := mustRun(t, env, "", "get", "m1")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "set HOOKLADDER_KEY")
	require.Contains(t, got.err, "--key-file")
	got = mustRun(t, append(env, "HOOKLADDER_KEY=another-key-than-that"), "", "get", "m1")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "the key in HOOKLADDER_KEY")
	require.NotContains(t, got.err, "another-key")
	got = mustRun(t, append(env, "HOOKLADDER_KEY=0123456789abcdef"), "", "get", "m1")
	require.Equal(t, exitNotFound, got.code)
	require.NotContains(t, got.err, "HOOKLADDER_KEY")
}

// block is the code between fences of endpoints.md that holds a text.
func block(t testing.TB, text string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "endpoints.md"))
	require.NoError(t, err)
	for n, part := range strings.Split(string(page), "\n```") {
		if n%2 == 1 && strings.Contains(part, text) {
			_, lines, _ := strings.Cut(part, "\n")
			return lines
		}
	}
	require.FailNow(t, "endpoints.md has no block with "+text)
	return ""
}

// After a 410 by mistake: what the page of endpoints shows is pasted into a shell.
func TestWhatThePageShowsSendsAgainWhatA410Buried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mended atomic.Bool
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, _ int) {
		if !mended.Load() {
			rw.WriteHeader(http.StatusGone)
		}
	})
	i := w.serve()
	for _, uid := range []string{"shop-42", "shop-43"} {
		_, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: uid, URL: w.receiver.URL(0) + "/" + uid, Secret: w.secret.Reveal()})
		require.NoError(t, err)
		i.publish(wire.Message{ID: uid + "-gone", Endpoint: uid})
		i.until(uid+"-gone", "dead")
	}
	const buried = 5
	for n := range buried {
		id := fmt.Sprint("m", n)
		i.publish(wire.Message{ID: id, Endpoint: "shop-42"})
		require.Equal(t, "disabled", i.delivery(id).DeadReason)
	}
	mended.Store(true)

	path, err := kit.FastBinary()
	require.NoError(t, err)
	script := block(t, "retry --destination shop-42")
	for from, to := range map[string]string{"hookladder ": path + " ", "--rate 200/s": "--rate 200/s --yes"} {
		require.Contains(t, script, from)
		script = strings.ReplaceAll(script, from, to)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-u", "-c", script)
	cmd.Env = append(os.Environ(), "HOOKLADDER_URL="+i.URL, "HOOKLADDER_KEY=", kit.NoExitSleep)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	i.untilAll("delivered", named("m", buried)...)
	i.until("shop-42-gone", "delivered")
	require.Equal(t, "dead", i.delivery("shop-43-gone").Status, "another endpoint's")
	for n := range buried {
		require.Len(t, w.receiver.arrivals(fmt.Sprint("m", n)), 1)
	}
}

// The image has no git to ask.
func TestABuildWithoutGitTellsItsCommit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(text), "-X main.builtFrom=${REVISION}")
	got := mustRun(t, nil, "", "version") // kit builds it like that
	require.Contains(t, got.out, "("+kit.Revision[:12]+"), go1.")
}
