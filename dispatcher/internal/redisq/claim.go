package redisq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// moveBatch is the most deliveries in one call. 128 deliveries of 128 different lanes block Redis
// for about 0.8 ms, and 256 for up to 2 ms.
const moveBatch = 128

// Move makes due deliveries ready, at most 128 in each partition. It also takes over deliveries
// whose leases have timed out, at most 64 in each partition, and leases them to the caller. In
// batches, it ends waiting deliveries that have expired.
func (s *Store) Move(ctx context.Context, by string) (wait time.Duration, ended []dispatcher.Claimed, err error) {
	due, wait := s.partitions.Due()
	if len(due) == 0 {
		return wait, nil, nil
	}
	ended, err = s.MoveIn(ctx, by, due)
	s.partitions.Fail(err)
	return 0, ended, err
}

// MoveIn does the work of Move in some partitions.
func (s *Store) MoveIn(ctx context.Context, by string, in []int) (ended []dispatcher.Claimed, err error) {
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Args: []any{moveBatch, claimBytes / len(in)}}
	}
	err = s.conn.SendEach(ctx, conn.Batch{Script: moveScript, By: by, Calls: calls}, func(_ int, r *conn.Call) error {
		if r.Err == nil && len(r.Values) == 1 {
			r.Err = dispatcher.ErrFenced
		}
		if h, ok := r.Hint(); ok {
			ended = s.readAdopted(&r.Reply, h, ended)
			s.observeDeaths(h)
			s.partitions.Moved(h)
		}
		return r.Err
	})
	return ended, err
}

// readAdopted reads deliveries that consumers had taken and that are leased to the caller now.
func (s *Store) readAdopted(a *conn.Reply, h conn.Hint, list []dispatcher.Claimed) []dispatcher.Claimed {
	for a.More() {
		n := len(list)
		if list = s.readClaimed(a, list); len(list) > n {
			list[n].Leased = leasedAt(h)
		}
	}
	return list
}

// claimBatch is the most deliveries in one call of the script. claimBytes limits the records that
// all calls of a round trip return, except for one delivery each. If a reply took longer than the
// timeout of a call, its deliveries would be claimed again and again.
const (
	claimBatch = 64
	claimBytes = 1 << 20
)

// Claimable returns the number of partitions from which deliveries may be claimed.
func (s *Store) Claimable(free int) (batches int, waiting bool) { return s.partitions.Claimable(free) }

// Claim leases at most c.Wanted ready deliveries. It takes turns among the partitions that have
// some. If one partition fails, Claim returns its error together with the deliveries leased from
// the others.
func (s *Store) Claim(ctx context.Context, by string, c dispatcher.Claim) ([]dispatcher.Claimed, error) {
	in := s.partitions.ToClaim(c.Wanted, c.Free)
	if len(in) == 0 {
		return nil, dispatcher.ErrNothing
	}
	claimed, hints, err := s.ClaimIn(ctx, by, in, c)
	gone := len(claimed)
	for _, h := range hints {
		s.observeEnds(h.Partition, h.Ended)
		if h.Lost > 0 {
			s.log.Error("deliveries without a message dropped", "deliveries", h.Lost)
		}
		gone += h.Ended + h.Lost + h.Placed
	}
	if gone == 0 && err == nil {
		s.partitions.Stalled(c.Free, hints...)
	}
	s.partitions.Fail(err)
	return claimed, err
}

// ClaimIn claims an equal share from each of some partitions, in one round trip. It reads the
// messages of c.Unread in the same one.
func (s *Store) ClaimIn(ctx context.Context, by string, in []int, c dispatcher.Claim) ([]dispatcher.Claimed, []conn.Hint, error) {
	messages := s.toRead(c.Unread)
	calls, reads := messages.calls, len(messages.calls)
	free, suspects := c.Free, max(dispatcher.SuspectLanes-len(c.Suspects), 0)
	later := conn.Flag(s.mayReadLater(c))
	for i, n := range in {
		share := min((c.Wanted-i+len(in)-1)/len(in), claimBatch)
		if share <= 0 {
			break
		}
		most := (suspects + len(in) - i - 1) / (len(in) - i)
		args := []any{share, free, claimBytes / min(len(in), c.Wanted), most, later}
		for _, lane := range c.Suspects {
			args = append(args, string(lane))
		}
		calls = append(calls, conn.Call{Partition: n, Args: args})
		free, suspects = free-share, suspects-most
	}
	var claimed []dispatcher.Claimed
	var hints []conn.Hint
	err := s.conn.SendEach(ctx, conn.Batch{Script: claimScript, By: by, Calls: calls}, func(i int, r *conn.Call) error {
		if i >= reads && r.Err == nil && len(r.Values) == 1 {
			r.Err = dispatcher.ErrFenced
		}
		if i < reads || r.Err != nil {
			return r.Err
		}
		a := &r.Reply
		h, _ := r.Hint()
		h.Ended = int(a.Number())
		h.Lost = int(a.Number())
		h.Placed = int(a.Number())
		lanes := readLanes(a)
		first := len(claimed)
		for a.More() {
			claimed = s.readClaimed(a, claimed)
		}
		for k := range claimed[first:] {
			c := &claimed[first+k]
			c.Leased = leasedAt(h)
			if len(lanes) > 0 {
				f := lanes[c.ID.Lane]
				c.Version, c.Egress, c.NewLane = f.version, f.wait, f.unseen
			}
		}
		s.observeDeaths(h)
		hints = append(hints, h)
		return a.Err
	})
	messages.fill(s)
	return claimed, hints, err
}

