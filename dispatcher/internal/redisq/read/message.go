package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
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
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.Look, Calls: calls}) {
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
