package redisq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// Limits of one call of the script. A batch of 64 messages of 1 KiB blocks Redis for 0.4 ms and
// reaches 85 % of the throughput of the best batch size. A message with more lanes than
// scheduleLanes is sent in several calls. Each further call has the rest of the lanes and works
// like a retry.
const (
	scheduleBatch = 64
	scheduleBytes = 256 << 10
	scheduleLanes = 64
)

// shard is the part of one entry that goes into one call.
type shard struct {
	entry  int // index in the batch
	lanes  []dispatcher.Lane
	record []byte
	body   bodyPart
	when   string
}

// Schedule stores a batch. Entries of one partition go into one call, up to the limits of a call.
// All calls share one round trip. If a partition does not reply, its entries return the error in
// Err. An entry that is stored with less durability than required returns its results and an error
// in Err. Schedule first compares entries that have lanes in several partitions with stored
// messages. The comparison takes one more round trip.
func (s *Store) Schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) ([]dispatcher.ScheduleResult, error) {
	if s.conn.BeatOld() {
		if err := s.conn.MustStand(ctx); err != nil {
			return nil, fmt.Errorf("schedule: %w", err)
		}
	}
	out := make([]dispatcher.ScheduleResult, len(batch))
	if loss := s.conn.Loss(); loss != nil {
		s.refuseLost(batch, loss, out)
	}
	lists := s.spread(batch, out)
	if len(lists) > 1 {
		s.compare(ctx, by, batch, lists, out)
	}
	prepare(batch, out)
	var jobs []conn.Call
	var shares [][]shard
	for n, list := range lists {
		for len(list) > 0 {
			size, lanes := shareSize(list)
			jobs = append(jobs, conn.Call{Partition: n, Args: s.scheduleArgs(n, free, lease, batch, list[:size]), Fill: s.stage(n, batch, list[:size])})
			shares = append(shares, list[:size])
			// A permit is promised only once. A call may not lease with a permit that another call
			// may use.
			granted := min(lease, lanes)
			lease, free = lease-granted, free-granted
			list = list[size:]
		}
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: scheduleScript, By: by, Durable: true, Calls: jobs}) {
		err := r.Err
		if err == nil {
			a := &r.Reply
			h, _ := r.Hint()
			s.observeDeaths(h)
			lanes := readLanes(a)
			list := conn.Words{Text: a.Text()}
			for _, p := range shares[i] {
				readScheduled(&list, p, lanes, leasedAt(h), &out[p.entry])
				if errors.Is(list.Err, errNoBody) { // only this message fails
					out[p.entry].Err = fmt.Errorf("message %s: %w", batch[p.entry].Message.ID, s.conn.InPartition(jobs[i].Partition, list.Err))
					list.Err = nil
				}
			}
			err = cmp.Or(a.Err, list.Err)
		}
		err = s.observeSchedule(ctx, jobs[i].Partition, err)
		for _, p := range shares[i] {
			o := &out[p.entry]
			failed := err
			if failed == nil && (o.Result == dispatcher.Accepted || o.Result == dispatcher.Duplicate) {
				failed = r.Weak
			}
			if failed != nil {
				o.Err = fmt.Errorf("message %s: %w", batch[p.entry].Message.ID, s.conn.InPartition(jobs[i].Partition, failed))
			}
		}
	}
	return out, nil
}

// observeSchedule records whether a partition accepted its entries. A partition that reports full
// memory has replied. It returns the error, or the loss of data that it found.
func (s *Store) observeSchedule(ctx context.Context, partition int, err error) error {
	err = s.lostIn(ctx, err)
	full := errors.Is(err, dispatcher.ErrFull)
	s.partitions.Full(partition, full)
	if err != nil && !full && !conn.IsLoss(err) { // a partition that lost its data has replied
		s.partitions.Fail(s.conn.InPartition(partition, err))
	}
	return err
}

// prepare allocates the results of all entries in one slice.
func prepare(batch []dispatcher.Entry, out []dispatcher.ScheduleResult) {
	lanes := 0
	for i := range batch {
		lanes += len(batch[i].Lanes)
	}
	all := make([]dispatcher.Placed, lanes)
	for i := range batch {
		if out[i].Result != 0 || out[i].Err != nil {
			continue // the result is known already
		}
		n := len(batch[i].Lanes)
		for k, lane := range batch[i].Lanes {
			all[k].Lane = lane
		}
		out[i].Placed, all = all[:n:n], all[n:]
	}
}

// shareSize returns how many entries of a list go into one call, and their number of lanes.
func shareSize(list []shard) (size, lanes int) {
	bytes := 0
	for size < len(list) && size < scheduleBatch {
		p := list[size]
		bytes += len(p.record) + len(p.body.text) // includes staged bodies, because the messages of one call are archived together
		if size > 0 && (bytes > scheduleBytes || lanes+len(p.lanes) > scheduleLanes) {
			break
		}
		lanes += len(p.lanes)
		size++
	}
	return size, lanes
}

