package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of one reply of look: the number of deliveries, and the bytes of all replies of a
// round trip, except one delivery each.
const (
	lookLanes = 64
	lookBytes = 1 << 20
)

// messageReply is the reply of one partition about a message.
type messageReply struct {
	partition  int
	first      int64 // position of the next lane; 0: there are no more
	found      bool
	message    *dispatcher.Message // nil: there is none, or it can't be read
	deliveries []dispatcher.Delivery
	err        error
}

// Read returns a message and its deliveries. It queries all partitions in one round trip,
// because the id does not name its partitions. A partition with more deliveries than fit in a
// reply is queried again. If some partitions fail, it returns their error and the results of
// the others.
func (s *Deliveries) Read(ctx context.Context, id string) (dispatcher.MessageView, error) {
	names, err := InstanceNames(ctx, s.conn)
	if err != nil {
		return dispatcher.MessageView{}, err
	}
	all := make([]messageReply, s.conn.Partitions())
	todo := make([]*messageReply, len(all))
	for n := range all {
		all[n] = messageReply{partition: n, first: 1}
		todo[n] = &all[n]
	}
	for len(todo) > 0 {
		s.readMore(ctx, names, id, todo)
		todo = slices.DeleteFunc(todo, func(l *messageReply) bool { return l.first == 0 })
	}
	var out dispatcher.MessageView
	var errs []error
	found := false
	for _, l := range all {
		if l.err != nil {
			errs = append(errs, fmt.Errorf("message %s: %w", id, s.conn.InPartition(l.partition, l.err)))
		}
		if !l.found {
			continue
		}
		if l.message != nil || !found {
			out.Message, found = *cmp.Or(l.message, &dispatcher.Message{ID: id}), true
		}
		out.Deliveries = append(out.Deliveries, l.deliveries...)
	}
	if err := s.prove(ctx, &out); err != nil {
		errs = append(errs, err)
	}
	if !found && len(errs) == 0 {
		if err := s.conn.IntactAll(ctx); err != nil {
			return dispatcher.MessageView{}, fmt.Errorf("message %s: %w", id, err)
		}
		return dispatcher.MessageView{}, fmt.Errorf("message %s: %w", id, dispatcher.ErrNotFound)
	}
	m := &out.Message
	if len(errs) == 0 && m.URL == "" && m.Endpoint == "" && m.Queue == "" { // there may be more if data were lost
		if err := s.conn.LostOf(nil); err != nil {
			return out, fmt.Errorf("message %s: %w", id, err)
		}
	}
	return out, conn.JoinErrors(errs...)
}

// prove adds the last attempt, with the log's evidence, to each delivery that was delivered.
// If a delivery was sent again, it adds the first success. The history has these attempts
// without evidence, or not at all.
func (s *Deliveries) prove(ctx context.Context, v *dispatcher.MessageView) error {
	var asked []LogSuccess
	var of []*dispatcher.Delivery
	for i := range v.Deliveries {
		d := &v.Deliveries[i]
		for k := range d.History {
			locate(&d.History[k], &v.Message)
		}
		ends := []time.Time{d.Delivered}
		if d.Status == dispatcher.StatusDelivered && !d.Ended.Equal(d.Delivered) {
			ends = append(ends, d.Ended)
		}
		for _, at := range ends {
			if at.IsZero() {
				continue // only marked as delivered yet
			}
			asked = append(asked, LogSuccess{ID: d.ID, Partition: s.conn.PartitionOf(d.ID.Lane), Ended: at})
			of = append(of, d)
		}
	}
	proofs, err := s.proofs.Proofs(ctx, asked)
	for i, a := range proofs {
		if a == nil {
			continue // not available: there was no memory for it, or it was in another partition
		}
		locate(a, &v.Message)
		d := of[i]
		k := slices.IndexFunc(d.History, func(h dispatcher.Attempt) bool {
			return h.Number == a.Number && h.Verdict == dispatcher.Delivered
		})
		if k < 0 {
			d.History = append(d.History, *a)
			continue
		}
		if len(d.History[k].Excerpt) > len(a.Excerpt) {
			a.Excerpt = d.History[k].Excerpt
		}
		d.History[k] = *a
	}
	return err
}

// locate sets the URL of an attempt that called the message's own URL.
func locate(a *dispatcher.Attempt, m *dispatcher.Message) {
	if a.URL == "" && a.Address != "" {
		a.URL = m.URL
	}
}

