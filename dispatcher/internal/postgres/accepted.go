package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// acceptedPlace is where an end is in the order of the acceptance.
func acceptedPlace(e *archive.Event) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: e.Accepted, ID: e.ID.String()}
}

// readAccepted reads a page in the order of the acceptance, over all months at once: a
// delivery may end in a later month than its message was accepted in.
func (q *endsLook) readAccepted(ctx context.Context, s *session) error {
	if q.behind = q.f.After; q.behind == nil {
		q.behind = &dispatcher.EndPlace{At: q.to}
	}
	q.until = time.Now().Add(q.within)
	for first, more := true, true; more; first = false {
		if len(q.page.Ends) >= q.f.Limit || !first && (q.page.LookedAt >= endsMost || time.Now().After(q.until)) {
			q.page.Reached = q.behind
			return nil
		}
		var err error
		if more, err = q.acceptedChunk(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// acceptedOrder orders ends by the acceptance, and those of one delivery the newest first.
const acceptedOrder = " order by accepted desc, " + endName + " desc, partition desc, pos desc limit $6"

// acceptedChunk reads on. It reports whether there may be more.
func (q *endsLook) acceptedChunk(ctx context.Context, s *session) (more bool, err error) {
	limit := min(max(2*(q.f.Limit-len(q.page.Ends)), 64), endsChunk)
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select `+eventColumns+` from unnest($1::text[]) as wanted (value) cross join lateral (
			select * from hookladder.event
			where `+q.by+` = wanted.value collate "C" and `+ended+` and accepted >= $2 and accepted < $3 and accepted <= $4
			and (accepted < $4 or convert_to(lane || ':' || id, 'UTF8') < $5)`+acceptedOrder+`) e`+acceptedOrder),
		q.values, q.from, q.to, q.behind.At, []byte(q.behind.ID), limit) // a place need not be text
	if err != nil {
		return false, err
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil || len(events) == 0 {
		return false, err
	}
	q.page.LookedAt += len(events)
	some := make([]archive.End, 0, len(events))
	for i := range events {
		if q.matches(&events[i]) {
			some = append(some, archive.End{Event: events[i]})
		}
	}
	since, err := s.tellMessages(ctx, some, monthOf(events[0].Accepted))
	if err == nil {
		some, err = s.newest(ctx, some, since)
	}
	if err != nil {
		return false, err
	}
	place := acceptedPlace(&events[len(events)-1])
	q.behind, more = &place, len(events) == limit
	if left := q.f.Limit - len(q.page.Ends); len(some) > left {
		some = some[:left]
		place = acceptedPlace(&some[left-1].Event)
		more = true
	}
	for i := range some {
		some[i].Created = some[i].Accepted // a later message may have had its id
	}
	q.page.Ends = append(q.page.Ends, some...)
	return more, s.tellAttempts(ctx, q.page.Ends[len(q.page.Ends)-len(some):])
}
