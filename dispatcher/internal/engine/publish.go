package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
)

// routed is a message with its destinations.
type routed struct {
	entry     dispatcher.Entry
	endpoints []*endpoints.Destination // one for each lane of the entry, as cached here; nil: the message goes to a URL or a queue
	err       error
}

// Publish stores valid messages and returns their results in the same order.
func (e *Engine) Publish(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error) {
	out, err := e.publish(ctx, batch)
	e.watching.observe(func(o dispatcher.Observer) {
		for i := range batch {
			if err != nil {
				o.Published(dispatcher.Published{Err: err})
			} else {
				o.Published(out[i])
			}
		}
	})
	return out, err
}

func (e *Engine) publish(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error) {
	created := e.store.Now().Truncate(time.Millisecond)
	all := make([]routed, len(batch))
	entries := make([]dispatcher.Entry, 0, len(batch))
	lanes := 0
	for i, m := range batch {
		m.CreatedAt = created
		all[i] = e.destinations(ctx, m)
	}
	e.boundFanOuts(ctx, batch, all)
	for i, m := range batch {
		if all[i].err == nil && len(all[i].entry.Lanes) > 0 {
			all[i].entry.Message, all[i].entry.Digest = m, m.Digest()
			entries = append(entries, all[i].entry)
			lanes += len(all[i].entry.Lanes)
		}
	}
	var stored []dispatcher.ScheduleResult
	if len(entries) > 0 {
		var err error
		if stored, err = e.accepter.accept(ctx, entries); err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
	}
	out := make([]dispatcher.Published, len(batch))
	made := make([]dispatcher.Delivery, 0, lanes) // of all messages: one allocation
	var repeats []int
	for i := range all {
		a := &all[i]
		switch {
		case a.err != nil:
			out[i] = dispatcher.Published{Err: fmt.Errorf("publish %s: %w", batch[i].ID, a.err)}
		case len(a.entry.Lanes) == 0:
			a.entry.Message, a.entry.Digest = batch[i], batch[i].Digest()
			repeats = append(repeats, i) // maybe a repeat: it matches no endpoint now, but it may have matched one before
		default:
			n := len(made) + len(a.entry.Lanes)
			var again bool
			out[i], again = e.published(ctx, a, &stored[0], made[len(made):len(made):n])
			made, stored = made[:n], stored[1:]
			if again {
				repeats = append(repeats, i)
			}
		}
	}
	e.repeated(ctx, all, repeats, out)
	e.fillDiffers(ctx, all, out)
	return out, nil
}

// boundFanOuts refuses messages that match too many endpoints. It accepts a message with a
// known id, because the repeat may complete a message that was stored only in part.
func (e *Engine) boundFanOuts(ctx context.Context, batch []*dispatcher.Message, all []routed) {
	var ids []string
	var at []int
	for i := range all {
		if entry := &all[i].entry; all[i].err == nil && entry.Fan && e.options.FanoutMax > 0 && len(entry.Lanes) > e.options.FanoutMax {
			ids, at = append(ids, batch[i].ID), append(at, i)
		}
	}
	if len(ids) == 0 {
		return
	}
	known, err := e.reads.Known(ctx, ids)
	for k, i := range at {
		switch {
		case err != nil:
			all[i].err = err
		case !known[k]:
			all[i].err = fmt.Errorf("%d match, FANOUT_MAX is %d: %w", len(all[i].entry.Lanes), e.options.FanoutMax, dispatcher.ErrFanOut)
		}
	}
}

// destinations returns the destinations of a message: its URL, its queue, its endpoint, or all
// endpoints of its tenant that match.
func (e *Engine) destinations(ctx context.Context, m *dispatcher.Message) (a routed) {
	switch {
	case m.URL != "":
		target, err := e.deliverer.targets.of(m)
		if err != nil {
			return routed{err: err}
		}
		a.entry.Lanes = target.lanes
	case m.Queue != "":
		a.entry.Lanes = []dispatcher.Lane{dispatcher.QueueLane(m.Queue)}
	case m.Endpoint != "":
		dest, err := e.endpoints.Cache.Named(ctx, m.Endpoint)
		switch {
		case err != nil:
			return routed{err: err}
		case m.Tenant != "" && m.Tenant != dest.Endpoint.Tenant:
			return routed{err: dispatcher.ErrTenant}
		}
		m.Endpoint, m.Tenant = dest.Endpoint.ID, dest.Endpoint.Tenant // the caller may have given the uid of the endpoint, and no tenant
		a.to(dest)
	default:
		matching, err := e.endpoints.Cache.Matching(ctx, m.Tenant, m.Topic)
		if err != nil {
			return routed{err: err}
		}
		a.entry.Fan = true
		for _, dest := range matching {
			a.to(dest)
		}
	}
	return a
}

