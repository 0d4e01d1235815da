package home_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// healthRig is a store of figures with the raw keys behind it.
type healthRig struct {
	testing.TB
	*home.Health
	queue   *redisq.Store
	client  redis.UniversalClient
	project string
	first   time.Time // the minute in which the tests begin: the last of a day, and of half an hour
}

func newHealthRig(t testing.TB, server redisqtest.Server, partitions int) *healthRig {
	t.Helper()
	r := &healthRig{TB: t, project: redisqtest.ProjectName()}
	r.first = time.Now().UTC().Truncate(24 * time.Hour).Add(-time.Minute)
	store, err := redisq.Open(t.Context(), redisq.Options{
		URL: redisqtest.PatientURL(server), Project: r.project, Partitions: partitions, LaneMaxInFlight: 8, Permits: 8, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	r.queue, r.client, r.Health = store, store.Client(), home.NewHealth(store.Conn())
	return r
}

// onBothForHealth runs a test on both stores.
func onBothForHealth(t *testing.T, partitions int, test func(t *testing.T, r *healthRig)) {
	t.Helper()
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) { test(t, newHealthRig(t, server, partitions)) })
}

// count is what an instance counted in a minute of the test: one delivered to each lane.
func (r *healthRig) count(minute int, lanes ...dispatcher.Lane) dispatcher.MinuteCount {
	at := r.first.Add(time.Duration(minute) * time.Minute)
	c := dispatcher.MinuteCount{Number: at.Unix() / 60, Minute: dispatcher.Minute{At: at, Accepted: 3, Delivered: int64(len(lanes)), Failed: 2, Dead: 1}}
	c.Late.Add(20 * time.Millisecond)
	for _, lane := range lanes {
		bar := dispatcher.Bar{At: at.Truncate(dispatcher.HalfHour), Delivered: 1, Failed: dispatcher.Failures{Server: 2, Internal: 1}}
		bar.Took.Add(time.Minute)
		c.Lanes = append(c.Lanes, dispatcher.LaneBar{Lane: lane, Bar: bar})
	}
	return c
}

func (r *healthRig) add(instance string, counts ...dispatcher.MinuteCount) {
	r.Helper()
	left, err := r.Add(r.Context(), instance, counts)
	require.NoError(r, err)
	require.Empty(r, left)
}

// minutes are all of the test.
func (r *healthRig) minutes() []dispatcher.Minute {
	r.Helper()
	list, err := r.Minutes(r.Context(), r.first, r.first.Add(time.Hour))
	require.NoError(r, err)
	return list
}

// delivered are those of all bars of lanes.
func (r *healthRig) delivered(lanes ...dispatcher.Lane) (sum int64) {
	r.Helper()
	for some := range slices.Chunk(lanes, home.MostLanes) {
		found, err := r.Bars(r.Context(), some, r.first)
		require.NoError(r, err)
		for _, list := range found {
			for _, b := range list {
				sum += b.Delivered
			}
		}
	}
	return sum
}

// key is the raw one of a minute of the test, or of the half hour of a partition.
func (r *healthRig) key(partition, minute int) string {
	at := r.first.Add(time.Duration(minute) * time.Minute).Unix()
	if partition < 0 {
		return fmt.Sprintf("{%s}:health:%d", r.project, at/86400)
	}
	return fmt.Sprintf("{%s:%d}:health:%d", r.project, partition, at/1800)
}

func lanesUpTo(n int) (lanes []dispatcher.Lane) {
	for i := range n {
		lanes = append(lanes, redisqtest.LaneOf(i))
	}
	return lanes
}

func TestFiguresOfInstancesAreAddedUp(t *testing.T) {
	onBothForHealth(t, 4, func(t *testing.T, r *healthRig) {
		lanes := lanesUpTo(5)
		require.Empty(t, r.minutes())
		r.add("one", r.count(0, lanes...), r.count(1, lanes[0]))
		r.add("two", r.count(1, lanes[0]))
		r.add("one", r.count(2))

		late := dispatcher.Durations{1: 1}
		at := func(minute int) time.Time { return r.first.Add(time.Duration(minute) * time.Minute) }
		require.Equal(t, []dispatcher.Minute{
			{At: at(0), Accepted: 3, Delivered: 5, Failed: 2, Dead: 1, Late: late},
			{At: at(1), Accepted: 6, Delivered: 2, Failed: 4, Dead: 2, Late: dispatcher.Durations{1: 2}},
			{At: at(2), Accepted: 3, Failed: 2, Dead: 1, Late: late},
		}, r.minutes())

		found, err := r.Bars(t.Context(), append(lanes, "other"), r.first)
		require.NoError(t, err)
		require.Len(t, found, 5)
		bar := func(minute int, n int64) dispatcher.Bar {
			return dispatcher.Bar{At: at(minute).Truncate(dispatcher.HalfHour), Delivered: n, Failed: dispatcher.Failures{Server: 2 * n, Internal: n}, Took: dispatcher.Durations{7: n}}
		}
		require.Equal(t, []dispatcher.Bar{bar(0, 1), bar(1, 2)}, found[lanes[0]])
		require.Equal(t, []dispatcher.Bar{bar(0, 1)}, found[lanes[4]])
	})
}

