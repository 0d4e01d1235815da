package audit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// A loop of calls would push out of the audit who deleted what. So only the first calls
// of a minute, key and kind have entries of their own. The last of these entries also
// counts what follows. It is replaced at the end of the minute, when the count is known.

const (
	minute = time.Minute
	// alone is how many calls of a minute have entries of their own: a person makes no
	// more.
	alone = 10
	// patience bounds one entry: the change that it tells of must not wait for a store
	// that hangs.
	patience = time.Second
	// countEvery is how often the ends of minutes are looked for.
	countEvery = 10 * time.Second
)

// callKind is the key and the kind of calls.
type callKind struct{ by, what string }

// minuteOf is a minute of calls of one kind.
type minuteOf struct {
	began   time.Time
	written int                   // entries of their own
	last    dispatcher.AuditEntry // the last of these, once no more may be written
	id      string                // its id; empty: it could not be written
	more    int                   // calls after it
	target  string                // of the last of them
}

// Record adds an entry, or counts the call.
func (l *Log) Record(ctx context.Context, e dispatcher.AuditEntry) {
	e.Target, e.Detail = clip(e.Target, maxTarget), clip(e.Detail, maxDetail)
	own, last, ended := l.enter(e)
	if ended != nil {
		l.writeCount(ctx, ended)
	}
	if !own {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id, err := l.write(ctx, e, "")
	if err != nil {
		l.tell(ctx, e, err)
	}
	if last != nil {
		l.mu.Lock()
		last.id = id
		l.mu.Unlock()
	}
}

// enter finds the minute of a call, and whether it gets an entry of its own. last is the
// minute whose last entry that is. ended is the minute before, if it counts calls.
func (l *Log) enter(e dispatcher.AuditEntry) (own bool, last, ended *minuteOf) {
	of, mayBe := callKind{e.By, e.What}, alone
	if e.Bulk {
		mayBe = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.minutes[of]
	if e.Failed { // the call itself may have no entry
		return m == nil || m.more == 0, nil, nil
	}
	if m == nil || l.now().Sub(m.began) >= minute {
		if m != nil && m.more > 0 {
			ended = m
		}
		m = &minuteOf{began: l.now()}
		l.minutes[of] = m
	}
	if m.written == mayBe {
		m.more++
		m.target = e.Target
		return false, nil, ended
	}
	if m.written++; m.written == mayBe {
		m.last, last = e, m
	}
	return true, last, ended
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
		l.writeCount(ctx, m)
	}
}

// writeCount replaces the last entry of a minute that ended by one that counts too.
func (l *Log) writeCount(ctx context.Context, m *minuteOf) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.mu.Lock()
	e, instead := m.last, m.id
	count := fmt.Sprintf("and %d more calls in the minute from %s, the last of %s", m.more, m.began.UTC().Format(time.TimeOnly), m.target)
	l.mu.Unlock()
	if e.Detail != "" {
		count = clip(e.Detail, maxDetail/2) + "; " + count
	}
	e.Detail = clip(count, maxDetail)
	if _, err := l.write(ctx, e, instead); err != nil {
		l.tell(ctx, e, err)
	}
}

// tell has the log keep what could not be written.
func (l *Log) tell(ctx context.Context, e dispatcher.AuditEntry, err error) {
	l.log.LogAttrs(ctx, slog.LevelWarn, "audit entry not written", slog.String("by", e.By), slog.String("what", e.What),
		slog.String("target", e.Target), slog.String("tenant", e.Tenant), slog.String("detail", e.Detail), slog.Any("err", err))
}
