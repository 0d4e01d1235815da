package redisq

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// cursor is where a page ended: the section, the lane (ready only), and the
// score and name of the last entry that was looked at; where the page ended
// among those that wait behind it, also their ordering key, and the score of
// the last of them that was looked at.
type cursor struct {
	section, lane string
	score         int64
	name          string // empty: at the section's, or lane's, begin
	key           string // empty: nothing waits behind it, or all of it was looked at
	last          int64
}

// String is the cursor as callers carry it. It is not meant to be read.
func (c cursor) String() string {
	text := strings.Join([]string{
		c.section, c.lane, strconv.FormatInt(c.score, 10), c.name, c.key, strconv.FormatInt(c.last, 10),
	}, " ")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parseCursor(text string) (c cursor, err error) {
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	f := strings.Split(string(raw), " ")
	if len(f) != 6 || f[0] != sectionLanes && !slices.Contains(sections, f[0]) {
		return c, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	c.section, c.lane, c.name, c.key = f[0], f[1], f[3], f[4]
	score, err := strconv.ParseInt(f[2], 10, 64)
	last, err2 := strconv.ParseInt(f[5], 10, 64)
	if err != nil || err2 != nil {
		return c, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	c.score, c.last = score, last
	return c, nil
}
