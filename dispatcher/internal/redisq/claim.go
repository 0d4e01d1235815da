package redisq

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// claimBatch bounds one call of the script, whatever is wanted; claimBytes what
// all calls of a round trip answer, but for one delivery each: what takes longer
// on its way than a call may would be claimed again and again.
const (
	claimBatch = 64
	claimBytes = 1 << 20
)

// Claim leases at most wanted ready deliveries, asking the partitions in one
// round trip for an equal share each. What was leased is answered also beside
// an error of another partition.
func (s *Store) Claim(ctx context.Context, by string, partitions []int, wanted, free int) ([]dispatcher.Claimed, []dispatcher.Hint, error) {
	var jobs []job
	for i, n := range partitions {
		share := min((wanted-i+len(partitions)-1)/len(partitions), claimBatch)
		if share <= 0 {
			break
		}
		jobs = append(jobs, job{partition: n, args: []any{share, free, claimBytes / min(len(partitions), wanted)}})
		free -= share
	}
	var claimed []dispatcher.Claimed
	var hints []dispatcher.Hint
	var errs []error
	for i, r := range s.run(ctx, s.scripts.claim, by, jobs) {
		if r.err == nil && len(r.values) == 1 {
			r.err = dispatcher.ErrFenced
		}
		if r.err != nil {
			errs = append(errs, inPartition(jobs[i].partition, r.err))
			continue
		}
		a := answer{values: r.values}
		h := a.hint(jobs[i].partition)
		h.Ended = int(a.number())
		h.Lost = int(a.number())
		versions := a.versions()
		first := len(claimed)
		for a.more() {
			claimed = s.readClaimed(&a, claimed)
		}
		if len(versions) > 0 {
			for k := range claimed[first:] {
				claimed[first+k].Version = versions[claimed[first+k].ID.Lane]
			}
		}
		errs = append(errs, inPartition(jobs[i].partition, a.err))
		hints = append(hints, h)
	}
	return claimed, hints, join(errs...)
}

// readClaimed reads one delivery. One whose record can't be read keeps its
// lease, with no message: who gets it gives it up with a reason.
func (s *Store) readClaimed(a *answer, claimed []dispatcher.Claimed) []dispatcher.Claimed {
	name, due, text, record := a.text(), a.time(), a.text(), a.text()
	id, ok := dispatcher.ParseDeliveryID(name)
	if a.err != nil {
		return claimed
	}
	if !ok { // such a name is no delivery's: the script drops it
		s.log.Error("name can't be read", "delivery_id", name)
		return claimed
	}
	p, err := parseProgress(text)
	if err != nil {
		s.log.Error("progress can't be read: its ladder begins anew", "delivery_id", name, "err", err)
	}
	m, err := decodeRecord(id.Message, record)
	if err != nil {
		s.log.Error("message can't be read", "delivery_id", name, "err", err)
	}
	return append(claimed, dispatcher.Claimed{
		ID: id, Message: m, Due: due,
		Attempt: p.attempts + 1, Rung: p.attempts - p.base + 1, Asked: p.asked, First: text == "",
	})
}

// Leases names what an instance holds, those of each partition the oldest
// first, all read in one round trip.
func (s *Store) Leases(ctx context.Context, by string) ([]dispatcher.DeliveryID, error) {
	names := make([]*redis.StringSliceCmd, len(s.tags))
	err := s.everyPartition(ctx, "leases of "+by, s.all(), func(p redis.Pipeliner, n int) {
		names[n] = p.ZRange(ctx, s.tags[n]+keyLeases+by, 0, -1)
	})
	var out []dispatcher.DeliveryID
	for _, list := range names {
		for _, name := range valueOf(list) {
			if id, ok := dispatcher.ParseDeliveryID(name); ok {
				out = append(out, id)
			}
		}
	}
	return out, err
}
