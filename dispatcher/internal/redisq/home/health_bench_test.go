package home_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
)

// The costs that the package's comment names. redis-µs is by Redis' own clock.
func BenchmarkAdd(b *testing.B) {
	r := newHealthRig(b, redistest.Start(b), 1)
	lanes := lanesUpTo(2000)
	r.add("before", r.count(0, lanes...)) // a hash in the form that large ones have
	require.NoError(b, r.client.ConfigResetStat(b.Context()).Err())
	minute := 0
	for b.Loop() {
		minute++
		c := r.count(0, lanes...)
		c.Number += int64(minute)
		r.add("one", c)
	}
	usec := usecOf(b, r, "evalsha")
	b.ReportMetric(usec/float64(minute)/2000, "redis-µs/lane")
	bytes := r.client.MemoryUsage(b.Context(), r.key(0, 0), 0).Val()
	b.ReportMetric(float64(bytes)/2001, "bytes/bar")
}

func BenchmarkBars(b *testing.B) {
	for _, partitions := range []int{1, 128} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			r := newHealthRig(b, redistest.Start(b), partitions)
			lanes := lanesUpTo(50)
			for half := range 48 {
				r.add("one", r.count(half*30+1, lanes...))
			}
			for b.Loop() {
				_, err := r.Bars(b.Context(), lanes, r.first)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkMinutes(b *testing.B) {
	r := newHealthRig(b, redistest.Start(b), 1)
	var all []dispatcher.MinuteCount
	for minute := range 72 * 60 {
		all = append(all, r.count(minute))
	}
	r.add("one", all...)
	for b.Loop() {
		list, err := r.Minutes(b.Context(), time.Time{}, r.first.Add(72*time.Hour))
		require.NoError(b, err)
		require.Len(b, list, 72*60)
	}
}

// usecOf is how long Redis took for a command.
func usecOf(b *testing.B, r *healthRig, command string) (usec float64) {
	b.Helper()
	for line := range strings.Lines(r.client.Info(b.Context(), "commandstats").Val()) {
		if strings.HasPrefix(line, "cmdstat_"+command+":") {
			_, text, _ := strings.Cut(line, "usec=")
			_, err := fmt.Sscanf(text, "%f", &usec)
			require.NoError(b, err)
		}
	}
	return usec
}
