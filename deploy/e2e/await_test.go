package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAServeThatIsThereBeforeItsRedisWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redis.Stop()
	i, began := w.begin(), time.Now()
	i.troubled = true
	i.says(`"msg":"waiting for the store"`)
	i.says(`REDIS_URL: open redis`)
	w.redis.Restart()
	i.says(`"msg":"started"`)
	require.Equal(t, exitOK, i.stop())
	most := 2 + int(time.Since(began)/time.Second)
	require.LessOrEqual(t, strings.Count(i.log(), `"msg":"waiting for the store"`), most, "every few seconds")

	w.serve().publish(wire.Message{ID: "m1", URL: w.receiver.URL(0)})
}

func TestASignalEndsTheWaitForAStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redis.Stop()
	i := w.begin()
	i.troubled = true
	i.says(`"msg":"waiting for the store"`)
	require.Equal(t, exitOK, i.stop())
	i.says(`"msg":"stopped before it began"`)
	require.NotContains(t, i.log(), "waited 30s", "it ended before")
}

func TestWhatNoWaitMendsIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.rdb.ConfigSet(t.Context(), "requirepass", "geheim").Err())
	for name, url := range map[string]string{
		"without its password":    w.redis.URL(),
		"with another password":   strings.Replace(w.redis.URL(), "://", "://:falsch@", 1),
		"no Redis but a receiver": strings.Replace(w.receiver.URL(0), "http", "redis", 1),
	} {
		got := mustRun(t, []string{"REDIS_URL=" + url, "LISTEN=127.0.0.1:0"}, "", "serve")
		require.NotEqual(t, exitOK, got.code, name)
		require.Contains(t, got.err, "open redis", name)
		require.NotContains(t, got.err, "waiting for the store", "%s: it does not wait", name)
		require.NotContains(t, got.err, "falsch")
	}
}
