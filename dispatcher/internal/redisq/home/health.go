package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

const (
	day = 24 * time.Hour
	// keptDays is the number of days that contain KeptMinutes.
	keptDays = int64(dispatcher.KeptMinutes/day) + 1
	// keptHalves is the current half hour and KeptBars before it.
	keptHalves = dispatcher.KeptBars + 1
)

// Health stores statistics.
type Health struct {
	conn *conn.Client
	most int // lanes with their own bar in one half hour and partition
}

// NewHealth returns a Health with the connection of an open store.
func NewHealth(c *conn.Client) *Health {
	return &Health{conn: c, most: mostLanes(c.Partitions())}
}

// Lanes are spread over partitions by their hashes, so each partition has room for twice
// its share of lanesInAll. One half hour of a store with up to 250 partitions then has at
// most 4,000 bars, which are 19 MB in a day.
const (
	lanesInAll    = 2000
	lanesAtLeast  = 16
	minutesOfADay = int(day / time.Minute)
)

func mostLanes(partitions int) int {
	return min(lanesInAll, max(lanesAtLeast, 2*lanesInAll/max(partitions, 1)))
}

// partition returns the partition of a lane.
func (s *Health) partition(lane dispatcher.Lane) int {
	return s.conn.PartitionOf(lane)
}

// Since returns when the data of a lane's partition began, because earlier statistics are
// lost. It returns zero if that is unknown.
func (s *Health) Since(lane dispatcher.Lane) time.Time {
	return conn.EpochTime(s.conn.Epoch(s.partition(lane)))
}

// key returns the name of the hash of a period: a day at home, half an hour in a
// partition.
func (s *Health) key(partition int, period int64) string {
	return s.conn.Tag(partition) + keys.Health + strconv.FormatInt(period, 10)
}

// periodOf returns the number of the period with a time.
func periodOf(at time.Time, length time.Duration) int64 {
	return at.Unix() / int64(length/time.Second)
}

// timeIn returns the time that is after the beginning of a period.
func timeIn(period int64, length, after time.Duration) time.Time {
	return time.Unix(period*int64(length/time.Second), 0).Add(after).UTC()
}

