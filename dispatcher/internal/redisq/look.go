package redisq

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Look reads a message and its deliveries. Nothing says in which partitions an
// id lies, so all are asked: small reads, in one round trip. What those that
// answer have of it is told also beside an error of others.
func (s *Store) Look(ctx context.Context, id string) (dispatcher.Record, error) {
	names, err := s.names(ctx)
	if err != nil {
		return dispatcher.Record{}, err
	}
	jobs := make([]job, len(s.tags))
	for n := range s.tags {
		jobs[n] = job{partition: n, args: append(slices.Clip(names), id)}
	}
	var out dispatcher.Record
	var errs []error
	found := false
	for n, r := range s.run(ctx, s.scripts.look, "", jobs) {
		a := answer{values: r.values, err: r.err}
		record, list := "", []any{}
		if a.hintIf(n) != nil {
			record, list = a.text(), a.list()
		}
		if a.err != nil {
			errs = append(errs, fmt.Errorf("message %s: %w", id, inPartition(n, a.err)))
			continue
		}
		if record == "" {
			continue
		}
		m, err := decodeRecord(id, record)
		if err != nil {
			s.log.Error("message can't be read", "message_id", id, "err", err)
			m = nil
		}
		if m != nil || !found {
			out.Message, found = *cmp.Or(m, &dispatcher.Message{ID: id}), true
		}
		for _, values := range list {
			d, err := readLooked(m, id, values)
			if err != nil {
				return dispatcher.Record{}, err
			}
			out.Deliveries = append(out.Deliveries, d)
		}
	}
	if !found && len(errs) == 0 {
		return dispatcher.Record{}, fmt.Errorf("message %s: %w", id, dispatcher.ErrNotFound)
	}
	return out, join(errs...)
}

func readLooked(m *dispatcher.Message, id string, values any) (dispatcher.Delivery, error) {
	list, _ := values.([]any)
	a := answer{values: list}
	f := facts{lane: a.text(), status: a.text(), at: a.time(), waitsFor: a.text(), progress: a.text()}
	for _, entry := range a.list() {
		text, ok := entry.(string)
		if !ok {
			return dispatcher.Delivery{}, fmt.Errorf("message %s: %w", id, errAnswer)
		}
		f.history = append(f.history, text)
	}
	if a.err != nil {
		return dispatcher.Delivery{}, fmt.Errorf("message %s: %w", id, a.err)
	}
	return f.delivery(m, id), nil
}

// facts are what the store knows of one delivery, as scripts tell it.
type facts struct {
	lane, status string
	at           time.Time // end, next attempt or claim; zero where it has none
	waitsFor     string    // empty: nothing
	progress     string    // entry of :progress
	history      []string  // newest first
}

// delivery tells of a delivery of message id what can be read of it. m is nil
// where the record can't be: what one value says wrongly hides no other.
func (f facts) delivery(m *dispatcher.Message, id string) dispatcher.Delivery {
	d := dispatcher.Delivery{
		ID:     dispatcher.DeliveryID{Lane: dispatcher.Lane(f.lane), Message: id},
		Status: dispatcher.Status(f.status),
	}
	if m != nil {
		d.Topic, d.Tenant, d.URL = m.Topic, m.Tenant, m.URL
	}
	p, _ := parseProgress(f.progress) // what can't be read is none, for the scripts too
	d.Attempts, d.LastStatus, d.WaitingFor = p.attempts, p.status, f.waitsFor
	switch d.Status {
	case dispatcher.StatusDelivered:
		d.Ended = f.at
		if f.progress == "" {
			d.Attempts, d.LastStatus = 1, 200 // the commonest end leaves no entry
		}
	case dispatcher.StatusDead:
		d.Ended, d.Reason = f.at, p.reason
	case dispatcher.StatusCancelled:
		d.Ended = f.at
	case dispatcher.StatusScheduled, dispatcher.StatusRetrying, dispatcher.StatusReady:
		d.Due = f.at
	}
	for i := len(f.history) - 1; i >= 0; i-- {
		if attempt, err := decodeAttempt(f.history[i]); err == nil {
			d.History = append(d.History, attempt)
		}
	}
	if n := len(d.History); n > 0 {
		d.LastError = d.History[n-1].Error
	}
	if m == nil {
		d.LastError = errRecord.Error()
	}
	return d
}

// decodeAttempt reads an element of a history: when the next attempt is due,
// the length of meta, meta, excerpt.
func decodeAttempt(text string) (dispatcher.Attempt, error) {
	due, rest, _ := strings.Cut(text, " ")
	size, rest, _ := strings.Cut(rest, " ")
	next, err := strconv.ParseInt(due, 10, 64)
	n, err2 := strconv.Atoi(size)
	if err != nil || err2 != nil || n < 0 || n > len(rest) {
		return dispatcher.Attempt{}, fmt.Errorf("history: %w", errAnswer)
	}
	var m attemptMeta
	if err := json.Unmarshal([]byte(rest[:n]), &m); err != nil {
		return dispatcher.Attempt{}, fmt.Errorf("history: %w", err)
	}
	a := dispatcher.Attempt{
		Number: m.Number, At: fromMillis(m.At), Duration: time.Duration(m.Took) * time.Millisecond,
		Status: m.Status, Verdict: m.Verdict, Class: m.Class, Error: m.Error, Next: fromMillis(next),
	}
	if rest = rest[n:]; rest != "" {
		a.Excerpt = []byte(rest)
	}
	return a, nil
}
