package home

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

const (
	// auditChunk is the number of entries that one command reads. 500 of the largest have less than 1
	// MiB and take half a ms of Redis.
	auditChunk = 500
	// maxScanned is the most entries that a page reads.
	maxScanned = 5_000
)

// streams is the number of streams that a page merges. The second one has the changes by links.
const streams = 2

// readFrom is the position of a page in one stream.
type readFrom struct {
	start string           // start of the next command
	last  string           // id of the last entry that was checked
	next  []redis.XMessage // read, but not checked yet
	more  bool             // the stream may have more entries than these
}

// ReadAudit returns a page of entries, newest first.
func (l *Audit) ReadAudit(ctx context.Context, f dispatcher.AuditFilter) (page dispatcher.AuditPage, err error) {
	list, limit := dispatcher.ListName("audit", f), input.PageSize(f.Limit, input.MaxPage)
	start, end, some := between(f.Since, f.Until)
	var last [streams]string
	if err := l.conn.Cursors().Open(ctx, list, f.Cursor, &last); err != nil {
		return page, err
	}
	var from [streams]*readFrom
	for i := range from {
		from[i] = &readFrom{start: older(start, last[i]), last: last[i], more: some}
	}
	scanned := 0
	for ; scanned < maxScanned && len(page.Entries) < limit; scanned++ {
		if err := l.fill(ctx, from[:], end); err != nil {
			return dispatcher.AuditPage{}, err
		}
		at := newest(from[:])
		if at == nil {
			break
		}
		m := at.next[0]
		at.next, at.last = at.next[1:], m.ID
		if e := entry(m); matches(f, e) {
			page.Entries = append(page.Entries, e)
		}
	}
	more := false
	for i, at := range from {
		more, last[i] = more || at.more || len(at.next) > 0, at.last
	}
	switch {
	case more:
		page.Next, err = l.conn.Cursors().Seal(ctx, list, last)
	case len(page.Entries) == 0 && f.Cursor == "":
		err = l.conn.Intact(ctx)
	}
	return page, err
}

// fill reads the next entries of each stream whose entries are used up, all in one round trip.
func (l *Audit) fill(ctx context.Context, from []*readFrom, end string) error {
	found := make([]*redis.XMessageSliceCmd, len(from))
	empty := func(at *readFrom) bool { return at.more && len(at.next) == 0 }
	if !slices.ContainsFunc(from, empty) {
		return nil
	}
	err := l.conn.At(ctx, "read audit", conn.Home, func(p redis.Pipeliner) {
		for i, at := range from {
			switch {
			case !empty(at):
			case i == 0:
				found[i] = p.XRevRangeN(ctx, l.home+keys.Audit, at.start, end, auditChunk)
			default:
				found[i] = p.XRevRangeN(ctx, l.home+keys.AuditLinks, at.start, end, auditChunk)
			}
		}
	})
	if err != nil {
		return err
	}
	for i, at := range from {
		if found[i] == nil {
			continue
		}
		at.next = found[i].Val()
		if at.more = len(at.next) == auditChunk; at.more {
			at.start = "(" + at.next[auditChunk-1].ID
		}
	}
	return nil
}

// newest returns the stream whose next entry is the newest. It returns nil if there is none.
func newest(from []*readFrom) (found *readFrom) {
	for _, at := range from {
		if len(at.next) > 0 && (found == nil || later(at.next[0].ID, found.next[0].ID)) {
			found = at
		}
	}
	return found
}

// later reports whether one id is later than another.
func later(one, other string) bool {
	ms1, seq1, _ := strings.Cut(one, "-")
	ms2, seq2, _ := strings.Cut(other, "-")
	number := func(text string) uint64 { n, _ := strconv.ParseUint(text, 10, 64); return n }
	return cmp.Or(cmp.Compare(number(ms1), number(ms2)), cmp.Compare(number(seq1), number(seq2))) > 0
}

// older returns the start of a page after an entry. The start is never newer than the newest time
// of the filter. Without an entry it returns that time.
func older(start, last string) string {
	if last == "" {
		return start
	}
	newest, err := strconv.ParseInt(start, 10, 64)
	ms, _, _ := strings.Cut(last, "-")
	if at, _ := strconv.ParseInt(ms, 10, 64); err == nil && newest < at {
		return start
	}
	return "(" + last
}

// between returns the newest and the oldest id of a range of times. It returns false in some if the
// range is empty.
func between(since, until time.Time) (start, end string, some bool) {
	start, end = "+", "-"
	if !until.IsZero() {
		last := until.Add(time.Millisecond-1).UnixMilli() - 1 // the last ms that begins before until
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

// entry returns an entry of the stream. If a person wrote the entry, it may lack fields.
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
