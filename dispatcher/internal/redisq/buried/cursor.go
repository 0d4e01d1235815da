package buried

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// place is where a page ended: the partitions that it orders together, where the
// scan of the first one began, and the last group it told.
type place struct {
	from, to int    // to: exclusive; 0: it is not known yet
	scan     string // cursor in the first partition; empty: from its start

	count  int64 // of the last group; 0: it told none
	lane   dispatcher.Lane
	reason dispatcher.DeadReason
}

// text is the cursor as callers carry it.
func (p *place) text(filter uint64) string {
	text := fmt.Sprintf("dead %x %d %d %d %s %s %s", filter, p.from, p.to, p.count, p.scan, p.lane, p.reason)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parse reads a cursor. Of another filter it is refused: its page would pass over
// what that one did not show.
func parse(text string, filter uint64, partitions int) (p place, err error) {
	if text == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	words := strings.Split(string(raw), " ")
	var of uint64
	if err == nil && len(words) == 8 {
		_, err = fmt.Sscanf(strings.Join(words[:5], " "), "dead %x %d %d %d", &of, &p.from, &p.to, &p.count)
		if err == nil {
			_, _, err = conn.ParseCursor(words[5])
		}
		p.scan, p.lane, p.reason = words[5], dispatcher.Lane(words[6]), dispatcher.DeadReason(words[7])
	}
	if err != nil || len(words) != 8 || of != filter || p.from < 0 || p.from >= partitions || p.to < 0 || p.to > partitions || p.to > 0 && p.to <= p.from {
		return place{}, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	return p, nil
}

// hashOf tells a filter from others, whatever its limit and cursor. Endpoints may
// come and go between two pages.
func hashOf(f dispatcher.DeadFilter) uint64 {
	f.Limit, f.Cursor, f.Owned = 0, "", nil
	h := fnv.New64a()
	text, _ := json.Marshal(f) // of texts it can't fail
	_, _ = h.Write(text)
	return h.Sum64()
}
