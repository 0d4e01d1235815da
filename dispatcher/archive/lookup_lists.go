package archive

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
)

// deliveries returns a page of deliveries. First come unfinished deliveries, which only the
// store has. Then come the ends of both, in one order.
func (l *Lookup) deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	if !findable(&f) {
		page, err := l.live.Deliveries(ctx, f)
		if err != nil {
			return page, err
		}
		r, err := l.storeReach(ctx, &f)
		page.CompleteSince = r.since()
		return page, err
	}
	if f.Order == dispatcher.OrderAccepted {
		return l.accepted(ctx, f)
	}
	at, ends, err := l.atEnds(ctx, &f)
	if err != nil {
		return dispatcher.Page{}, err
	}
	var page dispatcher.Page
	if !ends {
		part := f
		part.Part = dispatcher.PartUnfinished
		if page, err = l.live.Deliveries(ctx, part); err != nil {
			return page, err
		}
	}
	if page.Next != "" || len(page.Deliveries) >= f.Limit {
		r, err := l.reach(ctx, endsOf(&f))
		page.CompleteSince = r.since()
		if err == nil && page.Next == "" {
			page.Next, err = l.cursors.SealCursor(ctx, endsName(&f), nil)
		}
		return page, err
	}
	rest := f
	rest.Limit -= len(page.Deliveries)
	ended, err := l.ends(ctx, rest, at)
	if err != nil {
		return dispatcher.Page{}, err
	}
	page.Deliveries, page.LookedAt = append(page.Deliveries, ended.Deliveries...), page.LookedAt+ended.LookedAt
	page.CompleteSince = ended.CompleteSince
	if ended.Reached != nil {
		page.Next, err = l.cursors.SealCursor(ctx, endsName(&f), ended.Reached)
	}
	return page, err
}

// storeReach returns the reach of a list from the store alone. Unfinished deliveries are never
// deleted.
func (l *Lookup) storeReach(ctx context.Context, f *dispatcher.Filter) (r reach, err error) {
	r.away = true
	if statuses := endsOf(f); len(statuses) > 0 {
		var forgotten dispatcher.Forgotten
		forgotten, err = l.store.Forgotten(ctx)
		r.forgotten = forgotten.Since(statuses)
	}
	return r, err
}

// findable reports whether the archive has an index for a filter and its order, and may have
// matching ends.
func findable(f *dispatcher.Filter) bool {
	return f.OfSome() && len(f.SubjectEnds) == 0 && len(endsOf(f)) > 0
}

// endsOf returns the statuses of ends in a filter.
func endsOf(f *dispatcher.Filter) []dispatcher.Status {
	switch {
	case f.Failed:
		return nil
	case len(f.Statuses) == 0 && len(f.Reasons) > 0:
		return []dispatcher.Status{dispatcher.StatusDead}
	case len(f.Statuses) == 0:
		return dispatcher.EndStatuses()
	}
	return slices.DeleteFunc(slices.Clone(f.Statuses), func(s dispatcher.Status) bool { return !s.Ended() })
}

// ends returns a page of ends behind a place, the newest first.
func (l *Lookup) ends(ctx context.Context, f dispatcher.Filter, from *dispatcher.EndPlace) (dispatcher.Page, error) {
	part := f
	part.Part, part.From, part.Cursor = dispatcher.PartEnded, from, ""
	page, err := l.live.Deliveries(ctx, part)
	if err != nil {
		return page, err
	}
	page.Next = ""
	r, err := l.reach(ctx, endsOf(&f))
	if err != nil {
		return page, err
	}
	if f.Left {
		r.forgotten = time.Now() // the archive may have any end that the store lacks
	}
	oldest := f.Since
	if page.Reached != nil {
		oldest = page.Reached.At
	}
	if r.away && f.Left {
		return page, dispatcher.ErrArchiveAway
	}
	if r.asks(oldest) {
		of := archivedOf(&f)
		of.After = from
		kept, err := l.kept(ctx, of)
		if err != nil {
			return page, err
		}
		if kept == nil && f.Left {
			return page, dispatcher.ErrArchiveAway
		}
		if kept == nil {
			r.away = true
		} else if err := l.merge(ctx, &page, kept, mergeBy{limit: f.Limit, place: placeOf}); err != nil {
			return page, err
		}
	}
	page.CompleteSince = r.since()
	return page, nil
}

