package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
)

// repeated reads the deliveries of messages that are stored already, or match no
// endpoint. It makes one call for all: after an outage callers repeat much.
func (e *Engine) repeated(ctx context.Context, all []routed, repeats []int, out []dispatcher.Published) {
	if len(repeats) == 0 {
		return
	}
	batch := make([]dispatcher.Entry, len(repeats))
	for k, i := range repeats {
		batch[k] = all[i].entry
	}
	standing, err := e.reads.Standing(ctx, batch)
	if err != nil {
		standing = make([]dispatcher.Standing, len(batch))
	}
	var list []dispatcher.Delivery
	for k := range standing {
		if standing[k].Err == nil {
			list = append(list, standing[k].Deliveries...)
		}
	}
	unknown := e.Address(ctx, list)
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
		case len(batch[k].Lanes) > 0: // there are none where only the digest is left
			out[i].Deliveries = told
		default:
			out[i] = unmatched(batch[k].Message, st, told)
		}
	}
}

// unmatched answers a message that matches no endpoint. Nothing of it is stored, but it
// may repeat a message whose endpoints were deleted since.
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

// Address fills in the present URLs and ladders of deliveries.
func (e *Engine) Address(ctx context.Context, list []dispatcher.Delivery) error {
	seen := map[string]bool{}
	var ids []string
	for i := range list {
		if id := string(list[i].ID.Lane); list[i].ID.Lane.IsEndpoint() && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	var found map[string]*endpoints.Destination
	if len(ids) > 0 {
		var err error
		if found, err = e.endpoints.Known(ctx, ids...); err != nil {
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

// conflictsTold is for how many conflicts of one batch the answer says what differs. Each
// costs the store a record of up to 16 KiB.
const conflictsTold = 64

// tellConflicts finds out what differs between refused messages and the stored ones with
// their ids. If the store does not answer, Differs stays empty.
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
	kept, err := e.reads.Kept(ctx, batch) // an error is no reason to fail the publish
	for k, i := range at {
		if err == nil && kept[k] != nil {
			out[i].Differs = batch[k].Message.Differs(kept[k])
		}
	}
}
