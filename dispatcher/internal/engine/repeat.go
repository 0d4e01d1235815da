package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
)

// repeated tells of messages that are there already, or go nowhere, which
// deliveries they have by now: of all in one call, since a caller that repeats after
// an outage repeats much.
func (e *Engine) repeated(ctx context.Context, all []routed, repeats []int, out []dispatcher.Published) {
	if len(repeats) == 0 {
		return
	}
	batch := make([]dispatcher.Entry, len(repeats))
	for k, i := range repeats {
		batch[k] = all[i].entry
	}
	standing, err := e.queue.Standing(ctx, batch)
	if err != nil {
		standing = make([]dispatcher.Standing, len(batch))
	}
	var list []dispatcher.Delivery
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
			out[i] = dispatcher.Published{Err: err}
			continue
		case st.Err != nil:
			out[i] = dispatcher.Published{Err: st.Err}
			continue
		}
		told := slices.Clip(list[:n])
		list = list[n:]
		switch {
		case unknown != nil && slices.ContainsFunc(told, func(d dispatcher.Delivery) bool { return d.ID.Lane.IsEndpoint() }):
			out[i] = dispatcher.Published{Err: unknown}
		case len(batch[k].Lanes) > 0: // where only the digest is left there is nothing to tell
			out[i].Deliveries = told
		default:
			out[i] = unmatched(batch[k].Message, st, told)
		}
	}
}

// unmatched answers a message that goes nowhere. Nothing of it is kept; but it
// may be a repeat of one that went to endpoints that are gone.
func unmatched(m *dispatcher.Message, s *dispatcher.Standing, told []dispatcher.Delivery) dispatcher.Published {
	switch s.Result {
	case dispatcher.Conflict:
		return dispatcher.Published{Result: dispatcher.Conflict}
	case dispatcher.Duplicate:
		return dispatcher.Published{Result: dispatcher.Duplicate, CreatedAt: s.CreatedAt, Deliveries: told}
	}
	if m.RequireMatch {
		return dispatcher.Published{Err: fmt.Errorf("publish %s: %w", m.ID, dispatcher.ErrUnmatched)}
	}
	return dispatcher.Published{Result: dispatcher.Accepted, CreatedAt: m.CreatedAt}
}

// address fills in where deliveries to endpoints go by now.
func (e *Engine) address(ctx context.Context, list []dispatcher.Delivery) error {
	met := map[string]bool{}
	var ids []string
	for i := range list {
		if id := string(list[i].ID.Lane); list[i].ID.Lane.IsEndpoint() && !met[id] {
			met[id] = true
			ids = append(ids, id)
		}
	}
	var found map[string]*endpoints.Destination
	if len(ids) > 0 {
		var err error
		if found, err = e.endpoints.Cache.Load(ctx, ids...); err != nil {
			return err
		}
	}
	for i := range list {
		var endpoint *dispatcher.Endpoint
		if dest := found[string(list[i].ID.Lane)]; dest != nil {
			endpoint = dest.Endpoint
			list[i].URL = endpoint.URL
		}
		m := dispatcher.Message{Ladder: list[i].Ladder}
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
func (e *Engine) tellConflicts(ctx context.Context, all []routed, out []dispatcher.Published) {
	var batch []dispatcher.Entry
	var at []int
	for i := range out {
		if out[i].Result == dispatcher.Conflict && out[i].Err == nil && len(at) < conflictsTold {
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