// kept queries a page of the archive. nil: it does not respond.
func (l *Lookup) kept(ctx context.Context, f Filter) (*EndPage, error) {
	page, err := l.archive.Ends(ctx, f)
	if err != nil {
		l.logAway(ctx, err)
		return nil, ctx.Err()
	}
	return &page, nil
}

// mergeBy has the size and the order of a page.
type mergeBy struct {
	limit int
	place func(*dispatcher.Delivery) dispatcher.EndPlace
}

// merge merges the archive's page into the store's. Each has a last place, and the result is
// complete up to the nearer one.
func (l *Lookup) merge(ctx context.Context, page *dispatcher.Page, kept *EndPage, by mergeBy) error {
	added, err := l.added(ctx, page.Deliveries, kept.Ends)
	if err != nil {
		return err
	}
	page.LookedAt += kept.LookedAt
	reached := page.Reached
	if reached == nil || kept.Reached != nil && kept.Reached.Compare(*reached) > 0 {
		reached = cmp.Or(kept.Reached, reached)
	}
	list := append(page.Deliveries, added...)
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int { return by.place(&b).Compare(by.place(&a)) })
	if reached != nil {
		list = slices.DeleteFunc(list, func(d dispatcher.Delivery) bool { return by.place(&d).Compare(*reached) < 0 })
	}
	if len(list) > by.limit {
		list = list[:by.limit]
		last := by.place(&list[by.limit-1])
		reached = &last
	}
	page.Deliveries, page.Reached = list, reached
	return nil
}

func placeOf(d *dispatcher.Delivery) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: d.Ended, ID: d.ID.String()}
}

// added returns the archive's ends of deliveries that the store does not have. If the store
// has a delivery, its copy is newer.
func (l *Lookup) added(ctx context.Context, live []dispatcher.Delivery, ends []End) ([]dispatcher.Delivery, error) {
	listed := make(map[dispatcher.DeliveryID]bool, len(live))
	for i := range live {
		listed[live[i].ID] = true
	}
	ids := make([]dispatcher.DeliveryID, len(ends))
	for i := range ends {
		ids[i] = ends[i].ID
	}
	has, err := l.store.Has(ctx, ids)
	if err != nil {
		return nil, err
	}
	var list []dispatcher.Delivery
	for i := range ends {
		if !has[i] && !listed[ids[i]] {
			list = append(list, DeliveryOf(&ends[i], l.head(ctx, ids[i].Message, ends[i].Head)))
		}
	}
	return list, l.live.Address(ctx, list)
}

// DeliveryOf converts an end to a delivery of a list. head is the decoded head of its record;
// nil: none.
func DeliveryOf(e *End, head *dispatcher.Message) dispatcher.Delivery {
	if head == nil {
		head = &dispatcher.Message{CreatedAt: e.Created}
	}
	of := life{d: named(e.ID, head)}
	d := &of.d
	d.Topic, d.Tenant, d.Subject, d.Created = e.Topic, e.Tenant, e.Subject, cmp.Or(e.Created, d.Created)
	of.end(&e.Event, e.Kind.Status())
	d.Attempts, d.LastStatus, d.LastError = e.Attempt.Number, e.LastStatus, cmp.Or(d.LastError, e.LastError)
	d.Climbed, d.LadderFrom = max(d.Attempts-e.Base, 0), e.Base+1
	if d.Delivered = e.Delivered; d.ID.Lane.IsQueue() {
		d.LastStatus = 0
	}
	return *d
}