// textOf formats numbers, without the zeros at the end.
func textOf(numbers ...int64) string {
	for len(numbers) > 1 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	b := make([]byte, 0, 4*len(numbers))
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// readNumbers parses at most len(into) numbers of a text. An invalid number, which a
// person may have written, counts as 0.
func readNumbers(text string, into ...*int64) {
	for _, number := range into {
		var word string
		word, text, _ = strings.Cut(text, " ")
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && n > 0 {
			*number = n
		}
	}
}

func minuteText(m *dispatcher.Minute) string {
	return textOf(append([]int64{m.Accepted, m.Delivered, m.Failed, m.Dead}, m.Late[:]...)...)
}

func readMinute(text string, at time.Time) dispatcher.Minute {
	m := dispatcher.Minute{At: at}
	readNumbers(text, append([]*int64{&m.Accepted, &m.Delivered, &m.Failed, &m.Dead}, each(&m.Late)...)...)
	return m
}

// The rarest numbers come after the durations, so that a usual bar is not longer because
// of them.
func barText(b *dispatcher.Bar) string {
	f := &b.Failed
	numbers := append([]int64{b.Delivered, f.Refused, f.Server, f.Timeout, f.Connect, f.Internal}, b.Took[:]...)
	return textOf(append(numbers, f.TLS, f.DNS)...)
}

func readBar(text string, at time.Time) dispatcher.Bar {
	b := dispatcher.Bar{At: at}
	f := &b.Failed
	numbers := append([]*int64{&b.Delivered, &f.Refused, &f.Server, &f.Timeout, &f.Connect, &f.Internal}, each(&b.Took)...)
	readNumbers(text, append(numbers, &f.TLS, &f.DNS)...)
	return b
}

func each(d *dispatcher.Durations) []*int64 {
	all := make([]*int64, len(d))
	for i := range d {
		all[i] = &d[i]
	}
	return all
}

const (
	// lanesAtOnce is the number of lanes in one call of the script: 0.4 ms of Redis.
	lanesAtOnce = 32
	// callsAtOnce is the number of calls in one round trip. Other commands wait for at
	// most 3 ms.
	callsAtOnce = 8
	// partsOfACount is above the number of calls for one count in one partition.
	partsOfACount = 256
	// repeatedFor is how long after a minute its count may be sent again.
	repeatedFor = 2 * time.Hour
)

// Add adds the counts of an instance, oldest first. It returns the counts that were not
// added, or may not have been. The caller must send these again before any newer ones.
// Parts that were added are not added twice. If a partition or home fails, the others
// continue.
func (s *Health) Add(ctx context.Context, instance string, counts []dispatcher.MinuteCount) (left []dispatcher.MinuteCount, err error) {
	a := adding{store: s, instance: instance, failed: map[int]error{}}
	for i := range counts {
		c := &counts[i]
		rest := dispatcher.MinuteCount{Number: c.Number}
		if c.Moved() && !a.addMinute(ctx, c) {
			rest.Minute = c.Minute
		}
		if rest.Lanes = a.addLanes(ctx, c); rest.Moved() || len(rest.Lanes) > 0 {
			left = append(left, rest)
		}
	}
	var errs []error
	for _, err := range a.failed {
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}

// adding is one call of Add. A partition that failed gets no newer counts.
type adding struct {
	store    *Health
	instance string
	failed   map[int]error // by partition, or conn.Home
}

// addMinute adds a minute at home, and reports whether it was added.
func (a *adding) addMinute(ctx context.Context, c *dispatcher.MinuteCount) bool {
	if a.failed[conn.Home] != nil {
		return false
	}
	at := c.At.UTC()
	args := args(c, 0, period{periodOf(at, day), day, keptDays, minutesOfADay})
	args = append(args, strconv.Itoa(at.Hour()*60+at.Minute()), minuteText(&c.Minute))
	_, err := a.store.conn.RunHome(ctx, healthScript, append([]any{a.instance, ""}, args...)...)
	if err != nil {
		a.failed[conn.Home] = err
	}
	return err == nil
}

// addLanes adds bars, and returns all bars of partitions that failed, so that a retry has
// the same parts.
func (a *adding) addLanes(ctx context.Context, c *dispatcher.MinuteCount) (left []dispatcher.LaneBar) {
	bars := map[int][]dispatcher.LaneBar{}
	for _, b := range c.Lanes {
		n := a.store.partition(b.Lane)
		bars[n] = append(bars[n], b)
	}
	for part := 0; ; part++ {
		var calls []conn.Call
		for n, list := range bars {
			if from := part * lanesAtOnce; from < len(list) && a.failed[n] == nil {
				calls = append(calls, conn.Call{Partition: n, Args: a.store.barArgs(c, part, list[from:min(from+lanesAtOnce, len(list))])})
			}
		}
		if len(calls) == 0 {
			break
		}
		for some := range slices.Chunk(calls, callsAtOnce) {
			for _, done := range a.store.conn.Send(ctx, conn.Batch{Script: healthScript, By: a.instance, Calls: some}) {
				if done.Err != nil {
					a.failed[done.Partition] = a.store.conn.InPartition(done.Partition, done.Err)
				}
			}
		}
	}
	for _, b := range c.Lanes {
		if a.failed[a.store.partition(b.Lane)] != nil {
			left = append(left, b)
		}
	}
	return left
}

// barArgs returns the script's arguments for some bars of one half hour.
func (s *Health) barArgs(c *dispatcher.MinuteCount, part int, bars []dispatcher.LaneBar) []any {
	half := period{periodOf(bars[0].At, dispatcher.HalfHour), dispatcher.HalfHour, keptHalves, s.most}
	args := args(c, part, half)
	for i := range bars {
		args = append(args, string(bars[i].Lane), barText(&bars[i].Bar))
	}
	return args
}

// period describes a hash to the script.
type period struct {
	number int64
	length time.Duration
	kept   int64
	most   int // fields
}

// until returns when a hash may expire.
func (p period) until() time.Time {
	return timeIn(p.number+1, p.length, time.Duration(p.kept)*p.length)
}

// args returns the first arguments of the script, after the two that it ignores.
func args(c *dispatcher.MinuteCount, part int, p period) []any {
	forgotten := c.Number - int64(repeatedFor/time.Minute)
	return []any{c.Number*partsOfACount + int64(part), forgotten * partsOfACount, p.number, p.kept, p.until().Unix(), p.most}
}

// BarsUntil returns when the bars of a half hour may expire. An invalid name may expire
// at once.
func BarsUntil(half string) time.Time {
	number, _ := strconv.ParseInt(half, 10, 64)
	return period{number: number, length: dispatcher.HalfHour, kept: keptHalves}.until()
}

// MostLanes is how many lanes Bars reads in one call: 4,900 bars of at most 150 bytes.
const MostLanes = 100

// Minutes returns the minutes with counts, oldest first, from the minute of since to the
// last that began before until. It returns at most the last KeptMinutes.
func (s *Health) Minutes(ctx context.Context, since, until time.Time) ([]dispatcher.Minute, error) {
	if earliest := until.Add(-dispatcher.KeptMinutes); since.Before(earliest) {
		since = earliest
	}
	since = since.Truncate(time.Minute)
	type page struct {
		period int64
		fields []string
		texts  *redis.SliceCmd
	}
	var pages []*page
	for at := since; at.Before(until); at = at.Add(time.Minute) {
		period := periodOf(at, day)
		if len(pages) == 0 || pages[len(pages)-1].period != period {
			pages = append(pages, &page{period: period})
		}
		last := pages[len(pages)-1]
		last.fields = append(last.fields, strconv.FormatInt(at.Unix()/60%int64(minutesOfADay), 10))
	}
	if len(pages) == 0 {
		return nil, nil
	}
	err := s.conn.At(ctx, "read health", conn.Home, func(p redis.Pipeliner) {
		for _, day := range pages {
			day.texts = p.HMGet(ctx, s.conn.Tag(conn.Home)+keys.Health+strconv.FormatInt(day.period, 10), day.fields...)
		}
	})
	if err = unlessWrong(err); err != nil {
		return nil, err
	}
	var found []dispatcher.Minute
	for _, page := range pages {
		for i, value := range conn.Value(page.texts) {
			if text, ok := value.(string); ok {
				minute, _ := strconv.Atoi(page.fields[i])
				found = append(found, readMinute(text, timeIn(page.period, day, time.Duration(minute)*time.Minute)))
			}
		}
	}
	return found, nil
}

// Bars returns the bars with counts of at most MostLanes lanes, oldest first, from the
// half hour of since, at most KeptBars and one. If some lanes of a half hour were counted
// together, a lane without a bar gets an unsure one. If a partition can't be reached, its
// bars are missing, and the error names it.
func (s *Health) Bars(ctx context.Context, lanes []dispatcher.Lane, since time.Time) (map[dispatcher.Lane][]dispatcher.Bar, error) {
	if len(lanes) > MostLanes {
		return nil, fmt.Errorf("read health: %d lanes, at most %d", len(lanes), MostLanes)
	}
	first := periodOf(since, dispatcher.HalfHour)
	shares := conn.Grouped(len(lanes), 0, func(i int) int { return s.partition(lanes[i]) })
	calls, texts := make([]conn.Call, len(shares)), make([][keptHalves]*redis.SliceCmd, len(shares))
	for k, share := range shares {
		names := make([]string, 0, len(share.At)+1)
		for _, i := range share.At {
			names = append(names, string(lanes[i]))
		}
		names = append(names, string(dispatcher.OtherLanes))
		calls[k] = conn.Call{Partition: share.Partition, Fill: func(p redis.Pipeliner) {
			for half := range texts[k] {
				texts[k][half] = p.HMGet(ctx, s.key(share.Partition, first+int64(half)), names...)
			}
		}}
	}
	found := make(map[dispatcher.Lane][]dispatcher.Bar, len(lanes))
	err := s.conn.SendEach(ctx, conn.Batch{Doing: "read health", Calls: calls}, func(k int, r *conn.Call) error {
		if err := unlessWrong(r.Err); err != nil {
			return err
		}
		for half, cmd := range texts[k] {
			values, at := conn.Value(cmd), timeIn(first+int64(half), dispatcher.HalfHour, 0)
			if len(values) == 0 { // the key has a wrong type
				continue
			}
			for i, of := range shares[k].At {
				lane := lanes[of]
				if text, ok := values[i].(string); ok {
					found[lane] = append(found[lane], readBar(text, at))
				} else if values[len(values)-1] != nil {
					found[lane] = append(found[lane], dispatcher.Bar{At: at, Unsure: true})
				}
			}
		}
		return nil
	})
	return found, err
}

// unlessWrong returns nil for the error of a key with a wrong type, because it has no
// statistics.
func unlessWrong(err error) error {
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
		return nil
	}
	return err
}
