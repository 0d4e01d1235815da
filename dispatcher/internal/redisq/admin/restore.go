package admin

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
)

//go:embed lua/restore_hold.lua
var holdSrc string

//go:embed lua/restore_known.lua
var knownSrc string

//go:embed lua/restore_put.lua
var restorePutSrc string

// RestoreTarget is the store that receives the data of an archive.
type RestoreTarget struct {
	store            *redisq.Store
	conn             *conn.Client
	by               string
	loss             *dispatcher.Emptied // nil: no data are recorded as lost
	hold, known, put conn.Script
}

var _ archive.Target = (*RestoreTarget)(nil)

// NewRestoreTarget returns a RestoreTarget for a store. The parameter by is the name of the caller.
func NewRestoreTarget(s *redisq.Store, by string) *RestoreTarget {
	test := s.Conn().TestClock()
	return &RestoreTarget{
		store: s, conn: s.Conn(), by: by,
		hold:  conn.MakeScript(test, "restore_hold", holdSrc),
		known: conn.MakeScript(test, "restore_known", knownSrc),
		put:   conn.MakeScript(test, "restore_put", conn.PartOrder, conn.PartExpiry, conn.PartNamed, restorePutSrc),
	}
}

// Emptied records the data that the store lost, compared with an archive, and reports whether there
// are any. If so, all later calls restore only these data.
func (t *RestoreTarget) Emptied(ctx context.Context, id string, epochs map[int]string) (bool, error) {
	if err := t.conn.NoteLost(ctx, id, epochs); err != nil {
		return false, err
	}
	t.loss = t.conn.Loss()
	return t.loss != nil, nil
}

// ID returns the id of the present data.
func (t *RestoreTarget) ID() string { return t.conn.ID() }

// fills reports whether data are put into a partition. If the store lost no data, all partitions
// are filled, because a running store may still lack other data.
func (t *RestoreTarget) fills(partition int) bool { return t.loss == nil || t.loss.Has(partition) }

// Epochs returns the epochs of the partitions, in their order. It reports whether their whole log
// is archived.
func (t *RestoreTarget) Epochs(ctx context.Context) (epochs []string, drained bool, err error) {
	log := NewFeed(t.store)
	states, err := log.States(ctx, t.conn.All())
	if err != nil {
		return nil, false, err
	}
	epochs, drained = make([]string, len(states)), true
	for _, s := range states {
		epochs[s.Partition] = s.Epoch
		drained = drained && !s.Last.After(s.At)
	}
	if !drained {
		err = log.Ask(ctx)
	}
	return epochs, drained, err
}

// Hold pauses the store until Release: it accepts no message and attempts no delivery.
func (t *RestoreTarget) Hold(ctx context.Context) error {
	if err := t.store.ReadClock(ctx); err != nil { // bodies are staged by this clock
		return err
	}
	return t.everywhere(ctx, 1)
}

// Release ends the pause of Hold. All lanes stay paused if they were paused before, or if a
// person requested a pause in the meantime. The lost data are recorded as restored.
func (t *RestoreTarget) Release(ctx context.Context) error {
	if err := t.everywhere(ctx, 0); err != nil {
		return err
	}
	if t.loss != nil {
		return t.store.EndLoss(ctx, t.loss) // and makes the instances read the log
	}
	// The end of the pause is a line in the log, and a later restore needs that line archived. All
	// data are restored by now, so a failed request is no error. Instances poll the log later in
	// any case.
	_ = NewFeed(t.store).Ask(ctx)
	return nil
}

// everywhere begins or ends the pause in each partition that is filled.
func (t *RestoreTarget) everywhere(ctx context.Context, begin int) error {
	calls := slices.DeleteFunc(t.conn.Everywhere([]any{begin}), func(c conn.Call) bool { return !t.fills(c.Partition) })
	return t.conn.SendEach(ctx, conn.Batch{Script: t.hold, By: t.by, Calls: calls}, func(_ int, r *conn.Call) error { return r.Err })
}