func TestFiguresAreReadByTime(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		for _, minute := range []int{0, 1, 2, 71*60 + 59, 72 * 60} {
			r.add("one", r.count(minute, "a"))
		}
		at := func(d time.Duration) time.Time { return r.first.Add(d) }
		for _, c := range []struct {
			since, until time.Time
			want         []int
		}{
			{at(0), at(2 * time.Minute), []int{0, 1}},
			{at(59 * time.Second), at(2*time.Minute + time.Nanosecond), []int{0, 1, 2}},
			{at(-time.Hour), at(0), nil},
			{at(time.Minute), at(time.Minute), nil},
			{time.Time{}, at(72*time.Hour + time.Minute), []int{1, 2, 71*60 + 59, 72 * 60}},
		} {
			list, err := r.Minutes(t.Context(), c.since, c.until)
			require.NoError(t, err)
			var found []int
			for _, m := range list {
				found = append(found, int(m.At.Sub(r.first)/time.Minute))
			}
			require.Equal(t, c.want, found, "%v", c)
		}
		found, err := r.Bars(t.Context(), []dispatcher.Lane{"a"}, at(time.Minute))
		require.NoError(t, err)
		require.Len(t, found["a"], 1, "from that half hour, a day on")
		_, err = r.Bars(t.Context(), lanesUpTo(home.MostLanes+1), r.first)
		require.ErrorContains(t, err, "at most 100")
	})
}

// trouble meets some calls of a tag: their answers are lost, or they are not made.
type trouble struct {
	tag      string
	from, to int // the calls that it meets, counted from 0
	refused  bool
}

func (l *trouble) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *trouble) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *trouble) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var met, others []redis.Cmder
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 3 && args[3] == l.tag {
				if l.from, l.to = l.from-1, l.to-1; l.from < 0 && l.to >= 0 {
					met = append(met, cmd)
					continue
				}
			}
			others = append(others, cmd)
		}
		if !l.refused {
			others = cmds
		}
		var err error
		if len(others) > 0 {
			err = next(ctx, others)
		}
		for _, cmd := range met {
			cmd.SetErr(errLost)
		}
		return err
	}
}

var errLost = errors.New("lost")

// A count is given again after an answer was lost, whole or in part.
func TestARepeatedCountIsAddedOnce(t *testing.T) {
	onBothForHealth(t, 2, func(t *testing.T, r *healthRig) {
		lanes := lanesUpTo(150) // several calls in each partition
		c := r.count(1, lanes...)
		r.add("one", r.count(0, lanes...), c)
		r.add("one", c)
		r.add("one", r.count(0, lanes...), c)
		require.EqualValues(t, 300, r.delivered(lanes...))
		require.EqualValues(t, 300, r.minutes()[0].Delivered+r.minutes()[1].Delivered)

		lost := &trouble{tag: keys.Tag(r.project, 1), from: 1, to: 2}
		r.client.AddHook(lost)
		third := r.count(2, lanes...)
		left, err := r.Add(t.Context(), "one", []dispatcher.MinuteCount{third, r.count(3, lanes...)})
		require.ErrorIs(t, err, errLost)
		require.Len(t, left, 2)
		require.False(t, left[0].Moved(), "home has it")
		of := slices.DeleteFunc(slices.Clone(third.Lanes), func(b dispatcher.LaneBar) bool { return keys.Partition(string(b.Lane), 2) != 1 })
		require.Equal(t, of, left[0].Lanes, "all of the partition, so that they are cut as they were")
		require.Len(t, left[1].Lanes, len(of), "nothing newer")

		*lost = trouble{tag: keys.Home(r.project), to: 1}
		again := append(left, r.count(4))
		left, err = r.Add(t.Context(), "one", again)
		require.ErrorIs(t, err, errLost)
		require.Equal(t, []dispatcher.MinuteCount{r.count(4)}, left)
		r.add("one", left...)
		require.EqualValues(t, 600, r.delivered(lanes...))
		require.Len(t, r.minutes(), 5)
		require.EqualValues(t, 3, r.minutes()[4].Accepted)
	})
}

