package redisq

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// asks reports whether any of some statuses is asked for.
func (l *lister) asks(statuses ...dispatcher.Status) bool {
	if len(l.f.Statuses) == 0 {
		return true
	}
	return slices.ContainsFunc(statuses, func(st dispatcher.Status) bool { return slices.Contains(l.f.Statuses, st) })
}

// strays are the statuses that an index holds only where its lanes have lines,
// or are those of deleted endpoints: to look for them there alone would be to
// read most of it for nothing.
func (l *lister) strays(index string) []dispatcher.Status {
	switch {
	case index == "due" && l.deleted:
		return []dispatcher.Status{dispatcher.StatusCancelled}
	case index == "leases", index == "ready" && len(l.waiting) > 0:
		return []dispatcher.Status{dispatcher.StatusScheduled}
	}
	return nil
}

// survey finds the lanes whose ready lists have to be read, and whether
// anything waits in lanes of deleted endpoints: once, and only for a section
// that has to know.
func (l *lister) survey(ctx context.Context, section string) error {
	whole := l.asks(indexes[sectionReady]["ready"]...)
	needed := section == sectionReady && (whole || l.asks(dispatcher.StatusScheduled)) ||
		section == sectionDue && l.asks(dispatcher.StatusCancelled) && !l.asks(indexes[sectionDue]["due"]...)
	if l.surveyed || !needed {
		return nil
	}
	l.surveyed = true
	byPartition := make(map[int][]string, len(l.s.tags))
	if len(l.f.Lanes) > 0 {
		for _, lane := range l.f.Lanes {
			n := l.s.partition(lane)
			byPartition[n] = append(byPartition[n], string(lane))
		}
	} else {
		err := l.s.eachLane(ctx, func(s laneState) {
			if s.waiting > 0 {
				byPartition[s.partition] = append(byPartition[s.partition], s.lane)
			}
		})
		if err != nil {
			return err
		}
	}
	for n, lanes := range byPartition {
		for chunk := range slices.Chunk(lanes, scanPage) {
			if err := l.choose(ctx, n, chunk, whole); err != nil {
				return err
			}
		}
	}
	slices.Sort(l.waiting)
	l.waiting = slices.Compact(l.waiting)
	return nil
}

// choose takes of some lanes all, or those in which deliveries wait behind others.
func (l *lister) choose(ctx context.Context, partition int, lanes []string, whole bool) error {
	tag := l.s.tags[partition]
	var limits, states *redis.SliceCmd
	err := l.s.at(ctx, "read lanes", partition, func(p redis.Pipeliner) {
		limits, states = p.HMGet(ctx, tag+keyLimits, lanes...), p.HMGet(ctx, tag+keyLane, lanes...)
	})
	if err != nil {
		return err
	}
	for _, text := range limits.Val() {
		text, _ := text.(string)
		l.deleted = l.deleted || strings.HasSuffix(text, helds[dispatcher.HeldDeleted])
	}
	if whole {
		l.waiting = append(l.waiting, lanes...)
		return nil
	}
	for i, text := range states.Val() {
		text, _ := text.(string)
		if f := strings.Fields(text); len(f) >= 7 && f[5] != "0" {
			l.waiting = append(l.waiting, lanes[i])
		}
	}
	return nil
}

// behind goes on in the line behind the entry at which the cursor stands. It
// answers a cursor where the page ends in it; else at is ready to go on.
func (l *lister) behind(ctx context.Context, at *cursor) (*cursor, error) {
	id, _ := dispatcher.ParseDeliveryID(at.name)
	more := at.key != "" && l.asks(dispatcher.StatusScheduled, dispatcher.StatusCancelled)
	for more {
		args := append(slices.Clip(l.names), "behind", string(id.Lane), listChunk, at.last, at.key)
		r := l.s.run(ctx, l.s.scripts.list, "", []job{{partition: l.s.partition(id.Lane), args: args}})[0]
		chunk, err := readListed(r)
		if err != nil {
			return nil, err
		}
		for _, e := range chunk {
			at.last = e.score
			if l.put(e) {
				return at, nil
			}
		}
		more = len(chunk) == listChunk
	}
	at.key, at.last = "", 0
	return nil, nil
}
