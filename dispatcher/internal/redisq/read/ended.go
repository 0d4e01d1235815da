package read

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of one page, in units of some 0.35 µs of Redis, like the limits of a list. A name
// costs 1 µs, and a record 6. A page that costs more ends early, with a cursor.
const (
	endedMost   = 80_000
	endedAtOnce = 256 // limit of one call, same as in the script
)

// EndedEntry has the stored values of a delivery that ended.
type EndedEntry struct {
	Name     string
	Status   dispatcher.Status
	At       time.Time // of its end
	Head     string    // of its message's record; empty: not read
	Progress string    // its entry of :progress; empty: none
	Newest   string    // of its history; empty: none
}

// endSets maps the script's names of the end sets to statuses.
var endSets = map[string]dispatcher.Status{
	"done": dispatcher.StatusDelivered, "dead": dispatcher.StatusDead, "cancelled": dispatcher.StatusCancelled,
}

// Ended returns a page. All entries of a lane are in one partition, with one clock.
func (s *Deliveries) Ended(ctx context.Context, f dispatcher.EndedFilter) (page dispatcher.EndedPage, err error) {
	var at endedPlace
	f.Limit = input.PageSize(f.Limit, input.MaxPage)
	if err := s.conn.Cursors().Open(ctx, endedList(f), f.Cursor, &at); err != nil {
		return page, err
	}
	if err := s.conn.LostOf([]dispatcher.Lane{f.Lane}); err != nil && !f.Left {
		return page, fmt.Errorf("read the ended deliveries: %w", err)
	}
	page.More, page.From = true, at.end()
	for cost := 0; page.More && len(page.Deliveries) < f.Limit && cost < endedMost; {
		names, records, err := s.readEnded(ctx, f, &at, &page)
		if err != nil {
			return dispatcher.EndedPage{}, fmt.Errorf("read the ended deliveries: %w", err)
		}
		page.LookedAt += names
		cost += costOfName*names + costOfRecord*records + costOfScript
	}
	if len(page.Deliveries) == 0 && !page.More && !f.Left {
		if err := s.conn.IntactOf(ctx, []dispatcher.Lane{f.Lane}); err != nil {
			return dispatcher.EndedPage{}, fmt.Errorf("read the ended deliveries: %w", err)
		}
	}
	page.Lane, page.Place = f.Lane, at.end()
	page.Resume, err = s.conn.Cursors().Seal(ctx, endedList(f), at)
	return page, err
}

// EndedCursor returns the cursor for a list that was read up to a place, by this store or
// another.
func (s *Deliveries) EndedCursor(ctx context.Context, f dispatcher.EndedFilter, at dispatcher.EndPlace) (string, error) {
	place := endedPlace{Name: at.ID}
	if !at.At.IsZero() {
		place.Score = conn.ScoreText(conn.ToScore(at.At))
	}
	return s.conn.Cursors().Seal(ctx, endedList(f), place)
}

// endedList returns the name of the list of an endpoint's ends. The order of the statuses does
// not matter.
func endedList(f dispatcher.EndedFilter) string {
	f.Statuses = slices.Compact(slices.Sorted(slices.Values(f.Statuses)))
	return dispatcher.ListName("ended", f)
}

// Forgotten returns the newest end that any partition deleted.
func (s *Deliveries) Forgotten(ctx context.Context) (f dispatcher.Forgotten, err error) {
	all := s.conn.All()
	read := make([]*redis.SliceCmd, len(all))
	err = s.conn.EachPartition(ctx, "read the newest forgotten ends", all, func(p redis.Pipeliner, i int) {
		read[i] = p.HMGet(ctx, s.conn.Tag(i)+keys.Archive, "ended", "dead")
	})
	if err != nil {
		return f, fmt.Errorf("read the newest forgotten ends: %w", err)
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

// readEnded calls the script once. It returns the number of names and records that the call
// read.
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
	a := s.conn.Send(ctx, conn.Batch{Script: endedScript, Calls: []conn.Call{{
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

// millisText returns the first whole ms that is not before t; empty for zero.
func millisText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.Add(time.Millisecond-1).UnixMilli(), 10)
}

// endedPlace is the end of a page: the score and the name of the last entry that was read, of
// any lane. No new entry is added before it.
type endedPlace struct{ Score, Name string }

// end returns the place in its public form; zero: there is none.
func (p endedPlace) end() dispatcher.EndPlace {
	ms, err := strconv.ParseFloat(p.Score, 64)
	if err != nil {
		return dispatcher.EndPlace{}
	}
	return dispatcher.EndPlace{At: conn.FromScore(ms), ID: p.Name}
}
