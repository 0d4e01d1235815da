package read

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Bounds of one page, in units of some 0.35 µs of Redis, as a list has them: a name
// costs 1 µs, and a record 6. A page that costs more ends short, with a cursor.
const (
	endedMost   = 80_000
	endedAtOnce = 256 // of one call, as its script has it
)

// EndedEntry is what the store keeps of a delivery that ended.
type EndedEntry struct {
	Name     string
	Status   dispatcher.Status
	At       time.Time // of its end
	Head     string    // of its message's record; empty: it was not read
	Progress string    // its entry of :progress; empty: none
	Newest   string    // of its history; empty: none
}

// endSets are the end sets, as the script names them.
var endSets = map[string]dispatcher.Status{
	"done": dispatcher.StatusDelivered, "dead": dispatcher.StatusDead, "cancelled": dispatcher.StatusCancelled,
}

// Ended reads a page. All of a lane lies in one partition, with one clock.
func (s *Deliveries) Ended(ctx context.Context, f dispatcher.EndedFilter) (page dispatcher.EndedPage, err error) {
	var at endedPlace
	if f.Cursor != "" {
		if err := s.sealer.Open(ctx, endedList(f), f.Cursor, &at); err != nil {
			return page, err
		}
	}
	if err := s.conn.LostOf([]dispatcher.Lane{f.Lane}); err != nil && !f.Left {
		return page, fmt.Errorf("read what ended: %w", err)
	}
	page.More, page.From = true, at.end()
	for cost := 0; page.More && len(page.Deliveries) < f.Limit && cost < endedMost; {
		names, records, err := s.readEnded(ctx, f, &at, &page)
		if err != nil {
			return dispatcher.EndedPage{}, fmt.Errorf("read what ended: %w", err)
		}
		page.LookedAt += names
		cost += costOfName*names + costOfRecord*records + costOfScript
	}
	if len(page.Deliveries) == 0 && !page.More && !f.Left {
		if err := s.conn.IntactOf(ctx, []dispatcher.Lane{f.Lane}); err != nil {
			return dispatcher.EndedPage{}, fmt.Errorf("read what ended: %w", err)
		}
	}
	page.Lane, page.Place = f.Lane, at.end()
	page.Resume, err = s.sealer.Seal(ctx, endedList(f), at)
	return page, err
}

// EndedCursor is the cursor of a list that was read up to a place, here or elsewhere.
func (s *Deliveries) EndedCursor(ctx context.Context, f dispatcher.EndedFilter, at dispatcher.EndPlace) (string, error) {
	return s.sealer.Seal(ctx, endedList(f), endedPlace{Score: millisText(at.At), Name: at.ID})
}

// endedList names the list of an endpoint's ends, whatever the order of its statuses.
func endedList(f dispatcher.EndedFilter) string {
	f.Statuses = slices.Compact(slices.Sorted(slices.Values(f.Statuses)))
	return dispatcher.ListName("ended", f)
}

// Forgotten is the newest end that any partition forgot.
func (s *Deliveries) Forgotten(ctx context.Context) (f dispatcher.Forgotten, err error) {
	all := s.conn.All()
	read := make([]*redis.SliceCmd, len(all))
	err = s.conn.EachPartition(ctx, "read what was forgotten", all, func(p redis.Pipeliner, i int) {
		read[i] = p.HMGet(ctx, s.conn.Tag(i)+keys.Archive, "ended", "dead")
	})
	if err != nil {
		return f, fmt.Errorf("read what was forgotten: %w", err)
	}
	for _, values := range read {
		for i, newest := range []*time.Time{&f.Finished, &f.Dead} {
			text, _ := conn.Value(values)[i].(string)
			if ms, err := strconv.ParseFloat(text, 64); err == nil && conn.FromMillis(int64(ms)).After(*newest) {
				*newest = conn.FromMillis(int64(ms))
			}
		}
	}
	return f, nil
}

// readEnded calls the script once. It answers how many names and records that read.
func (s *Deliveries) readEnded(ctx context.Context, f dispatcher.EndedFilter, at *endedPlace, page *dispatcher.EndedPage) (names, records int, err error) {
	asks := func(status dispatcher.Status) bool {
		return len(f.Statuses) == 0 || slices.Contains(f.Statuses, status)
	}
	asked := " "
	for set, status := range endSets {
		if asks(status) {
			asked += set + " "
		}
	}
	a := s.conn.Send(ctx, conn.Batch{Script: s.scripts.Ended, Calls: []conn.Call{{
		Partition: s.conn.PartitionOf(f.Lane),
		Args:      []any{0, string(f.Lane), asked, min(f.Limit-len(page.Deliveries), endedAtOnce), at.Score, at.Name, millisText(f.Since), millisText(f.Until)},
	}}})[0]
	hint, _ := a.Hint()
	page.Now = hint.Now
	if a.Err != nil {
		return 0, 0, a.Err
	}
	page.More = a.Number() == 1
	names, records = int(a.Number()), int(a.Number())
	at.Score, at.Name = a.Text(), a.Text()
	page.CompleteSince = dispatcher.Forgotten{Finished: a.Time(), Dead: a.Time()}.Since(f.Statuses)
	for a.More() {
		e := EndedEntry{Name: a.Text(), At: a.Time(), Status: endSets[a.Text()], Head: a.Text(), Progress: a.Text(), Newest: a.Text()}
		if d, ok := DecodeEnded(e); ok && a.Err == nil {
			page.Deliveries = append(page.Deliveries, d)
		}
	}
	return names, records, a.Err
}

// millisText is the first whole ms that is not before t; empty of zero.
func millisText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.Add(time.Millisecond-1).UnixMilli(), 10)
}

// endedPlace is where a page ended: the score and the name of the last one that was
// looked at, whatever its lane. Nothing ends before it any more.
type endedPlace struct{ Score, Name string }

// end is the place as others know it; zero: there is none.
func (p endedPlace) end() dispatcher.EndPlace {
	ms, err := strconv.ParseFloat(p.Score, 64)
	if err != nil {
		return dispatcher.EndPlace{}
	}
	return dispatcher.EndPlace{At: conn.FromMillis(int64(ms)), ID: p.Name}
}
