package redisq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Take leases ready deliveries of pull lanes. In one round trip it asks for an equal share from
// each partition of these lanes. If there are more partitions than wanted deliveries, it then asks
// the other partitions for the deliveries that the first ones lacked.
func (s *Store) Take(ctx context.Context, by string, t dispatcher.Take) (taken dispatcher.Taken, err error) {
	in := conn.Grouped(len(t.Lanes), 0, func(i int) int { return s.conn.PartitionOf(t.Lanes[i]) })
	for wanted := min(t.Most, dispatcher.TakeMost); err == nil && len(in) > 0 && (t.Most == 0 || wanted > len(taken.Claimed)); {
		left := wanted - len(taken.Claimed)
		asked := min(left, len(in))
		if t.Most == 0 {
			asked = len(in)
		}
		var calls []conn.Call
		for i, share := range in[:asked] {
			suspects := (t.Suspects - i + asked - 1) / asked
			args := []any{(left - i + asked - 1) / asked, max(min(t.Bytes, claimBytes)/asked, 1), t.For.Milliseconds(), t.Token, t.Owner, suspects}
			for _, at := range share.At {
				args = append(args, string(t.Lanes[at]))
			}
			calls = append(calls, conn.Call{Partition: share.Partition, Args: args})
		}
		in = in[asked:]
		err = s.conn.SendEach(ctx, conn.Batch{Script: takeScript, By: by, Calls: calls}, func(_ int, r *conn.Call) error {
			return s.readTaken(r, &taken)
		})
	}
	for _, share := range in { // these partitions were not asked
		for _, at := range share.At {
			taken.More = append(taken.More, t.Lanes[at])
		}
	}
	if err != nil {
		return taken, fmt.Errorf("take: %w", err)
	}
	return taken, nil
}

// readTaken reads the deliveries that consumers took in one partition.
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
	lanes := readLanes(a)
	failures, failed := conn.Reply{Values: a.List()}, map[dispatcher.DeliveryID]string(nil)
	for a.Err == nil && failures.More() {
		name, newest := failures.Text(), failures.Text()
		if a.Err = failures.Err; failed == nil {
			failed = map[dispatcher.DeliveryID]string{}
		}
		if attempt, err := conn.ParseAttempt(newest); err == nil { // an unreadable one counts as none
			id, _ := dispatcher.ParseDeliveryID(name)
			failed[id] = attempt.Error
		}
	}
	first := len(taken.Claimed)
	for a.More() {
		taken.Claimed = s.readClaimed(a, taken.Claimed)
	}
	for k := range taken.Claimed[first:] {
		c := &taken.Claimed[first+k]
		c.Leased, c.Version, c.LastError = leasedAt(h), lanes[c.ID.Lane].version, failed[c.ID]
	}
	s.observeDeaths(h)
	s.observeEnds(h.Partition, h.Ended)
	return a.Err
}

// adoptBatch is the most leases in one call of the script. It equals claimBatch because both calls
// read the same number of records.
const adoptBatch = 64

// Codes that adopt returns for a lease.
const (
	adoptLater = '0' // the reply was full, so the caller retries
	adoptDone  = '1'
	adoptLate  = '2'
)

// Adopt assigns leases that time out to instance by. The instance then has them as if it had
// claimed them.
func (s *Store) Adopt(ctx context.Context, by string, leases []dispatcher.TakenLease) []dispatcher.Adopted {
	return s.adopt(ctx, by, leases, 0)
}

// Extend sets the timeout of leases that end by themselves. The timeout counts from now.
func (s *Store) Extend(ctx context.Context, by string, leases []dispatcher.TakenLease, lasts time.Duration) []dispatcher.Adopted {
	return s.adopt(ctx, by, leases, max(conn.MillisUp(lasts), 1))
}

func (s *Store) adopt(ctx context.Context, by string, leases []dispatcher.TakenLease, lasts int64) []dispatcher.Adopted {
	out := make([]dispatcher.Adopted, len(leases))
	todo := make([]int, len(leases))
	for i := range todo {
		todo[i] = i
	}
	var errs []error
	for len(todo) > 0 {
		calls, shares := s.adoptCalls(leases, todo, lasts)
		todo = nil
		for i, r := range s.conn.Send(ctx, conn.Batch{Script: adoptScript, By: by, Calls: calls}) {
			later, err := s.readAdoptions(&r, leases, shares[i].At, out)
			if err = s.conn.InPartition(r.Partition, err); err != nil {
				for _, at := range shares[i].At {
					if out[at].Claimed == nil {
						out[at].Err = err
					}
				}
				errs, later = append(errs, err), nil
			}
			todo = append(todo, later...)
		}
	}
	s.partitions.Fail(conn.JoinErrors(errs...))
	return out
}

// adoptCalls returns the calls for some of the leases, and the leases that each call is for. If a
// lease is named twice, its order is kept.
func (s *Store) adoptCalls(leases []dispatcher.TakenLease, todo []int, lasts int64) (calls []conn.Call, shares []conn.Share) {
	shares = conn.Grouped(len(todo), adoptBatch, func(k int) int { return s.conn.PartitionOf(leases[todo[k]].ID.Lane) })
	calls = make([]conn.Call, len(shares))
	for k, share := range shares {
		args := append(make([]any, 0, 2+3*len(share.At)), lasts, claimBytes/len(calls))
		for j, of := range share.At {
			i := todo[of]
			share.At[j] = i
			token := leases[i].Token
			if leases[i].NotReceived {
				token = "-" + token
			}
			args = append(args, leases[i].ID.String(), token, leases[i].Owner)
		}
		calls[k] = conn.Call{Partition: share.Partition, Args: args}
	}
	return calls, shares
}

// readAdoptions reads the reply of one call. It returns the leases that are not in the reply
// because it was full.
func (s *Store) readAdoptions(r *conn.Call, leases []dispatcher.TakenLease, share []int, out []dispatcher.Adopted) (later []int, err error) {
	if r.Err == nil && len(r.Values) == 1 {
		return nil, dispatcher.ErrFenced
	}
	h, ok := r.Hint()
	if !ok {
		return nil, r.Err
	}
	s.observeDeaths(h)
	a := &r.Reply
	until, codes, lasts := a.Time(), a.Text(), conn.Reply{Values: a.List()}
	if a.Err == nil && len(codes) != len(share) {
		return nil, conn.ErrReply
	}
	for a.Err == nil && lasts.More() {
		at, attempt := lasts.Number(), lasts.Number()
		if a.Err = lasts.Err; a.Err == nil && at > 0 && int(at) <= len(share) {
			out[share[at-1]].Attempt = int(attempt)
		}
	}
	adopted := s.readAdopted(a, h, nil)
	if a.Err != nil && len(adopted) == 0 {
		return nil, a.Err
	}
	for k, at := range share {
		switch codes[k] {
		case adoptLater:
			later = append(later, at)
		case adoptDone:
			out[at].Until = until
			if i := slices.IndexFunc(adopted, func(c dispatcher.Claimed) bool { return c.ID == leases[at].ID }); i >= 0 {
				out[at].Claimed, out[at].Taken = &adopted[i], adopted[i].Due
			}
		case adoptLate:
			out[at].Err = dispatcher.ErrNotTaken
		default:
			out[at].Err = dispatcher.ErrNotYours
		}
	}
	return later, a.Err
}
