package admin

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Endpoints returns a page of the records of all endpoints.
func (f *Feed) Endpoints(ctx context.Context, cursor string) (page []archive.Endpoint, next string, err error) {
	stored, home, next, err := f.store.Endpoints.StoredPage(ctx, cursor)
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

// recordOf returns the record of an endpoint that exists or was deleted a short time ago. Otherwise
// ok is false.
func recordOf(s *home.StoredEndpoint, home string) (e archive.Endpoint, ok bool) {
	e = archive.Endpoint{ID: s.ID, Home: home, Version: s.Version, Record: s.Record}
	if !s.There() && s.End > 0 {
		e.Version, e.Deleted = s.End, true
	}
	return e, e.Version > 0
}

// Deleted returns the endpoints that the store deleted, out of the endpoints of an archive. The
// store may have forgotten a deletion by now.
func (f *Feed) Deleted(ctx context.Context, kept []archive.Endpoint) (gone []archive.Endpoint, err error) {
	ids := make([]string, len(kept))
	for i := range kept {
		ids[i] = kept[i].ID
	}
	stored, home, err := f.store.Endpoints.StoredByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range stored {
		if s := &stored[i]; !s.There() && kept[i].Home == home {
			gone = append(gone, archive.Endpoint{ID: s.ID, Home: home, Version: max(s.End, kept[i].Version), Deleted: true})
		}
	}
	return gone, nil
}

// PausedLanes returns the paused lanes of a partition, without the lanes of endpoints.
func (f *Feed) PausedLanes(ctx context.Context, partition int, kept []archive.PausedLane) (h archive.PausedLanes, err error) {
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
		page, next, err := f.store.LaneReader.StoppedLanes(ctx, cursor)
		if err != nil {
			return h, err
		}
		for _, l := range page {
			if l.Mode == dispatcher.LanePaused {
				add(l.Lane)
			}
		}
		if cursor = next; !strings.HasPrefix(cursor, strconv.Itoa(partition)+"-") {
			break
		}
	}
	return f.holdsOf(ctx, partition, lanes)
}

// logs reports whether a partition logs the pauses of a lane.
func (f *Feed) logs(partition int, lane dispatcher.Lane) bool {
	if lane == dispatcher.AllLanes {
		return partition == 0
	}
	return !lane.IsEndpoint() && f.conn.PartitionOf(lane) == partition
}

// holdsOf reads whether some lanes of a partition are paused.
func (f *Feed) holdsOf(ctx context.Context, partition int, lanes []dispatcher.Lane) (h archive.PausedLanes, err error) {
	h.Partition = partition
	names := make([]string, len(lanes))
	for i, lane := range lanes {
		names[i] = string(lane)
	}
	for from := 0; from < len(names) || h.Epoch == ""; from += holdsAtOnce {
		some := names[min(from, len(names)):min(from+holdsAtOnce, len(names))]
		var stopped, named *redis.SliceCmd
		var restoring *redis.BoolCmd
		about, err := f.readAt(ctx, "read paused lanes", partition, func(p redis.Pipeliner) {
			restoring = p.HExists(ctx, f.conn.Tag(partition)+keys.Archive, "restoring")
			if len(some) > 0 {
				stopped, named = p.HMGet(ctx, f.conn.Tag(partition)+keys.Held, some...), p.HMGet(ctx, f.conn.Tag(partition)+keys.LaneNames, some...)
			}
		})
		h.Epoch = about.epoch
		if err != nil || len(some) == 0 {
			return h, inPartition(partition, err)
		}
		for i, lane := range some {
			if lane == string(dispatcher.AllLanes) && restoring.Val() {
				continue // a restore pauses all lanes for a while, and logs their final state
			}
			text, _ := stopped.Val()[i].(string)
			name, _ := named.Val()[i].(string)
			one := archive.PausedLane{Lane: dispatcher.Lane(lane), Epoch: h.Epoch, Resumed: true}
			if l, ok := conn.ParseStopped(text); ok && l.Mode == dispatcher.LanePaused {
				one = archive.PausedLane{Lane: one.Lane, Epoch: h.Epoch, Name: name, Since: l.Since, By: l.By}
			}
			h.Lanes = append(h.Lanes, one)
		}
	}
	return h, nil
}

// holdsAtOnce is the number of lanes in one round trip. With the longest names a lane has 2.4 KB.
const holdsAtOnce = 256
