package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// fakeConn is one instance's connection to a fakeQueue: it chooses what a call
// asks by what is known of the partitions, as the real store does.
type fakeConn struct {
	queuetest.Queue
	parts  *partitions.Set
	events d.Events
}

var _ d.Queue = (*fakeConn)(nil)

// connect is a new connection for an instance with so many permits.
func connect(t testing.TB, q queuetest.Queue, permits int) *fakeConn {
	t.Helper()
	return &fakeConn{Queue: q, parts: partitions.New(q.Partitions(), permits)}
}

func (c *fakeConn) Notify(e d.Events) {
	c.events = e.Whole()
	c.parts.Notify(c.events)
}

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) Now() time.Time { return c.parts.Now() }

func (c *fakeConn) Cost() (look, held int) { return 3*c.Partitions() + 1, c.Partitions() }

// observe takes in hints, and tells of all but deaths.
func (c *fakeConn) observe(hints []queuetest.Hint) (deaths []d.Death) {
	for _, h := range hints {
		c.parts.Answered(partitions.Hint(h))
		for _, o := range h.Opened {
			c.events.Opened(o.Lane, o.Until.Sub(h.Now))
		}
		for _, lane := range h.Closed {
			c.events.Closed(lane)
		}
		deaths = append(deaths, h.Dead...)
	}
	return deaths
}

func (c *fakeConn) answered(hints []queuetest.Hint) {
	if deaths := c.observe(hints); len(deaths) > 0 {
		c.events.Dead(deaths)
	}
}

func (c *fakeConn) ended(n int, hints []queuetest.Hint) {
	if n == 0 {
		return
	}
	for _, h := range hints {
		c.parts.Ended(h.Partition)
	}
	c.events.Ended(n)
}

func (c *fakeConn) read(ctx context.Context, in []int) error {
	hints, err := c.ReadHints(ctx, in)
	for _, h := range hints {
		c.parts.Heard(partitions.Hint(h))
	}
	return err
}

func (c *fakeConn) ReadClock(ctx context.Context) error { return c.read(ctx, []int{0}) }

func (c *fakeConn) Look(ctx context.Context, all bool) (time.Duration, error) {
	in, wait := c.parts.Unseen()
	if all {
		in = c.parts.All()
	}
	if len(in) == 0 {
		return wait, nil
	}
	err := c.read(ctx, in)
	c.parts.Fail(err)
	return 0, err
}

func (c *fakeConn) Watch(ctx context.Context, by string, to d.Subscriber) error {
	return c.Queue.Watch(ctx, by, queuetest.Subscriber{Subscriber: to, OnHint: func(h queuetest.Hint) { c.parts.Heard(partitions.Hint(h)) }})
}

func (c *fakeConn) Schedule(ctx context.Context, by string, free, lease int, batch []d.Entry) ([]d.ScheduleResult, error) {
	out, hints, err := c.Queue.Schedule(ctx, by, free, lease, batch)
	c.answered(hints)
	for n := range c.Partitions() {
		c.parts.Full(n, false)
	}
	for i := range out {
		switch o := &out[i]; {
		case o.Err == nil || o.Result != 0:
		case errors.Is(o.Err, d.ErrFull):
			for _, n := range partitions.In(o.Err) {
				c.parts.Full(n, true)
			}
		default:
			c.parts.Fail(o.Err)
		}
	}
	c.parts.Fail(err)
	return out, err
}

func (c *fakeConn) Move(ctx context.Context, by string) (time.Duration, error) {
	in, wait := c.parts.Due()
	if len(in) == 0 {
		return wait, nil
	}
	hints, err := c.Queue.Move(ctx, by, in)
	c.answered(hints)
	c.parts.Fail(err)
	return 0, err
}

func (c *fakeConn) Claimable(free int) (batches int, waiting bool) { return c.parts.Claimable(free) }

func (c *fakeConn) Claim(ctx context.Context, by string, wanted, free int) ([]d.Claimed, error) {
	in := c.parts.ToClaim(wanted, free)
	if len(in) == 0 {
		return nil, d.ErrNothing
	}
	claimed, hints, err := c.Queue.Claim(ctx, by, in, wanted, free)
	c.answered(hints)
	if len(claimed) == 0 && err == nil {
		for _, h := range hints {
			c.parts.Stalled(free, partitions.Hint(h))
		}
	}
	c.parts.Fail(err)
	return claimed, err
}

func (c *fakeConn) Leases(ctx context.Context, by string) ([]d.Lease, error) {
	leases, err := c.Queue.Leases(ctx, by)
	c.parts.Fail(err)
	return leases, err
}

