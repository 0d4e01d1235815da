package redisq_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// slowFrom is the time from which the slow log of BenchmarkMillionDue has an
// entry.
const slowFrom = 2 * time.Millisecond

// BenchmarkMillionDue makes a million deliveries of a hundred lanes due at
// once, or fewer to compare with. It moves all of them, then claims and settles
// a part. It reports the mean and the highest cost of the scripts in Redis, and
// how many of them took longer than 5 ms. No script may take longer because of
// the amount of work. Some do where a busy machine stopped Redis meanwhile, so
// both figures must be read together. Run it with -benchtime=1x.
func BenchmarkMillionDue(b *testing.B) {
	for _, n := range []int{40_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for range b.N {
				newTrap(b).deliverMany(n, 20_000)
			}
		})
	}
}

// deliverMany publishes n messages, makes them ready and delivers at most some.
func (r *trap) deliverMany(n, some int) {
	r.Helper()
	r.measure("schedule", func() { r.fill(n) })
	r.measure("move", func() {
		for hint := r.move(); !hint.Due.IsZero() && !hint.Due.After(r.now); hint = r.move() {
		}
	})
	require.Equal(r, int64(n), r.readyCount())
	r.measure("claim and settle", func() {
		for range some / 64 {
			claimed := r.claim("one", 64)
			batch := make([]dispatcher.Settlement, len(claimed))
			for i, c := range claimed {
				batch[i] = ended(c, dispatcher.Delivered)
			}
			r.settle("one", batch...)
		}
	})
	require.Less(r, r.readyCount(), int64(n-some/2))
}

func (r *trap) readyCount() int64 {
	r.Helper()
	stats, err := r.store.Stats(r.Context())
	require.NoError(r, err)
	return stats.Counts[dispatcher.StatusReady]
}

// measure reports how long the scripts of act took.
func (r *trap) measure(name string, act func()) {
	r.Helper()
	client, ctx := r.store.Client(), r.Context()
	require.NoError(r, client.ConfigSet(ctx, "slowlog-log-slower-than", strconv.FormatInt(slowFrom.Microseconds(), 10)).Err())
	require.NoError(r, client.ConfigSet(ctx, "slowlog-max-len", "100000").Err())
	require.NoError(r, client.Do(ctx, "slowlog", "reset").Err())
	require.NoError(r, client.ConfigResetStat(ctx).Err())
	before := r.cpuTime()
	act()
	cpu := r.cpuTime() - before
	text, err := client.Info(ctx, "commandstats").Result()
	require.NoError(r, err)
	_, text, ok := strings.Cut(text, "cmdstat_evalsha:")
	require.True(r, ok, "no script ran")
	var calls, micros int64
	_, err = fmt.Sscanf(text, "calls=%d,usec=%d,", &calls, &micros)
	require.NoError(r, err)
	log, err := client.SlowLogGet(ctx, -1).Result()
	require.NoError(r, err)
	worst, slow, over := slowFrom, 0, 0
	for _, s := range log {
		if s.Args[0] != "evalsha" {
			continue
		}
		slow++
		worst = max(worst, s.Duration)
		if s.Duration > 5*time.Millisecond {
			over++
		}
	}
	r.Logf("%s: %d scripts, %d us on average, %d us of Redis' CPU time with all around them, %d over %s, %d over 5ms, at most %s",
		name, calls, micros/calls, cpu.Microseconds()/calls, slow, slowFrom, over, worst)
}

// cpuTime is the CPU time of Redis' main thread so far. On a busy machine
// scripts last much longer than they work.
func (r *trap) cpuTime() (sum time.Duration) {
	r.Helper()
	text, err := r.store.Client().Info(r.Context(), "cpu").Result()
	require.NoError(r, err)
	for _, line := range strings.Split(text, "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "_main_thread") {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(r, err)
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// BenchmarkMillionLists reads one page of lists that find nothing, or little, among a
// million deliveries. A page may take 50 ms of Redis, and no script more than 5 ms.
// Run it with -benchtime=1x -v, and -bench 'MillionLists/40000' for the small one: the
// other takes minutes and 3 GB.
func BenchmarkMillionLists(b *testing.B) {
	for _, n := range []int{40_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for range b.N {
				r := newTrap(b)
				r.fill(n)
				r.schedule(r.entry("few", "m", time.Hour))
				hundred := make([]dispatcher.Lane, 100)
				for i := range hundred {
					hundred[i] = laneOf(i)
				}
				accepted := dispatcher.OrderAccepted
				for name, f := range map[string]dispatcher.Filter{
					"a destination by acceptance":      {Lanes: hundred[:1], Order: accepted},
					"a hundred by acceptance":          {Lanes: hundred, Order: accepted},
					"a hundred by acceptance, no dead": {Lanes: hundred, Order: accepted, Statuses: []dispatcher.Status{dispatcher.StatusDead}},
					"topic":                            {Topics: []string{"never"}}, "pattern": {Topics: []string{"never.*"}}, "subject": {Subjects: []string{"never"}},
					"tenant": {Tenants: []string{"never"}}, "failed": {Failed: true}, "no destination": {Lanes: []dispatcher.Lane{"never"}},
					"a destination with few": {Lanes: []dispatcher.Lane{"few"}}, "all": {Limit: 500},
				} {
					r.measure(name, func() { r.list(f) })
				}
				for from := 0; from < n; from += 20_000 {
					r.ends("done", "others", 20_000, time.Duration(from-n)*time.Millisecond-time.Hour, time.Millisecond)
				}
				for name, lane := range map[string]dispatcher.Lane{"nothing that ended": "never", "what ended": "others"} {
					r.measure(name, func() {
						_, err := r.store.Ended(r.Context(), dispatcher.EndedFilter{Lane: lane, Limit: 500})
						require.NoError(r, err)
					})
				}
			}
		})
	}
}
