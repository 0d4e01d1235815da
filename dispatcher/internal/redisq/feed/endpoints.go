package feed

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// endpointsAtOnce are records of one page, of 32 KiB at most.
const endpointsAtOnce = 32

// ofGone begins the cursors of pages of endpoints that were deleted. They come behind
// the others, so that one that is deleted meanwhile is met.
const ofGone = "gone "

// Endpoints reads a page of the records of all endpoints, and of which were deleted.
func (f *Feed) Endpoints(ctx context.Context, cursor string) (page []archive.Endpoint, next string, err error) {
	text, gone := strings.CutPrefix(cursor, ofGone)
	at, err := conn.ParsePage(text)
	if err != nil {
		return nil, "", err
	}
	key := keys.Home(f.conn.Project()) + keys.Endpoints
	if gone {
		key = keys.Home(f.conn.Project()) + keys.Gone
	}
	var scan *redis.ScanCmd
	err = f.conn.At(ctx, "read "+key, conn.Home, func(p redis.Pipeliner) { scan = p.HScan(ctx, key, at, "", endpointsAtOnce) })
	if err != nil {
		return nil, "", err
	}
	found, at := scan.Val()
	for i := 0; i+1 < len(found); i += 2 {
		version, record, ok := strings.Cut(found[i+1], " ")
		if n, err := strconv.ParseInt(version, 10, 64); err == nil && (ok || gone) {
			page = append(page, archive.Endpoint{ID: found[i], Version: n, Record: []byte(record), Deleted: gone})
		}
	}
	switch {
	case at == 0 && gone:
		return page, "", nil
	case at == 0:
		return page, ofGone, nil
	case gone:
		return page, ofGone + conn.PageText(at), nil
	}
	return page, conn.PageText(at), nil
}

// Holds reads the lanes that people hold, but those of endpoints, whose records say it.
// Behind that it counts the records of endpoints.
func (f *Feed) Holds(ctx context.Context) (holds []archive.Hold, endpoints int, err error) {
	var all *redis.StringCmd
	err = f.conn.At(ctx, "read what is held", 0, func(p redis.Pipeliner) { all = p.HGet(ctx, f.conn.Tag(0)+keys.Held, string(dispatcher.AllLanes)) })
	if err != nil {
		return nil, 0, err
	}
	if h, ok := redisq.ParseHeld(all.Val()); ok {
		holds = append(holds, archive.Hold{Lane: dispatcher.AllLanes, Since: h.Since, By: h.By})
	}
	for cursor := ""; ; {
		lanes, next, err := f.store.HeldLanes(ctx, cursor)
		if err != nil {
			return nil, 0, err
		}
		for _, l := range lanes {
			if l.Held == dispatcher.HeldPaused && !strings.HasPrefix(string(l.Lane), "ep_") {
				holds = append(holds, archive.Hold{Lane: l.Lane, Since: l.Since, By: l.By})
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	var living, gone *redis.IntCmd
	home := keys.Home(f.conn.Project())
	err = f.conn.At(ctx, "count endpoints", conn.Home, func(p redis.Pipeliner) {
		living, gone = p.HLen(ctx, home+keys.Endpoints), p.HLen(ctx, home+keys.Gone)
	})
	return holds, int(conn.Value(living) + conn.Value(gone)), err
}
