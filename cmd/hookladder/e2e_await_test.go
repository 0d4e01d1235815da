package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// begin starts an instance and waits for nothing.
func (w *world) begin(settings ...string) *instance {
	w.t.Helper()
	path, err := binary()
	require.NoError(w.t, err)
	i := &instance{t: w.t, receiver: w.receiver, log: &lockedBuffer{}, done: make(chan struct{})}
	i.cmd = exec.Command(path, "serve")
	i.cmd.Env = append([]string{"LISTEN=127.0.0.1:0", raceAtExit}, append(w.settings, settings...)...)
	i.cmd.Stdout, i.cmd.Stderr = i.log, i.log
	require.NoError(w.t, i.cmd.Start())
	go func() {
		_ = i.cmd.Wait()
		close(i.done)
	}()
	w.t.Cleanup(i.kill)
	return i
}

func TestE2EAServeThatIsThereBeforeItsRedisWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redis.Stop()
	i := w.begin()
	i.says(`"msg":"waiting for the store"`)
	i.says(`REDIS_URL: open redis`)
	w.redis.Restart()
	i.says(`"msg":"started"`)
	require.Equal(t, exitOK, i.stop())
	require.Less(t, strings.Count(i.log.String(), `"msg":"waiting for the store"`), 9, "every few seconds")

	w.serve().publish(wire.Message{ID: "m1", URL: w.receiver.URL})
}

func TestE2EASignalEndsTheWaitForAStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redis.Stop()
	i := w.begin()
	i.says(`"msg":"waiting for the store"`)
	require.Equal(t, exitOK, i.stop())
	i.says(`"msg":"stopped before it began"`)
	require.NotContains(t, i.log.String(), "waited 30s", "it ended before")
}

func TestE2EWhatNoWaitMendsIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.rdb.ConfigSet(t.Context(), "requirepass", "geheim").Err())
	for name, url := range map[string]string{
		"without its password":    w.redis.URL(),
		"with another password":   strings.Replace(w.redis.URL(), "://", "://:falsch@", 1),
		"no Redis but a receiver": strings.Replace(w.receiver.URL, "http", "redis", 1),
	} {
		got := mustRun(t, []string{"REDIS_URL=" + url, "LISTEN=127.0.0.1:0"}, "", "serve")
		require.NotEqual(t, exitOK, got.code, name)
		require.Contains(t, got.err, "open redis", name)
		require.NotContains(t, got.err, "waiting for the store", "%s: it does not wait", name)
		require.NotContains(t, got.err, "falsch")
	}
}

func TestACommandThatOpensTheStoreNamesTheSettingOfOneThatIsNotThere(t *testing.T) {
	for _, line := range []string{"doctor", "repartition --to 8", "doctor --seal"} {
		got := command(t, []string{"REDIS_URL=redis://127.0.0.1:1", "ENCRYPTION_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}, "", strings.Fields(line)...)
		require.Equal(t, exitUnreachable, got.code, got.err)
		require.Contains(t, got.err, "REDIS_URL: open redis: ", line)
	}
}
