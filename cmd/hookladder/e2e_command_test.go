package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// mustRun carries out one command of the binary to its end, in an empty
// folder and with no other environment than is given.
func mustRun(t *testing.T, environ []string, in string, args ...string) result {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), e2eWait)
	defer stop()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = append([]string{raceAtExit}, environ...), t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil || ctx.Err() != nil {
		require.FailNow(t, "it does not run to its end", "%v %s", err, errs.String())
	}
	return result{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
}

// mustStart starts a command of the binary that goes on until it is
// interrupted.
func mustStart(t *testing.T, args ...string) *running {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = []string{raceAtExit}, t.TempDir()
	r := &running{
		t: t, lines: make(chan string, 1024), code: make(chan int, 1), errs: &bytes.Buffer{},
		stop: func() { _ = cmd.Process.Signal(os.Interrupt) }, // an error says that it has ended
	}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = r.errs
	require.NoError(t, cmd.Start())
	go func() {
		defer close(r.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			r.lines <- scan.Text()
		}
		_ = cmd.Wait() // the code says it
		r.code <- cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range r.lines { // ends with the command
		}
	})
	return r
}

func TestE2EServeRefusesToStart(t *testing.T) {
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

func TestE2EOtherPartitionsThanTheFirstStartsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("PARTITIONS=4")
	for n := range 20 { // over all of them
		url := strings.Replace(w.receiver.URL, "127.0.0.1", fmt.Sprint("127.0.4.", n+1), 1)
		i.publish(wire.Message{ID: fmt.Sprint("m", n), URL: url})
	}
	for n := range 20 {
		i.until(fmt.Sprint("m", n), "delivered")
	}
	got := mustRun(t, []string{"REDIS_URL=" + w.redis.URL(), "LISTEN=127.0.0.1:0", "PARTITIONS=8"}, "", "serve")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "PARTITIONS=8")
}

func TestE2ETheKeyThatARefusalOffersWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refusal := mustRun(t, []string{"REDIS_URL=" + w.redis.URL(), "LISTEN=0.0.0.0:0"}, "", "serve").err
	setting := regexp.MustCompile(`API_KEYS=\S+`).FindString(refusal)
	key, _, _ := strings.Cut(strings.TrimPrefix(setting, "API_KEYS="), ":")
	i := w.serve(setting)
	send := []string{"send", "--server", i.url, "--topic", "t", "--id", "m1", "--body", "1", "--url", w.receiver.URL}
	got := mustRun(t, nil, "", send...)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "key")
	w.receiver.expect("m1", &wire.Message{Body: []byte("1")})
	got = mustRun(t, []string{"HOOKLADDER_KEY=" + key}, "", send...)
	require.Equal(t, exitOK, got.code, got.err)
	w.receiver.wait("m1", 1)
}

func TestE2ESendAndGetTellByTheirExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.troubled = true
	env := []string{"HOOKLADDER_URL=" + i.url}
	const body = `{ "n": 12345678901234567890 }`
	w.receiver.expect("m1", &wire.Message{Body: []byte(body)})
	send := []string{"send", "--topic", "order.paid", "--id", "m1", "--tenant", "acme", "--header", "x-shop: 7", "--url", w.receiver.URL}

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

	got = mustRun(t, env, "", "send", "--topic", "t", "--id", "m2", "--body", "2", "--delay", "1d", "--url", w.receiver.URL, "--json")
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
	require.Equal(t, exitFailed, mustRun(t, env, "1", "send", "--topic", "not a topic", "--url", w.receiver.URL).code)
	require.Equal(t, exitUsage, mustRun(t, env, "1", "send", "--url", w.receiver.URL).code)
	require.Equal(t, exitUsage, mustRun(t, env, "", "ping", "--frob").code)
	require.Equal(t, exitNotFound, mustRun(t, env, "", "get", "unknown").code)
	for _, args := range [][]string{{"ping"}, {"get", "m1"}, send} {
		require.Equal(t, exitUnreachable, mustRun(t, nobody, "1", args...).code, "%q", args)
	}
	w.redis.Stop()
	require.Equal(t, exitFailed, mustRun(t, env, "", "ping").code, "it answers, but its store can't be used")
}

// arguments are the words of a command line as a shell reads it.
func arguments(t *testing.T, line string) []string {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	out, err := exec.Command("/bin/sh", "-c", name+`() { printf '%s\n' "$@"; }; `+line).CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func TestE2EDevDeliversByTheCallItPrints(t *testing.T) {
	t.Parallel()
	dev := mustStart(t, "dev", "--listen", "127.0.0.1:0", "--receiver", "127.0.0.1:0", "--speed", "100000")
	receiver := regexp.MustCompile(`http://\S+`).FindString(dev.until("receiver"))
	line := dev.until("curl")
	args := arguments(t, strings.TrimSuffix(line, `\`)+dev.until("-d"))
	require.Len(t, args, 5)
	require.Equal(t, []string{"-H", "Content-Type: application/json", "-d"}, args[1:4])
	res, err := http.Post(args[0], "application/json", strings.NewReader(args[4]))
	require.NoError(t, err)
	var p wire.Published
	require.NoError(t, json.NewDecoder(res.Body).Decode(&p))
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusAccepted, res.StatusCode)
	dev.until(p.ID, "attempt 1", "503", "next attempt in")
	dev.until(p.ID, "attempt 3", "204", "delivered")

	forged := post(t, receiver+"/ok", signer.NewSecret(), "forged", "{}")
	require.Equal(t, http.StatusUnauthorized, forged, "its receiver verifies")

	c, err := client.New(strings.TrimSuffix(args[0], "/v1/messages"), "")
	require.NoError(t, err)
	_, err = c.Publish(t.Context(), &wire.Message{ID: "fails", Topic: "t", URL: receiver + "/fail", Body: []byte("1")})
	require.NoError(t, err)
	for n := 1; n <= 9; n++ {
		dev.until("fails", fmt.Sprintf("attempt %d ", n), "500", "next attempt in")
	}
	dev.until("fails", "attempt 10 ", "500", "dead, exhausted")
	require.Equal(t, exitOK, dev.end())
	require.NotContains(t, dev.errs.String(), "DATA RACE")
}
