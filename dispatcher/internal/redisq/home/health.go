package home

import (
	_ "embed" // the script
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

//go:embed lua/health.lua
var addSrc string

// addScript is called so rarely that it is loaded on its first call.
var addScript = conn.NewScript("add health", addSrc)

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
