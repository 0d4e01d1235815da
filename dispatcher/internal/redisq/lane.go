package redisq

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// helds are the letters by which :limits says why a lane is held.
var helds = map[dispatcher.Held]string{
	dispatcher.HeldNone: "-", dispatcher.HeldPaused: "p", dispatcher.HeldDisabled: "d", dispatcher.HeldDeleted: "x",
}

// Limit writes the copy of a lane's limits, in every partition those of AllLanes.
func (s *Store) Limit(ctx context.Context, by string, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, []dispatcher.Hint, error) {
	args := []any{string(lane), l.Version, l.MaxInFlight, l.Interval.Microseconds(), flag(l.Ordered), helds[l.Held], flag(clear), l.Name, cmp.Or(l.By, dispatcher.System)}
	jobs := []job{{partition: s.partition(lane), args: args}}
	if lane == dispatcher.AllLanes {
		jobs = s.everywhere(args)
	}
	var n dispatcher.LaneCount
	var hints []dispatcher.Hint
	var errs []error
	for i, r := range s.run(ctx, s.scripts.lane, by, jobs) {
		a := answer{values: r.values, err: r.err}
		if h := a.hintIf(jobs[i].partition); h != nil {
			a.changes(h)
			n.InFlight += int(a.number())
			n.Waiting += int(a.number())
			hints = append(hints, *h)
		}
		if a.err != nil {
			errs = append(errs, fmt.Errorf("lane %s: %w", lane, inPartition(jobs[i].partition, a.err)))
		}
	}
	return n, hints, join(errs...)
}

// everywhere is one call in each partition.
func (s *Store) everywhere(args []any) []job {
	jobs := make([]job, len(s.tags))
	for n := range jobs {
		jobs[n] = job{partition: n, args: args}
	}
	return jobs
}

func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// changes reads which breakers a script opened and closed: a lane, and until
// when it is left alone, 0 where it closed.
func (a *answer) changes(h *dispatcher.Hint) {
	list := answer{values: a.list()}
	for a.err == nil && list.more() {
		lane, until := dispatcher.Lane(list.text()), list.time()
		switch {
		case list.err != nil:
			a.err = list.err
		case until.IsZero():
			h.Closed = append(h.Closed, lane)
		default:
			h.Opened = append(h.Opened, dispatcher.Opening{Lane: lane, Until: until})
		}
	}
}

// Bounds of a sweep: sweepPage entries of :due are looked at in one call, and
// sweepBatch of what is found ended in one, which reads a MiB of records for
// them at most.
const (
	sweepPage  = 1000
	sweepBatch = 64
)

// Sweep ends a page of what waits for a time in a disabled or deleted lane.
// What waits in line behind it follows by itself.
func (s *Store) Sweep(ctx context.Context, by string, lane dispatcher.Lane, cursor string) (ended int, next string, hints []dispatcher.Hint, err error) {
	at, err := parsePage(cursor)
	if err != nil {
		return 0, "", nil, fmt.Errorf("sweep %s: %w", lane, err)
	}
	n := s.partition(lane)
	var scan *redis.ScanCmd
	err = s.at(ctx, "sweep "+string(lane), n, func(p redis.Pipeliner) {
		scan = p.ZScan(ctx, s.tags[n]+keys.Due, at, string(lane)+":*", sweepPage)
	})
	if err != nil {
		return 0, cursor, nil, err
	}
	found, at := scan.Val()
	var jobs []job
	each(len(found)/2, sweepBatch, func(from, to int) {
		args := make([]any, 1, 1+to-from)
		args[0] = string(lane)
		for i := from; i < to; i++ {
			args = append(args, found[2*i]) // behind each is its score
		}
		jobs = append(jobs, job{partition: n, args: args})
	})
	for _, r := range s.run(ctx, s.scripts.sweep, by, jobs) {
		a := answer{values: r.values, err: r.err}
		if h := a.hintIf(n); h != nil {
			ended += int(a.number())
			hints = append(hints, *h)
		}
		if a.err != nil {
			return ended, cursor, hints, fmt.Errorf("sweep %s: %w", lane, a.err)
		}
	}
	return ended, pageText(at), hints, nil
}

// parseLimits reads a text of :limits: version, most in flight, interval in
// µs, 1 for an ordered lane, why it is held.
func parseLimits(text string) (l dispatcher.LaneLimits, err error) {
	if text == "" {
		return l, nil
	}
	var micros, ordered int64
	var held string
	if _, err := fmt.Sscanf(text, "%d %d %d %d %s", &l.Version, &l.MaxInFlight, &micros, &ordered, &held); err != nil {
		return l, fmt.Errorf("limits %q: %w", text, errAnswer)
	}
	l.Interval, l.Ordered = time.Duration(micros)*time.Microsecond, ordered == 1
	for h, letter := range helds {
		if letter == held {
			l.Held = h
			return l, nil
		}
	}
	return l, fmt.Errorf("limits %q: %w", text, errAnswer)
}
