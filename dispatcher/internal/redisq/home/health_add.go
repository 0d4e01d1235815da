package home

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

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
	_, err := a.store.conn.RunHome(ctx, addScript, append([]any{a.instance, ""}, args...)...)
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
			for _, done := range a.store.conn.Send(ctx, conn.Batch{Script: addScript, By: a.instance, Calls: some}) {
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
