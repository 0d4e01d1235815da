package admin_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// BenchmarkFeed reads the log of deliveries that were accepted and delivered, in batches
// of 64 with 1 KiB, and tells the store that it is archived. One iteration is one
// delivery.
func BenchmarkFeed(b *testing.B) {
	const batch, rounds = 64, 64
	ctx := b.Context()
	store := redisqtest.Open(b, redisq.Options{
		URL: redistest.Start(b).URL(), Project: "bench", Partitions: 1, LaneMaxInFlight: 8192, Permits: 8192,
	})
	f := admin.NewFeed(store.Bare())
	require.NoError(b, f.Begin(ctx))
	_, _, err := store.Beat(ctx, "one", 1)
	require.NoError(b, err)
	body := []byte(strings.Repeat("x", 1<<10))
	fill := func(n int) {
		var entries []dispatcher.Entry
		for i := range batch {
			m := &dispatcher.Message{
				ID: fmt.Sprintf("msg_%026d", n*batch+i), Topic: "order.paid", URL: "https://merchant.example.com/hooks", ContentType: "application/json",
				Body: body, CreatedAt: time.Now(),
			}
			entries = append(entries, dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{"u_0000000001"}})
		}
		_, _, err := store.Schedule(ctx, "one", 8192, 0, entries)
		require.NoError(b, err)
		var settled []dispatcher.Settlement
		for claimed := 1; claimed > 0; {
			list, _, err := store.Claim(ctx, "one", []int{0}, batch, 8192)
			require.NoError(b, err)
			for _, c := range list {
				settled = append(settled, redisqtest.Success(c))
			}
			if claimed = len(list); claimed > 0 && len(settled) >= 2 {
				_, _, err = store.Settle(ctx, "one", settled)
				require.NoError(b, err)
				settled = nil
			}
		}
	}
	used := func() (seconds float64) {
		text, err := store.Client().Info(ctx, "cpu").Result()
		require.NoError(b, err)
		for line := range strings.Lines(text) {
			var one float64
			if n, _ := fmt.Sscanf(line, "used_cpu_user_main_thread:%g", &one); n == 1 {
				seconds += one
			}
			if n, _ := fmt.Sscanf(line, "used_cpu_sys_main_thread:%g", &one); n == 1 {
				seconds += one
			}
		}
		return seconds
	}
	own := func() float64 {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	read, spent, mine, next := 0, 0.0, 0.0, 0
	at := archive.Position{}
	b.ReportAllocs()
	for read < b.N {
		b.StopTimer()
		for range rounds {
			fill(next)
			next++
		}
		began, self := used(), own()
		b.StartTimer()
		for more := true; more && read < b.N; {
			p, err := f.Read(ctx, 0, at, 4096, 8<<20)
			require.NoError(b, err)
			require.NoError(b, f.Archived(ctx, []archive.Part{p}))
			at, more = p.To, p.More
			read += len(p.Accepted)
		}
		b.StopTimer()
		mine += own() - self
		spent += used() - began
		b.StartTimer()
	}
	b.ReportMetric(mine*1e6/float64(read), "go-µs/msg")
	b.ReportMetric(spent*1e6/float64(read), "redis-µs/msg")
}
