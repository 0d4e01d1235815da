package audit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// A loop of calls would push out of the audit who deleted what. So only the first calls
// of a minute, key and kind have entries of their own. One more entry, at the end of the
// minute, counts the others. What a person does in the console or by a link is never
// counted: each act has its entry.

const (
	minute = time.Minute
	// alone is how many calls of a minute have entries of their own, as the contract says.
	alone = 10
	// patience bounds one entry: the change that it tells of must not wait for a store
	// that hangs.
	patience = time.Second
	// countEvery is how often the ends of minutes are looked for.
	countEvery = 10 * time.Second
)

// callKind is the key and the kind of calls. Failures are a kind of their own.
type callKind struct {
	by, what string
	failed   bool
}

// minuteOf is a minute of calls of one kind.
type minuteOf struct {
	callKind
	began   time.Time
	written int    // entries of their own
	more    int    // calls after these
	target  string // of the last of them
}

// Record adds an entry, or counts the call.
func (l *Log) Record(ctx context.Context, e dispatcher.AuditEntry) {
	e.Target, e.Detail = clip(e.Target, maxTarget), clip(e.Detail, maxDetail)
	own, ended := l.enter(e)
	if ended != nil {
		l.put(ctx, ended.count())
	}
	if own {
		l.put(ctx, e)
	}
}

// put writes an entry. The log has it where the store does not take it.
func (l *Log) put(ctx context.Context, e dispatcher.AuditEntry) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := l.write(ctx, e); err != nil {
		l.tell(ctx, e, err)
	}
}

// enter finds the minute of a call, and whether it gets an entry of its own. ended is the
// minute before, if it counts calls.
func (l *Log) enter(e dispatcher.AuditEntry) (own bool, ended *minuteOf) {
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

// Run writes the counts of minutes that ended, until ctx ends, and then all others.
func (l *Log) Run(ctx context.Context) error {
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

// count ends the minutes that are that old.
func (l *Log) count(ctx context.Context, age time.Duration) {
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

// count is the entry of the calls that had none of their own.
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

// tell has the log keep what could not be written.
func (l *Log) tell(ctx context.Context, e dispatcher.AuditEntry, err error) {
	l.log.LogAttrs(ctx, slog.LevelWarn, "audit entry not written", slog.String("by", e.By), slog.String("what", e.What),
		slog.String("target", e.Target), slog.String("tenant", e.Tenant), slog.String("detail", e.Detail), slog.Any("err", err))
}