// Messages reads the messages of deliveries that Claim returned unread.
func (s *Store) Messages(ctx context.Context, unread []dispatcher.Claimed) error {
	messages := s.toRead(unread)
	err := s.conn.SendEach(ctx, conn.Batch{Doing: "read messages", Calls: messages.calls}, func(_ int, r *conn.Call) error { return r.Err })
	messages.fill(s)
	s.partitions.Fail(err)
	return err
}

// toRead has the commands that read the messages of unread deliveries.
type toRead struct {
	unread  []dispatcher.Claimed
	shares  []conn.Share
	records []*redis.SliceCmd // of each share
	calls   []conn.Call       // of each share
}

func (s *Store) toRead(unread []dispatcher.Claimed) *toRead {
	t := &toRead{unread: unread}
	t.shares = conn.Grouped(len(unread), 0, func(i int) int { return s.conn.PartitionOf(unread[i].ID.Lane) })
	t.records, t.calls = make([]*redis.SliceCmd, len(t.shares)), make([]conn.Call, len(t.shares))
	for k, share := range t.shares {
		t.calls[k] = conn.Call{Partition: share.Partition, Plain: true, Fill: func(p redis.Pipeliner) {
			ids := make([]string, len(share.At))
			for j, i := range share.At {
				ids[j] = unread[i].ID.Message
			}
			t.records[k] = p.HMGet(context.Background(), s.conn.Tag(share.Partition)+keys.Messages, ids...) // it uses the context of the pipeline
		}}
	}
	return t
}

// readWholeFor is how long claims return the messages after one was missing, because the script
// drops a delivery then.
const readWholeFor = time.Minute

// fill sets the messages that were read. The others stay unread: their partition failed, or there is
// no such message.
func (t *toRead) fill(s *Store) {
	for k, share := range t.shares {
		for j, value := range conn.Value(t.records[k]) {
			c := &t.unread[share.At[j]]
			record, _ := value.(string)
			if len(record) <= dispatcher.DigestSize {
				s.readWhole.Store(time.Now().Add(readWholeFor).Unix())
				continue
			}
			c.Message, c.Unread = s.decodeMessage(c.ID, record), false
		}
	}
}

// mayReadLater reports whether a claim may return deliveries without their messages. The sizes of
// the last records show that the response to the query for them will not be too large.
func (s *Store) mayReadLater(c dispatcher.Claim) bool {
	return c.Later && int64(c.Wanted)*s.meanRecord() <= claimBytes && time.Now().Unix() >= s.readWhole.Load()
}

// meanRecord returns the mean size of the last records. Before the first one it is the largest size.
func (s *Store) meanRecord() int64 { return cmp.Or(s.recordSize.Load(), dispatcher.ApartAbove) }

// recordsInMean is about how many of the last records count in meanRecord.
const recordsInMean = 16

// readClaimed reads one delivery. If its record can't be read, the delivery keeps its lease and has
// no message. The engine then gives it up and records the reason. Without a record it is unread.
func (s *Store) readClaimed(a *conn.Reply, claimed []dispatcher.Claimed) []dispatcher.Claimed {
	name, due, text, record := a.Text(), a.Time(), a.TextIfAny(), a.TextIfAny()
	id, ok := dispatcher.ParseDeliveryID(name)
	if a.Err != nil {
		return claimed
	}
	if !ok && record != "" { // no delivery has such a name, and the script drops it
		s.log.Error("name can't be read", "delivery_id", name)
		return claimed
	}
	if !ok { // its message is missing
		lane, message, _ := strings.Cut(name, ":")
		id = dispatcher.DeliveryID{Lane: dispatcher.Lane(lane), Message: message}
	}
	p, err := conn.ParseProgress(text)
	if err != nil {
		s.log.Error("progress can't be read: its ladder begins anew", "delivery_id", name, "err", err)
	}
	var m *dispatcher.Message
	if record != "" {
		m = s.decodeMessage(id, record)
	}
	return append(claimed, dispatcher.Claimed{
		ID: id, Message: m, Due: due,
		Attempt: p.Attempts + 1, Rung: p.Climbed() + 1, Snoozes: p.Snoozes, Asked: p.Asked != 0, WaitsOn: p.WaitsOn(), First: text == "",
		Suspect: p.Suspect(), Alone: p.Alone(), Unread: record == "",
	})
}