// spread groups a batch by partition and skips entries that are refused already. An entry with
// several lanes gets one share, with its own record, in each partition that has some of the lanes.
func (s *Store) spread(batch []dispatcher.Entry, out []dispatcher.ScheduleResult) map[int][]shard {
	lists := make(map[int][]shard, 1)
	for i := range batch {
		lanes := batch[i].Lanes
		if out[i].Err != nil {
			continue
		}
		if len(lanes) == 1 || len(lanes) > 0 && s.conn.Partitions() == 1 { // most entries have one lane or one partition and need no sorting
			n := s.conn.PartitionOf(lanes[0])
			lists[n] = s.appendShard(lists[n], batch, i, lanes)
			continue
		}
		byPartition := make(map[int][]dispatcher.Lane, len(lanes))
		for _, lane := range lanes {
			n := s.conn.PartitionOf(lane)
			byPartition[n] = append(byPartition[n], lane)
		}
		for n, lanes := range byPartition {
			lists[n] = s.appendShard(lists[n], batch, i, lanes)
		}
	}
	return lists
}

// appendShard adds the share of entry i for some of its lanes.
func (s *Store) appendShard(list []shard, batch []dispatcher.Entry, i int, lanes []dispatcher.Lane) []shard {
	if list == nil {
		list = make([]shard, 0, len(batch)-i)
	}
	e := batch[i]
	e.Lanes = lanes
	deliver, when := whenOf(&e)
	record, apart := conn.EncodeRecord(e, deliver, conn.Hiding{Box: s.Endpoints.Box(), Token: s.conn.SubjectMark(e.Message.Subject)})
	var body bodyPart
	if apart {
		body = bodyOf(e.Message)
	}
	for len(lanes) > 0 {
		few := lanes[:min(len(lanes), scheduleLanes)]
		list = append(list, shard{entry: i, lanes: few, record: record, body: body, when: body.sign() + when})
		lanes = lanes[len(few):]
		body.text = nil // the first share sends it
	}
	return list
}

// whenOf returns the time when a message is due, by this host's clock for the record, and in the
// form for the script. The record's time is never before the message was accepted, because a
// delivery behind another one is due at that time.
func whenOf(e *dispatcher.Entry) (deliver time.Time, when string) {
	m := e.Message
	switch {
	case !m.DeliverAt.IsZero():
		deliver = m.DeliverAt.Add(time.Millisecond - 1) // a record has whole ms, and no attempt may be early
		when = "@" + strconv.FormatInt(max(deliver.UnixMilli(), 0), 10)
		if m.DeliverAt.Before(m.CreatedAt) {
			deliver = m.CreatedAt.Add(time.Millisecond - 1)
		}
	case m.Delay == 0:
		deliver, when = m.CreatedAt.Add(time.Millisecond-1), "+0" // the usual case
	default:
		deliver = m.CreatedAt.Add(m.Delay + time.Millisecond - 1)
		when = "+" + strconv.FormatInt(conn.MillisUp(m.Delay), 10)
	}
	if e.Fan {
		when = "*" + when
	}
	return deliver, when
}

func (s *Store) scheduleArgs(partition, free, lease int, batch []dispatcher.Entry, list []shard) []any {
	args := make([]any, 0, 4+3*len(list))
	args = append(args, free, lease, s.conn.Epoch(partition))
	if s.conn.Archives() {
		args = append(args, namesOf(batch, list))
	}
	for i := range list {
		p := &list[i]
		args = append(args, &batch[p.entry].Message.ID, p.record, &p.when) // a pointer to a text needs no allocation
		if p.body.inScript() > 0 {
			args = append(args, p.body.text)
		}
		if conn.RecordNamesLane(p.record) {
			continue // the record has its only lane
		}
		args = append(args, len(p.lanes))
		for _, lane := range p.lanes {
			args = append(args, string(lane))
		}
	}
	return args
}

// namesOf returns the text that :attempts stores for the messages of a call: a line for each
// message, with its id and its lanes. If the message exists already, it may have been stored with
// other lanes.
func namesOf(batch []dispatcher.Entry, list []shard) []byte {
	b := make([]byte, 0, 48*len(list))
	for _, p := range list {
		b = append(append(b, '\n'), batch[p.entry].Message.ID...)
		for _, lane := range p.lanes {
			b = append(append(b, ' '), lane...)
		}
	}
	return b
}

