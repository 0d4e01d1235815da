package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Limits of a page. A page that finds few matches ends early and returns where it stopped.
const (
	endsChunk = 500 // rows of one query
	endsPart  = 2   // a page starts no query after 1/endsPart of the timeout
)

// endsMost is how many rows are read for a page. Tests set it lower.
var endsMost = 5000

// ended selects the kinds with which a delivery ends, as the indexes do. Forgotten is not
// one of them: its delivery ended before, or only its message is listed.
const ended = "kind in ('d', 'x', 'c', '?')"

// Ends reads a page of finished deliveries, month by month. It queries by one indexed
// column, subject, lane or tenant, and filters the rest in Go.
func (r *Reader) Ends(ctx context.Context, f archive.Filter) (page archive.EndPage, err error) {
	q := endsQuery{f: f, page: &page, from: f.Since, to: f.Until, within: r.timeout / endsPart}
	switch {
	case len(f.Subjects)+len(f.SubjectLike) > 0:
		q.by = foundBy
		for _, subject := range slices.Concat(f.Subjects, f.SubjectLike) {
			q.values = append(q.values, dispatcher.SubjectToken(subject), subject)
		}
	case len(f.Lanes) > 0:
		q.by, q.values = "lane", words(f.Lanes)
	default:
		q.by, q.values = "tenant", f.Tenants
	}
	if q.to.IsZero() {
		q.to = lastMonth.first()
	}
	q.values = slices.Compact(slices.Sorted(slices.Values(q.values)))
	read := q.read
	if f.Accepted {
		read = q.readAccepted
	}
	err = r.query(ctx, "read ends", read)
	if err != nil {
		return archive.EndPage{}, err
	}
	return page, nil
}

func words[T ~string](list []T) []string {
	texts := make([]string, len(list))
	for i, word := range list {
		texts[i] = string(word)
	}
	return texts
}

// endsQuery is the state of one page.
type endsQuery struct {
	f        archive.Filter
	page     *archive.EndPage
	by       string // the indexed column
	values   []string
	from, to time.Time
	within   time.Duration
	until    time.Time // deadline of the page
	behind   *dispatcher.EndPlace
}

func (q *endsQuery) read(ctx context.Context, s *session) error {
	if err := s.readMonths(ctx); err != nil {
		return err
	}
	q.behind, q.until = q.f.After, time.Now().Add(q.within)
	for i, m := range q.order(s.months) {
		for first, more := i == 0, true; more; first = false {
			if len(q.page.Ends) >= q.f.Limit || !first && (q.page.LookedAt >= endsMost || time.Now().After(q.until)) {
				q.page.Reached = q.behind
				return nil
			}
			var err error
			if more, err = q.chunk(ctx, s, m); err != nil {
				return err
			}
		}
		q.behind = q.edge(m)
	}
	return nil
}

// edge returns the place after all ends of a month.
func (q *endsQuery) edge(m month) *dispatcher.EndPlace {
	if q.f.Oldest {
		return &dispatcher.EndPlace{At: (m + 1).first().Add(-time.Millisecond), ID: "\xff"}
	}
	return &dispatcher.EndPlace{At: m.first()}
}

// order returns the months that may have matching ends, in the order of the list.
func (q *endsQuery) order(ms months) []month {
	list := slices.DeleteFunc(slices.Clone(ms), func(m month) bool {
		from, to := q.span(m, ms)
		return !from.Before(to)
	})
	if !q.f.Oldest {
		slices.Reverse(list)
	}
	return list
}

// span returns the time range to read in a month. Rows with other times, which come from a
// wrong clock, are read with the first and the last month.
func (q *endsQuery) span(m month, ms months) (from, to time.Time) {
	from, to = q.from, q.to
	if m != ms[0] && m.first().After(from) {
		from = m.first()
	}
	if m != ms[len(ms)-1] && (m + 1).first().Before(to) {
		to = (m + 1).first()
	}
	switch at := q.behind; {
	case at == nil:
	case q.f.Oldest && at.At.After(from):
		from = at.At
	case !q.f.Oldest && at.At.Before(to):
		to = at.At.Add(time.Microsecond) // includes the rows of that same time
	}
	return from, to
}

// endName is the name of a delivery. It orders the ends of one millisecond.
const endName = `(lane || ':' || id) collate "C"`

