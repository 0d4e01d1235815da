// Package ended reads what ended in one lane, in the order of the ends: what a
// merchant compares at the end of a day.
package ended

import (
	"context"
	_ "embed" // the script
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
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
}

// NewReader makes a Reader.
func NewReader(c *conn.Client, decode Decode) *Reader {
	return &Reader{conn: c, script: script.Make(c.TestClock(), "ended", script.Read, endedSrc), decode: decode}
}

// sets are the end sets, as the script names them.
var sets = map[string]dispatcher.Status{
	"done": dispatcher.StatusDelivered, "dead": dispatcher.StatusDead, "cancelled": dispatcher.StatusCancelled,
}

// Ended reads a page. All of a lane lies in one partition, with one clock.
func (r *Reader) Ended(ctx context.Context, f dispatcher.EndedFilter) (page dispatcher.EndedPage, err error) {
	at, err := parse(f.Cursor, markOf(f))
	if err != nil {
		return page, err
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
	page.Resume, page.Lane, page.Place = at.text(markOf(f)), f.Lane, at.end()
	return page, nil
}

// EndedCursor is the cursor of a list that was read up to a place, here or elsewhere.
func (r *Reader) EndedCursor(f dispatcher.EndedFilter, at dispatcher.EndPlace) string {
	return place{score: millis(at.At), name: at.ID}.text(markOf(f))
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
		Args:      []any{0, string(f.Lane), asked, min(f.Limit-len(page.Deliveries), recordsMost), at.score, at.name, millis(f.Since), millis(f.Until)},
	}}})[0]
	hint, _ := a.Hint()
	page.Now = hint.Now
	if a.Err != nil {
		return 0, 0, a.Err
	}
	page.More = a.Number() == 1
	names, records = int(a.Number()), int(a.Number())
	at.score, at.name = a.Text(), a.Text()
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
type place struct{ score, name string }

// text is the cursor as callers carry it.
func (p place) text(mark string) string {
	return base64.RawURLEncoding.EncodeToString([]byte("ended " + mark + " " + p.score + " " + p.name))
}

// end is the place as others know it; zero: there is none.
func (p place) end() dispatcher.EndPlace {
	ms, err := strconv.ParseFloat(p.score, 64)
	if err != nil {
		return dispatcher.EndPlace{}
	}
	return dispatcher.EndPlace{At: conn.FromMillis(int64(ms)), ID: p.name}
}

// parse reads a cursor. One of another endpoint or of other statuses is refused: its
// page would pass over what that one did not show. The times may be others.
func parse(cursor, mark string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	words := strings.SplitN(string(raw), " ", 4)
	if err != nil || len(words) != 4 || words[0] != "ended" || words[1] != mark {
		return p, fmt.Errorf("%w: %q", dispatcher.ErrCursor, cursor)
	}
	p.score, p.name = words[2], words[3]
	score, err := strconv.ParseFloat(p.score, 64)
	if p == (place{}) || err == nil && score == score {
		return p, nil
	}
	return place{}, fmt.Errorf("%w: %q", dispatcher.ErrCursor, cursor)
}

// markOf tells a list from others.
func markOf(f dispatcher.EndedFilter) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %q", f.Lane, slices.Compact(slices.Sorted(slices.Values(f.Statuses))))
	return strconv.FormatUint(h.Sum64(), 36)
}
