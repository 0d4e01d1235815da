package read

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// wholeMost is the size of shelves that are read whole for a page in another
// order than by acceptance. A delivery takes 16 µs at most, so this is 16 ms of
// Redis.
const wholeMost = 1000

// timeOf returns the time of a delivery in an order.
func timeOf(order dispatcher.Order, d *dispatcher.Delivery) time.Time {
	switch order {
	case dispatcher.OrderEnded:
		return d.Ended
	case dispatcher.OrderDue:
		return d.Due
	}
	return d.Created
}

// Whole returns a page in the order of the ends or of the next attempts, from
// the shelves of a filter. It reports false if the shelves are too large. Then
// the index of the statuses has this order, with the same pages and places.
func (r *ShelfReader) Whole(ctx context.Context, f dispatcher.Filter, from *dispatcher.EndPlace) (page dispatcher.Page, ok bool, err error) {
	q, err := r.query(ctx, f, place{})
	if err != nil {
		return page, false, err
	}
	if ok = !q.older; !q.bySubject {
		ok, err = r.fits(ctx, q.shelves)
	}
	if !ok || err != nil {
		return page, false, err
	}
	f.Limit = input.PageSize(f.Limit, input.MaxPage)
	p := listing{more: true}
	q.f.Limit = math.MaxInt32
	for p.more {
		parts, err := r.read(ctx, &q, &p)
		if err != nil {
			return page, false, fmt.Errorf("list: %w", err)
		}
		p.join(parts, q.f.Limit)
	}
	behind := func(d dispatcher.Delivery) bool {
		return from == nil || orderOf(f.Order, placeIn(f.Order, &d), *from) > 0
	}
	list := slices.DeleteFunc(p.Deliveries, func(d dispatcher.Delivery) bool { return !inPart(f.Part, &d) || !behind(d) })
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int {
		return orderOf(f.Order, placeIn(f.Order, &a), placeIn(f.Order, &b))
	})
	page.LookedAt, page.Deliveries = p.LookedAt, list
	if len(list) > f.Limit {
		page.Deliveries = list[:f.Limit]
		last := placeIn(f.Order, &list[f.Limit-1])
		page.Reached = &last
		page.Next, err = r.ListCursor(ctx, f, last)
	}
	return page, true, err
}

// fits reports whether shelves may be read whole.
func (r *ShelfReader) fits(ctx context.Context, shelves map[int][]string) (bool, error) {
	var calls []conn.Call
	var sizes []*redis.IntCmd
	for n, names := range shelves {
		if len(sizes)+len(names) > wholeMost {
			return false, nil
		}
		begin := len(sizes)
		sizes = append(sizes, make([]*redis.IntCmd, len(names))...)
		calls = append(calls, conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for i, name := range names {
				sizes[begin+i] = p.ZCard(ctx, r.conn.Tag(n)+keys.Shelf+name)
			}
		}})
	}
	for _, a := range r.conn.Send(ctx, conn.Batch{Doing: "read sizes of shelves", Calls: calls}) {
		if a.Err != nil {
			return false, r.conn.InPartition(a.Partition, a.Err)
		}
	}
	all := int64(0)
	for _, size := range sizes {
		all += size.Val()
	}
	return all <= wholeMost, nil
}

// inPart reports whether a delivery is in a part of the list.
func inPart(part dispatcher.ListPart, d *dispatcher.Delivery) bool {
	return part == dispatcher.PartAll || d.Ended.IsZero() == (part == dispatcher.PartUnfinished)
}

// placeIn returns the place of a delivery in an order. An ended delivery that
// has not moved yet has no end time and comes before all others.
func placeIn(order dispatcher.Order, d *dispatcher.Delivery) place {
	at := timeOf(order, d)
	if order == dispatcher.OrderEnded && at.IsZero() {
		at = conn.FromMillis(conn.LatestMillis)
	}
	return place{At: at, ID: d.ID.String()}
}

// orderOf compares places in an order.
func orderOf(order dispatcher.Order, a, b place) int {
	if order == dispatcher.OrderDue {
		return a.Compare(b)
	}
	return b.Compare(a)
}