// chunk reads the next rows of a month. It reports whether there may be more.
func (q *endsQuery) chunk(ctx context.Context, s *session, m month) (more bool, err error) {
	direction, behind := "desc", "<"
	if q.f.Oldest {
		direction, behind = "", ">"
	}
	at, name := lastMonth.first(), "" // before all rows
	if q.f.Oldest {
		at = time.Time{}
	}
	if q.behind != nil {
		at, name = q.behind.At, q.behind.ID
	}
	from, to := q.span(m, s.months)
	limit := min(max(2*(q.f.Limit-len(q.page.Ends)), 64), endsChunk)
	sorted := " order by at " + direction + ", " + endName + " " + direction + " limit $7"
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select `+eventColumns+` from unnest($1::text[]) as wanted (value) cross join lateral (
			select * from hookladder.event
			where `+q.by+` = wanted.value collate "C" and month = $2 and `+ended+` and at >= $3 and at < $4
			and (at <> $5 or convert_to(lane || ':' || id, 'UTF8') `+behind+` $6)`+sorted+`) e`+sorted),
		q.values, m.first(), from, to, at, []byte(name), limit) // an id need not be valid text
	if err != nil {
		return false, err
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return false, err
	}
	return q.take(ctx, s, events, len(events) == limit, m)
}

// take adds the matching ends of a chunk to the page. full: there may be more events behind them. Their
// messages are mostly not newer than the month m. It reports whether there may be more ends.
func (q *endsQuery) take(ctx context.Context, s *session, events []archive.Event, full bool, m month) (more bool, err error) {
	if len(events) == 0 {
		return false, nil
	}
	q.page.LookedAt += len(events)
	var some []archive.End
	for i := range events {
		if q.matches(&events[i]) {
			some = append(some, archive.End{Event: events[i]})
		}
	}
	since, err := s.fillMessages(ctx, some, m)
	if err == nil {
		some, err = s.newest(ctx, some, since)
	}
	if err != nil {
		return false, err
	}
	place := q.placeOf(&events[len(events)-1])
	if left := q.f.Limit - len(q.page.Ends); len(some) > left {
		some, full = some[:left], true
		place = q.placeOf(&some[left-1].Event)
	}
	q.behind = &place
	for i := range some {
		if q.f.Accepted {
			some[i].Created = some[i].Accepted // a later message may have the same id
		}
	}
	q.page.Ends = append(q.page.Ends, some...)
	return full, s.fillAttempts(ctx, q.page.Ends[len(q.page.Ends)-len(some):])
}

// placeOf returns the place of an end in the order of the page.
func (q *endsQuery) placeOf(e *archive.Event) dispatcher.EndPlace {
	at := e.At
	if q.f.Accepted {
		at = e.Accepted
	}
	return dispatcher.EndPlace{At: at, ID: e.ID.String()}
}

func (q *endsQuery) matches(e *archive.Event) bool {
	return includes(q.f.Statuses, e.Kind.Status()) && includes(q.f.Reasons, e.Reason) && includes(q.f.Tenants, e.Tenant) && includes(q.f.Subjects, e.Subject) &&
		(len(q.f.SubjectLike) == 0 || dispatcher.SubjectLike(q.f.SubjectLike, e.Subject)) &&
		includes(q.f.Lanes, e.ID.Lane) &&
		(len(q.f.Topics) == 0 || slices.ContainsFunc(q.f.Topics, func(pattern string) bool { return dispatcher.MatchTopic(pattern, e.Topic) }))
}

// includes reports whether a filter's list contains a value. An empty list contains all.
func includes[T comparable](asked []T, has T) bool {
	return len(asked) == 0 || slices.Contains(asked, has)
}

// newest removes the ends of deliveries that were resent later or ended again. It fills in
// the earlier state of the others. Their events are not older than month since.
func (s *session) newest(ctx context.Context, some []archive.End, since month) ([]archive.End, error) {
	if len(some) == 0 {
		return nil, nil
	}
	type past struct {
		pos       int64
		base      *int
		delivered *time.Time
	}
	all := make(map[dispatcher.DeliveryID]past, len(some))
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select id, lane, max(pos), max(n) filter (where kind = 's' and mark = $2), min(at) filter (where kind = 'd')
		from hookladder.event where id = any($1) and month >= $3 and (`+ended+` or kind = 's') group by id, lane`), messagesOf(some), markAnew, since.first())
	if err != nil {
		return nil, err
	}
	var id dispatcher.DeliveryID
	var p past
	_, err = pgx.ForEachRow(rows, []any{&id.Message, &id.Lane, &p.pos, &p.base, &p.delivered}, func() error {
		all[id] = p
		return nil
	})
	some = slices.DeleteFunc(some, func(e archive.End) bool { return all[e.ID].pos > e.Pos })
	for i := range some {
		p := all[some[i].ID]
		some[i].Base, some[i].Delivered = value(p.base), value(p.delivered).UTC()
	}
	return some, err
}

