package redisqtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Raw is a Store for tests. The test sets the partitions that a call queries. The
// calls also return the hints, which a Store only uses internally.
type Raw struct {
	*Whole

	mu    sync.Mutex // guards hints
	hints []Hint
}

// OpenRaw opens a store like redisq.Open.
func OpenRaw(ctx context.Context, o redisq.Options) (*Raw, error) {
	s, err := redisq.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &Raw{Whole: WholeOf(s)}
	s.OnAnswer(func(h conn.Hint) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hints = append(r.hints, hintOf(h))
	})
	return r, nil
}

// heard returns the hints since its last call.
func (r *Raw) heard() []Hint {
	r.mu.Lock()
	defer r.mu.Unlock()
	hints := slices.Clone(r.hints)
	r.hints = nil
	return hints
}

// Hint is the work of a partition, as a reply reports it to the store.
type Hint = conn.Hint

// hintOf returns a hint without the time of its query, because a case can't
// know the time.
func hintOf(h conn.Hint) Hint {
	h.Sent = time.Time{}
	return h
}

// Trimmed is the result of a Trim. It has the hints of partitions in which a
// lane was placed again, because another clock had set its time.
type Trimmed struct {
	dispatcher.Trimmed
	Hints []Hint
}

// Subscriber is a subscriber that also gets the hints of other instances.
type Subscriber struct {
	dispatcher.Subscriber
	OnHint func(Hint)
}

func hintsOf(list []conn.Hint) (hints []Hint) {
	for _, h := range list {
		hints = append(hints, hintOf(h))
	}
	return hints
}

// Queue returns the Store itself.
func (r *Raw) Queue() *redisq.Store { return r.changes }

func (r *Raw) Schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) ([]dispatcher.ScheduleResult, []Hint, error) {
	out, err := r.Whole.Schedule(ctx, by, free, lease, batch)
	return out, r.heard(), err
}

func (r *Raw) Move(ctx context.Context, by string, in []int) ([]dispatcher.Claimed, []Hint, error) {
	ended, err := r.MoveIn(ctx, by, in)
	return ended, r.heard(), err
}

func (r *Raw) Adopt(ctx context.Context, by string, leases []dispatcher.TakenLease) ([]dispatcher.Adopted, []Hint) {
	adopted := r.Whole.Adopt(ctx, by, leases)
	return adopted, r.heard()
}

func (r *Raw) Extend(ctx context.Context, by string, leases []dispatcher.TakenLease, lasts time.Duration) ([]dispatcher.Adopted, []Hint) {
	extended := r.Whole.Extend(ctx, by, leases, lasts)
	return extended, r.heard()
}

func (r *Raw) Claim(ctx context.Context, by string, in []int, wanted, free int) ([]dispatcher.Claimed, []Hint, error) {
	return r.ClaimBeside(ctx, by, in, dispatcher.Claim{Wanted: wanted, Free: free})
}

// ClaimBeside is Claim for an instance that has suspects, or reads messages later. It reads those
// at once, and hands back the deliveries whose messages it can't read.
func (r *Raw) ClaimBeside(ctx context.Context, by string, in []int, c dispatcher.Claim) ([]dispatcher.Claimed, []Hint, error) {
	claimed, hints, err := r.ClaimIn(ctx, by, in, c)
	r.heard()
	var unread, read []dispatcher.Claimed
	for _, c := range claimed {
		if c.Unread {
			unread = append(unread, c)
		}
	}
	if unread == nil {
		return claimed, hintsOf(hints), err
	}
	err = errors.Join(err, r.Messages(ctx, unread))
	var back []dispatcher.Settlement
	for _, c := range claimed {
		if c.Unread {
			c, unread = unread[0], unread[1:]
		}
		if c.Unread {
			back = append(back, dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased})
		} else {
			read = append(read, c)
		}
	}
	if back != nil {
		_, _, failed := r.Settle(ctx, by, back)
		err = errors.Join(err, failed)
	}
	return read, hintsOf(hints), err
}

func (r *Raw) Settle(ctx context.Context, by string, batch []dispatcher.Settlement) ([]dispatcher.SettleResult, []Hint, error) {
	results, err := resultsOf(r.Whole.Settle(ctx, by, batch))
	return results, r.heard(), err
}

// Settled is Settle with the full result of each settlement.
func (r *Raw) Settled(ctx context.Context, by string, batch []dispatcher.Settlement) ([]dispatcher.Settled, []Hint) {
	settled := r.Whole.Settle(ctx, by, batch)
	return settled, r.heard()
}

