// Package restore puts what an archive has back into a store that lost it.
package restore

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/feed"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

//go:embed lua/restore_hold.lua
var holdSrc string

//go:embed lua/restore_known.lua
var knownSrc string

//go:embed lua/restore_put.lua
var putSrc string

// Target is a store into which an archive is put back.
type Target struct {
	store            *redisq.Store
	conn             *conn.Client
	by               string
	loss             *dispatcher.Emptied // nil: nothing counts as lost
	hold, known, put script.Script
}

var _ archive.Target = (*Target)(nil)

// New makes a Target of a store, for the caller of that name.
func New(s *redisq.Store, by string) *Target {
	test := s.Conn().TestClock()
	return &Target{
		store: s, conn: s.Conn(), by: by,
		hold:  script.Make(test, "restore_hold", holdSrc),
		known: script.Make(test, "restore_known", knownSrc),
		put:   script.Make(test, "restore_put", script.Order, script.Expiry, script.Named, putSrc),
	}
}

// all are all partitions.
func (t *Target) all() []int {
	all := make([]int, t.conn.Partitions())
	for n := range all {
		all[n] = n
	}
	return all
}

// partition is where a lane lies.
func (t *Target) partition(lane dispatcher.Lane) int {
	return keys.Partition(string(lane), t.conn.Partitions())
}

// Emptied notes what the store lost by what an archive has, and reports whether it lacks
// something. Then all that follows is about that alone.
func (t *Target) Emptied(ctx context.Context, id string, epochs map[int]string) (bool, error) {
	if err := t.conn.NoteLost(ctx, id, epochs); err != nil {
		return false, err
	}
	t.loss = t.conn.Loss()
	return t.loss != nil, nil
}

// ID is that of the present data.
func (t *Target) ID() string { return t.conn.ID() }

// fills reports whether something is put into a partition: into all where nothing was
// lost, for what a running store lacks besides.
func (t *Target) fills(partition int) bool { return t.loss == nil || t.loss.Has(partition) }

// Epochs are those of the partitions, in their order, and whether all of their log is
// archived.
func (t *Target) Epochs(ctx context.Context) (epochs []string, drained bool, err error) {
	log := feed.New(t.store)
	states, err := log.States(ctx, t.all())
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

// Hold has the store take no message and attempt nothing until Release.
func (t *Target) Hold(ctx context.Context) error {
	if err := t.store.ReadClock(ctx); err != nil { // bodies are staged by it
		return err
	}
	return t.everywhere(ctx, 1)
}

// Release ends that. All lanes are held then if they were before, or if somebody asked
// for it since. What was lost counts as restored.
func (t *Target) Release(ctx context.Context) error {
	if err := t.everywhere(ctx, 0); err != nil {
		return err
	}
	if t.loss != nil {
		return t.store.EndLoss(ctx, t.loss) // and has them look at the log, too
	}
	// The end of the hold is a line in the log. A restore that follows wants it archived. All is restored by
	// now, so it is no error if that can't be asked for: instances look by themselves later.
	_ = feed.New(t.store).Ask(ctx)
	return nil
}

// everywhere calls the script that holds in each partition that is filled.
func (t *Target) everywhere(ctx context.Context, begin int) error {
	calls := slices.DeleteFunc(t.conn.Everywhere([]any{begin}), func(c conn.Call) bool { return !t.fills(c.Partition) })
	var errs []error
	for _, r := range t.conn.Send(ctx, conn.Batch{Script: t.hold, By: t.by, Calls: calls}) {
		errs = append(errs, t.conn.InPartition(r.Partition, r.Err))
	}
	return partitions.Join(errs...)
}

// PutEndpoints puts endpoints back with the limits of their lanes, and what is held.
func (t *Target) PutEndpoints(ctx context.Context, list []archive.Endpoint, holds []archive.PausedLane) (put int, err error) {
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
		if h.Lane != dispatcher.AllLanes && !t.fills(t.partition(h.Lane)) {
			continue
		}
		if _, err := t.store.Limit(ctx, t.by, h.Lane, dispatcher.LaneLimits{Held: dispatcher.HeldPaused, Name: h.Name, By: h.By, Since: h.Since}, false); err != nil {
			return put, fmt.Errorf("hold %s again: %w", h.Lane, err)
		}
	}
	return put, nil
}

// lanesAtOnce is how many lanes are read at a time.
const lanesAtOnce = 256

// Lost are the lanes with unfinished deliveries whose endpoint the store does not have and
// did not delete, and how many that are.
func (t *Target) Lost(ctx context.Context) (map[dispatcher.Lane]int64, error) {
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

// putEndpoint puts an endpoint back, and answers the limits of its lane. Where the
// endpoints were not lost, only lanes lack their limits, which are those of the endpoint
// as it is now. Version 0: there is nothing to write.
func (t *Target) putEndpoint(ctx context.Context, e *archive.Endpoint, lane dispatcher.LaneLimits) (l dispatcher.LaneLimits, fresh bool, err error) {
	if t.loss == nil || t.loss.Home {
		return t.store.Endpoints.PutBack(ctx, endpoints.Back{ID: e.ID, Version: e.Version, Record: e.Record, Deleted: e.Deleted, Lane: lane})
	}
	if e.Deleted || !t.fills(t.partition(dispatcher.Lane(e.ID))) {
		return l, false, nil
	}
	found, err := t.store.Endpoints.Endpoints(ctx, []string{e.ID})
	if err != nil || found[0] == nil {
		return l, false, err
	}
	return found[0].Limits(), false, nil
}
