package redisq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/attempts"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/ended"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/shelf"
)

// Bounds of one answer of look: the number of deliveries, and the bytes of all
// answers of a round trip, but for one delivery each.
const (
	lookLanes = 64
	lookBytes = 1 << 20
)

// looked is the answer of one partition about a message.
type looked struct {
	partition  int
	first      int64 // place of the lane to go on with; 0: there are no more
	found      bool
	message    *dispatcher.Message // nil: there is none, or it can't be read
	deliveries []dispatcher.Delivery
	err        error
}

// Read reads a message and its deliveries. An id does not say in which
// partitions it lies, so all are asked in one round trip. A partition with more
// than fits in an answer is asked again. The answers of some are told also
// beside an error of others.
func (s *Store) Read(ctx context.Context, id string) (dispatcher.MessageView, error) {
	names, err := s.names(ctx)
	if err != nil {
		return dispatcher.MessageView{}, err
	}
	all := make([]looked, len(s.tags))
	todo := make([]*looked, len(all))
	for n := range all {
		all[n] = looked{partition: n, first: 1}
		todo[n] = &all[n]
	}
	for len(todo) > 0 {
		s.lookOn(ctx, names, id, todo)
		todo = slices.DeleteFunc(todo, func(l *looked) bool { return l.first == 0 })
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
	if len(errs) == 0 && m.URL == "" && m.Endpoint == "" && m.Queue == "" { // it may have more where data were lost
		if err := s.conn.LostOf(nil); err != nil {
			return out, fmt.Errorf("message %s: %w", id, err)
		}
	}
	return out, partitions.Join(errs...)
}

// prove adds to each delivery that was delivered its last attempt, with the
// evidence that the log has, and to one that was sent again its first success. Its
// history has them without, or not at all.
func (s *Store) prove(ctx context.Context, v *dispatcher.MessageView) error {
	var asked []attempts.Success
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
				continue // only marked as delivered so far
			}
			asked = append(asked, attempts.Success{ID: d.ID, Partition: s.partition(d.ID.Lane), Ended: at})
			of = append(of, d)
		}
	}
	proofs, err := s.Proofs(ctx, asked)
	for i, a := range proofs {
		if a == nil {
			continue // not at hand: there was no memory for it, or it lay in another partition
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

// locate tells of an attempt that called the message's own URL that it did.
func locate(a *dispatcher.Attempt, m *dispatcher.Message) {
	if a.URL == "" && a.Address != "" {
		a.URL = m.URL
	}
}

// lookOn reads one more page of each partition.
func (s *Store) lookOn(ctx context.Context, names []any, id string, todo []*looked) {
	calls := make([]conn.Call, len(todo))
	for i, l := range todo {
		calls[i] = conn.Call{Partition: l.partition, Args: append(slices.Clip(names), id, l.first, lookLanes, lookBytes/len(todo))}
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.look, Calls: calls}) {
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
			if l.message, err = codec.DecodeRecord(id, record); err != nil {
				s.log.Error("message can't be read", "message_id", id, "err", err)
				l.message = nil
			}
		}
		for _, values := range list {
			d, err := readLooked(l.message, id, values)
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

func readLooked(m *dispatcher.Message, id string, values any) (dispatcher.Delivery, error) {
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

// knownDelivery are what the store knows of one delivery, as scripts tell it.
type knownDelivery struct {
	lane, status string
	at           time.Time // end, next attempt or claim; zero if it has none
	waitsFor     string    // a word, and the ms of the end where that is known, or how many go first; empty: nothing
	progress     string    // entry of :progress
	history      []string  // newest first
}

// shelved reads a page of a list of some lanes, tenants or subjects, from their index. If that is
// too large, or too large for the order, it walks the statuses. Of a few lanes a name of another
// one costs no more than that then. A walk ends as it began, since a place in one order is none
// in another.
func (s *Store) shelved(ctx context.Context, f dispatcher.Filter) (page dispatcher.Page, err error) {
	at, err := s.listAt(ctx, &f)
	if err != nil {
		return page, err
	}
	if f.Cursor != "" && !at.placed {
		return s.listOf(ctx, f)
	}
	if f.Order != dispatcher.OrderAccepted {
		var whole bool
		if page, whole, err = s.Whole(ctx, f, at.anyPlace()); whole || err != nil && !errors.Is(err, shelf.ErrMore) {
			return page, err
		}
		return s.listOf(ctx, f)
	}
	page, err = s.Accepted(ctx, f)
	switch {
	case !errors.Is(err, shelf.ErrMore):
		return page, err
	case f.Cursor != "" || f.From != nil:
		return page, fmt.Errorf("%w: %w", dispatcher.ErrCursor, err)
	}
	return s.listOf(ctx, f)
}

// DecodeShelved is a delivery of a lane's list of all its deliveries, without its
// history. It reports false for a name that is no delivery's, and where its message is gone.
func DecodeShelved(e shelf.Entry) (dispatcher.Delivery, bool) {
	id := e.ID
	if _, ok := dispatcher.ParseDeliveryID(id.String()); !ok || e.Head == "" {
		return dispatcher.Delivery{}, false
	}
	m, err := codec.DecodeRecord(id.Message, e.Head)
	f := knownDelivery{lane: string(id.Lane), status: string(e.Status), at: e.Time, waitsFor: e.WaitsFor, progress: e.Progress}
	if e.Newest != "" {
		f.history = []string{e.Newest}
	}
	d := f.delivery(m, id.Message)
	d.History = nil
	if err != nil {
		d.LastError = codec.ErrRecord.Error()
	}
	return d, true
}

// DecodeEnded is a delivery that ended, without its history. It reports false for a
// name that is no delivery's.
func DecodeEnded(e ended.Entry) (dispatcher.Delivery, bool) {
	id, ok := dispatcher.ParseDeliveryID(e.Name)
	if !ok {
		return dispatcher.Delivery{}, false
	}
	var m *dispatcher.Message
	if e.Head != "" {
		m, _ = codec.DecodeRecord(id.Message, e.Head) // what can't be read is not told
	}
	f := knownDelivery{lane: string(id.Lane), status: string(e.Status), at: e.At, progress: e.Progress}
	if e.Newest != "" {
		f.history = []string{e.Newest}
	}
	d := f.delivery(m, id.Message)
	d.History = nil
	return d, true
}

// delivery is a delivery of message id, as far as its values can be read. m is
// nil if the record can't be read. A broken value does not hide the others.
func (f knownDelivery) delivery(m *dispatcher.Message, id string) dispatcher.Delivery {
	d := dispatcher.Delivery{
		ID:     dispatcher.DeliveryID{Lane: dispatcher.Lane(f.lane), Message: id},
		Status: dispatcher.Status(f.status),
	}
	if m != nil {
		d.Topic, d.Tenant, d.Subject, d.URL, d.Created = m.Topic, m.Tenant, m.Subject, m.URL, m.CreatedAt
		d.MaxAttempts, d.Ladder = m.MaxAttempts, m.Ladder
	}
	p, _ := codec.ParseProgress(f.progress) // a malformed text counts as none, as in the scripts
	d.Climbed, d.LadderFrom = p.Climbed(), p.Base+1
	d.Attempts, d.LastStatus = p.Attempts, p.Status
	word, number, _ := strings.Cut(f.waitsFor, " ")
	d.WaitingFor = word
	switch n, err := strconv.ParseInt(number, 10, 64); {
	case err != nil:
	case word == string(dispatcher.WhyOrder):
		d.WaitingBehind = int(n)
	default:
		d.WaitingUntil = conn.FromMillis(n)
	}
	switch d.Status {
	case dispatcher.StatusDelivered:
		d.Ended, d.Delivered = f.at, f.at
		if f.progress == "" {
			d.Attempts, d.Climbed, d.LastStatus = 1, 1, 200 // the most common end leaves no entry
		}
	case dispatcher.StatusDead:
		d.Ended, d.Reason = f.at, p.Reason
	case dispatcher.StatusCancelled:
		d.Ended = f.at
	case dispatcher.StatusScheduled, dispatcher.StatusRetrying, dispatcher.StatusReady:
		d.Due = f.at
		if word == "due" || word == "rung" {
			d.WaitingUntil = f.at
		}
	}
	for i := len(f.history) - 1; i >= 0; i-- {
		if attempt, err := codec.ParseAttempt(f.history[i]); err == nil {
			d.History = append(d.History, attempt)
		}
	}
	if !p.Delivered.IsZero() {
		d.Delivered = p.Delivered
		d.History = withSuccess(d.History, p)
	}
	withoutStatus(&d)
	if n := len(d.History); n > 0 {
		d.LastError = d.History[n-1].Error
	}
	if d.Reason == dispatcher.ReasonPoison && p.Deaths > 0 { // the attempts that would say so are gone
		d.LastError = fmt.Sprintf("the last %d instances that held it died before they had an answer", p.Deaths)
	}
	if m == nil {
		d.LastError = codec.ErrRecord.Error()
	}
	return d
}

// withoutStatus takes away the status of what came of a queue, which has none: a
// success is stored there as the most common end.
func withoutStatus(d *dispatcher.Delivery) {
	if !d.ID.Lane.IsQueue() {
		return
	}
	d.LastStatus = 0
	for i := range d.History {
		d.History[i].Status = 0
	}
}

// withSuccess puts the first success into the history of a delivery that was sent
// again, where it was in time, if the history does not have it. No attempt is kept
// of a first attempt that succeeded. It may be told late, after its lease was lost
// and an attempt of the same number failed elsewhere.
func withSuccess(history []dispatcher.Attempt, p codec.Progress) []dispatcher.Attempt {
	if slices.ContainsFunc(history, func(a dispatcher.Attempt) bool {
		return a.Number == p.Number && a.Verdict == dispatcher.Delivered
	}) {
		return history
	}
	first := dispatcher.Attempt{Number: p.Number, At: p.Delivered, Status: p.Answered, Verdict: dispatcher.Delivered}
	at := slices.IndexFunc(history, func(a dispatcher.Attempt) bool { return a.Number > p.Number || a.At.After(p.Delivered) })
	if at < 0 {
		at = len(history)
	}
	return slices.Insert(history, at, first)
}