// resultsOf returns the results of settlements, and their errors as one error.
func resultsOf(settled []dispatcher.Settled) ([]dispatcher.SettleResult, error) {
	results := make([]dispatcher.SettleResult, len(settled))
	var errs []error
	for i, s := range settled {
		results[i] = s.Result
		if s.Err != nil && !slices.Contains(errs, s.Err) {
			errs = append(errs, s.Err)
		}
	}
	return results, conn.JoinErrors(errs...)
}

func (r *Raw) Reap(ctx context.Context, by, dead string) (int, []Hint, error) {
	taken, err := r.Whole.Reap(ctx, by, dead)
	return taken, r.heard(), err
}

func (r *Raw) Trim(ctx context.Context, by string, in []int, keep dispatcher.Keep, room bool) (Trimmed, error) {
	t, _, err := r.TrimIn(ctx, by, in, keep, room)
	t.Asked = 0 // the test chose the partitions
	return Trimmed{Trimmed: t, Hints: r.heard()}, err
}

func (r *Raw) Cancel(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error) {
	changes, err := r.Whole.Cancel(ctx, by, ids)
	return changes, r.heard(), err
}

func (r *Raw) Reschedule(ctx context.Context, by string, ids []dispatcher.DeliveryID, at time.Time) ([]dispatcher.Change, []Hint, error) {
	changes, err := r.Whole.Reschedule(ctx, by, ids, at)
	return changes, r.heard(), err
}

func (r *Raw) Retry(ctx context.Context, by string, ids []dispatcher.DeliveryID, delivered bool) ([]dispatcher.Change, []Hint, error) {
	changes, err := r.Whole.Retry(ctx, by, ids, delivered)
	return changes, r.heard(), err
}

func (r *Raw) Limit(ctx context.Context, by string, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, []Hint, error) {
	n, err := r.Whole.Limit(ctx, by, lane, l, clear)
	return n, r.heard(), err
}

func (r *Raw) Cut(ctx context.Context, by string, lane dispatcher.Lane, since time.Time) (int, bool, []Hint, error) {
	waiting, cut, err := r.Whole.Cut(ctx, by, lane, since)
	return waiting, cut, r.heard(), err
}

func (r *Raw) Take(ctx context.Context, by string, t dispatcher.Take) (dispatcher.Taken, []Hint, error) {
	taken, err := r.Whole.Take(ctx, by, t)
	return taken, r.heard(), err
}

func (r *Raw) Works(ctx context.Context, by string, lane dispatcher.Lane) ([]Hint, error) {
	err := r.Whole.Works(ctx, by, lane)
	return r.heard(), err
}

func (r *Raw) EndWaits(ctx context.Context, by string, lanes []dispatcher.Lane) ([]Hint, error) {
	err := r.Whole.EndWaits(ctx, by, lanes)
	return r.heard(), err
}

func (r *Raw) TryNow(ctx context.Context, by string, lanes []dispatcher.Lane) ([]Hint, error) {
	err := r.Whole.TryNow(ctx, by, lanes)
	return r.heard(), err
}

func (r *Raw) Uncut(ctx context.Context, by string, lane dispatcher.Lane) error {
	return r.Whole.Uncut(ctx, by, lane)
}

func (r *Raw) Sweep(ctx context.Context, by string, lane dispatcher.Lane, cursor string) (int, string, []Hint, error) {
	ended, next, err := r.Whole.Sweep(ctx, by, lane, cursor)
	return ended, next, r.heard(), err
}

func (r *Raw) ReadHints(ctx context.Context, in []int) ([]Hint, error) {
	hints, err := r.Whole.ReadHints(ctx, in)
	return hintsOf(hints), err
}

func (r *Raw) Watch(ctx context.Context, by string, to Subscriber) error {
	if to.OnHint == nil {
		to.OnHint = func(Hint) {}
	}
	return r.WatchHints(ctx, by, to.Subscriber, func(h conn.Hint) { to.OnHint(hintOf(h)) })
}

func (r *Raw) StoppedLanesIn(ctx context.Context, partition int, cursor string) ([]dispatcher.StoppedLane, string, error) {
	list, next, err := r.StoppedLanes(ctx, pageIn(partition, cursor))
	return list, inside(partition, next), err
}

func (r *Raw) LaneNamesIn(ctx context.Context, partition int, cursor string) ([]dispatcher.LaneName, string, error) {
	list, next, err := r.LaneNames(ctx, pageIn(partition, cursor))
	return list, inside(partition, next), err
}

// pageIn returns the cursor of a page from the cursor of one partition.
func pageIn(partition int, cursor string) string { return fmt.Sprintf("%d-%s", partition, cursor) }

// inside returns the part of a cursor for one partition. It returns an empty
// text after the partition's last page.
func inside(partition int, cursor string) string {
	cursor, _ = strings.CutPrefix(cursor, pageIn(partition, ""))
	if strings.Contains(cursor, "-") {
		return "" // a cursor of the next partition
	}
	return cursor
}