// readScheduled merges the reply of one call into the result of a message. A message is new if any
// of its lanes is new. The parameter at is the time of the call's leases and ends.
func readScheduled(list *conn.Words, p shard, lanes map[dispatcher.Lane]laneFacts, at time.Time, out *dispatcher.ScheduleResult) {
	code, due := list.Next(), list.Time()
	if list.Err == nil && len(code) != 1+len(p.lanes) {
		list.Err = conn.ErrReply
	}
	if list.Err != nil {
		return
	}
	if code[0] == codeNoBody {
		list.Err = errNoBody
		return
	}
	result, letters := dispatcher.Result(code[0]-'0'), code[1:]
	var created time.Time
	switch result {
	case dispatcher.Accepted:
		created = conn.RecordCreated(p.record)
	case dispatcher.Duplicate:
		created = list.Time()
	}
	switch {
	case result == dispatcher.Conflict || out.Result == dispatcher.Conflict:
		*out = dispatcher.ScheduleResult{Result: dispatcher.Conflict}
		return
	case out.Result == 0 || result == dispatcher.Accepted:
		out.Result = result
	}
	if !created.IsZero() && (result == dispatcher.Duplicate || out.CreatedAt.IsZero()) { // the time of the first call in any partition
		out.CreatedAt = created
	}
	placed := out.Placed // a share keeps the lanes in the order of the entry
	for i, lane := range p.lanes {
		for placed[0].Lane != lane {
			placed = placed[1:]
		}
		readPlace(&placed[0], letters[i], due, at)
		if len(lanes) > 0 {
			f := lanes[lane]
			placed[0].Version, placed[0].NewLane = f.version, f.unseen && placed[0].Status == dispatcher.StatusInFlight
		}
		placed = placed[1:]
	}
}

// readPlace reads the place of one delivery from its letter.
func readPlace(p *dispatcher.Placed, letter byte, due, at time.Time) {
	switch letter {
	case 'd':
		p.Status, p.Due = dispatcher.StatusScheduled, due
	case 'r':
		p.Status, p.Due = dispatcher.StatusReady, due
	case 'l':
		p.Status, p.Due, p.At = dispatcher.StatusInFlight, due, at
	case 'b':
		p.Status = dispatcher.StatusScheduled
	case 'c':
		p.Status, p.At = dispatcher.StatusCancelled, at
	case 'x':
		p.Status, p.At, p.Reason = dispatcher.StatusDead, at, dispatcher.ReasonDisabled
	case 'o':
		p.Status, p.At, p.Reason = dispatcher.StatusDead, at, dispatcher.ReasonOverflow
	}
}

// compare finds conflicts among entries that have lanes in several partitions. Such an entry
// conflicts if it differs from a message with the same id. The message may be stored in one of
// these partitions or be earlier in the batch. No part of a conflicting entry is written in any
// partition. An entry is not written either if a partition does not reply. compare removes the
// shares of these entries from the lists.
func (s *Store) compare(ctx context.Context, by string, batch []dispatcher.Entry, lists map[int][]shard, out []dispatcher.ScheduleResult) {
	parts := make([]int, len(batch)) // number of partitions of each entry
	for _, list := range lists {
		for k, p := range list {
			if k == 0 || list[k-1].entry != p.entry {
				parts[p.entry]++
			}
		}
	}
	var calls []conn.Call
	var shares [][]int
	for n, list := range lists {
		args, share := []any{}, []int{}
		for k, p := range list {
			if parts[p.entry] > 1 && (k == 0 || list[k-1].entry != p.entry) {
				args, share = append(args, batch[p.entry].Message.ID), append(share, p.entry)
			}
		}
		conn.Each(len(share), read.DigestsBatch, func(from, to int) {
			calls, shares = append(calls, conn.Call{Partition: n, Args: args[from:to:to]}), append(shares, share[from:to])
		})
	}
	if len(calls) == 0 {
		return
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: read.DigestsScript, By: by, Calls: calls}) {
		r.Hint()
		for _, at := range shares[i] {
			text := ""
			if r.Err == nil {
				text = r.Text()
			}
			switch {
			case r.Err != nil:
				out[at].Err = fmt.Errorf("message %s: %w", batch[at].Message.ID, s.conn.InPartition(r.Partition, r.Err))
			case text != "" && text != string(batch[at].Digest[:]):
				out[at].Result = dispatcher.Conflict
			}
		}
	}
	refuseTwins(batch, parts, out)
	for n, list := range lists {
		lists[n] = slices.DeleteFunc(list, func(p shard) bool {
			return out[p.entry].Err != nil || out[p.entry].Result != 0
		})
	}
}

// refuseTwins marks conflicts within the batch. An entry with lanes in several partitions conflicts
// with an earlier message of the same id. The reason is that only one of the two might be written
// in every partition.
func refuseTwins(batch []dispatcher.Entry, parts []int, out []dispatcher.ScheduleResult) {
	first := make(map[string]dispatcher.Digest, len(batch))
	for i, e := range batch {
		digest, ok := first[e.Message.ID]
		switch {
		case ok && parts[i] > 1 && digest != e.Digest:
			out[i].Result = dispatcher.Conflict
		case !ok && out[i].Result == 0 && out[i].Err == nil:
			first[e.Message.ID] = e.Digest
		}
	}
}
