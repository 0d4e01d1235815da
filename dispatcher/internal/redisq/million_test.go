package redisq_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
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

// BenchmarkMillionLists reads lists among a million deliveries that wait and a million that
// ended, while a thousand a second are accepted. One tenant has half of them, in a hundred
// lanes. The rest belongs to 50,000 others, a lane each. A page may take 20 ms of Redis, no
// script more than 5 ms, and the caller may wait 60 ms, also beside 16 other readers. Run it
// with -benchtime=1x -v, and -bench 'MillionLists/40000' for the small one: the other takes
// minutes and 4 GB.
func BenchmarkMillionLists(b *testing.B) {
	type page = dispatcher.Filter
	big, small := []string{"big"}, []string{"t17"}
	dead, waiting := []dispatcher.Status{dispatcher.StatusDead}, []dispatcher.Status{dispatcher.StatusScheduled}
	cancelled := []dispatcher.Status{dispatcher.StatusCancelled}
	for _, n := range []int{40_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for range b.N {
				r := newTrap(b)
				r.crowd(n)
				lists := map[string]page{
					"subject": {Subjects: []string{"order_8713"}}, "subject like": {SubjectLike: []string{"#8713"}}, "no such subject": {SubjectLike: []string{"0"}},
					"last digits": {SubjectEnds: []string{"8713"}}, "no such digits": {SubjectEnds: []string{"0000000"}},
					"subject, tenant": {SubjectLike: []string{"8713"}, Tenants: big}, "subject, status": {SubjectLike: []string{"8713"}, Statuses: waiting},
					"subject, destination": {SubjectLike: []string{"8713"}, Lanes: []dispatcher.Lane{laneOf(13)}},
					"large tenant":         {Tenants: big}, "small tenant": {Tenants: small}, "no such tenant": {Tenants: []string{"never"}},
					"large tenant, waiting": {Tenants: big, Statuses: waiting}, "large tenant, dead": {Tenants: big, Statuses: dead}, "large tenant, cancelled": {Tenants: big, Statuses: cancelled},
					"small tenant, waiting": {Tenants: small, Statuses: waiting}, "small tenant, dead": {Tenants: small, Statuses: dead},
					"tenant, destination": {Tenants: big, Lanes: []dispatcher.Lane{laneOf(1)}},
					"destination":         {Lanes: []dispatcher.Lane{laneOf(1)}}, "destination, dead": {Lanes: []dispatcher.Lane{laneOf(1)}, Statuses: dead},
					"destination, failed": {Lanes: []dispatcher.Lane{laneOf(1)}, Failed: true}, "a topic of a large tenant": {Tenants: big, Topics: []string{"never.*"}},
					"waiting": {Statuses: waiting}, "cancelled": {Statuses: cancelled}, "dead": {Statuses: dead}, "all": {},
				}
				for _, name := range slices.Sorted(maps.Keys(lists)) {
					r.measureList(name, lists[name], 20)
				}
				stop := r.acceptMore()
				var others sync.WaitGroup
				done := make(chan struct{})
				for i := range 16 {
					others.Go(func() {
						for from := i; ; from += 16 {
							select {
							case <-done:
								return
							default:
								r.list(arranged(page{Tenants: []string{fmt.Sprint("t", from%1000)}}))
							}
						}
					})
				}
				for _, name := range []string{"large tenant", "small tenant", "subject like", "destination"} {
					r.measureList(name+", beside 16 readers and 1,000 accepted a second", lists[name], 20)
				}
				close(done)
				others.Wait()
				stop()
			}
		})
	}
}

// crowd publishes n messages that wait and n that end, of the tenants of BenchmarkMillionLists.
func (r *trap) crowd(n int) {
	r.Helper()
	for _, kind := range []string{"ended", "waits"} {
		batch := make([]dispatcher.Entry, 0, 2000)
		for i := range n {
			e := r.entry(laneOf(i/2%100), fmt.Sprintf("%s%07d", kind, i), 24*time.Hour)
			e.Message.Tenant, e.Message.Subject = "big", fmt.Sprint("order_", i)
			if i%2 == 1 {
				tenant := i / 2 % 50_000
				e.Message.Tenant, e.Lanes = fmt.Sprint("t", tenant), []dispatcher.Lane{dispatcher.Lane(fmt.Sprint("u_t", tenant))}
			}
			e.Digest = e.Message.Digest()
			if batch = append(batch, e); len(batch) < cap(batch) && i < n-1 {
				continue
			}
			r.schedule(batch...)
			if kind == "ended" {
				ids := make([]dispatcher.DeliveryID, len(batch))
				for k, e := range batch {
					ids[k] = dispatcher.DeliveryID{Lane: e.Lanes[0], Message: e.Message.ID}
				}
				_, _, err := r.store.Cancel(r.Context(), "one", ids)
				require.NoError(r, err)
			}
			r.setClock(r.now.Add(20 * time.Millisecond))
			batch = batch[:0]
		}
	}
}

// acceptMore accepts a thousand messages a second until stop is called.
func (r *trap) acceptMore() (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for i := 0; kit.Rest(r.Context(), 10*time.Millisecond); i++ {
			select {
			case <-done:
				return
			default:
			}
			var batch []dispatcher.Entry
			for k := range 10 {
				batch = append(batch, r.entry(laneOf(k), fmt.Sprintf("more%d_%d", i, k), 24*time.Hour))
			}
			_, _, err := r.store.Schedule(r.Context(), "one", 0, 0, batch)
			assert.NoError(r, err)
		}
	}()
	return func() {
		close(done)
		<-over
	}
}

// arranged gives a filter the order that it has by default.
func arranged(f dispatcher.Filter) dispatcher.Filter {
	f.Limit = 50
	if err := f.Arrange(); err != nil {
		panic(err)
	}
	return f
}

// measureList reports what the first pages of a list cost, and what the caller waits for.
func (r *trap) measureList(name string, f dispatcher.Filter, pages int) {
	r.Helper()
	f = arranged(f)
	client, ctx := r.store.Client(), r.Context()
	require.NoError(r, client.ConfigSet(ctx, "slowlog-log-slower-than", strconv.FormatInt(slowFrom.Microseconds(), 10)).Err())
	require.NoError(r, client.ConfigSet(ctx, "slowlog-max-len", "100000").Err())
	require.NoError(r, client.Do(ctx, "slowlog", "reset").Err())
	found, looked, n := 0, 0, 0
	var waits, cpus []time.Duration
	for more := true; more && n < pages; n++ {
		before, began := r.cpuTime(), time.Now()
		page := r.list(f)
		waits, cpus = append(waits, time.Since(began)), append(cpus, r.cpuTime()-before)
		found, looked = found+len(page.Deliveries), looked+page.LookedAt
		f.Cursor, more = page.Next, page.Next != ""
	}
	log, err := client.SlowLogGet(ctx, -1).Result()
	require.NoError(r, err)
	worst := time.Duration(0)
	for _, s := range log {
		if s.Args[0] == "evalsha" {
			worst = max(worst, s.Duration)
		}
	}
	slices.Sort(waits)
	slices.Sort(cpus)
	r.Logf("%-60s %2d pages, %4d found, %6d looked at; a page: Redis %5.1f ms (most %5.1f), caller %5.1f ms (most %5.1f); longest script %.1f ms",
		name, n, found, looked, ms(cpus[n/2]), ms(cpus[n-1]), ms(waits[n/2]), ms(waits[n-1]), ms(worst))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
