package archive

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
)

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
