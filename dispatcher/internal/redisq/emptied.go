package redisq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// refuseLost refuses the entries that need data which were lost. Notices of the store
// itself are taken, since they report the loss. A fan-out is refused as a whole.
func (s *Store) refuseLost(batch []dispatcher.Entry, loss *dispatcher.Emptied, out []dispatcher.ScheduleResult) {
	for i := range batch {
		e := &batch[i]
		if !e.Message.OfStore() && s.needsLost(e, loss) {
			out[i].Err = fmt.Errorf("message %s: %w", e.Message.ID, loss)
		}
	}
}

func (s *Store) needsLost(e *dispatcher.Entry, loss *dispatcher.Emptied) bool {
	if loss.Home && (loss.Archived || e.Fan) {
		return true
	}
	for _, lane := range e.Lanes {
		if loss.Home && lane.IsEndpoint() || loss.Has(s.partition(lane)) {
			return true
		}
	}
	return false
}

// emptiedWord begins schedule's answer where a partition has another epoch than it was
// told.
const emptiedWord = "EMPTIED"

// lostIn finds out what was lost where schedule answered so. Where it was restored or
// given up meanwhile, the error stays one of a call that may be repeated.
func (s *Store) lostIn(ctx context.Context, err error) error {
	if err == nil || !strings.HasPrefix(conn.Word(err), emptiedWord) {
		return err
	}
	if failed := s.conn.Verify(ctx); failed != nil {
		return failed
	}
	if loss := s.conn.Loss(); loss != nil {
		return fmt.Errorf("schedule: %w", loss)
	}
	return err
}

func isLoss(err error) bool {
	var loss *dispatcher.Emptied
	return errors.As(err, &loss)
}

// Intact makes sure, after nothing was found, that the store still has the data with
// which this instance began. It asks home and the partitions of these lanes; without
// lanes, all partitions.
func (s *Store) Intact(ctx context.Context, lanes ...dispatcher.Lane) error {
	in := s.all()
	if len(lanes) > 0 {
		in = in[:0]
		for _, lane := range lanes {
			in = append(in, s.partition(lane))
		}
	}
	return s.conn.Intact(ctx, in...)
}

// Emptied is what was lost, and neither restored nor given up; nil: nothing.
func (s *Store) Emptied() *dispatcher.Emptied { return s.conn.Loss() }

// List reads a page. Where a part of the queue was emptied a page would not be whole, and
// an empty one says nothing.
func (s *Store) List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	err := s.conn.LostPart()
	var page dispatcher.Page
	if err == nil {
		page, err = s.list(ctx, f)
	}
	if err == nil && len(page.Deliveries) == 0 && page.Next == "" {
		err = s.conn.IntactAll(ctx)
	}
	if isLoss(err) {
		return dispatcher.Page{}, fmt.Errorf("list: %w", err)
	}
	return page, err
}
