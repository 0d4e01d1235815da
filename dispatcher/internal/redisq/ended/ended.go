// Package ended reads what ended in one lane, in the order of the ends: what a
// merchant compares at the end of a day.
package ended

import (
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/cursor"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

//go:embed lua/ended.lua
var endedSrc string

// Bounds of one page, in units of some 0.35 µs of Redis, as a list has them: a name
// costs 1 µs, and a record 6. A page that costs more ends short, with a cursor.
const (
	pageCost     = 80_000
	costOfName   = 3
	costOfRecord = 16
	costOfScript = 100
	recordsMost  = 256 // of one call, as its script has it
)

// Entry is what the store keeps of a delivery that ended.
type Entry struct {
	Name     string
	Status   dispatcher.Status
	At       time.Time // of its end
	Head     string    // of its message's record; empty: it was not read
	Progress string    // its entry of :progress; empty: none
	Newest   string    // of its history; empty: none
}

// Decode makes a delivery of an entry. It reports false for a name that is no
// delivery's.
type Decode func(e Entry) (dispatcher.Delivery, bool)

// Reader reads what ended.
type Reader struct {
	conn   *conn.Client
	script script.Script
	decode Decode
	sealer *cursor.Sealer
}

// NewReader makes a Reader.
func NewReader(c *conn.Client, decode Decode) *Reader {
	return &Reader{conn: c, script: script.Make(c.TestClock(), "ended", script.Read, endedSrc), decode: decode, sealer: cursor.New(c)}
}

// sets are the end sets, as the script names them.
var sets = map[string]dispatcher.Status{
	"done": dispatcher.StatusDelivered, "dead": dispatcher.StatusDead, "cancelled": dispatcher.StatusCancelled,
}

// Ended reads a page. All of a lane lies in one partition, with one clock.
func (r *Reader) Ended(ctx context.Context, f dispatcher.EndedFilter) (page dispatcher.EndedPage, err error) {
	var at place
	if f.Cursor != "" {
		if err := r.sealer.Open(ctx, listOf(f), f.Cursor, &at); err != nil {
			return page, err
		}
	}
	if err := r.conn.LostOf([]dispatcher.Lane{f.Lane}); err != nil && !f.Left {
		return page, fmt.Errorf("read what ended: %w", err)
	}
	page.More, page.From = true, at.end()
	for cost := 0; page.More && len(page.Deliveries) < f.Limit && cost < pageCost; {
		names, records, err := r.read(ctx, f, &at, &page)
		if err != nil {
			return dispatcher.EndedPage{}, fmt.Errorf("read what ended: %w", err)
		}
		page.LookedAt += names
		cost += costOfName*names + costOfRecord*records + costOfScript
	}
	if len(page.Deliveries) == 0 && !page.More && !f.Left {
		if err := r.conn.IntactOf(ctx, []dispatcher.Lane{f.Lane}); err != nil {
			return dispatcher.EndedPage{}, fmt.Errorf("read what ended: %w", err)
		}
	}
	page.Lane, page.Place = f.Lane, at.end()
	page.Resume, err = r.sealer.Seal(ctx, listOf(f), at)
	return page, err
}

// EndedCursor is the cursor of a list that was read up to a place, here or elsewhere.
func (r *Reader) EndedCursor(ctx context.Context, f dispatcher.EndedFilter, at dispatcher.EndPlace) (string, error) {
	return r.sealer.Seal(ctx, listOf(f), place{Score: millis(at.At), Name: at.ID})
}

// listOf names the list of an endpoint's ends, whatever the order of its statuses.
func listOf(f dispatcher.EndedFilter) string {
	f.Statuses = slices.Compact(slices.Sorted(slices.Values(f.Statuses)))
	return dispatcher.ListName("ended", f)
}

// Forgotten is the newest end that any partition forgot.
func (r *Reader) Forgotten(ctx context.Context) (f dispatcher.Forgotten, err error) {
	n := r.conn.Partitions()
	all, read := make([]int, n), make([]*redis.SliceCmd, n)
	for i := range all {
		all[i] = i
	}
	err = r.conn.EachPartition(ctx, "read what was forgotten", all, func(p redis.Pipeliner, i int) {
		read[i] = p.HMGet(ctx, r.conn.Tag(i)+keys.Archive, "ended", "dead")
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

// read calls the script once. It answers how many names and records that read.
func (r *Reader) read(ctx context.Context, f dispatcher.EndedFilter, at *place, page *dispatcher.EndedPage) (names, records int, err error) {
	asks := func(status dispatcher.Status) bool {
		return len(f.Statuses) == 0 || slices.Contains(f.Statuses, status)
	}
	asked := " "
	for set, status := range sets {
		if asks(status) {
			asked += set + " "
		}
	}
	a := r.conn.Send(ctx, conn.Batch{Script: r.script, Calls: []conn.Call{{
		Partition: keys.Partition(string(f.Lane), r.conn.Partitions()),
		Args:      []any{0, string(f.Lane), asked, min(f.Limit-len(page.Deliveries), recordsMost), at.Score, at.Name, millis(f.Since), millis(f.Until)},
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
		e := Entry{Name: a.Text(), At: a.Time(), Status: sets[a.Text()], Head: a.Text(), Progress: a.Text(), Newest: a.Text()}
		if d, ok := r.decode(e); ok && a.Err == nil {
			page.Deliveries = append(page.Deliveries, d)
		}
	}
	return names, records, a.Err
}

// millis is the first whole ms that is not before t; empty of zero.
func millis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.Add(time.Millisecond-1).UnixMilli(), 10)
}

// place is where a page ended: the score and the name of the last one that was
// looked at, whatever its lane. Nothing ends before it any more.
type place struct{ Score, Name string }

// end is the place as others know it; zero: there is none.
func (p place) end() dispatcher.EndPlace {
	ms, err := strconv.ParseFloat(p.Score, 64)
	if err != nil {
		return dispatcher.EndPlace{}
	}
	return dispatcher.EndPlace{At: conn.FromMillis(int64(ms)), ID: p.Name}
}