func messagesOf(some []archive.End) []string {
	ids := make([]string, len(some))
	for i := range some {
		ids[i] = some[i].ID.Message
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// fillMessages fills in the fields that the messages of a month's ends have. It returns the
// month of the oldest message. Most messages are in the month of their end or the month
// before.
func (s *session) fillMessages(ctx context.Context, some []archive.End, m month) (oldest month, err error) {
	of := map[string][]*archive.End{}
	for i := range some {
		of[some[i].ID.Message] = append(of[some[i].ID.Message], &some[i])
	}
	oldest = m
	for _, span := range [][2]month{{m - 1, m}, {0, lastMonth}} {
		if len(of) == 0 {
			return oldest, nil
		}
		rows, err := s.conn.Query(ctx, s.schema.sql(`
			select distinct on (id) id, created, month, head from hookladder.message
			where id = any($1) and month between $2 and $3 order by id, created desc`),
			slices.Collect(maps.Keys(of)), span[0].first(), span[1].first())
		if err != nil {
			return 0, err
		}
		var id string
		var created, kept time.Time
		var head []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &created, &kept, &head}, func() error {
			for _, e := range of[id] {
				e.Created, e.Head = created.UTC(), head
			}
			delete(of, id)
			oldest = min(oldest, monthOf(created), monthOf(kept))
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	if len(of) > 0 {
		return 0, nil // the month of their first event is unknown
	}
	return oldest, nil
}

// fillAttempts fills in the last attempt of deliveries that ended without one.
func (s *session) fillAttempts(ctx context.Context, some []archive.End) error {
	without := map[dispatcher.DeliveryID]*archive.End{}
	var ids []string
	for i := range some {
		e := &some[i]
		e.LastStatus, e.LastError = e.Attempt.Status, e.Attempt.Error
		if e.Attempt.At.IsZero() && e.Attempt.Number > 0 {
			without[e.ID], ids = e, append(ids, e.ID.Message)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select distinct on (id, lane) id, lane, status, error from hookladder.event
		where id = any($1) and began is not null and kind <> 'l' order by id, lane, pos desc`), ids)
	if err != nil {
		return err
	}
	var id dispatcher.DeliveryID
	var status int
	var fault []byte
	_, err = pgx.ForEachRow(rows, []any{&id.Message, &id.Lane, &status, &fault}, func() error {
		if e := without[id]; e != nil {
			e.LastStatus, e.LastError = status, string(fault)
		}
		return nil
	})
	return err
}

// readAccepted reads a page ordered by acceptance, over all months at once, because a
// delivery may end in a later month than its message was accepted in.
func (q *endsQuery) readAccepted(ctx context.Context, s *session) error {
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

// acceptedOrder orders ends by acceptance, and the ends of one delivery newest first.
const acceptedOrder = " order by accepted desc, " + endName + " desc, partition desc, pos desc limit $6"

// acceptedChunk reads the next rows. It reports whether there may be more.
func (q *endsQuery) acceptedChunk(ctx context.Context, s *session) (more bool, err error) {
	limit := min(max(2*(q.f.Limit-len(q.page.Ends)), 64), endsChunk)
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select `+eventColumns+` from unnest($1::text[]) as wanted (value) cross join lateral (
			select * from hookladder.event
			where `+q.by+` = wanted.value collate "C" and `+ended+` and accepted >= $2 and accepted < $3 and accepted <= $4
			and (accepted < $4 or convert_to(lane || ':' || id, 'UTF8') < $5)`+acceptedOrder+`) e`+acceptedOrder),
		q.values, q.from, q.to, q.behind.At, []byte(q.behind.ID), limit) // an id need not be valid text
	if err != nil {
		return false, err
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil || len(events) == 0 {
		return false, err
	}
	return q.take(ctx, s, events, len(events) == limit, monthOf(events[0].Accepted))
}
