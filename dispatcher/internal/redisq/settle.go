package redisq

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/attempts"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// settleBatch and settleBytes bound one call of the script.
const (
	settleBatch = 256
	settleBytes = 256 << 10
)

// Settle records a batch of outcomes. Those of a partition that did not answer
// share its error. They may be given again.
func (s *Store) Settle(ctx context.Context, by string, batch []dispatcher.Settlement) []dispatcher.Settled {
	lists := make(map[int][]int, 1)
	for i := range batch {
		n := s.conn.PartitionOf(batch[i].ID.Lane)
		lists[n] = append(lists[n], i)
	}
	var jobs []conn.Call
	var shares [][]int
	for n, list := range lists {
		for len(list) > 0 {
			args, size, bytes := make([]any, 0, 11*min(len(list), settleBatch)), 0, 0
			var log attempts.Log // their lines in :attempts
			met := make(map[dispatcher.DeliveryID]bool, min(len(list), settleBatch))
			for size < len(list) && size < settleBatch && bytes < settleBytes && !met[batch[list[size]].ID] {
				met[batch[list[size]].ID] = true // a second outcome of one delivery must see the effect of the first
				o := &batch[list[size]]
				args = appendSettlement(args, o)
				log.Add(o, verdicts[o.Verdict], reasonOf(o))
				bytes += len(o.Attempt.Excerpt) + len(o.Attempt.Error)
				size++
			}
			jobs = append(jobs, conn.Call{Partition: n, Args: append(log.Args(len(args)), args...)})
			shares = append(shares, list[:size])
			list = list[size:]
		}
	}
	settled := make([]dispatcher.Settled, len(batch))
	var errs []error
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.settle, By: by, Calls: jobs}) {
		if h, ok := r.Hint(); ok {
			readChanges(&r.Reply, &h)
			s.observe(h)
			s.tellDeaths(h.Dead, batch, shares[i], settled)
			s.observeEnds(h.Partition, readSettled(&r.Reply, batch, shares[i], settled))
			s.observeBreakers(h, s.tellFailing(&r.Reply, h.Now, batch, shares[i], settled))
		}
		if err := s.conn.InPartition(jobs[i].Partition, r.Err); err != nil {
			for _, at := range shares[i] {
				settled[at].Err = err
			}
			errs = append(errs, err)
		}
	}
	s.partitions.Fail(partitions.Join(errs...))
	return settled
}

// tellDeaths says of each outcome of a call whether its delivery died. It tells
// the events of others that died.
func (s *Store) tellDeaths(dead []dispatcher.Death, batch []dispatcher.Settlement, share []int, settled []dispatcher.Settled) {
	var others []dispatcher.Death
	for k := range dead {
		i := slices.IndexFunc(share, func(at int) bool { return batch[at].ID == dead[k].ID })
		if i < 0 {
			others = append(others, dead[k])
			continue
		}
		settled[share[i]].Died = &dead[k]
	}
	if len(others) > 0 {
		s.events.Dead(others)
	}
}

// readSettled reads what became of each outcome of one call, a digit, and counts
// the deliveries that ended.
func readSettled(a *conn.Reply, batch []dispatcher.Settlement, share []int, settled []dispatcher.Settled) (ended int) {
	codes := a.Text()
	if a.Err == nil && len(codes) != len(share) {
		a.Err = conn.ErrReply
	}
	if a.Err != nil {
		return 0
	}
	for k, at := range share {
		settled[at].Result = dispatcher.SettleResult(codes[k] - '0')
		if v := batch[at].Verdict; v == dispatcher.Delivered || v == dispatcher.Dead || settled[at].Result == dispatcher.SettledEnd {
			ended++
		}
	}
	return ended
}

// What the script says of a lane in which attempts failed, or succeeded again.
const (
	laneGivenUp   = 1 // it has failed for too long
	laneRecovered = 2
)

