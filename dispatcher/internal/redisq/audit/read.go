package audit

import (
	"cmp"
	"context"
	"encoding/json"
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
)

const (
	// chunk is how many entries one command reads: less than a MiB of the largest, and
	// half a ms of Redis.
	chunk = 500
	// maxLooked is how many entries a page looks at.
	maxLooked = 5_000
	// usualLimit is the default of every list.
	usualLimit = 50
)

// ReadAudit reads a page of entries, newest first.
func (l *Log) ReadAudit(ctx context.Context, f dispatcher.AuditFilter) (page dispatcher.AuditPage, err error) {
	filter, limit := filterHash(f), cmp.Or(f.Limit, usualLimit)
	start, end, some := between(f.Since, f.Until)
	if f.Cursor != "" {
		if start, err = parseCursor(f.Cursor, filter); err != nil {
			return page, err
		}
	}
	for looked := 0; some && looked < maxLooked; looked += chunk {
		var found *redis.XMessageSliceCmd
		err := l.conn.At(ctx, "read audit", conn.Home, func(p redis.Pipeliner) {
			found = p.XRevRangeN(ctx, l.home+keys.Audit, start, end, chunk)
		})
		if err != nil {
			return dispatcher.AuditPage{}, err
		}
		list := found.Val()
		for i, m := range list {
			if e := entry(m); matches(f, e) {
				page.Entries = append(page.Entries, e)
			}
			if len(page.Entries) == limit && (i+1 < len(list) || len(list) == chunk) {
				page.Next = cursor(m.ID, filter)
				return page, nil
			}
		}
		if len(list) < chunk {
			if len(page.Entries) == 0 && f.Cursor == "" {
				err = l.conn.Intact(ctx)
			}
			return page, err
		}
		start = "(" + list[len(list)-1].ID
		page.Next = cursor(list[len(list)-1].ID, filter)
	}
	return page, nil
}

// between are the newest and the oldest id of these times; some is false where there
// is no time between them.
func between(since, until time.Time) (start, end string, some bool) {
	start, end = "+", "-"
	if !until.IsZero() {
		last := until.Add(time.Millisecond-1).UnixMilli() - 1 // of the ms that begin before
		if last < 0 {
			return start, end, false
		}
		start = strconv.FormatInt(last, 10)
	}
	if first := since.Add(time.Millisecond - 1).UnixMilli(); !since.IsZero() && first > 0 {
		end = strconv.FormatInt(first, 10)
	}
	return start, end, true
}

// entry is one of the stream. What a person wrote there may lack fields.
func entry(m redis.XMessage) dispatcher.AuditEntry {
	text := func(name string) string {
		value, _ := m.Values[name].(string)
		return value
	}
	ms, _, _ := strings.Cut(m.ID, "-")
	at, _ := strconv.ParseInt(ms, 10, 64)
	return dispatcher.AuditEntry{
		At: conn.FromMillis(at), By: text("by"), What: text("what"), Target: text("target"), Tenant: text("tenant"), Detail: text("detail"),
	}
}

func matches(f dispatcher.AuditFilter, e dispatcher.AuditEntry) bool {
	any := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
	return any(f.By, e.By) && any(f.What, e.What) && any(f.Targets, e.Target) && any(f.Tenants, e.Tenant)
}

// cursor is the id of the last entry that was looked at, and the filter.
func cursor(id string, filter uint64) string { return id + "-" + strconv.FormatUint(filter, 36) }

// parseCursor answers the id behind which a page begins.
func parseCursor(text string, filter uint64) (start string, err error) {
	parts := strings.Split(text, "-")
	if len(parts) == 3 {
		_, err1 := strconv.ParseUint(parts[0], 10, 64)
		_, err2 := strconv.ParseUint(parts[1], 10, 64)
		if err1 == nil && err2 == nil && parts[2] == strconv.FormatUint(filter, 36) {
			return "(" + parts[0] + "-" + parts[1], nil
		}
	}
	return "", fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
}

// filterHash tells a filter from others, whatever its limit and cursor: a page of
// another list would pass over what that one did not show.
func filterHash(f dispatcher.AuditFilter) uint64 {
	f.Limit, f.Cursor = 0, ""
	f.Since, f.Until = f.Since.UTC(), f.Until.UTC()
	h := fnv.New64a()
	text, _ := json.Marshal(f) // of texts and times it can't fail
	_, _ = h.Write(text)
	return h.Sum64()
}