// decodeMessage decodes a record. It returns nil if the record can't be read.
func (s *Store) decodeMessage(id dispatcher.DeliveryID, record string) *dispatcher.Message {
	mean := s.meanRecord()
	s.recordSize.Store(mean + (int64(len(record))-mean)/recordsInMean) // a mean that lacks a record of another goroutine does no harm
	m, err := conn.DecodeRecord(id.Message, record)
	if err != nil {
		s.log.Error("message can't be read", "delivery_id", id.String(), "err", err)
	} else if err := conn.OpenHeaders(id.Lane, m, s.Endpoints.Box()); err != nil && s.logsSealed() {
		s.log.Error("deliveries wait for a message whose headers this instance can't open", "delivery_id", id.String(), "err", err,
			"cure", "start it with the ENCRYPTION_KEY that the others have")
	}
	return m
}

// Begin records the start of an attempt at a suspect.
func (s *Store) Begin(ctx context.Context, by string, l dispatcher.Lease, beside bool) (bool, error) {
	n := s.conn.PartitionOf(l.ID.Lane)
	r := s.conn.Send(ctx, conn.Batch{Script: begunScript, By: by, Calls: []conn.Call{
		{Partition: n, Args: []any{l.ID.String(), l.At.UnixMilli(), conn.Flag(beside)}},
	}})[0]
	if _, ok := r.Hint(); !ok {
		err := s.conn.InPartition(n, r.Err)
		s.partitions.Fail(err)
		return false, fmt.Errorf("begin %s: %w", l.ID, err)
	}
	leased := r.Number() == 1
	return leased, r.Reply.Err
}

// logsSealed reports whether to log a message that can't be opened. It allows one log line a
// minute, because it is attempted again and again.
func (s *Store) logsSealed() bool {
	now, last := time.Now().Unix(), s.sealedLogged.Load()
	return now-last >= 60 && s.sealedLogged.CompareAndSwap(last, now)
}

// leasedAt returns the time of the leases in a reply with this hint.
func leasedAt(h conn.Hint) time.Time { return conn.FromMillis(h.Now.UnixMilli()) }

// leasesPage is the number of leases that one round trip reads, some 100 KiB.
const leasesPage = 1000

// Leases returns the leases of an instance, the oldest of each partition first. It reads them in
// pages, one page of all partitions in one round trip. A lease that stays valid during the whole
// call is always returned.
func (s *Store) Leases(ctx context.Context, by string) ([]dispatcher.Lease, error) {
	leases, err := s.leases(ctx, by)
	s.partitions.Fail(err)
	return leases, err
}

func (s *Store) leases(ctx context.Context, by string) ([]dispatcher.Lease, error) {
	type lease struct {
		name string
		at   float64
	}
	found := make([][]lease, s.conn.Partitions())
	var errs []error
	for w := s.conn.Walk("leases of "+by, s.conn.All()); len(w.Left) > 0; {
		count := int64(max(leasesPage/len(w.Left), 1))
		errs = append(errs, w.Pages(ctx, func(p redis.Pipeliner, n int, at uint64) *redis.ScanCmd {
			return p.ZScan(ctx, s.conn.Tag(n)+keys.Leases+by, at, "", count)
		}, func(n int, page []string) {
			for k := 0; k+1 < len(page); k += 2 {
				at, _ := strconv.ParseFloat(page[k+1], 64)
				found[n] = append(found[n], lease{page[k], at})
			}
		}))
	}
	var out []dispatcher.Lease
	for _, leases := range found {
		slices.SortFunc(leases, func(a, b lease) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name)) })
		// A page may repeat entries of the page before.
		for _, l := range slices.CompactFunc(leases, func(a, b lease) bool { return a.name == b.name }) {
			if id, ok := dispatcher.ParseDeliveryID(l.name); ok {
				out = append(out, dispatcher.Lease{ID: id, At: conn.FromMillis(int64(l.at))})
			}
		}
	}
	return out, conn.JoinErrors(errs...)
}

// laneFacts has what a reply reports about a lane.
type laneFacts struct {
	version int64 // of its limits; 0: none
	wait    dispatcher.EgressWait
	unseen  bool // no attempt in it ever ended
}

// readLanes reads the facts about lanes. A number is the version of an endpoint's limits. A text
// with a dash is the wait for our own network. A question mark is a lane that never responded.
func readLanes(a *conn.Reply) map[dispatcher.Lane]laneFacts {
	list := conn.Reply{Values: a.List()}
	if len(list.Values) == 0 {
		return nil
	}
	facts := make(map[dispatcher.Lane]laneFacts, len(list.Values)/2)
	for a.Err == nil && list.More() {
		lane, value := dispatcher.Lane(list.Text()), list.Text()
		f := facts[lane]
		if since, wait, waiting := strings.Cut(value, "-"); waiting {
			begun, errBegun := strconv.ParseInt(since, 10, 64)
			ms, errWait := strconv.ParseInt(wait, 10, 64)
			if list.Err == nil && (errBegun != nil || errWait != nil) {
				list.Err = conn.ErrReply
			}
			f.wait = dispatcher.EgressWait{Since: conn.FromMillis(begun), Wait: time.Duration(ms) * time.Millisecond}
		} else if value == "?" {
			f.unseen = true
		} else if v, err := strconv.ParseInt(value, 10, 64); err == nil {
			f.version = v
		} else if list.Err == nil {
			list.Err = conn.ErrReply
		}
		facts[lane] = f
		a.Err = list.Err
	}
	return facts
}
