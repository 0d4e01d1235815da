package main

import (
	"encoding/json"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/redistest"
)

// mustOpenRedis is a client of a test's server, for a careless hand.
func mustOpenRedis(t testing.TB, server redistest.Redis) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestDoctorOfASoundStoreExitsWith0(t *testing.T) {
	environ := []string{"REDIS_URL=" + redistest.Start(t).URL(), "PARTITIONS=4"}
	for _, args := range [][]string{{"doctor"}, {"doctor", "--fix"}} {
		got := command(t, environ, "", args...)
		require.Equal(t, exitOK, got.code, got.err)
		require.Contains(t, got.out, "DURABILITY=none (yes)")
		require.Regexp(t, `(?m)^  yes +eviction `, got.out)
		require.Contains(t, got.out, "examined 0 messages and 0 lanes in 4 partitions: 0 findings, 0 repaired")
	}
}

func TestDoctorTellsWhatIsWrongAndRepairsIt(t *testing.T) {
	server := redistest.Start(t, "appendonly no")
	environ := []string{"REDIS_URL=" + server.URL(), "PROJECT=shop"}
	client := mustOpenRedis(t, server)
	require.Equal(t, exitOK, command(t, environ, "", "doctor").code, "no file is no reason not to use it")
	damage := func() {
		require.NoError(t, client.HSet(t.Context(), "{shop:0}:counts", "ready", 5).Err())
		require.NoError(t, client.RPush(t.Context(), "{shop:0}:history:a:m", "0 0 ").Err())
	}
	damage()

	got := command(t, environ, "", "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "partition 0: a:m: its attempts are kept, and it is not\n  --fix: they are forgotten\n")
	require.Contains(t, got.out, "2 findings, 0 repaired")
	require.Contains(t, got.err, "2 findings are left; hookladder doctor --fix repairs 2 of them")

	got = command(t, environ, "", "doctor", "--fix")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "  repaired: the difference is added\n")
	require.Contains(t, command(t, environ, "", "doctor").out, "0 findings")

	damage()
	got = command(t, environ, "", "doctor", "--fix", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	var told struct {
		Kind, Durable string
		Checks        []struct{ Name, Holds, Detail string }
		Findings      []struct {
			Kind, Subject, Cure string
			Partition           int
			Repaired            bool
		}
		Repaired int
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &told))
	require.Contains(t, []string{"redis", "valkey"}, told.Kind)
	require.Equal(t, "yes", told.Durable)
	require.Contains(t, got.out, `"name": "append_only",`+"\n"+`      "holds": "no"`)
	require.Len(t, told.Findings, 2)
	require.Equal(t, "leftover", told.Findings[0].Kind)
	require.True(t, told.Findings[0].Repaired)
	require.Equal(t, 2, told.Repaired)
}

func TestDoctorOfWhatNoRepairHelps(t *testing.T) {
	server := redistest.Start(t)
	environ := []string{"REDIS_URL=" + server.URL()}
	require.NoError(t, mustOpenRedis(t, server).Set(t.Context(), "{default:7}:due", "x", 0).Err())
	got := command(t, environ, "", "doctor", "--fix")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "{default:7}:due: the key is of a partition that there is not")
	require.Contains(t, got.err, "1 findings are left")

	evicts := "REDIS_URL=" + redistest.Start(t, "maxmemory-policy allkeys-lfu").URL()
	got = command(t, []string{evicts, "DURABILITY=fsync", "REDIS_MODE=single"}, "", "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `(?m)^  no +eviction +maxmemory-policy is allkeys-lfu`, got.out)
	require.Contains(t, got.err, "of what is needed")

	require.Equal(t, exitUnreachable, command(t, []string{"REDIS_URL=redis://127.0.0.1:1"}, "", "doctor").code)
	require.Equal(t, exitUsage, command(t, nil, "", "doctor").code)
}