// ended returns a page of the finished deliveries of an endpoint, oldest first. The cursor of
// the next page is the same as without an archive.
func (l *Lookup) ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error) {
	page, err := l.live.Ended(ctx, name, f)
	if err != nil {
		return page, err
	}
	r := reach{forgotten: page.CompleteSince}
	if r.archived, err = l.archive.Since(ctx); err != nil {
		l.logAway(ctx, err)
		r.away = true
	}
	if f.Left {
		r.forgotten = time.Now() // the archive may have any end that the store lacks
	}
	begins := page.From.At
	if f.Since.After(begins) {
		begins = f.Since
	}
	if r.away && f.Left {
		return page, dispatcher.ErrArchiveAway
	}
	if r.asks(begins) {
		f.Lane = page.Lane
		kept, err := l.kept(ctx, endedFilter(f, page.From))
		if err != nil {
			return page, err
		}
		if kept == nil && f.Left {
			return page, dispatcher.ErrArchiveAway
		}
		if kept == nil {
			r.away = true
		} else if err := l.mergeEnded(ctx, &page, kept, f); err != nil {
			return page, err
		}
	}
	page.CompleteSince = r.since()
	return page, ctx.Err()
}

func endedFilter(f dispatcher.EndedFilter, from dispatcher.EndPlace) Filter {
	a := Filter{Lanes: []dispatcher.Lane{f.Lane}, Statuses: f.Statuses, Since: f.Since, Until: f.Until, Limit: f.Limit, Oldest: true}
	if from != (dispatcher.EndPlace{}) {
		a.After = &from
	}
	return a
}

// mergeEnded merges the archive's page into the store's. A delivery that ended in the store's
// current millisecond or later is left for the next page, same as in the store, so none is
// skipped.
func (l *Lookup) mergeEnded(ctx context.Context, page *dispatcher.EndedPage, kept *EndPage, f dispatcher.EndedFilter) error {
	ends := slices.DeleteFunc(kept.Ends, func(e End) bool { return !e.At.Before(page.Now) })
	added, err := l.added(ctx, page.Deliveries, ends)
	if err != nil {
		return err
	}
	page.LookedAt += kept.LookedAt
	var reached *dispatcher.EndPlace
	if page.More {
		reached = &page.Place
	}
	if at := kept.Reached; at != nil && at.At.Before(page.Now) && (reached == nil || at.Compare(*reached) < 0) {
		reached = at
	}
	list := append(page.Deliveries, added...)
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int { return placeOf(&a).Compare(placeOf(&b)) })
	if reached != nil {
		list = slices.DeleteFunc(list, func(d dispatcher.Delivery) bool { return placeOf(&d).Compare(*reached) > 0 })
	}
	if len(list) > f.Limit {
		list = list[:f.Limit]
		last := placeOf(&list[f.Limit-1])
		reached = &last
	}
	place := page.Place
	switch n := len(list); {
	case reached != nil:
		place = *reached
	case n > 0 && placeOf(&list[n-1]).Compare(place) > 0:
		place = placeOf(&list[n-1])
	}
	page.Deliveries, page.More, page.Place = list, reached != nil, place
	page.Resume, err = l.store.EndedCursor(ctx, f, place)
	return err
}

// endsName returns the name of the list of a filter's ends, for its cursors. It does not
// depend on the filter's times.
func endsName(f *dispatcher.Filter) string {
	of := *f
	of.Limit, of.Cursor, of.From, of.Since, of.Until = 0, "", nil, time.Time{}, time.Time{}
	return dispatcher.ListName("ends", of)
}

// atEnds reports whether a filter's cursor is from a page that ended among the ends. It
// returns that place; nil: before the newest. The store reads its own cursors.
func (l *Lookup) atEnds(ctx context.Context, f *dispatcher.Filter) (at *dispatcher.EndPlace, is bool, err error) {
	if f.Cursor == "" {
		return nil, false, nil
	}
	err = l.cursors.OpenCursor(ctx, endsName(f), f.Cursor, &at)
	if errors.Is(err, dispatcher.ErrCursor) {
		return nil, false, nil
	}
	return at, err == nil, err
}

