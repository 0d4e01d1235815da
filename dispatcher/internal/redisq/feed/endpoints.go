package feed

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Endpoints reads a page of the records of all endpoints.
func (f *Feed) Endpoints(ctx context.Context, cursor string) (page []archive.Endpoint, next string, err error) {
	stored, home, next, err := f.store.StoredPage(ctx, cursor)
	if err != nil {
		return nil, "", err
	}
	for i := range stored {
		if e, ok := recordOf(&stored[i], home); ok {
			page = append(page, e)
		}
	}
	return page, next, nil
}

// recordOf is an endpoint that is there, or was deleted a short time ago; else ok is false.
func recordOf(s *endpoints.Stored, home string) (e archive.Endpoint, ok bool) {
	e = archive.Endpoint{ID: s.ID, Home: home, Version: s.Version, Record: s.Record}
	if !s.There() && s.End > 0 {
		e.Version, e.Deleted = s.End, true
	}
	return e, e.Version > 0
}

// Deleted answers which of some endpoints, as an archive has them, the store deleted. It
// may have forgotten that by now.
func (f *Feed) Deleted(ctx context.Context, kept []archive.Endpoint) (gone []archive.Endpoint, err error) {
	ids := make([]string, len(kept))
	for i := range kept {
		ids[i] = kept[i].ID
	}
	stored, home, err := f.store.StoredByID(ctx, ids)
	if err != nil || home != f.conn.ID() {
		return nil, err
	}
	for i := range stored {
		if s := &stored[i]; !s.There() && kept[i].Home == home {
			gone = append(gone, archive.Endpoint{ID: s.ID, Home: home, Version: max(s.End, kept[i].Version), Deleted: true})
		}
	}
	return gone, nil
}

// Holds reads which lanes of a partition are paused, without those of endpoints.
func (f *Feed) Holds(ctx context.Context, partition int, kept []archive.Hold) (h archive.Holds, err error) {
	met := map[dispatcher.Lane]bool{}
	var lanes []dispatcher.Lane
	add := func(lane dispatcher.Lane) {
		if !met[lane] && f.logs(partition, lane) {
			met[lane], lanes = true, append(lanes, lane)
		}
	}
	for _, k := range kept {
		add(k.Lane)
	}
	add(dispatcher.AllLanes)
	for cursor := strconv.Itoa(partition) + "-"; ; {
		page, next, err := f.store.HeldLanes(ctx, cursor)
		if err != nil {
			return h, err
		}
		for _, l := range page {
			if l.Held == dispatcher.HeldPaused {
				add(l.Lane)
			}
		}
		if cursor = next; !strings.HasPrefix(cursor, strconv.Itoa(partition)+"-") {
			break
		}
	}
	return f.holdsOf(ctx, partition, lanes)
}

// logs reports whether a partition has the log of a lane's pauses.
func (f *Feed) logs(partition int, lane dispatcher.Lane) bool {
	if lane == dispatcher.AllLanes {
		return partition == 0
	}
	return !lane.IsEndpoint() && keys.Partition(string(lane), f.conn.Partitions()) == partition
}

// holdsOf reads whether some lanes of a partition are paused.
func (f *Feed) holdsOf(ctx context.Context, partition int, lanes []dispatcher.Lane) (h archive.Holds, err error) {
	h.Partition = partition
	names := make([]string, len(lanes))
	for i, lane := range lanes {
		names[i] = string(lane)
	}
	for from := 0; from < len(names) || h.Epoch == ""; from += holdsAtOnce {
		some := names[min(from, len(names)):min(from+holdsAtOnce, len(names))]
		var held, named *redis.SliceCmd
		var restoring *redis.BoolCmd
		h.Epoch, err = f.readAt(ctx, "read what is held", partition, func(p redis.Pipeliner) {
			restoring = p.HExists(ctx, f.conn.Tag(partition)+keys.Archive, "restoring")
			if len(some) > 0 {
				held, named = p.HMGet(ctx, f.conn.Tag(partition)+keys.Held, some...), p.HMGet(ctx, f.conn.Tag(partition)+keys.LaneNames, some...)
			}
		})
		if err != nil || len(some) == 0 {
			return h, inPartition(partition, err)
		}
		for i, lane := range some {
			if lane == string(dispatcher.AllLanes) && restoring.Val() {
				continue // a restore holds all lanes for a while, and logs how it leaves them
			}
			text, _ := held.Val()[i].(string)
			name, _ := named.Val()[i].(string)
			one := archive.Hold{Lane: dispatcher.Lane(lane), Epoch: h.Epoch, Resumed: true}
			if l, ok := redisq.ParseHeld(text); ok && l.Held == dispatcher.HeldPaused {
				one = archive.Hold{Lane: one.Lane, Epoch: h.Epoch, Name: name, Since: l.Since, By: l.By}
			}
			h.Lanes = append(h.Lanes, one)
		}
	}
	return h, nil
}

