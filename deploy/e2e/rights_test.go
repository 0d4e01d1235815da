package e2e_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// leastLine returns the line of redis.conf in the documents, for a user with the least rights.
var leastLine = sync.OnceValue(func() string {
	page, err := os.ReadFile(filepath.Join("..", "docs", "operate.md"))
	if err != nil {
		panic(err) // no test has a store then
	}
	return strings.Replace(regexp.MustCompile(`(?m)^user hookladder on >PASSWORD .*$`).FindString(string(page)), "PASSWORD", "least", 1)
})

// asLeast returns the URL of a store with that user.
func asLeast(url string) string {
	return strings.Replace(url, "://", "://hookladder:least@", 1)
}

// mustRefuseNothing fails the test if a server that answers refused a command, a key or a
// channel to a user.
func mustRefuseNothing(t testing.TB, server *redistest.Server) {
	t.Helper()
	if server.Process.Gone() {
		return
	}
	entries, err := server.Client.ACLLog(context.Background(), 100).Result()
	if err != nil {
		return // it is paused, or has a password
	}
	for _, refused := range entries {
		require.Equal(t, "auth", refused.Reason, "the line in operate.md lacks a right: %s", refused.Object)
	}
}

// The start and the doctor name what the user lacks, and the command that grants it.
func TestTheStartNamesEachMissingRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		rules []any
		want  string
	}{
		"a command of scripts": {[]any{"-zadd", "-hset"}, "run ACL SETUSER lacking +hset +zadd"},
		"a first command":      {[]any{"-hgetall"}, "run ACL SETUSER lacking +hgetall"},
		"the keys":             {[]any{"resetkeys", "~other*"}, "run ACL SETUSER lacking ~{default:* ~{default}*"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, w.rdb.Do(t.Context(), append([]any{"ACL", "SETUSER", "lacking", "reset", "on", ">least", "+@all", "~*", "&*"}, c.rules...)...).Err())
			settings := []string{"REDIS_URL=" + strings.Replace(w.redis.URL(), "://", "://lacking:least@", 1), "LISTEN=127.0.0.1:0"}
			for _, command := range []string{"serve", "doctor"} {
				got := mustRun(t, settings, "", command)
				require.NotEqual(t, exitOK, got.code)
				require.Contains(t, got.err+got.out, c.want, command)
				require.NotContains(t, got.err, "use Redis or Valkey")
			}
		})
	}
	require.NoError(t, w.rdb.Do(t.Context(), "ACL", "LOG", "RESET").Err())
}

// A right that is taken away after the start is a fault of the store: callers repeat their
// call, and everything continues as soon as the right is back.
func TestAPublishWithoutARightIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	may := func(rule string) { require.NoError(t, w.rdb.Do(t.Context(), "ACL", "SETUSER", "losing", rule).Err()) }
	require.NoError(t, w.rdb.Do(t.Context(), "ACL", "SETUSER", "losing", "reset", "on", ">least", "+@all", "~*", "&*").Err())
	i := w.serve("REDIS_URL=" + strings.Replace(w.redis.URL(), "://", "://losing:least@", 1))
	i.troubled = true
	message := `{"id":"first","topic":"a","url":"` + w.receiver.URL(0) + `","body":1}`
	for right, want := range map[string]string{
		"hset":    "the user of Redis lacks a right, which hookladder doctor names", // a script does not name the command
		"evalsha": "the user of Redis lacks the right +evalsha",
	} {
		may("-" + right)
		require.Contains(t, i.refusedWith(503, "unavailable", "POST", "/v1/messages", message).Detail, want)
		may("+" + right)
	}
	may("-hget")
	require.Contains(t, i.refusedWith(503, "unavailable", "GET", "/v1/messages/first", "").Detail, "lacks")
	may("+hget")
	eventually(t, "it accepts again", func() bool { return i.accepts(w, "first") })
	i.until("first", "delivered")
	require.NoError(t, w.rdb.Do(t.Context(), "ACL", "LOG", "RESET").Err())
}

// documentedRights are the rights of the documented line, as rules that take each of them away.
func documentedRights(t testing.TB) (all []string) {
	t.Helper()
	for _, word := range strings.Fields(leastLine()) {
		switch {
		case strings.HasPrefix(word, "+"):
			all = append(all, "-"+word[1:])
		case strings.HasPrefix(word, "~") && !slices.Contains(all, "resetkeys"):
			all = append(all, "resetkeys")
		case strings.HasPrefix(word, "&"):
			all = append(all, "resetchannels")
		}
	}
	require.Contains(t, all, "-@stream")
	require.Contains(t, all, "resetkeys")
	return all
}

// Redis checks the rights of each command of a script, and undoes nothing. Each right of the
// documented line, and that of some single commands, is taken away while callers publish, and given
// back: nothing is stuck then, and the counts are those of the lists.
func TestEachRightMayBeMissingForAWhileUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	may := func(rules ...any) {
		t.Helper()
		require.NoError(t, w.rdb.Do(t.Context(), append([]any{"ACL", "SETUSER", "losing"}, rules...)...).Err())
	}
	may("reset", "on", ">least", "+@all", "~*", "&*")
	seed := rand.Uint64()
	t.Log("seed", seed)
	w.receiver.answers(failing(seed)) // so deliveries wait in each kind of list
	settings := []string{"REDIS_URL=" + strings.Replace(w.redis.URL(), "://", "://losing:least@", 1), "LADDER=20ms,50ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms"}
	i, other := w.serve(settings...), w.serve(settings...)
	i.troubled, other.troubled = true, true
	c := startCallers(4, 0, i, other)
	single := []string{"-xadd", "-zadd", "-hset", "-zrem", "-lpush", "-rpush", "-ltrim", "-@write"} // a script is torn at any of them
	rights := single
	if !testing.Short() {
		rights = append(documentedRights(t), single...)
	}
	for _, right := range rights {
		c.goOn(5)
		have := c.count()
		require.NoError(t, w.rdb.Do(t.Context(), "ACL", "LOG", "RESET").Err())
		may(right)
		// The first refusal may tear a script, and then nothing needs the right any more.
		eventually(t, "neither is a command refused after "+right+", nor does the load go on without it", func() bool {
			refused, err := w.rdb.ACLLog(t.Context(), 10).Result()
			return err == nil && len(refused) > 0 || c.count() >= have+10
		})
		may("+@all", "~*", "&*")
	}
	c.goOn(20)
	all := c.end()
	w.receiver.arrived(all)
	for _, one := range all {
		i.until(one.id, "delivered")
	}
	w.counted(i)
	require.NoError(t, w.rdb.Do(t.Context(), "ACL", "LOG", "RESET").Err())
	code, out := w.doctor(t, nil)
	require.Zero(t, code, out)
	require.Contains(t, i.log()+other.log(), "the partitions are repaired, and go on")
}
