package read

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// shelved reads a page of a list of some lanes, tenants or subjects, from their index. If the
// index is too large, or too large to sort, it reads by status. With few lanes, a name of
// another lane then costs no more. A list by status continues by status until its end, because
// the two orders have different places.
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
		if page, whole, err = s.shelf.Whole(ctx, f, at.anyPlace()); whole || err != nil && !errors.Is(err, ErrMore) {
			return page, err
		}
		return s.listOf(ctx, f)
	}
	page, err = s.shelf.Accepted(ctx, f)
	switch {
	case !errors.Is(err, ErrMore):
		return page, err
	case f.Cursor != "" || f.From != nil:
		return page, fmt.Errorf("%w: %w", dispatcher.ErrCursor, err)
	}
	return s.listOf(ctx, f)
}

// List returns a page. It returns an error if a part of the queue that may have more entries
// was emptied, unless the filter requests the remaining ones.
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

// ListPlace returns the place after which a page of a list by acceptance begins; nil: at the
// newest.
func (s *Deliveries) ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	return s.shelf.ListPlace(ctx, f)
}

// ListCursor returns the cursor for such a list after a place.
func (s *Deliveries) ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return s.shelf.ListCursor(ctx, f, at)
}
