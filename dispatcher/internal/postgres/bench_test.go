package postgres_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// BenchmarkWrite keeps messages of 1 KiB that were delivered at once, or that fail once
// before. It tells, for each delivery, the CPU time of this process and of the server's
// process for this connection, and how much of the disk it takes.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{4096, 256} {
		for _, fails := range []bool{false, true} {
			name := fmt.Sprintf("batch=%d", size)
			if fails {
				name += "/retried"
			}
			b.Run(name, func(b *testing.B) { benchmarkWrite(b, size, fails) })
		}
	}
}

func benchmarkWrite(b *testing.B, size int, fails bool) {
	s := pgtest.Start(b, pgtest.Options{Fsync: true, Settings: []string{"max_wal_size = '4GB'", "autovacuum = off", "shared_buffers = '128MB'"}})
	a, l := newTestArchive(b, s.URL()), newLine()
	l.hold(b, a)
	body, answer := []byte(strings.Repeat("x", 1024)), []byte(strings.Repeat("a", 128))
	n := 0
	batch := func() (parts []archive.Part) {
		var taken []archive.Accepted
		var retried, delivered []archive.Event
		for range size {
			n++
			id := fmt.Sprintf("msg_01K%023d", n)
			m := acceptedAt(now.Add(time.Duration(n)*time.Millisecond), id)
			m.Body = body
			taken = append(taken, m)
			e := event(archive.Delivered, id, 1)
			e.Attempt.Excerpt = answer
			delivered = append(delivered, e)
			if fails {
				retried = append(retried, event(archive.Retry, id, 1))
			}
		}
		if fails {
			return []archive.Part{l.part(taken, retried...), l.part(nil, delivered...)}
		}
		return []archive.Part{l.part(taken, delivered...)}
	}
	backend := read(b, s.URL(), "select pid from pg_stat_activity where application_name = 'hookladder'")
	require.Len(b, backend, 1)
	var own, server, took time.Duration // stopping b's timer would cost more than a batch
	for b.Loop() {
		parts := batch()
		began, ownBefore, serverBefore := time.Now(), cpu(b), cpuOf(b, backend[0])
		for _, p := range parts {
			_, err := a.Write(b.Context(), me, []archive.Part{p})
			require.NoError(b, err)
		}
		own, server, took = own+cpu(b)-ownBefore, server+cpuOf(b, backend[0])-serverBefore, took+time.Since(began)
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(b.N*size) }
	b.ReportMetric(per(own), "go-us/delivery")
	b.ReportMetric(per(server), "pg-us/delivery")
	b.ReportMetric(per(took), "us/delivery")
	kept := read(b, s.URL(), "select sum(pg_total_relation_size(oid))::text from pg_class where relkind = 'r' and relnamespace = 'hookladder'::regnamespace and relname ~ '^(message|event)'")
	bytes, err := strconv.ParseFloat(kept[0], 64)
	require.NoError(b, err)
	b.ReportMetric(bytes/float64(n), "bytes/delivery")
	b.ReportMetric(0, "ns/op")
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf is what another process has used, to 10 ms.
func cpuOf(b *testing.B, pid string) time.Duration {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err := strconv.Atoi(fields[11])
	require.NoError(b, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}
