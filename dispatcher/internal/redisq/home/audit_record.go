package home

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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
