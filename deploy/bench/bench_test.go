package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsSayAllThatIsWrong(t *testing.T) {
	require.NoError(t, options{Runs: 1}.check())
	require.NoError(t, options{Runs: 5, Messages: 64, Only: []string{"limit", "accept"}}.check())
	err := options{Runs: 0, Messages: 63, Only: []string{"limit", "drian"}}.check()
	require.ErrorContains(t, err, "-runs 0: must be at least 1")
	require.ErrorContains(t, err, "-messages 63: must be at least 64")
	require.ErrorContains(t, err, "-only drian: there are limit, drain, slow")
	require.ErrorContains(t, options{Runs: 1, Messages: -5}.check(), "-messages -5")
}

func TestSizesFollowTheMode(t *testing.T) {
	for _, c := range []struct {
		name       string
		o          options
		size, load int
	}{
		{"a full bench", options{}, 1000, 1000},
		{"a quick one", options{Quick: true}, 100, 100},
		{"fewer messages make all smaller", options{Messages: 64}, 64, 64},
		{"more messages make only throughput larger", options{Quick: true, Messages: 5000}, 100, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &lab{o: c.o}
			require.Equal(t, []int{c.size, c.load}, []int{l.size(1000, 100), l.load(1000, 100)})
		})
	}
}

func TestPublishingIsReckonedToTakeAsLongAsItEverDidAndHalfAsMuch(t *testing.T) {
	const n = 50_000
	reckoned := func(before ...time.Duration) time.Duration {
		var p pacing
		for _, took := range before {
			p.learn(n, took)
		}
		return p.take(n)
	}
	require.Equal(t, 4*time.Second, reckoned(), "nothing is known yet")
	require.Equal(t, 1750*time.Millisecond, reckoned(time.Second))
	require.Equal(t, 3250*time.Millisecond, reckoned(time.Second, 2*time.Second, time.Second))
}

func TestBodiesAreOfOneSizeAndKnownAgain(t *testing.T) {
	for _, body := range []string{payload, uniqueBody(0), uniqueBody(1), uniqueBody(1_234_567)} {
		require.Len(t, body, 1024)
		require.True(t, json.Valid([]byte(body)), body)
		require.True(t, genuine([]byte(body)))
		for _, changed := range []string{body[:1023], body + " ", strings.Replace(body, `"pad"`, `"pat"`, 1), body[:1000] + "#" + body[1001:]} {
			require.False(t, genuine([]byte(changed)), changed)
		}
	}
	require.NotEqual(t, uniqueBody(1)[20:], uniqueBody(2)[20:])
	require.False(t, genuine(nil))
	require.False(t, genuine([]byte(`{"number":"x"}`)))
}

func TestAMessageIsJSONWithOrWithoutAnID(t *testing.T) {
	for _, id := range []string{"", "run1_7"} {
		var m struct {
			ID, Topic, URL, Delay string
			Body                  json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(message(id, "http://h/run1", `,"delay":"1s"`)), &m))
		require.Equal(t, []string{id, "order.paid", "http://h/run1", "1s"}, []string{m.ID, m.Topic, m.URL, m.Delay})
		require.Equal(t, payload, string(m.Body))
	}
}

func TestABatchOfWhichOneIsRefusedFails(t *testing.T) {
	answer, status := "", http.StatusAccepted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	answer = `{"results":[{"status":202,"id":"a"},{"status":202,"id":"b"}]}`
	require.NoError(t, newCallers().publishBatch(server.URL, []string{"{}", "{}"}))
	answer = `{"results":[{"status":202,"id":"a"},{"status":409}]}`
	require.ErrorContains(t, newCallers().publishBatch(server.URL, []string{"{}", "{}"}), "1 of 2 were taken")
	answer, status = `{"title":"store is full"}`, http.StatusServiceUnavailable
	require.ErrorContains(t, newCallers().publishBatch(server.URL, []string{"{}", "{}"}), "store is full")
}

func TestWhatCameIsJudged(t *testing.T) {
	for _, c := range []struct {
		name               string
		distinct, all, bad int
		fault              string
	}{
		{"all of it", 10, 10, 0, ""},
		{"one is lost", 9, 9, 0, "1 of 10 messages of run1 are lost"},
		{"one is lost and another came twice", 9, 10, 0, "1 of 10 messages of run1 are lost"},
		{"one came twice", 10, 11, 0, "1 messages of run1 came twice"},
		{"one nobody sent", 11, 11, 0, "11 messages of run1 came and only 10 were sent"},
		{"one is not as it should be", 10, 10, 1, "1 messages of run1 came unsigned or changed: why"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := received{Distinct: c.distinct, All: c.all, Bad: c.bad, Why: "why"}.fault("run1", 10)
			if c.fault == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.fault)
		})
	}
}

func TestSteadyIsTheSlopeOfTheMiddle(t *testing.T) {
	begin := time.Now()
	at := func(n int, when func(i int) time.Duration) (times []time.Time) {
		for i := range n {
			times = append(times, begin.Add(when(i)))
		}
		return times
	}
	even := at(1000, func(i int) time.Duration { return time.Duration(i) * time.Millisecond })
	require.InDelta(t, 1000, steady(even), 0.001)
	ramp := at(1000, func(i int) time.Duration {
		if i < 100 || i >= 900 {
			return time.Duration(i) * time.Second // slow at both ends
		}
		return 200*time.Second + time.Duration(i)*time.Millisecond
	})
	require.InDelta(t, 1000, steady(ramp), 0.001)
	waves := at(20_000, func(i int) time.Duration { return time.Duration(i/1024) * 200 * time.Millisecond })
	require.InDelta(t, 5120, steady(waves), 5120*0.01, "waves of 1,024 each 200 ms")
}

func TestCallsAreWhatClientsSent(t *testing.T) {
	const stats = "# Commandstats\r\n" +
		"cmdstat_evalsha:calls=12,usec=345,usec_per_call=28.75,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_hset:calls=900,usec=1,usec_per_call=1.00\r\n" +
		"cmdstat_script|load:calls=2,usec=1,usec_per_call=1.00\r\n" +
		"cmdstat_ping:calls=1,usec=1\r\ncmdstat_info:calls=44,usec=1\r\n"
	require.Equal(t, 15.0, callsIn(stats))
	require.Zero(t, callsIn(""))
}

func TestWhatTheServerTellsOfItself(t *testing.T) {
	require.Equal(t, "Redis 7.0.15", serverIn("redis_version:7.0.15\r\nos:Linux\r\n"))
	require.Equal(t, "Valkey 9.0.1", serverIn("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.1\r\n"))
	v, err := field("used_memory:1234\r\nused_memory_human:1K\r\n", "used_memory")
	require.NoError(t, err)
	require.Equal(t, 1234.0, v)
	_, err = field("a:1\r\n", "b")
	require.ErrorContains(t, err, "does not report its b")
	_, err = field("a:x\r\n", "a")
	require.Error(t, err)
}

func TestABenchThatCannotStartItsStoreSaysHowToGetOne(t *testing.T) {
	_, err := bench(t.Context(), options{Runs: 1, RedisServer: "no-such-server"})
	require.ErrorContains(t, err, "there is no no-such-server")
	require.ErrorContains(t, err, "apt-get install redis-server")
	require.ErrorContains(t, err, "-redis-server")
}

func TestABenchThatIsGivenUpSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := bench(ctx, options{Runs: 1, RedisServer: "redis-server"})
	require.ErrorIs(t, err, errInterrupted)
}
