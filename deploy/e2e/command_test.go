package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
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
	for n := range 20 {
		i.until(fmt.Sprint("m", n), "delivered")
	}
	got := mustRun(t, []string{"REDIS_URL=" + w.redis.URL(), "LISTEN=127.0.0.1:0", "PARTITIONS=8"}, "", "serve")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "PARTITIONS=8")
}

func TestTheKeyThatARefusalOffersWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refusal := mustRun(t, []string{"REDIS_URL=" + w.redis.URL(), "LISTEN=0.0.0.0:0"}, "", "serve").err
	setting := regexp.MustCompile(`API_KEYS=\S+`).FindString(refusal)
	key, _, _ := strings.Cut(strings.TrimPrefix(setting, "API_KEYS="), ":")
	i := w.serve(setting)
	send := []string{"send", "--server", i.URL, "--topic", "t", "--id", "m1", "--body", "1", "--url", w.receiver.URL(0)}
	got := mustRun(t, nil, "", send...)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "key")
	w.receiver.expect("m1", &wire.Message{Body: []byte("1")})
	got = mustRun(t, []string{"HOOKLADDER_KEY=" + key}, "", send...)
	require.Equal(t, exitOK, got.code, got.err)
	w.receiver.wait("m1", 1)
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