func (c *fakeConn) Settle(ctx context.Context, by string, batch []d.Settlement) []d.Settled {
	results, hints, err := c.Queue.Settle(ctx, by, batch)
	settled := make([]d.Settled, len(batch))
	ended := 0
	for i := range settled {
		if results == nil || results[i] == 0 {
			settled[i].Err = err
			continue
		}
		settled[i].Result = results[i]
		if v := batch[i].Verdict; v == d.Delivered || v == d.Dead || results[i] == d.SettledEnd {
			ended++
		}
	}
	var others []d.Death
	for _, died := range c.observe(hints) {
		if i := slices.IndexFunc(batch, func(s d.Settlement) bool { return s.ID == died.ID }); i >= 0 {
			settled[i].Died = &died
		} else {
			others = append(others, died)
		}
	}
	if len(others) > 0 {
		c.events.Dead(others)
	}
	c.ended(ended, hints)
	c.parts.Fail(err)
	return settled
}

func (c *fakeConn) Reap(ctx context.Context, by, dead string) (int, error) {
	taken, hints, err := c.Queue.Reap(ctx, by, dead)
	c.answered(hints)
	c.parts.Fail(err)
	return taken, err
}

func (c *fakeConn) Trim(ctx context.Context, by string, keep d.Keep, where d.TrimWhere) (d.Trimmed, error) {
	in := c.parts.ToEmpty(c.Nodes() > 1)
	if where != d.TrimFull {
		in = c.parts.ToTrim(where)
	}
	if len(in) == 0 {
		return d.Trimmed{}, nil
	}
	t, err := c.Queue.Trim(ctx, by, in, keep, where == d.TrimFull)
	c.answered(t.Hints)
	t.Asked = len(in)
	switch {
	case where != d.TrimFull:
		var more []int
		if t.More {
			more = slices.DeleteFunc(slices.Clone(in), func(n int) bool { return slices.Contains(partitions.In(err), n) })
		}
		c.parts.Trimmed(more, err)
	case err == nil && t.Finished+t.Seen == 0:
		c.parts.Emptied(in)
	}
	return t.Trimmed, err
}

func (c *fakeConn) Cancel(ctx context.Context, by string, ids []d.DeliveryID) ([]d.Change, error) {
	changes, hints, err := c.Queue.Cancel(ctx, by, ids)
	c.answered(hints)
	return changes, err
}

func (c *fakeConn) Retry(ctx context.Context, by string, ids []d.DeliveryID, delivered bool) ([]d.Change, error) {
	changes, hints, err := c.Queue.Retry(ctx, by, ids, delivered)
	c.answered(hints)
	return changes, err
}

func (c *fakeConn) Limit(ctx context.Context, by string, lane d.Lane, l d.LaneLimits, clear bool) (d.LaneCount, error) {
	n, hints, err := c.Queue.Limit(ctx, by, lane, l, clear)
	c.answered(hints)
	return n, err
}

func (c *fakeConn) Sweep(ctx context.Context, by string, lane d.Lane, cursor string) (int, string, error) {
	ended, next, hints, err := c.Queue.Sweep(ctx, by, lane, cursor)
	c.answered(hints)
	c.ended(ended, hints)
	return ended, next, err
}

// page is the partition of a cursor, and the cursor in it; next is the cursor
// behind a page.
func (c *fakeConn) page(cursor string) (n int, inside string, next func(string) string, err error) {
	if cursor != "" {
		number, rest, ok := strings.Cut(cursor, "-")
		if n, err = strconv.Atoi(number); err != nil || !ok || n < 0 || n >= c.Partitions() {
			return 0, "", nil, fmt.Errorf("%w: %q", d.ErrCursor, cursor)
		}
		inside = rest
	}
	return n, inside, func(inside string) string {
		switch {
		case inside != "":
			return fmt.Sprint(n, "-", inside)
		case n+1 == c.Partitions():
			return ""
		}
		return fmt.Sprint(n+1, "-")
	}, nil
}

func (c *fakeConn) HeldLanes(ctx context.Context, cursor string) ([]d.HeldLane, string, error) {
	n, inside, next, err := c.page(cursor)
	if err != nil {
		return nil, "", err
	}
	list, inside, err := c.HeldLanesIn(ctx, n, inside)
	return list, next(inside), partitions.Failed(n, c.Partitions(), err)
}

func (c *fakeConn) LaneNames(ctx context.Context, cursor string) ([]d.LaneName, string, error) {
	n, inside, next, err := c.page(cursor)
	if err != nil {
		return nil, "", err
	}
	list, inside, err := c.LaneNamesIn(ctx, n, inside)
	return list, next(inside), partitions.Failed(n, c.Partitions(), err)
}
