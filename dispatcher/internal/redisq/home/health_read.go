package home

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

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
