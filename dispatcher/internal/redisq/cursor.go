package redisq

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// cursor is where a page ended: the section, and the score and name of the last
// entry that was read. Ready lists and marks need more, since they have no
// single order. Both need the partition and the cursor of its scan. Ready lists
// need the lane, with the position as the score. If the page ended among the
// deliveries that wait behind an entry, it has their ordering key and the score
// of the last one read.
type cursor struct {
	section, lane string
	partition     int
	scan          uint64
	score         float64
	name          string // empty: at the begin of the section or lane
	key           string // empty: no delivery waits behind it, or all were read
	last          float64
}

// String is the cursor as callers carry it. They must not interpret it.
func (c cursor) String() string {
	text := strings.Join([]string{
		c.section, c.lane, strconv.Itoa(c.partition), strconv.FormatUint(c.scan, 10),
		scoreText(c.score), c.name, c.key, scoreText(c.last),
	}, " ")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// scoreText is a score as Redis reads it.
func scoreText(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'f', -1, 64)
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
	if len(f) != 8 || f[0] != sectionLanes && f[0] != sectionPaused && !slices.Contains(sections, f[0]) {
		return c, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	c.section, c.lane, c.name, c.key = f[0], f[1], f[5], f[6]
	var errs [4]error
	c.partition, errs[0] = strconv.Atoi(f[2])
	c.scan, errs[1] = strconv.ParseUint(f[3], 10, 64)
	c.score, errs[2] = strconv.ParseFloat(f[4], 64)
	c.last, errs[3] = strconv.ParseFloat(f[7], 64)
	for _, err := range errs {
		if err != nil || c.partition < 0 || c.score != c.score || c.last != c.last {
			return cursor{}, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
		}
	}
	return c, nil
}
