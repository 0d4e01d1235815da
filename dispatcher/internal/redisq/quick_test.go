package redisq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// A usual call of settle is settled by the part quick, and any other call by the whole script. The same
// call on the same data, with and without quick, has to change the same keys and to return the same.
func TestTheQuickSettleDoesWhatTheWholeOneDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "enable-debug-command yes")
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close() //nolint:errcheck // the test is over

	quick, whole, only := redisq.SettleScripts()
	taken, left := 0, 0
	for seed := range uint64(300) {
		require.NoError(t, client.FlushAll(t.Context()).Err())
		args := putQuickCase(t.Context(), client, rand.New(rand.NewPCG(seed, 1)))
		run := func(tag string, s conn.Script) (any, error) {
			return client.Eval(t.Context(), s.Text(), []string{tag}, args...).Result()
		}
		want, err := run("{w:0}", whole)
		require.NoError(t, err, "seed %d", seed)
		got, err := run("{q:0}", quick)
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, mustDigest(t, client, "{w:0}"), mustDigest(t, client, "{q:0}"), "seed %d", seed)
		if _, err := run("{o:0}", only); err == nil {
			taken++
		} else {
			left++
			require.ErrorContains(t, err, "not usual", "seed %d", seed)
		}
	}
	require.Greater(t, taken, 50)
	require.Greater(t, left, 50)
}

// mustDigest returns the digest of each key of a partition. A digest does not depend on the order of fields.
func mustDigest(t *testing.T, client *redis.Client, tag string) map[string]string {
	t.Helper()
	names, err := client.Keys(t.Context(), tag+"*").Result()
	require.NoError(t, err)
	digests := map[string]string{}
	for _, name := range names {
		digest, err := client.Do(t.Context(), "DEBUG", "DIGEST-VALUE", name).StringSlice()
		require.NoError(t, err)
		digests[strings.TrimPrefix(name, tag)] = digest[0]
	}
	return digests
}

// putQuickCase puts the same random data into three partitions, and returns the arguments of a call of settle.
func putQuickCase(ctx context.Context, client *redis.Client, r *rand.Rand) []any {
	now := 1795965766542 + r.Int64N(1000)
	put := func(command, key string, values ...any) {
		for _, tag := range []string{"{w:0}", "{q:0}", "{o:0}"} {
			client.Do(ctx, append([]any{command, tag + key}, values...)...)
		}
	}
	often := func(percent int) bool { return r.IntN(100) < percent }
	one := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	put("SET", ":clock", now*1000+r.Int64N(1000))
	put("HSET", ":limits", "~epoch", "e")
	weird := often(40)

	var outcomes, statuses, classes, lines []string
	for i := range 1 + r.IntN(4) {
		lane := fmt.Sprintf("%s%d", one("u_", "u_", "ep_"), i)
		leases, waiting := 1+r.IntN(3), r.IntN(3)
		put("HSET", ":in", lane, fmt.Sprintf("%d %d", leases+r.IntN(2), waiting))
		state := fmt.Sprintf("%d 0 0 0 0 0 %d 0 0", 1+r.IntN(5), r.IntN(9))
		if weird && often(30) {
			state = one("4 3 0 0 0 0 1 0 0", fmt.Sprintf("4 0 1 %d 0 0 1 0 0", now+5000), fmt.Sprintf("4 0 0 0 0 0 1 %d 0 %d", now-50, now-5),
				fmt.Sprintf("4 0 0 0 %d 0 1 0 0", now*1000), "4 0 0 0 0 1 1 0 0", "0 0 0 0 0 0 1 0 0", "04 0 0 0 0 0 1 0 0", "4 0 0 0 0 0 9 0 0", "none")
		}
		put("HSET", ":lane", lane, state)
		if lane[0] == 'e' || often(10) {
			limits := one("7 0 0 0 -", "7 2 0 0 -", "7 300 0 0 -")
			if weird && often(40) {
				limits = one("7 0 0 1 -", "7 0 1000 0 -", "7 0 0 0 p", "7 0 0 0 d", "7 0 0 0 x", "7 0 0 0 - t", "none")
			}
			put("HSET", ":limits", lane, limits)
		}
		for k := range waiting - r.IntN(2) {
			put("RPUSH", ":ready:"+lane, fmt.Sprintf("%d:r%d", now-9, k))
		}
		if often(30) {
			put("ZADD", one(":lanes", ":parked"), now-50, lane)
		}
		for k := range leases {
			delivery := fmt.Sprintf("%s:m%d", lane, k)
			put("ZADD", ":leases:one", now-r.Int64N(99), delivery)
			if weird && often(5) {
				put("HSET", one(":progress", ":marks"), delivery, one("1 0 0 500 0 - 0 0", "c"))
			}
			outcomes, classes = append(outcomes, delivery), append(classes, one("0", "1", "3", "8"))
			statuses, lines = append(statuses, one("200", "204")), append(lines, delivery+" d 200 1 1 -")
		}
	}
	if often(30) {
		put("ZADD", ":lanes", 2*int64(redisq.Turn)+now, "u_other")
	}
	if often(30) {
		put("ZADD", ":due", now+900, "u_x:y")
	}
	if often(20) {
		put("ZADD", one(":done", ":dead"), now+900, "u_x:z")
		put("XADD", ":attempts", fmt.Sprintf("%d-1", now+900), "l", "-")
	}
	if weird && often(10) {
		put("HSET", ":limits", "*", one("0 0 0 0 p", "0 0 0 0 -"))
	}
	args := []any{"one", one("8192", "3") + " 1024 2048 5 1000 0 0 12ad 5578", 1, len(lines), strings.Join(lines, "\n"), "evidence", strings.Join(classes, ""), strings.Join(statuses, "")}
	for _, o := range outcomes {
		args = append(args, o)
	}
	return args
}