func (a *routed) to(dest *endpoints.Destination) {
	a.entry.Lanes = append(a.entry.Lanes, dest.Endpoint.Lane())
	a.endpoints = append(a.endpoints, dest)
}

// published returns the result of a message. It stores the message's deliveries in made, which
// has the capacity for them. If again is true, an earlier publish made some of them, and the
// caller has to read them.
func (e *Engine) published(ctx context.Context, a *routed, s *dispatcher.ScheduleResult, made []dispatcher.Delivery) (p dispatcher.Published, again bool) {
	if s.Err != nil {
		return dispatcher.Published{Err: s.Err}, false
	}
	if len(a.endpoints) > 0 && len(s.Placed) > 0 {
		// The message is stored even if this fails, and the next claim repeats the check of
		// the versions.
		e.outages.Report("limit", e.endpoints.RepairLimits(ctx, s.Placed, a.endpoints))
	}
	m := a.entry.Message
	p = dispatcher.Published{Result: s.Result, CreatedAt: s.CreatedAt}
	switch {
	case s.Result == dispatcher.Duplicate,
		s.Result == dispatcher.Accepted && (!s.CreatedAt.Equal(m.CreatedAt) || slices.ContainsFunc(s.Placed, wasThere)):
		if p.CreatedAt.IsZero() && s.Result == dispatcher.Accepted {
			p.CreatedAt = m.CreatedAt
		}
		return p, true
	case s.Result == dispatcher.Accepted:
		p.Deliveries = made
		for i := range s.Placed {
			p.Deliveries = append(p.Deliveries, a.delivery(i, &s.Placed[i]))
		}
	}
	return p, false
}

// wasThere reports whether an earlier publish made a delivery.
func wasThere(p dispatcher.Placed) bool { return p.Status == "" }

// delivery returns the delivery of a new message in its lane i, as it was placed.
func (a *routed) delivery(i int, p *dispatcher.Placed) dispatcher.Delivery {
	m := a.entry.Message
	d := dispatcher.Delivery{
		ID: dispatcher.DeliveryID{Lane: p.Lane, Message: m.ID}, Topic: m.Topic, Tenant: m.Tenant,
		URL: m.URL, Status: p.Status, Due: p.Due, Reason: p.Reason,
	}
	if len(a.endpoints) > 0 {
		d.URL = a.endpoints[i].Endpoint.URL
	}
	if p.Status.Ended() {
		d.Ended = p.At
	}
	return d
}

// repeated reads the deliveries of messages that are already stored, or match no endpoint. It
// makes one call for all, because callers repeat many publishes after an outage.
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
		known := slices.Clip(list[:n])
		list = list[n:]
		switch {
		case unknown != nil && slices.ContainsFunc(known, func(d dispatcher.Delivery) bool { return d.ID.Lane.IsEndpoint() }):
			out[i] = dispatcher.Published{Err: unknown}
		case len(batch[k].Lanes) > 0: // there are no lanes if only the digest is left
			out[i].Deliveries = known
		default:
			out[i] = unmatched(batch[k].Message, st, known)
		}
	}
}

// unmatched returns the result of a message that matches no endpoint. The message is not
// stored, but it may repeat a message whose endpoints were deleted later.
func unmatched(m *dispatcher.Message, s *dispatcher.Standing, known []dispatcher.Delivery) dispatcher.Published {
	switch s.Result {
	case dispatcher.Conflict:
		return dispatcher.Published{Result: dispatcher.Conflict}
	case dispatcher.Duplicate:
		return dispatcher.Published{Result: dispatcher.Duplicate, CreatedAt: s.CreatedAt, Deliveries: known}
	}
	if m.RequireMatch {
		return dispatcher.Published{Err: fmt.Errorf("publish %s: %w", m.ID, dispatcher.ErrUnmatched)}
	}
	return dispatcher.Published{Result: dispatcher.Accepted, CreatedAt: m.CreatedAt}
}

// Address fills in the current URLs and ladders of deliveries.
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

// conflictsExplained is the number of conflicts in one batch whose differences are returned. Each
// costs the store a record of up to 16 KiB.
const conflictsExplained = 64

// fillDiffers sets the differences between refused messages and the stored messages with the
// same ids. If the store does not respond, Differs stays empty.
func (e *Engine) fillDiffers(ctx context.Context, all []routed, out []dispatcher.Published) {
	var batch []dispatcher.Entry
	var at []int
	for i := range out {
		if out[i].Result == dispatcher.Conflict && out[i].Err == nil && len(at) < conflictsExplained {
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
