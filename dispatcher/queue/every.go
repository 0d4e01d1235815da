package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/ladder"
)

// periodic is a task of Every.
type periodic struct {
	name string
	next func(time.Time) time.Time
	task func(time.Time) Task
}

// aheadMost is how long before its time a task is published at most. It is a day below the bound of
// DeliverAt, because the clock of Redis may be behind.
const aheadMost = ladder.MaxDuration - 24*time.Hour

var periodicName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Every publishes a task for each time that next returns, while Run runs. next returns the first time
// after its argument, as the schedules of cron libraries do; a zero time ends it. task returns the
// task of a time, and Every sets its ID and its DeliverAt, and no UniqueFor. It panics as Handle does.
//
//	q.Every("report", func(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) },
//		func(at time.Time) queue.Task { return queue.Task{Queue: "report", Topic: "report.hourly", Body: at} })
//
// The ID has the name and the time, so any number of programs may have the same Every: each time
// has one task. The task of the next time is published ahead and waits in Redis. So it is handled in
// time whichever program dies, and once more after Every was taken out of all programs. Times that
// pass while no program runs are left out, except that one. So is a time that no program could publish
// for Options.Retention.
func (q *Queue) Every(name string, next func(time.Time) time.Time, task func(at time.Time) Task) {
	if q == nil || q.engine == nil {
		panic(fmt.Sprintf("queue: Every(%q): %s", name, ErrUnopened))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !periodicName.MatchString(name):
		panic(fmt.Sprintf("queue: Every(%q): the name must be 1 to 64 of A-Z a-z 0-9 _ -", name))
	case next == nil || task == nil:
		panic(fmt.Sprintf("queue: Every(%q): next or task is nil", name))
	case q.running || q.closed:
		panic(fmt.Sprintf("queue: Every(%q): it comes after Run or Close", name))
	}
	for _, p := range q.periodics {
		if p.name == name {
			panic(fmt.Sprintf("queue: Every(%q): the name is taken", name))
		}
	}
	q.periodics = append(q.periodics, periodic{name, next, task})
}

// repeat publishes all periodic tasks until ctx ends.
func (q *Queue) repeat(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range q.periodics {
		all.Go(func() { q.repeatOne(ctx, p) })
	}
	all.Wait()
}

func (q *Queue) repeatOne(ctx context.Context, p periodic) {
	for at := p.next(q.engine.Now()); !at.IsZero(); {
		if !q.waitUntil(ctx, at.Add(-aheadMost)) {
			return
		}
		q.publishNext(ctx, p, at)
		if !q.waitUntil(ctx, at) {
			return
		}
		after := p.next(at)
		if now := q.engine.Now(); !after.IsZero() && !after.After(now) { // the program was suspended
			after = p.next(now)
		}
		if !after.IsZero() && !after.After(at) {
			q.handlers.log.Error("a task of Every is published no more: next returned no later time", "name", p.name)
			return
		}
		at = after
	}
}

// waitUntil waits for a time, and reports whether it came before the end of ctx.
func (q *Queue) waitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(at.Sub(q.engine.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// publishNext publishes the task of one time. While Redis does not respond it tries again, but not for
// longer than the id of a finished task is known: another program may have published it, and a second
// one would be handled too.
func (q *Queue) publishNext(ctx context.Context, p periodic, at time.Time) {
	t := p.task(at)
	t.ID, t.DeliverAt, t.UniqueFor = fmt.Sprintf("every_%s_%d", p.name, at.UnixMilli()), at, 0
	for failures := 0; ctx.Err() == nil; {
		if q.engine.Now().Sub(at) >= q.retain {
			q.handlers.log.Error("a periodic task is left out: its time is longer ago than Options.Retention", "name", p.name, "at", at)
			return
		}
		_, err := q.Publish(ctx, t)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case errors.Is(err, ErrConflict):
			q.handlers.log.Info("another program has published a periodic task with another content", "name", p.name, "at", at)
			return
		case errors.Is(err, ErrInvalid), errors.Is(err, ErrDenied):
			q.handlers.log.Error("a periodic task can't be published", "name", p.name, "at", at, "err", err)
			return
		}
		failures++
		q.handlers.log.Warn("a periodic task is not published yet", "name", p.name, "at", at, "err", err)
		outage.Pause(ctx, failures)
	}
}
