package home

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

const (
	// most and mostByLinks limit the number of entries, as documented in the contract. They take
	// some 3 MB and 600 kB of Redis.
	most, mostByLinks = 10_000, 2_000
	// maxTarget and maxDetail limit the texts of an entry. The other texts are limited when they
	// are accepted. 500 of the largest entries are less than 1 MiB.
	maxTarget, maxDetail = 256, 1024
)

// Audit is a dispatcher.Audit in Redis.
type Audit struct {
	conn *conn.Client
	home string // tag of the keys
	log  *slog.Logger
	now  func() time.Time // tests set it

	mu      sync.Mutex // guards minutes and their content
	minutes map[callKind]*minuteOf
}

// NewAudit returns an Audit that uses a connection.
func NewAudit(c *conn.Client, log *slog.Logger) *Audit {
	return &Audit{conn: c, home: c.Tag(conn.Home), log: log, now: time.Now, minutes: map[callKind]*minuteOf{}}
}

// write adds an entry.
func (l *Audit) write(ctx context.Context, e dispatcher.AuditEntry) error {
	key, kept := keys.Audit, most
	if e.ByLink() {
		key, kept = keys.AuditLinks, mostByLinks
	}
	_, err := l.conn.RunHome(ctx, auditScript, key, kept, e.By, e.What, e.Target, e.Tenant, e.Detail)
	return err
}

// Hide returns an HMAC of texts, by a random key of the project. The same texts return the same
// HMAC. So a person that has the texts can see that an entry is about them. Without the key the
// texts can't be guessed.
func (l *Audit) Hide(ctx context.Context, texts ...string) (string, error) {
	key, err := l.conn.Secret(ctx, conn.MetaForgets)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// clip shortens a text, so that an entry stays small.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// A loop of calls would push important entries, such as deletions, out of the audit. So only the
// first calls of a minute, key and kind have their own entries. One more entry, at the end of the
// minute, counts the other calls. Actions in the console or by a link are never counted, and each
// has its own entry.

const (
	minute = time.Minute
	// alone is the number of calls of a minute that have their own entries, as documented in the
	// contract.
	alone = 10
	// patience is the timeout of one entry. The change that the entry reports must not wait for a
	// store that hangs.
	patience = time.Second
	// countEvery is how often the Audit checks for minutes that have ended.
	countEvery = 10 * time.Second
)

// callKind is the key and the kind of calls. Failed calls have their own kind.
type callKind struct {
	by, what string
	failed   bool
}

// minuteOf counts the calls of one kind in a minute.
type minuteOf struct {
	callKind
	began   time.Time
	written int    // calls with their own entry
	more    int    // further calls
	target  string // target of the last of them
}

// Record adds an entry, or counts the call.
func (l *Audit) Record(ctx context.Context, e dispatcher.AuditEntry) {
	e.Target, e.Detail = clip(e.Target, maxTarget), clip(e.Detail, maxDetail)
	own, ended := l.enter(e)
	if ended != nil {
		l.put(ctx, ended.count())
	}
	if own {
		l.put(ctx, e)
	}
}

// put writes an entry. If the store rejects it, the entry is logged instead.
func (l *Audit) put(ctx context.Context, e dispatcher.AuditEntry) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := l.write(ctx, e); err != nil {
		l.logFailed(ctx, e, err)
	}
}

// enter counts a call in its minute and reports whether the call gets its own entry. It returns the
// previous minute in ended, if that minute counted calls.
func (l *Audit) enter(e dispatcher.AuditEntry) (own bool, ended *minuteOf) {
	if e.Person {
		return true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := callKind{e.By, e.What, e.Failed}
	m := l.minutes[of]
	if m == nil || l.now().Sub(m.began) >= minute {
		if m != nil && m.more > 0 {
			ended = m
		}
		m = &minuteOf{callKind: of, began: l.now()}
		l.minutes[of] = m
	}
	if m.written == alone {
		m.more++
		m.target = e.Target
		return false, ended
	}
	m.written++
	return true, ended
}

// Run writes the counts of ended minutes until ctx ends. It then writes all other counts.
func (l *Audit) Run(ctx context.Context) error {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.count(context.WithoutCancel(ctx), 0)
			return nil
		case <-tick.C:
			l.count(ctx, minute)
		}
	}
}

// count ends the minutes that are at least this old.
func (l *Audit) count(ctx context.Context, age time.Duration) {
	var ended []*minuteOf
	l.mu.Lock()
	for of, m := range l.minutes {
		if l.now().Sub(m.began) >= age {
			delete(l.minutes, of)
			if m.more > 0 {
				ended = append(ended, m)
			}
		}
	}
	l.mu.Unlock()
	for _, m := range ended {
		l.put(ctx, m.count())
	}
}

// count returns the entry for the calls that had no entry of their own.
func (m *minuteOf) count() dispatcher.AuditEntry {
	what := "calls"
	if m.failed {
		what = "failures"
	}
	detail := fmt.Sprintf("%d more %s in the minute from %s", m.more, what, m.began.UTC().Format(time.TimeOnly))
	if m.target != "" {
		detail += ", the last of " + m.target
	}
	return dispatcher.AuditEntry{By: m.by, What: m.what, Detail: detail}
}

// logFailed logs an entry that could not be written.
func (l *Audit) logFailed(ctx context.Context, e dispatcher.AuditEntry, err error) {
	l.log.LogAttrs(ctx, slog.LevelWarn, "audit entry not written", slog.String("by", e.By), slog.String("what", e.What),
		slog.String("target", e.Target), slog.String("tenant", e.Tenant), slog.String("detail", e.Detail), slog.Any("err", err))
}

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
