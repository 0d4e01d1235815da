package audit

import (
	"cmp"
	"context"
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
	list, limit := dispatcher.ListName("audit", f), cmp.Or(f.Limit, usualLimit)
	start, end, some := between(f.Since, f.Until)
	last := "" // id of the last entry that was looked at
	if f.Cursor != "" {
		if err := l.sealer.Open(ctx, list, f.Cursor, &last); err != nil {
			return page, err
		}
		start = older(start, last)
	}
	more := some
	for looked := 0; more && looked < maxLooked && len(page.Entries) < limit; looked += chunk {
		var found *redis.XMessageSliceCmd
		err := l.conn.At(ctx, "read audit", conn.Home, func(p redis.Pipeliner) {
			found = p.XRevRangeN(ctx, l.home+keys.Audit, start, end, chunk)
		})
		if err != nil {
			return dispatcher.AuditPage{}, err
		}
		entries := found.Val()
		more = len(entries) == chunk
		for i, m := range entries {
			last = m.ID
			if e := entry(m); matches(f, e) {
				page.Entries = append(page.Entries, e)
			}
			if len(page.Entries) == limit {
				more = more || i+1 < len(entries)
				break
			}
		}
		start = "(" + last
	}
	switch {
	case more:
		page.Next, err = l.sealer.Seal(ctx, list, last)
	case len(page.Entries) == 0 && f.Cursor == "":
		err = l.conn.Intact(ctx)
	}
	return page, err
}

// older is the start of a page behind an entry, and not before the newest that its times
// allow.
func older(start, last string) string {
	newest, err := strconv.ParseInt(start, 10, 64)
	ms, _, _ := strings.Cut(last, "-")
	if at, _ := strconv.ParseInt(ms, 10, 64); err == nil && newest < at {
		return start
	}
	return "(" + last
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
