// Package asynq tests the commands of the documents that count what other queues still have.
package asynq

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy"
	"github.com/hookladder/hookladder/deploy/kit"
)

// counts runs the commands of the page under a heading, and returns their lines.
func counts(t *testing.T, r *kit.Redis, heading string) []string {
	t.Helper()
	page, err := deploy.Documents.ReadFile(path.Join("docs", "migrate.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n### "+heading+"\n")
	require.True(t, found, heading)
	block := regexp.MustCompile("(?s)\n```sh\n(.*?)\n```").FindStringSubmatch(section)
	require.NotNil(t, block)
	script := exec.CommandContext(t.Context(), "sh", "-c", block[1])
	script.Env = append(os.Environ(), "OLD_REDIS="+r.URL())
	out, err := script.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func newTestRedis(t *testing.T) *kit.Redis {
	t.Helper()
	r, err := kit.StartRedis(t.Context(), kit.RedisOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { r.Process.Kill() })
	return r
}

func TestTheCommandsCountWhatAsynqHas(t *testing.T) {
	r := newTestRedis(t)
	at, err := asynq.ParseRedisURI(r.URL())
	require.NoError(t, err)
	client := asynq.NewClient(at)
	defer client.Close()
	due := time.Now().Add(time.Hour)
	enqueue := func(kind string, options ...asynq.Option) {
		_, err := client.Enqueue(asynq.NewTask(kind, nil), options...)
		require.NoError(t, err)
	}
	enqueue("fails")
	enqueue("blocks")
	enqueue("quick", asynq.TaskID("the-last"), asynq.ProcessAt(due))
	enqueue("quick", asynq.Group("g"))
	require.Equal(t, []string{"pending 2", "active 0", "scheduled 1", "retry 0", "groups 1", "the-last"}, counts(t, r, "asynq")[:6])

	blocked, release, failed := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	server := asynq.NewServer(at, asynq.Config{
		Concurrency: 2, LogLevel: asynq.FatalLevel, GroupGracePeriod: time.Hour, GroupMaxDelay: time.Hour,
		GroupAggregator: asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return asynq.NewTask("quick", nil) }),
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc("quick", func(context.Context, *asynq.Task) error { return nil })
	mux.HandleFunc("fails", func(context.Context, *asynq.Task) error {
		failed <- struct{}{}
		return errors.New("again")
	})
	mux.HandleFunc("blocks", func(context.Context, *asynq.Task) error {
		close(blocked)
		<-release
		return nil
	})
	require.NoError(t, server.Start(mux))
	<-failed
	<-blocked
	require.Eventually(t, func() bool {
		lines := counts(t, r, "asynq")
		return strings.Join(lines[:5], ", ") == "pending 0, active 1, scheduled 1, retry 1, groups 1"
	}, time.Minute, 10*time.Millisecond)

	close(release)
	inspect := asynq.NewInspector(at)
	defer inspect.Close()
	_, err = inspect.RunAllScheduledTasks("default")
	require.NoError(t, err)
	_, err = inspect.DeleteAllRetryTasks("default")
	require.NoError(t, err)
	_, err = inspect.RunAllAggregatingTasks("default", "g")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return strings.Join(counts(t, r, "asynq"), ", ") == "pending 0, active 0, scheduled 0, retry 0, groups 0"
	}, time.Minute, 10*time.Millisecond)
	server.Shutdown()
}

// The library has these keys: ids wait in pending until they are due, then in ready,
// and while they are handled in unack. A failed one is in retry.
func TestTheCommandsCountWhatDelayqueueHas(t *testing.T) {
	r := newTestRedis(t)
	do := func(args ...any) { require.NoError(t, r.Client.Do(t.Context(), args...).Err()) }
	do("zadd", "dp:order_cancel:pending", "1800000000", "first", "1900000000", "last")
	do("lpush", "dp:order_cancel:ready", "a", "b", "c")
	do("zadd", "dp:order_cancel:unack", "1700000000", "d")
	do("lpush", "dp:order_cancel:retry", "e", "f", "g", "h")
	do("hset", "dp:order_cancel:retry:cnt", "first", "3")
	do("set", "dp:order_cancel:msg:first", "{}")
	const heading = "delayqueue (hdt3213)"
	require.Equal(t, []string{"pending 2", "unack 1", "ready 3", "retry 4", "last", "1900000000"}, counts(t, r, heading))
	for _, key := range []string{"pending", "unack", "ready", "retry"} {
		do("del", "dp:order_cancel:"+key)
	}
	require.Equal(t, []string{"pending 0", "unack 0", "ready 0", "retry 0"}, counts(t, r, heading))
}

// RedissonDelayedQueue has these keys: an element waits in a set with its due time and
// in a list, then it is in the list of the queue's name.
func TestTheCommandsCountWhatRedissonHas(t *testing.T) {
	r := newTestRedis(t)
	offer := func(value, due string) {
		const script = `local v = struct.pack('Bc0Lc0', string.len(ARGV[2]), ARGV[2], string.len(ARGV[3]), ARGV[3])
redis.call('zadd', KEYS[2], ARGV[1], v)
return redis.call('rpush', KEYS[1], v)`
		keys := []string{"redisson_delay_queue:{order_cancel}", "redisson_delay_queue_timeout:{order_cancel}"}
		require.NoError(t, r.Client.Eval(t.Context(), script, keys, due, "\x00random\n", value).Err())
	}
	offer("one", "1800000000000")
	offer("two", "1900000000000")
	require.NoError(t, r.Client.RPush(t.Context(), "order_cancel", "zero").Err())
	lines := counts(t, r, "Redisson delayed queue")
	require.Equal(t, []string{"delayed 2", "ready 1"}, lines[:2])
	require.Contains(t, lines[len(lines)-1], "1900000000000")
	require.NoError(t, r.Client.FlushDB(t.Context()).Err())
	require.Equal(t, []string{"delayed 0", "ready 0", "(empty array)"}, counts(t, r, "Redisson delayed queue"))
}
