package redisq

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// settleBatch and settleBytes limit one call of the script.
const (
	settleBatch = 256
	settleBytes = 256 << 10
)

// Settle records a batch of outcomes. If a partition does not reply, all outcomes of the partition
// return its error. They may be retried.
func (s *Store) Settle(ctx context.Context, by string, batch []dispatcher.Settlement) []dispatcher.Settled {
	var jobs []conn.Call
	var shares [][]int
	for _, group := range conn.Grouped(len(batch), 0, func(i int) int { return s.conn.PartitionOf(batch[i].ID.Lane) }) {
		for list := group.At; len(list) > 0; {
			size, bytes := 0, 0
			out := newOutcomes(min(len(list), settleBatch))
			var log read.LogEntry // lines of the outcomes in :attempts
			met := make(map[dispatcher.DeliveryID]bool, min(len(list), settleBatch))
			for size < len(list) && size < settleBatch && bytes < settleBytes && !met[batch[list[size]].ID] {
				met[batch[list[size]].ID] = true // a second outcome of a delivery must see the effect of the first
				o := &batch[list[size]]
				out.add(o)
				log.Add(o, verdicts[o.Verdict], reasonOf(o))
				bytes += len(o.Attempt.Excerpt) + len(o.Attempt.Error)
				size++
			}
			jobs = append(jobs, conn.Call{Partition: group.Partition, Args: append(append(log.Args(2+len(out.args)), out.classes, out.statusArg()), out.args...)})
			shares = append(shares, list[:size])
			list = list[size:]
		}
	}
	settled := make([]dispatcher.Settled, len(batch))
	var errs []error
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: settleScript, By: by, Calls: jobs}) {
		if h, ok := r.Hint(); ok {
			readChanges(&r.Reply, &h)
			s.observe(h)
			s.reportDeaths(h.Dead, batch, shares[i], settled)
			s.observeEnds(h.Partition, readSettled(&r.Reply, batch, shares[i], settled))
			s.observeBreakers(h, s.reportFailing(&r.Reply, h.Now, batch, shares[i], settled))
		}
		if err := s.conn.InPartition(jobs[i].Partition, r.Err); err != nil {
			for _, at := range shares[i] {
				settled[at].Err = err
			}
			errs = append(errs, err)
		}
	}
	s.partitions.Fail(conn.JoinErrors(errs...))
	return settled
}