// PutEndpoints puts back endpoints, the limits of their lanes, and the paused lanes.
func (t *RestoreTarget) PutEndpoints(ctx context.Context, list []archive.Endpoint, holds []archive.PausedLane) (put int, err error) {
	lanes := make([]dispatcher.Lane, len(list))
	for i := range list {
		lanes[i] = dispatcher.Lane(list[i].ID)
	}
	states, err := t.store.LaneReader.LaneStates(ctx, lanes)
	if err != nil {
		return 0, err
	}
	for i := range list {
		e := &list[i]
		lane := states[i].Limits
		lane.By, lane.Since = states[i].By, states[i].Since
		limits, fresh, err := t.putEndpoint(ctx, e, lane)
		if err != nil {
			return put, fmt.Errorf("restore endpoint %s: %w", e.ID, err)
		}
		if limits.Version > 0 {
			if _, err := t.store.Limit(ctx, t.by, dispatcher.Lane(e.ID), limits, false); err != nil {
				return put, fmt.Errorf("restore limits of %s: %w", e.ID, err)
			}
		}
		if fresh && !e.Deleted {
			put++
		}
	}
	for _, h := range holds {
		if h.Lane != dispatcher.AllLanes && !t.fills(t.conn.PartitionOf(h.Lane)) {
			continue
		}
		if _, err := t.store.Limit(ctx, t.by, h.Lane, dispatcher.LaneLimits{Mode: dispatcher.LanePaused, Name: h.Name, By: h.By, Since: h.Since}, false); err != nil {
			return put, fmt.Errorf("hold %s again: %w", h.Lane, err)
		}
	}
	return put, nil
}

// lanesAtOnce is the number of lanes in one read.
const lanesAtOnce = 256

// Lost returns the lanes with unfinished deliveries whose endpoint is missing and was not deleted
// by the store. It returns the number of deliveries for each lane.
func (t *RestoreTarget) Lost(ctx context.Context) (map[dispatcher.Lane]int64, error) {
	lost := map[dispatcher.Lane]int64{}
	for after, more := "", true; more; more = after != "" {
		states, next, err := t.store.LaneReader.LanesHere(ctx, lanesAtOnce, after)
		if err != nil {
			return nil, err
		}
		after = next
		states = slices.DeleteFunc(states, func(s dispatcher.LaneState) bool { return !s.Lane.IsEndpoint() || s.InFlight+s.Waiting == 0 })
		ids := make([]string, len(states))
		for i := range states {
			ids[i] = string(states[i].Lane)
		}
		stored, _, err := t.store.Endpoints.StoredByID(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i := range stored {
			if !stored[i].There() && stored[i].End == 0 {
				lost[states[i].Lane] = int64(states[i].InFlight + states[i].Waiting)
			}
		}
	}
	return lost, nil
}

// putEndpoint puts an endpoint back and returns the limits of its lane. If the endpoints were not
// lost, only lanes lack their limits. It then returns the limits of the present endpoint. Version 0
// means that no limits must be written.
func (t *RestoreTarget) putEndpoint(ctx context.Context, e *archive.Endpoint, lane dispatcher.LaneLimits) (l dispatcher.LaneLimits, fresh bool, err error) {
	if t.loss == nil || t.loss.Home {
		return t.store.Endpoints.PutBack(ctx, home.EndpointBack{ID: e.ID, Version: e.Version, Record: e.Record, Deleted: e.Deleted, Lane: lane})
	}
	if e.Deleted || !t.fills(t.conn.PartitionOf(dispatcher.Lane(e.ID))) {
		return l, false, nil
	}
	found, err := t.store.Endpoints.Endpoints(ctx, []string{e.ID})
	if err != nil || found[0] == nil {
		return l, false, err
	}
	return found[0].Limits(), false, nil
}

// OpensEndpoint reports whether the store has the key of an endpoint's record.
func (t *RestoreTarget) OpensEndpoint(e *archive.Endpoint) bool {
	id := home.EndpointSealedBy(string(e.Record))
	return id == home.NoKey || t.store.Endpoints.Box().Has(id)
}

// Opens reports whether the store has the key of the headers of a delivery's message.
func (t *RestoreTarget) Opens(o *archive.Open) bool {
	return !errors.Is(conn.CheckHeaders(o.ID.Message, string(o.Head), t.store.Endpoints.Box()), dispatcher.ErrSealed)
}
