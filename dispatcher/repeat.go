package dispatcher

import (
	"context"
	"fmt"
	"slices"
)

// repeated tells of messages that are there already, or go nowhere, which
// deliveries they have by now: of all in one call, since a caller that repeats after
// an outage repeats much.
func (e *Engine) repeated(ctx context.Context, all []addressed, repeats []int, out []Published) {
	if len(repeats) == 0 {
		return
	}
	batch := make([]Entry, len(repeats))
	for k, i := range repeats {
		batch[k] = all[i].entry
	}
	standing, err := e.queue.Standing(ctx, batch)
	if err != nil {
		standing = make([]Standing, len(batch))
	}
	var list []Delivery
	for k := range standing {
		if standing[k].Err == nil {
			list = append(list, standing[k].Deliveries...)
		}
	}
	unknown := e.address(ctx, list)
	for k, i := range repeats {
		st := &standing[k]
		n := len(st.Deliveries)
		switch {
		case err != nil:
			out[i] = Published{Err: err}
			continue
		case st.Err != nil:
			out[i] = Published{Err: st.Err}
			continue
		}
		told := slices.Clip(list[:n])
		list = list[n:]
		switch {
		case unknown != nil && slices.ContainsFunc(told, func(d Delivery) bool { return d.ID.Lane.IsEndpoint() }):
			out[i] = Published{Err: unknown}
		case len(batch[k].Lanes) > 0: // where only the digest is left there is nothing to tell
			out[i].Deliveries = told
		default:
			out[i] = unmatched(batch[k].Message, st, told)
		}
	}
}

// unmatched answers a message that goes nowhere. Nothing of it is kept; but it
// may be a repeat of one that went to endpoints that are gone.
func unmatched(m *Message, s *Standing, told []Delivery) Published {
	switch s.Result {
	case Conflict:
		return Published{Result: Conflict}
	case Duplicate:
		return Published{Result: Duplicate, CreatedAt: s.CreatedAt, Deliveries: told}
	}
	if m.RequireMatch {
		return Published{Err: fmt.Errorf("publish %s: %w", m.ID, ErrUnmatched)}
	}
	return Published{Result: Accepted, CreatedAt: m.CreatedAt}
}

// address fills in where deliveries to endpoints go by now.
func (e *Engine) address(ctx context.Context, list []Delivery) error {
	met := map[string]bool{}
	var ids []string
	for i := range list {
		if id := string(list[i].ID.Lane); list[i].ID.Lane.IsEndpoint() && !met[id] {
			met[id] = true
			ids = append(ids, id)
		}
	}
	var found map[string]*Destination
	if len(ids) > 0 {
		var err error
		if found, err = e.endpoints.Cache.Load(ctx, ids...); err != nil {
			return err
		}
	}
	for i := range list {
		var endpoint *Endpoint
		if dest := found[string(list[i].ID.Lane)]; dest != nil {
			endpoint = dest.Endpoint
			list[i].URL = endpoint.URL
		}
		m := Message{Ladder: list[i].Ladder}
		inForce := e.deliverer.defaults(&m, endpoint).ladder.Cut(list[i].MaxAttempts)
		list[i].Ladder = &inForce
	}
	return nil
}

// conflictsTold is of how many conflicts of one batch it is told what differs:
// each costs the store a record of up to 16 KiB.
const conflictsTold = 64

// tellConflicts finds out what differs between messages that are refused and
// those that have their ids. Where the store does not tell, it stays unsaid.
func (e *Engine) tellConflicts(ctx context.Context, all []addressed, out []Published) {
	var batch []Entry
	var at []int
	for i := range out {
		if out[i].Result == Conflict && out[i].Err == nil && len(at) < conflictsTold {
			batch, at = append(batch, all[i].entry), append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	kept, err := e.queue.Kept(ctx, batch)
	for k, i := range at {
		if err == nil && kept[k] != nil {
			out[i].Differs = batch[k].Message.Differs(kept[k])
		}
	}
}