// What is newer must wait, or the older would pass for added.
func TestNothingNewerIsAddedToAPlaceThatFailed(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		for i, tag := range []string{keys.Tag(r.project, 0), keys.Home(r.project)} {
			refused := &trouble{tag: tag, to: 1, refused: true}
			r.client.AddHook(refused)
			left, err := r.Add(t.Context(), "one", []dispatcher.MinuteCount{r.count(2*i, "a"), r.count(2*i+1, "a")})
			require.ErrorIs(t, err, errLost)
			require.Len(t, left, 2)
			r.add("one", left...)
			require.Len(t, r.minutes(), 2*i+2)
			require.EqualValues(t, 2*i+2, r.delivered("a"))
		}
	})
}

func TestOfTooManyLanesTheRestIsCountedTogether(t *testing.T) {
	r := newHealthRig(t, redistest.Share(t), 1)
	lanes := lanesUpTo(2100)
	r.add("one", r.count(0, lanes...))
	require.EqualValues(t, 2001, r.client.HLen(t.Context(), r.key(0, 0)).Val())
	require.EqualValues(t, 2000, r.delivered(lanes...))
	require.EqualValues(t, 100, r.delivered(dispatcher.OtherLanes))
	r.add("one", r.count(1, lanes[:2]...), r.count(2, lanes...))
	require.EqualValues(t, 2001, r.client.HLen(t.Context(), r.key(0, 2)).Val())
	require.EqualValues(t, 200, r.delivered(dispatcher.OtherLanes))
	require.EqualValues(t, 4002, r.delivered(lanes...))

	found, err := r.Bars(t.Context(), lanes[2000:2050], r.first)
	require.NoError(t, err)
	for _, lane := range lanes[2000:2050] {
		require.Len(t, found[lane], 2, "half hours")
		for _, b := range found[lane] {
			require.Equal(t, dispatcher.Bar{At: b.At, Unsure: true}, b, "it is not known what it had")
		}
	}
}

func TestEachPartitionHasRoomForMoreThanItsShareOfLanes(t *testing.T) {
	r := newHealthRig(t, redistest.StartMini(t), 128)
	lanes := lanesUpTo(2000)
	r.add("one", r.count(0, lanes...))
	require.Greater(t, r.delivered(lanes...), int64(1990))
	for n := range 128 {
		require.LessOrEqual(t, r.client.HLen(t.Context(), r.key(n, 0)).Val(), int64(32))
	}
}

func TestFiguresAreAddedWhileMemoryIsFull(t *testing.T) {
	r := newHealthRig(t, redistest.Start(t), 1)
	r.add("one", r.count(0, "a"))
	require.NoError(t, r.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	r.add("two", r.count(0, "a"))
	r.add("one", r.count(1, "a", "b"))
	require.Len(t, r.minutes(), 2)
	require.EqualValues(t, 4, r.delivered("a", "b"))
}

func TestWithoutItsStoreNothingIsAdded(t *testing.T) {
	server := redistest.Start(t)
	r := newHealthRig(t, server, 1)
	server.Stop()
	c := r.count(0, "a")
	left, err := r.Add(t.Context(), "one", []dispatcher.MinuteCount{c})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	require.Equal(t, []dispatcher.MinuteCount{c}, left)
	_, err = r.Minutes(t.Context(), r.first, r.first.Add(time.Hour))
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	_, err = r.Bars(t.Context(), []dispatcher.Lane{"a"}, r.first)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}

func TestFiguresOfAKeyOfAnotherTypeBeginAnew(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		for _, key := range []string{r.key(-1, 0), r.key(0, 0), "{" + r.project + "}:added", "{" + r.project + ":0}:added"} {
			require.NoError(t, r.client.Set(t.Context(), key, "by hand", 0).Err())
		}
		r.add("one", r.count(1, "a"))
		require.Len(t, r.minutes(), 1, "the other day has none")
		require.EqualValues(t, 1, r.delivered("a"))
		r.add("two", r.count(0, "a"))
		require.Len(t, r.minutes(), 2)
		require.EqualValues(t, 2, r.delivered("a"))
	})
}