// holdsAtOnce are lanes of one round trip: with the longest names 2.4 KB each.
const holdsAtOnce = 256

// change is a line of the log that tells that an endpoint changed, or a lane was paused or
// resumed.
type change struct {
	lane    dispatcher.Lane
	version int64 // of the endpoint
	deleted bool
	at      time.Time
	before  reached // what stands before it in the log
}

// reached is how far a passage came.
type reached struct {
	to               archive.Position
	accepted, events int
	size             int64
	tailLost         bool
}

// mostChanges bounds those of one part: with records of 32 KiB they have 4 MiB.
const mostChanges = 128

// changed takes in such a line.
func (r *passage) changed(text string, at time.Time, before reached) {
	c := change{at: at, before: before}
	lane, rest, _ := strings.Cut(text, " ")
	version, held, ok := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(version, 10, 64)
	if !ok || err != nil {
		return // no script writes such a line
	}
	c.lane, c.version, c.deleted = dispatcher.Lane(lane), n, held == "x"
	r.changes = append(r.changes, c)
}

// changesNow reads the endpoints and lanes that changed, as they are by now. The part ends
// before a change that its endpoint does not have yet.
func (r *passage) changesNow(ctx context.Context) error {
	var ids []string
	var lanes []dispatcher.Lane
	met := map[dispatcher.Lane]bool{}
	for i := range r.changes {
		lane := r.changes[i].lane
		switch {
		case met[lane]:
		case lane.IsEndpoint():
			ids = append(ids, string(lane))
		default:
			lanes = append(lanes, lane)
		}
		met[lane] = true
	}
	if len(ids) > 0 {
		if err := r.endpointsNow(ctx, ids); err != nil {
			return err
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	h, err := r.f.holdsOf(ctx, r.part.Partition, lanes)
	r.part.Epoch, r.part.Holds = h.Epoch, h.Lanes
	return err
}

// endpointsNow reads the records of endpoints that changed.
func (r *passage) endpointsNow(ctx context.Context, ids []string) error {
	stored, home, err := r.f.store.StoredByID(ctx, ids)
	if err != nil {
		return err
	}
	now := map[dispatcher.Lane]archive.Endpoint{}
	if home == r.f.conn.ID() { // else the records, or what is left of them, are of other data
		for i := range stored {
			s := &stored[i]
			e, ok := recordOf(s, home)
			if !ok && !s.There() { // a deletion that was forgotten already: its line says it
				e.Deleted = true
			}
			now[dispatcher.Lane(s.ID)] = e
		}
	}
	var early []int // changes that their endpoints do not have
	for i := range r.changes {
		c := &r.changes[i]
		e, known := now[c.lane]
		switch {
		case !c.lane.IsEndpoint():
		case known && e.Version >= c.version:
			r.part.Endpoints = append(r.part.Endpoints, e)
		case known && e.Deleted && c.deleted:
			e.Version = c.version
			r.part.Endpoints = append(r.part.Endpoints, e)
		default:
			early = append(early, i)
		}
	}
	return r.wait(ctx, early)
}

// wait ends the part before the first of some changes that their endpoints may have soon.
// A change is passed over once its lane has another version or none: that one is in the
// log too, or the change was never made. So it is after archive.WaitFor.
func (r *passage) wait(ctx context.Context, early []int) error {
	if len(early) == 0 {
		return nil
	}
	lanes := make([]string, len(early))
	for k, i := range early {
		lanes[k] = string(r.changes[i].lane)
	}
	var limits *redis.SliceCmd
	key := r.f.conn.Tag(r.part.Partition) + keys.Limits
	b := conn.Batch{Doing: "read limits", Clock: true, Calls: []conn.Call{{Partition: r.part.Partition, Fill: func(p redis.Pipeliner) {
		limits = p.HMGet(ctx, key, lanes...)
	}}}}
	done := r.f.conn.Send(ctx, b)[0]
	if done.Err != nil {
		return done.Err
	}
	for k, i := range early {
		c := &r.changes[i]
		text, _ := limits.Val()[k].(string)
		if l, err := redisq.ParseLimits(text); text == "" || err != nil || l.Version != c.version || done.Now.Sub(c.at) > archive.WaitFor {
			continue
		}
		r.cutBefore(c.before)
		return nil
	}
	return nil
}

// cutBefore leaves in the part what was read up to there.
func (r *passage) cutBefore(b reached) {
	p := &r.part
	p.To, p.TailLost, p.Waits, p.More = b.to, b.tailLost, true, false
	p.Accepted, p.Events, r.size = p.Accepted[:b.accepted], p.Events[:b.events], b.size
}
