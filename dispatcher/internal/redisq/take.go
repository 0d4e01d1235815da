package redisq

import (
	"context"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// Take leases ready deliveries of pull lanes. In one round trip it asks for an equal
// share of each partition that some of them lie in. Where there are more partitions
// than deliveries are wanted, it asks the rest for what the first ones did not have.
func (s *Store) Take(ctx context.Context, by string, t dispatcher.Take) (taken dispatcher.Taken, err error) {
	lanes := map[int][]any{}
	var in []int
	for _, lane := range t.Lanes {
		n := s.partition(lane)
		if lanes[n] == nil {
			in = append(in, n)
		}
		lanes[n] = append(lanes[n], string(lane))
	}
	for wanted := min(t.Most, dispatcher.TakeMost); err == nil && len(in) > 0 && (t.Most == 0 || wanted > len(taken.Claimed)); {
		left := wanted - len(taken.Claimed)
		asked := min(left, len(in))
		if t.Most == 0 {
			asked = len(in)
		}
		var calls []conn.Call
		for i, n := range in[:asked] {
			suspects := (t.Suspects - i + asked - 1) / asked
			args := []any{(left - i + asked - 1) / asked, max(min(t.Bytes, claimBytes)/asked, 1), t.For.Milliseconds(), t.Token, t.Owner, suspects}
			calls = append(calls, conn.Call{Partition: n, Args: append(args, lanes[n]...)})
		}
		in = in[asked:]
		var errs []error
		for _, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.take, By: by, Calls: calls}) {
			errs = append(errs, s.conn.InPartition(r.Partition, s.readTaken(&r, &taken)))
		}
		err = partitions.Join(errs...)
	}
	for _, n := range in { // they were not asked
		for _, lane := range lanes[n] {
			taken.More = append(taken.More, dispatcher.Lane(lane.(string)))
		}
	}
	if err != nil {
		return taken, fmt.Errorf("take: %w", err)
	}
	return taken, nil
}

// readTaken reads what was taken in one partition.
func (s *Store) readTaken(r *conn.Call, taken *dispatcher.Taken) error {
	if r.Err == nil && len(r.Values) == 1 {
		return dispatcher.ErrFenced
	}
	h, ok := r.Hint()
	if !ok {
		return r.Err
	}
	a := &r.Reply
	if ends := a.Time(); !ends.IsZero() && (taken.Until.IsZero() || ends.Before(taken.Until)) {
		taken.Until = ends
	}
	h.Ended, h.Lost = int(a.Number()), int(a.Number())
	more := conn.Reply{Values: a.List()}
	for a.Err == nil && more.More() {
		taken.More = append(taken.More, dispatcher.Lane(more.Text()))
		a.Err = more.Err
	}
	versions, _ := readVersions(a)
	first := len(taken.Claimed)
	for a.More() {
		taken.Claimed = s.readClaimed(a, taken.Claimed)
	}
	for k := range taken.Claimed[first:] {
		c := &taken.Claimed[first+k]
		c.Leased, c.Version = leasedAt(h), versions[c.ID.Lane]
	}
	s.observeDeaths(h)
	s.observeEnds(h.Partition, h.Ended)
	return a.Err
}