// tellFailing reads which lanes fail since when, and which do no more. It notes at
// the outcomes of a lane that it is given up. It answers of all of these since when.
func (s *Store) tellFailing(a *conn.Reply, now time.Time, batch []dispatcher.Settlement, share []int, settled []dispatcher.Settled) (all map[dispatcher.Lane]time.Time) {
	list := conn.Reply{Values: a.List()}
	for a.Err == nil && list.More() {
		lane, since, what := dispatcher.Lane(list.Text()), list.Time(), list.Number()
		if a.Err = list.Err; a.Err != nil {
			return all
		}
		if all == nil {
			all = map[dispatcher.Lane]time.Time{}
		}
		all[lane] = since
		if what == laneGivenUp {
			for _, at := range share {
				if batch[at].ID.Lane == lane && batch[at].Fails {
					settled[at].GivenUp = since
				}
			}
		}
		s.events.Failing(dispatcher.LaneFailing{Lane: lane, Since: since, For: now.Sub(since), Recovered: what == laneRecovered})
	}
	return all
}

// verdicts are the letters of the verdicts in the script.
var verdicts = map[dispatcher.Verdict]string{
	dispatcher.Delivered: "d", dispatcher.Retry: "r", dispatcher.Dead: "x", dispatcher.Back: "b",
}

func appendSettlement(args []any, o *dispatcher.Settlement) []any {
	usual := o.Attempt.Status == 200 || o.Attempt.Status == 0 && o.ID.Lane.IsQueue()
	if o.First && o.Verdict == dispatcher.Delivered && o.Attempt.Number == 1 && usual {
		return append(args, o.ID.String(), tookMillis(o))
	}
	ms := conn.MillisUp(o.Wait)
	if o.Verdict == dispatcher.Back {
		ms = o.Due.UnixMilli()
	}
	meta, excerpt := "", []byte{}
	// A first attempt that succeeded has no history, which would cost memory
	// for each delivery.
	if o.Verdict != dispatcher.Back && o.Attempt.Number > 0 && !(o.First && o.Verdict == dispatcher.Delivered) {
		meta, excerpt = codec.EncodeAttempt(&o.Attempt), append(excerpt, o.Attempt.Excerpt...)
	}
	return append(args, o.ID.String(), verdicts[o.Verdict], tookMillis(o), o.Attempt.Status,
		strconv.FormatInt(ms, 10), o.Attempt.Number, reasonOf(o), meta, excerpt, blameOf(o), leasedMillis(o))
}

// stalls are the letters in :lane of the reasons for which no receiver is to
// blame.
var stalls = map[dispatcher.LaneWhy]string{dispatcher.WhySealed: "~s", dispatcher.WhyMissing: "~m", dispatcher.WhyEgress: "~e"}

// blameOf is how long a lane is left alone, in ms. Before it comes ! if the
// failure counts for the lane's breaker, ? if the lane only fails, or the letter of
// a reason for which no receiver is to blame. Behind it comes after which ms a lane
// that fails is given up, and e if the lane waits for our own network.
func blameOf(o *dispatcher.Settlement) string {
	text := strconv.FormatInt(conn.MillisUp(o.Pause), 10)
	sign := "!"
	switch {
	case !o.Blame && !o.Fails:
		return stalls[o.Stalled] + text
	case !o.Blame:
		sign = "?"
	}
	if o.DisableAfter > 0 {
		text += "," + strconv.FormatInt(conn.MillisUp(o.DisableAfter), 10)
	}
	if o.Stalled == dispatcher.WhyEgress {
		text += "e"
	}
	return sign + text
}

// leasedMillis is the time of an outcome's lease, 0 for any lease.
func leasedMillis(o *dispatcher.Settlement) int64 {
	if o.Leased.IsZero() {
		return 0
	}
	return o.Leased.UnixMilli()
}

func tookMillis(o *dispatcher.Settlement) int64 {
	return int64((o.Attempt.Duration + time.Millisecond/2) / time.Millisecond)
}

// reasonOf is the reason of a death, - for any other outcome.
func reasonOf(o *dispatcher.Settlement) string {
	if o.Verdict != dispatcher.Dead || o.Reason == "" {
		return "-"
	}
	return string(o.Reason)
}