// reportDeaths marks the outcomes of a call whose delivery died. It reports other dead deliveries to
// the events.
func (s *Store) reportDeaths(dead []dispatcher.Death, batch []dispatcher.Settlement, share []int, settled []dispatcher.Settled) {
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

// readSettled reads the result of each outcome of one call, a digit. It returns the number of
// deliveries that ended.
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

// Codes that the script returns for a lane in which attempts failed or succeeded again.
const (
	laneGivenUp   = 1 // the lane has failed for too long
	laneRecovered = 2
)

// reportFailing reads which lanes fail and which have recovered, and reports them to the events. If a
// lane is given up, it marks the outcomes of the lane. It returns the start of the failure of each
// of these lanes.
func (s *Store) reportFailing(a *conn.Reply, now time.Time, batch []dispatcher.Settlement, share []int, settled []dispatcher.Settled) (all map[dispatcher.Lane]time.Time) {
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

// observeEnds records that deliveries ended in a partition, so that the partition is trimmed.
func (s *Store) observeEnds(partition, deliveries int) {
	if deliveries > 0 {
		s.partitions.Ended(partition, deliveries)
		s.events.Ended(deliveries)
	}
}

// observeBreakers reports the breakers that a call opened and closed, and the time since which
// their lanes fail.
func (s *Store) observeBreakers(h conn.Hint, failing map[dispatcher.Lane]time.Time) {
	for _, o := range h.Opened {
		s.events.Opened(o.Lane, failing[o.Lane], o.Until.Sub(h.Now))
	}
	for _, lane := range h.Closed {
		s.events.Closed(lane, failing[lane])
	}
}

// verdicts maps each verdict to its letter in the script.
var verdicts = map[dispatcher.Verdict]string{
	dispatcher.Delivered: "d", dispatcher.Retry: "r", dispatcher.Dead: "x", dispatcher.Back: "b", dispatcher.Snoozed: "z",
}

// waitsAlone is the letter of a delivery that was handed back and waits for a key, while its lane
// continues.
const waitsAlone = "w"

// outcomes are the arguments of one call of the script: a text with a character for each outcome,
// one with three digits for each, and their values.
type outcomes struct {
	classes  []byte
	statuses []byte
	others   bool // some first success has another status than 200
	args     []any

	text  strings.Builder // of all names
	names []string        // the names of deliveries in text; args point to them
}

// nameBytes is about the length of a delivery's name.
const nameBytes = 48

// newOutcomes returns outcomes with room for n.
func newOutcomes(n int) *outcomes {
	s := &outcomes{classes: make([]byte, 0, n), statuses: make([]byte, 0, len(noStatus)*n), args: make([]any, 0, n), names: make([]string, 0, n)}
	s.text.Grow(nameBytes * n)
	return s
}

// name returns the name of a delivery as an argument. A pointer to it needs no allocation, and the
// names share one text.
func (s *outcomes) name(id dispatcher.DeliveryID) *string {
	from := s.text.Len()
	s.text.WriteString(string(id.Lane))
	s.text.WriteByte(':')
	s.text.WriteString(id.Message)
	s.names = append(s.names, s.text.String()[from:])
	return &s.names[len(s.names)-1]
}

// Characters of an outcome in the two texts, if all its values follow.
const (
	allValues = '-'
	noStatus  = "000"
)

func (s *outcomes) statusArg() []byte {
	if !s.others {
		return nil
	}
	return s.statuses
}

// add adds an outcome. Of a first success only the delivery follows.
func (s *outcomes) add(o *dispatcher.Settlement) {
	if status := plainStatus(o); status > 0 {
		s.classes = append(s.classes, '0'+byte(latencyClass(o)))
		s.statuses = strconv.AppendInt(s.statuses, int64(status), 10)
		s.others = s.others || status != 200
		s.args = append(s.args, s.name(o.ID))
		return
	}
	s.classes, s.statuses = append(s.classes, allValues), append(s.statuses, noStatus...)
	s.args = appendSettlement(append(s.args, s.name(o.ID)), o)
}

// plainStatus returns the status of a first success that needs no entry in :progress, or 0 for any
// other outcome.
func plainStatus(o *dispatcher.Settlement) int {
	if !o.First || o.Verdict != dispatcher.Delivered || o.Attempt.Number != 1 {
		return 0
	}
	switch status := o.Attempt.Status; {
	case status == 200, status == 0 && o.ID.Lane.IsQueue():
		return 200
	case status >= conn.LeastPlain && status <= conn.MostPlain:
		return status
	}
	return 0
}

// latencyClass returns the class of the time that a response took. See slots.lua for its use.
func latencyClass(o *dispatcher.Settlement) int {
	switch took := o.Attempt.Duration.Round(time.Millisecond); {
	case took <= 50*time.Millisecond:
		return 0
	case took <= 100*time.Millisecond:
		return 1
	case took <= 250*time.Millisecond:
		return 2
	case took <= time.Second:
		return 4
	}
	return 8 // as if it hung
}

// appendSettlement appends all values of an outcome but its delivery.
func appendSettlement(args []any, o *dispatcher.Settlement) []any {
	ms, verdict := conn.MillisUp(o.Wait), verdicts[o.Verdict]
	switch {
	case o.Verdict == dispatcher.Back && o.Wait > 0:
		verdict = waitsAlone
	case o.Verdict == dispatcher.Back:
		ms = o.Due.UnixMilli()
	}
	meta, excerpt := "", []byte{}
	// A first attempt that succeeded has no history, because a history costs memory for each
	// delivery.
	if o.Verdict != dispatcher.Back && o.Attempt.Number > 0 && !(o.First && o.Verdict == dispatcher.Delivered) {
		meta, excerpt = conn.EncodeAttempt(&o.Attempt), append(excerpt, o.Attempt.Excerpt...)
	}
	return append(args, verdict, latencyClass(o), o.Attempt.Status,
		strconv.FormatInt(ms, 10), o.Attempt.Number, reasonOf(o), meta, excerpt, blameOf(o), leasedMillis(o))
}

// stalls maps a reason for which no receiver is to blame to its letters in :lane.
var stalls = map[dispatcher.LaneWhy]string{dispatcher.WhySealed: "~s", dispatcher.WhyMissing: "~m", dispatcher.WhyEgress: "~e"}

// blameOf returns how long to skip a lane, in ms. The prefix is ! if the failure counts for the
// lane's breaker, and ? if the lane only fails. For a reason without a receiver to blame, the
// prefix is the letter of the reason. The suffix is the time in ms after which a failing lane is
// given up. An e follows if the lane waits for our own network.
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

// leasedMillis returns the time of an outcome's lease, or 0 for any lease.
func leasedMillis(o *dispatcher.Settlement) int64 {
	if o.Leased.IsZero() {
		return 0
	}
	return o.Leased.UnixMilli()
}

// reasonOf returns the reason of a death, or - for any other outcome.
func reasonOf(o *dispatcher.Settlement) string {
	if o.Verdict != dispatcher.Dead || o.Reason == "" {
		return "-"
	}
	return string(o.Reason)
}
