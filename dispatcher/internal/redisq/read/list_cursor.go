package read

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// listCursor is the end of a page: the section, and the score and name of the last entry that
// was read. Ready lists and marks need more, because they have no common order. Both need the
// partition and the cursor of its scan. Ready lists need the lane, with the position as the
// score.
//
// If the page ended among deliveries that wait behind an entry, the cursor has their ordering
// key and the last score. Moved deliveries are searched in the lanes of a partition. For them
// the cursor has the lane's ms in :known as known, and the ms of acceptance as the score.
type listCursor struct {
	section, lane string
	partition     int
	scan          uint64
	server        string // the scan is valid only for this process
	placed        bool   // it has only a place in the order, from a page of shelves
	score         float64
	name          string // empty: at the start of the section or lane
	key           string // empty: no delivery waits behind it, or all were read
	last          float64
	known         string
	began         int64 // ms when a walk of all statuses began; 0: it is another walk
}

// text returns the cursor before it is sealed.
func (c listCursor) text() string {
	return strings.Join([]string{
		c.section, c.lane, strconv.Itoa(c.partition), strconv.FormatUint(c.scan, 10),
		conn.ScoreText(c.score), c.name, c.key, conn.ScoreText(c.last), c.server, c.known, strconv.FormatInt(c.began, 10),
	}, " ")
}

// readCursor parses the result of text.
func readCursor(text string) (c listCursor, err error) {
	f := strings.Split(text, " ")
	if len(f) != 11 || !slices.Contains(sections, f[0]) {
		return c, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	c.section, c.lane, c.name, c.key, c.server = f[0], f[1], f[5], f[6], f[8]
	c.known = f[9]
	var errs [5]error
	c.partition, errs[0] = strconv.Atoi(f[2])
	c.scan, errs[1] = strconv.ParseUint(f[3], 10, 64)
	c.score, errs[2] = strconv.ParseFloat(f[4], 64)
	c.last, errs[3] = strconv.ParseFloat(f[7], 64)
	c.began, errs[4] = strconv.ParseInt(f[10], 10, 64)
	for _, err := range errs {
		if err != nil || c.partition < 0 || c.began < 0 || c.score != c.score || c.last != c.last {
			return listCursor{}, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
		}
	}
	return c, nil
}

// placeOrCursor parses a cursor, or the place of a page that was read from shelves.
func placeOrCursor(f *dispatcher.Filter, sealed []byte) (at listCursor, err error) {
	var text string
	if json.Unmarshal(sealed, &text) == nil {
		return readCursor(text)
	}
	var place dispatcher.EndPlace
	if err := json.Unmarshal(sealed, &place); err != nil {
		return at, fmt.Errorf("%w: %q", dispatcher.ErrCursor, f.Cursor)
	}
	at = listCursor{section: sectionEnded, score: conn.ToScore(place.At), name: place.ID, placed: true}
	switch {
	case f.Order == dispatcher.OrderDue:
		at.section = sectionDue
	case f.Part == dispatcher.PartUnfinished:
		at.section = unfinished[0]
	}
	return at, nil
}

// anyPlace returns the place of a cursor among ends or next attempts; nil: it has none.
func (c listCursor) anyPlace() *dispatcher.EndPlace {
	if c.name == "" {
		return nil
	}
	return &dispatcher.EndPlace{At: conn.FromScore(c.score), ID: c.name}
}

// goesOn stores the process of a partition's server that replied. It reports whether the
// cursor's scan is from that process, or at its start. If not, the cursor returns to the
// start, and the section returns some deliveries again.
func goesOn(at *listCursor, server string) bool {
	same := at.server == server || at.scan == 0 && at.lane == "" && at.name == ""
	if !same {
		*at = listCursor{section: at.section, partition: at.partition}
	}
	at.server = server
	return same
}

// listAt returns the start of a page.
func (s *Deliveries) listAt(ctx context.Context, f *dispatcher.Filter) (at listCursor, err error) {
	switch {
	case f.Part == dispatcher.PartEnded && f.From != nil:
		return listCursor{section: sectionEnded, score: conn.ToScore(f.From.At), name: cmp.Or(f.From.ID, "\x00")}, nil
	case f.Cursor == "":
		return at, nil
	}
	var sealed json.RawMessage
	if err = s.conn.Cursors().Open(ctx, ShelfListOf(*f), f.Cursor, &sealed); err == nil {
		at, err = placeOrCursor(f, sealed)
	}
	if err == nil && (!slices.Contains(sectionsOf(f), at.section) || at.partition >= s.conn.Partitions()) {
		err = fmt.Errorf("%w: %q", dispatcher.ErrCursor, f.Cursor)
	}
	return at, err
}

// place returns the place of a cursor among the ends, or nil for a cursor of another section.
func (c listCursor) place() *dispatcher.EndPlace {
	if c.section != sectionEnded {
		return nil
	}
	return &dispatcher.EndPlace{At: conn.FromScore(c.score), ID: c.name}
}

// millisOf returns the first whole ms that is not before t.
func millisOf(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }
