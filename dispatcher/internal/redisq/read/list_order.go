package read

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/shelf"
)

// shelved reads a page of a list of some lanes, tenants or subjects, from their index. If that is
// too large, or too large for the order, it walks the statuses. Of a few lanes a name of another
// one costs no more than that then. A walk ends as it began, since a place in one order is none
// in another.
func (s *Deliveries) shelved(ctx context.Context, f dispatcher.Filter) (page dispatcher.Page, err error) {
	at, err := s.listAt(ctx, &f)
	if err != nil {
		return page, err
	}
	if f.Cursor != "" && !at.placed {
		return s.listOf(ctx, f)
	}
	if f.Order != dispatcher.OrderAccepted {
		var whole bool
		if page, whole, err = s.shelf.Whole(ctx, f, at.anyPlace()); whole || err != nil && !errors.Is(err, shelf.ErrMore) {
			return page, err
		}
		return s.listOf(ctx, f)
	}
	page, err = s.shelf.Accepted(ctx, f)
	switch {
	case !errors.Is(err, shelf.ErrMore):
		return page, err
	case f.Cursor != "" || f.From != nil:
		return page, fmt.Errorf("%w: %w", dispatcher.ErrCursor, err)
	}
	return s.listOf(ctx, f)
}

// List reads a page. It is an error if a part of the queue that may have more of it was
// emptied, unless the filter asks for what is left.
func (s *Deliveries) List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	read := s.listOf
	if f.Order != "" && f.OfSome() {
		read = s.shelved
	}
	if f.Left {
		return read(ctx, f)
	}
	err := s.conn.LostOf(f.Lanes)
	var page dispatcher.Page
	if err == nil {
		page, err = read(ctx, f)
	}
	if err == nil && len(page.Deliveries) == 0 && page.Next == "" {
		err = s.conn.IntactOf(ctx, f.Lanes)
	}
	if conn.IsLoss(err) {
		return dispatcher.Page{}, fmt.Errorf("list: %w", err)
	}
	return page, err
}

// ListPlace is the place behind which a page of a list by acceptance begins; nil: at the newest.
func (s *Deliveries) ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	return s.shelf.ListPlace(ctx, f)
}

// ListCursor is the cursor of such a list whose page ended at a place.
func (s *Deliveries) ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return s.shelf.ListCursor(ctx, f, at)
}
