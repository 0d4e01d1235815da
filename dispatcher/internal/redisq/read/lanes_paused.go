package read

import (
	"cmp"
	"context"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// paused returns all paused lanes, the last paused first, and whether all are paused.
func (s *LaneReader) paused(ctx context.Context) (list []dispatcher.StoppedLane, all *dispatcher.StoppedLane, err error) {
	err = s.eachStopped(ctx, func(_ int, lane, text string) {
		h, ok := conn.ParseStopped(text)
		switch h.Lane = dispatcher.Lane(lane); {
		case !ok || h.Mode != dispatcher.LanePaused: // doctor reports it
		case h.Lane != dispatcher.AllLanes:
			list = append(list, h)
		case all == nil || h.Since.Before(all.Since): // the partitions were changed one after another
			all = &h
		}
	})
	slices.SortFunc(list, comparePaused)
	return slices.CompactFunc(list, func(a, b dispatcher.StoppedLane) bool { return a.Lane == b.Lane }), all, err
}

func comparePaused(a, b dispatcher.StoppedLane) int {
	return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Lane, b.Lane))
}

// pausedPage returns a page of the paused lanes. next is empty at the end.
func (s *LaneReader) pausedPage(ctx context.Context, limit int, at lanePlace) (states []dispatcher.LaneState, next string, err error) {
	list, all, err := s.paused(ctx)
	if err != nil {
		return nil, "", err
	}
	if at.Lane == "" && all != nil {
		states = append(states, allLanesPaused(all))
	}
	if at.Lane != "" {
		last := dispatcher.StoppedLane{LaneVersion: dispatcher.LaneVersion{Lane: dispatcher.Lane(at.Lane)}, Since: conn.FromMillis(int64(at.Score))}
		from, there := slices.BinarySearchFunc(list, last, comparePaused)
		if list = list[from:]; there {
			list = list[1:]
		}
	}
	list, next, err = conn.CutPage(ctx, s.conn, laneList, list, limit, func(l dispatcher.StoppedLane) lanePlace {
		return lanePlace{Score: float64(conn.ToMillis(l.Since)), Lane: string(l.Lane)}
	})
	if err != nil {
		return nil, "", err
	}
	found, err := s.LaneStates(ctx, lanesOf(list))
	if err != nil {
		return nil, "", err
	}
	for _, st := range found {
		if st.Limits.Mode == dispatcher.LanePaused { // if not, it was resumed in the meantime, and is among the other lanes
			states = append(states, st)
		}
	}
	return states, next, nil
}

func lanesOf(list []dispatcher.StoppedLane) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, len(list))
	for i, h := range list {
		lanes[i] = h.Lane
	}
	return lanes
}

// PausedLanes returns the paused lanes.
func (s *LaneReader) PausedLanes(ctx context.Context, most int) (states []dispatcher.LaneState, total int, err error) {
	list, all, err := s.paused(ctx)
	total = len(list)
	if all != nil {
		states = append(states, allLanesPaused(all))
		total++
	}
	found, readErr := s.LaneStates(ctx, lanesOf(list[:min(most, len(list))]))
	return append(states, found...), total, conn.JoinErrors(err, readErr)
}