// readMore reads one more page of each partition.
func (s *Deliveries) readMore(ctx context.Context, names []any, id string, todo []*messageReply) {
	calls := make([]conn.Call, len(todo))
	for i, l := range todo {
		calls[i] = conn.Call{Partition: l.partition, Args: append(slices.Clip(names), id, l.first, lookLanes, lookBytes/len(todo))}
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: lookScript, Calls: calls}) {
		l := todo[i]
		first := l.first == 1
		l.first = 0
		if _, ok := r.Hint(); !ok {
			l.err = r.Err
			continue
		}
		record, next, list := r.Text(), r.Number(), r.List()
		if l.err = r.Err; l.err != nil || first && record == "" {
			continue
		}
		if first {
			var err error
			l.found = true
			if l.message, err = conn.DecodeRecord(id, record); err != nil {
				s.log.Error("message can't be read", "message_id", id, "err", err)
				l.message = nil
			}
		}
		for _, values := range list {
			d, err := readReplied(l.message, id, values)
			if err != nil {
				l.err = err
				break
			}
			l.deliveries = append(l.deliveries, d)
		}
		if l.err == nil {
			l.first = next
		}
	}
}

func readReplied(m *dispatcher.Message, id string, values any) (dispatcher.Delivery, error) {
	list, _ := values.([]any)
	a := conn.Reply{Values: list}
	f := knownDelivery{lane: a.Text(), status: a.Text(), at: a.Time(), waitsFor: a.Text(), progress: a.Text()}
	for _, entry := range a.List() {
		text, ok := entry.(string)
		if !ok {
			return dispatcher.Delivery{}, conn.ErrReply
		}
		f.history = append(f.history, text)
	}
	if a.Err != nil {
		return dispatcher.Delivery{}, a.Err
	}
	return f.delivery(m, id), nil
}

// DigestsBatch is the number of ids in one call. The call reads at most a MiB of records.
const DigestsBatch = 64

// Known queries all partitions and reports which ids they know.
func (s *Deliveries) Known(ctx context.Context, ids []string) ([]bool, error) {
	known := make([]bool, len(ids))
	var calls []conn.Call
	var froms []int
	conn.Each(len(ids), DigestsBatch, func(from, to int) {
		args := make([]any, 0, to-from)
		for _, id := range ids[from:to] {
			args = append(args, id)
		}
		for _, j := range s.conn.Everywhere(args) {
			calls, froms = append(calls, j), append(froms, from)
		}
	})
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: DigestsScript, Calls: calls}) {
		r.Hint()
		for k := range calls[i].Args {
			if r.Err == nil && r.Text() != "" {
				known[froms[i]+k] = true
			}
		}
		if r.Err != nil {
			return nil, fmt.Errorf("known ids: %w", s.conn.InPartition(r.Partition, r.Err))
		}
	}
	return known, nil
}

// Has reports which deliveries are kept completely, with any status. If a delivery is gone,
// its message may still exist, because other deliveries need it.
func (s *Deliveries) Has(ctx context.Context, ids []dispatcher.DeliveryID) ([]bool, error) {
	sizes, fans := make([]*redis.IntCmd, len(ids)), make([]*redis.StringCmd, len(ids))
	shares := conn.Grouped(len(ids), 0, func(i int) int { return s.conn.PartitionOf(ids[i].Lane) })
	err := s.conn.EachShare(ctx, "find deliveries", shares, func(p redis.Pipeliner, k int) {
		tag := s.conn.Tag(shares[k].Partition)
		for _, i := range shares[k].At {
			sizes[i], fans[i] = p.HStrLen(ctx, tag+keys.Messages, ids[i].Message), p.HGet(ctx, tag+keys.Fan, ids[i].Message)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find deliveries: %w", err)
	}
	has := make([]bool, len(ids))
	for i, id := range ids {
		lanes := strings.Fields(conn.Value(fans[i])) // none: the message has only one lane
		has[i] = conn.Value(sizes[i]) > dispatcher.DigestSize && (len(lanes) == 0 || slices.Contains(lanes, string(id.Lane)))
	}
	return has, nil
}

// Kept queries all partitions for the stored message of an id. It uses plain commands, because
// a record is small and only a caller in conflict needs it.
func (s *Deliveries) Kept(ctx context.Context, batch []dispatcher.Entry) ([]*dispatcher.Message, error) {
	kept := make([]*dispatcher.Message, len(batch))
	var err error
	conn.Each(len(batch), DigestsBatch, func(from, to int) {
		records := make([][]*redis.StringCmd, s.conn.Partitions())
		read := s.conn.EachPartition(ctx, "read messages", s.conn.All(), func(p redis.Pipeliner, n int) {
			records[n] = make([]*redis.StringCmd, to-from)
			for k := range records[n] {
				records[n][k] = p.HGet(ctx, s.conn.Tag(n)+keys.Messages, batch[from+k].Message.ID)
			}
		})
		err = cmp.Or(err, read)
		for n := range s.conn.Partitions() {
			for k := range records[n] {
				record, e := conn.Value(records[n][k]), &batch[from+k]
				if len(record) <= dispatcher.DigestSize || record[:dispatcher.DigestSize] == string(e.Digest[:]) || kept[from+k] != nil {
					continue
				}
				kept[from+k], _ = conn.DecodeRecord(e.Message.ID, record) // an unreadable record counts as none
			}
		}
	})
	return kept, err
}