// accepted returns a page of both in the order of acceptance. A delivery has one place in that
// order, even if the store deleted it, so it is on one page only.
func (l *Lookup) accepted(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	from, err := l.store.ListPlace(ctx, f)
	if err != nil {
		return dispatcher.Page{}, err
	}
	before, err := l.store.Forgotten(ctx)
	if err != nil {
		return dispatcher.Page{}, err
	}
	q := acceptedQuery{l: l, f: f, of: archivedOf(&f), from: from}
	q.of.After, q.of.Accepted = from, true
	if err := q.both(ctx, before); err != nil {
		return dispatcher.Page{}, err
	}
	r, after, err := l.reachAnd(ctx, endsOf(&f))
	if err != nil {
		return dispatcher.Page{}, err
	}
	if f.Left {
		r.forgotten = time.Now() // the archive may have any end that the store lacks
	}
	if !q.recent(after) {
		if err := q.join(ctx, after != before); err != nil {
			return q.page, err
		}
		r.away = r.away || q.kept == nil
	}
	q.page.Next, q.page.CompleteSince = "", r.since()
	if q.page.Reached != nil {
		q.page.Next, err = l.store.ListCursor(ctx, f, *q.page.Reached)
	}
	return q.page, err
}

// acceptedQuery queries one page.
type acceptedQuery struct {
	l    *Lookup
	f    dispatcher.Filter
	of   Filter
	from *dispatcher.EndPlace
	page dispatcher.Page // the store's
	kept *EndPage        // nil: the archive did not respond, or its reply was not needed
	left bool            // its reply was not needed
}

// recent reports whether all deliveries that the store deleted are older than its page. Then
// the archive has nothing for the page.
func (q *acceptedQuery) recent(f dispatcher.Forgotten) bool {
	newest := f.Finished
	if f.Dead.After(newest) {
		newest = f.Dead
	}
	return !q.f.Left && q.page.Reached != nil && len(q.page.Deliveries) >= q.f.Limit && q.page.Reached.At.After(newest.Add(edge))
}

// both queries store and archive concurrently. It does not wait for the archive if its reply
// is not needed.
func (q *acceptedQuery) both(ctx context.Context, before dispatcher.Forgotten) error {
	part := q.f
	part.Cursor, part.From = "", q.from
	both, each := errgroup.WithContext(ctx)
	asking, enough := context.WithCancel(each)
	defer enough()
	both.Go(func() (err error) {
		if q.page, err = q.l.live.Deliveries(each, part); err == nil && q.recent(before) {
			enough()
		}
		return err
	})
	both.Go(func() (err error) {
		if q.kept, err = q.l.kept(asking, q.of); each.Err() == nil {
			err = nil
		}
		return err
	})
	err := both.Wait()
	q.left = asking.Err() != nil
	return err
}

// join merges the archive's page into the store's. A delivery that the store deleted in the
// meantime may be in neither page, so join then queries the archive again.
func (q *acceptedQuery) join(ctx context.Context, forgot bool) (err error) {
	if forgot && (q.kept != nil || q.left) {
		if q.kept, err = q.l.kept(ctx, q.of); err != nil {
			return err
		}
	}
	switch {
	case q.kept != nil:
		return q.l.merge(ctx, &q.page, q.kept, mergeBy{limit: q.f.Limit, place: acceptedPlace})
	case q.f.Left:
		return dispatcher.ErrArchiveAway
	}
	return nil
}

// archivedOf returns a filter for the archive.
func archivedOf(f *dispatcher.Filter) Filter {
	return Filter{
		Tenants: f.Tenants, Subjects: f.Subjects, SubjectLike: f.SubjectLike, Lanes: f.Lanes, Topics: f.Topics, Statuses: endsOf(f), Reasons: f.Reasons,
		Since: f.Since, Until: f.Until, Limit: f.Limit,
	}
}

// acceptedPlace returns the place of a delivery in the order of acceptance.
func acceptedPlace(d *dispatcher.Delivery) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: d.Created, ID: d.ID.String()}
}