func TestFiguresThatCanNotBeReadCountAsNone(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		for i, text := range []string{"", "by hand", "-1 x 2", strings.Repeat("9", 40), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"} {
			lane := redisqtest.LaneOf(i)
			require.NoError(t, r.client.HSet(t.Context(), r.key(0, 0), string(lane), text).Err())
			before := r.delivered(lane)
			require.LessOrEqual(t, before, int64(1), text)
			r.add(fmt.Sprint(i), r.count(0, lane))
			require.Greater(t, r.delivered(lane), before, text)
		}
		text := r.client.HGet(t.Context(), r.key(0, 0), string(redisqtest.LaneOf(4))).Val()
		require.Equal(t, "2 2 5 4 5 7 7 8 9 10 11 12 13 15 15 16 17", text, "further numbers are kept")
	})
}

// Old figures go by themselves, and what they are known by too.
func TestOldFiguresGo(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		r.add("one", r.count(0, "a"))
		for key, length := range map[string]time.Duration{r.key(-1, 0): 24 * time.Hour, r.key(0, 0): 30 * time.Minute} {
			ttl := r.client.TTL(t.Context(), key).Val()
			kept := map[bool]time.Duration{true: dispatcher.KeptMinutes, false: dispatcher.KeptBars * dispatcher.HalfHour}[length > time.Hour]
			left := time.Until(r.first.Add(kept))
			require.Greater(t, ttl, left-time.Minute, key)
			require.Less(t, ttl, left+2*length, key)
		}
		require.Equal(t, time.Duration(-1), r.client.TTL(t.Context(), "{"+r.project+"}:added").Val())

		day := 24 * 60
		r.add("one", r.count(day, "a"))
		require.Positive(t, r.client.Exists(t.Context(), r.key(0, 0)).Val(), "48 bars are kept")
		r.add("one", r.count(day+1, "a"))
		require.Zero(t, r.client.Exists(t.Context(), r.key(0, 0)).Val())
		r.add("one", r.count(3*day, "a"))
		require.Positive(t, r.client.Exists(t.Context(), r.key(-1, 0)).Val(), "72 hours are kept")
		r.add("one", r.count(3*day+1, "a"))
		require.Zero(t, r.client.Exists(t.Context(), r.key(-1, 0)).Val())
	})
}

func TestOnlyInstancesThatMayGiveACountAgainAreKnown(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		known := func() int64 { return r.client.ZCard(t.Context(), "{"+r.project+":0}:added").Val() }
		r.add("one", r.count(0, "a"))
		r.add("two", r.count(60, "a"))
		r.add("three", r.count(119, "a"))
		require.EqualValues(t, 3, known())
		r.add("three", r.count(121, "a"))
		require.EqualValues(t, 2, known())
		for i := range 1100 {
			require.NoError(t, r.client.ZAdd(t.Context(), "{"+r.project+":0}:added", redis.Z{Score: 1e12 + float64(i), Member: fmt.Sprint(i)}).Err())
		}
		r.add("three", r.count(122, "a"))
		require.EqualValues(t, 1024, known())
	})
}

func TestFiguresLieOnAllMastersOfACluster(t *testing.T) {
	redistest.Long(t)
	r := newHealthRig(t, redistest.StartCluster(t, 3, 0), 16)
	lanes := lanesUpTo(100)
	r.add("one", r.count(0, lanes...))
	r.add("two", r.count(0, lanes...), r.count(1))
	require.Len(t, r.minutes(), 2)
	require.EqualValues(t, 200, r.delivered(lanes...))
}

// What is rare takes no memory where it is not.
func TestFailuresAreKeptByWhatWentWrong(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		c := r.count(0, "rare", "usual")
		c.Lanes[0].Failed = dispatcher.Failures{Refused: 1, Server: 2, Timeout: 3, Connect: 4, TLS: 5, DNS: 6, Internal: 7}
		r.add("one", c)
		r.add("two", c)
		found, err := r.Bars(t.Context(), []dispatcher.Lane{"rare"}, r.first)
		require.NoError(t, err)
		require.Equal(t, dispatcher.Failures{Refused: 2, Server: 4, Timeout: 6, Connect: 8, TLS: 10, DNS: 12, Internal: 14}, found["rare"][0].Failed)
		require.Equal(t, dispatcher.Durations{7: 2}, found["rare"][0].Took)
		require.Equal(t, "2 0 4 0 0 2 0 0 0 0 0 0 0 2", r.client.HGet(t.Context(), r.key(0, 0), "usual").Val())
	})
}

func TestFiguresBeginWithTheirPartition(t *testing.T) {
	before := time.Now().Truncate(time.Second)
	r := newHealthRig(t, redistest.StartMini(t), 4)
	require.False(t, r.Since("a").Before(before))
	require.False(t, r.Since("a").After(time.Now()))
}

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
