package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestSendSendsEveryField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	w.receiver.expect("m1", &wire.Message{Body: []byte("7")})
	env := []string{"HOOKLADDER_URL=" + i.URL}
	got := mustRun(t, env, "7", "send", "--url", w.receiver.URL(0), "--topic", "a.b", "--id", "m1", "--tenant", "acme", "--raw",
		"--ordering-key", "k", "--deliver-at", "2020-01-31T09:00:00+01:00", "--expires-at", "2096-01-31T09:00:00Z", "--timeout", "7s",
		"--max-attempts", "2", "--ladder", "1d,2d", "--success", `{"status":["*"],"body":"success"}`, "--header", "x-shop: 7")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "text/plain; charset=utf-8", w.receiver.wait("m1", 1).header.Get("content-type"))
	i.until("m1", "retrying")
	got = mustRun(t, env, "", "get", "m1", "--json")
	var m wire.Message
	require.NoError(t, json.Unmarshal([]byte(got.out), &m))
	require.Equal(t, "7", *m.RawBody)
	require.Equal(t, []any{"k", "7s", 2, "7", "*", `"success"`, 2096}, []any{m.OrderingKey, time.Duration(m.Timeout).String(),
		m.MaxAttempts, m.Headers["x-shop"], m.Success.Status[0], string(m.Success.Body), m.ExpiresAt.Year()})

	later := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	got = mustRun(t, env, "7", "send", "--url", w.receiver.URL(0), "--topic", "a.b", "--id", "m3", "--deliver-at", later.Format(time.RFC3339))
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, later, i.delivery("m3").NextAttemptAt.UTC())

	w.receiver.expect("m2", &wire.Message{Body: []byte("<a/>")})
	got = mustRun(t, env, "<a/>", "send", "--url", w.receiver.URL(0), "--topic", "a.b", "--id", "m2", "--content-type", "application/xml", "--success", "2xx,404")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "application/xml", w.receiver.wait("m2", 1).header.Get("content-type"))
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
