package archive

import (
	"context"
	"errors"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

// lostMessage returns the archive's copy of a message that the store lost, or of which it has
// only some deliveries. err is the store's error.
func (l *Lookup) lostMessage(ctx context.Context, left dispatcher.MessageView, err error) (dispatcher.MessageView, error) {
	found, failed := l.find(ctx, left.Message.ID)
	if failed != nil { // a restore repairs it
		return dispatcher.MessageView{}, err
	}
	kept, failed := l.view(ctx, found)
	if failed != nil || left.Message.Topic == "" {
		return kept, failed
	}
	for i := range kept.Deliveries {
		d := &kept.Deliveries[i]
		if !slices.ContainsFunc(left.Deliveries, func(live dispatcher.Delivery) bool { return live.ID == d.ID }) {
			left.Deliveries = append(left.Deliveries, *d)
		}
	}
	return left, nil
}

// Deliveries returns a page of deliveries. If the store lost some of them, their ends come
// from the archive. Unfinished deliveries must be restored first.
func (l *Lookup) Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	page, err := l.deliveries(ctx, f)
	var lost *dispatcher.Emptied
	if !errors.As(err, &lost) || !findable(&f) || !onlyEnds(&f) {
		return page, err
	}
	f.Left = true
	page, failed := l.deliveries(ctx, f)
	if errors.Is(failed, dispatcher.ErrArchiveAway) {
		return dispatcher.Page{}, err
	}
	return page, failed
}

// onlyEnds reports whether a filter includes only ends.
func onlyEnds(f *dispatcher.Filter) bool {
	return len(f.Statuses) == 0 && len(f.Reasons) > 0 || len(f.Statuses) > 0 && len(endsOf(f)) == len(f.Statuses)
}

// Ended returns a page of the finished deliveries of an endpoint, oldest first. If the store
// lost some of them, they come from the archive.
func (l *Lookup) Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error) {
	page, err := l.ended(ctx, name, f)
	var lost *dispatcher.Emptied
	if !errors.As(err, &lost) || lost.Home {
		return page, err
	}
	f.Left = true
	page, failed := l.ended(ctx, name, f)
	if errors.Is(failed, dispatcher.ErrArchiveAway) {
		return dispatcher.EndedPage{}, err
	}
	return page, failed
}
