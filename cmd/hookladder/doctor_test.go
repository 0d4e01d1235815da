package main

import (
	"encoding/json"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
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
	require.Contains(t, got.out, "partition 0: a:m: attempts or a list entry are stored for a delivery that does not exist\n  --fix: they are removed\n")
	require.Contains(t, got.out, "2 findings, 0 repaired")
	require.Contains(t, got.err, "2 findings are left; hookladder doctor --fix repairs 2 of them")

	got = command(t, environ, "", "doctor", "--fix")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "  repaired: the counter is corrected\n")
	require.Contains(t, command(t, environ, "", "doctor").out, "0 findings")

	damage()
	got = command(t, environ, "", "doctor", "--fix", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	var reported struct {
		Kind, Durable string
		Checks        []struct{ Name, Holds, Detail string }
		Findings      []struct {
			Kind, Subject, Cure string
			Partition           int
			Repaired            bool
		}
		Repaired int
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &reported))
	require.Contains(t, []string{"redis", "valkey"}, reported.Kind)
	require.Equal(t, "yes", reported.Durable)
	require.Contains(t, got.out, `"name": "append_only",`+"\n"+`      "holds": "no"`)
	require.Len(t, reported.Findings, 2)
	require.Equal(t, "leftover", reported.Findings[0].Kind)
	require.True(t, reported.Findings[0].Repaired)
	require.Equal(t, 2, reported.Repaired)
}

func TestDoctorSealsWhatWasStoredWithoutAKeyOrWithAnOlderOne(t *testing.T) {
	const id, secret = "ep_012345678", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	const otherKey = "MTEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	server := redistest.Start(t)
	environ := []string{"REDIS_URL=" + server.URL(), "PROJECT=shop"}
	with := func(keys string) []string { return append([]string{"ENCRYPTION_KEY=" + keys}, environ...) }
	client := mustOpenRedis(t, server)
	require.Equal(t, exitOK, command(t, environ, "", "doctor").code)
	record := `1 {"url":"https://shop.example/hooks","sig":"standard","secrets":[{"p":"` + secret + `"}],"created":1,"updated":1}`
	require.NoError(t, client.HSet(t.Context(), "{shop}:endpoints", id, record).Err())
	for _, index := range []string{"all", "tenant:"} {
		require.NoError(t, client.ZAdd(t.Context(), "{shop}:"+index, redis.Z{Score: 1, Member: id}).Err())
	}
	stored := func() string { return client.HGet(t.Context(), "{shop}:endpoints", id).Val() }

	got := command(t, environ, "", "doctor", "--seal")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "set ENCRYPTION_KEY")
	require.Equal(t, record, stored())
	got = command(t, with(testSealKey), "", "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, id+": no key of ENCRYPTION_KEY decrypts the endpoint")

	got = command(t, with(testSealKey), "", "doctor", "--seal", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "sealed "+id+"\n", got.err)
	require.NoError(t, json.Unmarshal([]byte(got.out), &struct{}{}), "what it tells of it is apart from the report")
	require.NotContains(t, stored(), secret)
	got = command(t, with(testSealKey), "", "doctor", "--seal")
	require.Equal(t, exitOK, got.code, got.err)
	require.Empty(t, got.err, "it is sealed by now")

	sealed := stored()
	got = command(t, with(otherKey), "", "doctor", "--seal")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "not sealed: endpoint "+id)
	require.Contains(t, got.err, "1 endpoints are not sealed: add the key that opens them to ENCRYPTION_KEY")
	require.Equal(t, sealed, stored())
	got = command(t, with(otherKey+" "+testSealKey), "", "doctor", "--seal")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "sealed "+id+"\n", got.err)
	require.Equal(t, exitOK, command(t, with(otherKey), "", "doctor").code, "the older key is not needed any more")
	require.Equal(t, exitFailed, command(t, with(testSealKey), "", "doctor").code)
}

func TestDoctorOfWhatNoRepairHelps(t *testing.T) {
	server := redistest.Start(t)
	environ := []string{"REDIS_URL=" + server.URL()}
	require.NoError(t, mustOpenRedis(t, server).Set(t.Context(), "{default:7}:due", "x", 0).Err())
	got := command(t, environ, "", "doctor", "--fix")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "{default:7}:due: the key belongs to a partition that does not exist")
	require.Contains(t, got.err, "1 findings are left")

	evicts := "REDIS_URL=" + redistest.Start(t, "maxmemory-policy allkeys-lfu").URL()
	got = command(t, []string{evicts, "DURABILITY=fsync", "REDIS_MODE=single"}, "", "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `(?m)^  no +eviction +maxmemory-policy is allkeys-lfu`, got.out)
	require.Contains(t, got.err, "required features")

	require.Equal(t, exitUnreachable, command(t, []string{"REDIS_URL=redis://127.0.0.1:1"}, "", "doctor").code)
	require.Equal(t, exitUsage, command(t, nil, "", "doctor").code)
}
