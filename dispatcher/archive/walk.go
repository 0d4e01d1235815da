package archive

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// A walk compares the unfinished deliveries in the archive with the store's. It finds
// changes that the log does not have: messages from before logging began, and lines that
// were cut. It reads one page between two transactions of the log, so archiving continues
// meanwhile. Two rules keep the page and the log consistent:
//
//   - A page is read after the last part of the log, and written before the next part is
//     read. So a later part has the end of each delivery that ends after the page.
//   - A delivery ends as lost only after the store was queried for it by id, and after the
//     log was read up to that moment.

// compareTime limits the walks of one pass, because archiving waits for them. A page of
// 1,000 deliveries takes some 50 ms.
const compareTime = gatherTime

// runningWalk is the state of a running walk.
type runningWalk struct {
	Walk
	began  time.Time
	cursor string // of the next page
	read   bool   // the last page is read

	records bool // endpoints and paused lanes are compared too

	until  *Position               // the log must be archived up to here before a delivery is lost; nil if unknown
	absent []dispatcher.DeliveryID // deliveries that the store does not have; the log may still have their end

	messages, seen, lost int
}

// gapOf returns the newest gap in a partition's log. If the store's position is after the
// archive's, the archive lost the part between.
func gapOf(h *PartitionLease, s *State) Position {
	gap := newest(h.Gap, s.Gap)
	if s.At.After(h.At) {
		gap = newest(gap, s.At)
	}
	return gap
}

func newest(a, b Position) Position {
	if b.After(a) {
		return b
	}
	return a
}

// walkOf returns the walk that a partition needs, or nil. A gap is closed only by a walk
// that began after it.
func (a *Archiver) walkOf(h *PartitionLease, s *State) *runningWalk {
	gap, w := gapOf(h, s), a.walks[h.Partition]
	switch {
	case !h.Began && !gap.After(h.Walked):
		delete(a.walks, h.Partition) // another instance may have finished it
		return nil
	case w != nil && w.Epoch == h.Epoch:
		return w
	}
	w = &runningWalk{began: time.Now(), Walk: Walk{
		Partition: h.Partition, Epoch: h.Epoch, Name: time.Now().UnixNano(), Gap: gap, Left: 1,
	}}
	a.walks[h.Partition] = w
	return w
}

// compare runs one step of each walk until compareTime is over. It reports whether another
// step can run at once. A step that waits for the log or for the endpoints can't.
func (a *Archiver) compare(ctx context.Context, states []State) (more bool, err error) {
	began, left := time.Now(), 0.0
	var errs []error
	for i := range states {
		h := a.leases[states[i].Partition]
		if h == nil || h.Epoch != states[i].Epoch {
			continue // it has to be leased again
		}
		w := a.walkOf(h, &states[i])
		if w == nil {
			continue
		}
		waits := false
		if time.Since(began) < compareTime {
			var err error
			if waits, err = a.step(ctx, h, &states[i], w); err != nil {
				errs = append(errs, err)
			}
		}
		if a.walks[h.Partition] != nil {
			more, left = more || !waits, left+w.Left
		}
	}
	a.mu.Lock()
	a.status.Comparing = left / float64(max(len(a.leases), 1))
	a.mu.Unlock()
	return more, errors.Join(errs...)
}

// step reads the next page of a walk. After the last page it queries unseen deliveries, and
// then compares endpoints and paused lanes. It reports whether it waits.
func (a *Archiver) step(ctx context.Context, h *PartitionLease, s *State, w *runningWalk) (waits bool, err error) {
	if !w.read {
		return false, a.readPage(ctx, h, w)
	}
	if w.until == nil {
		w.until = &s.Last // the state was read after the last page or query
	}
	if w.until.After(h.At) && s.Last.After(h.At) { // at the log's end nothing more can come, because the end may have been cut
		return true, nil
	}
	if err := a.endLost(ctx, h, w); err != nil {
		return false, err
	}
	ids, err := a.archive.Unseen(ctx, a.o.Name, w.Walk)
	if err != nil {
		return false, err
	}
	if len(ids) > 0 {
		return false, a.queryUnseen(ctx, h, w, ids)
	}
	if !w.records {
		if w.records, err = a.compareRecords(ctx, h, w.Gap); !w.records || err != nil {
			return true, err
		}
	}
	return false, a.endWalk(ctx, h, w)
}

// endLost ends deliveries that neither the store nor the log has.
func (a *Archiver) endLost(ctx context.Context, h *PartitionLease, w *runningWalk) error {
	if len(w.absent) == 0 {
		return nil
	}
	lost, err := a.archive.EndLost(ctx, a.o.Name, w.Walk, h.Last, w.absent)
	if err != nil {
		return err
	}
	a.reportWritten()
	h.Last, w.lost, w.absent = h.Last+int64(lost), w.lost+lost, nil
	a.mu.Lock()
	a.status.Lost += int64(lost)
	a.mu.Unlock()
	return nil
}

// endWalk ends a walk.
func (a *Archiver) endWalk(ctx context.Context, h *PartitionLease, w *runningWalk) error {
	if err := a.archive.EndWalk(ctx, a.o.Name, w.Walk); err != nil {
		return err
	}
	h.Began, h.Walked = false, w.Gap
	delete(a.walks, h.Partition)
	a.o.Log.Info("compared the archive with the store", "partition", h.Partition, "unfinished", w.seen, "lost", w.lost,
		"took_ms", time.Since(w.began).Milliseconds())
	return nil
}

// leftLeast is the remaining share of a walk after its last page.
const leftLeast = 0.01

// readPage reads a page of a walk and stores it.
func (a *Archiver) readPage(ctx context.Context, h *PartitionLease, w *runningWalk) error {
	page, err := a.source.Unfinished(ctx, h.Partition, w.cursor)
	if errors.Is(err, ErrServerChanged) {
		a.o.Log.Info("the store's server was restarted or replaced: the comparison with the archive begins again", "partition", h.Partition)
		w.cursor, w.messages, w.seen, w.Left = "", 0, 0, 1
		return nil
	}
	if err != nil {
		return err
	}
	w.messages += page.Messages
	w.Left = max(leftLeast, 1-float64(w.messages)/float64(max(page.Total, 1)))
	if err := a.storePage(ctx, h, w, &page); err != nil {
		return err
	}
	w.seen += len(page.Open)
	w.cursor, w.read = page.Next, page.Next == ""
	return nil
}

// storePage stores a page of a walk.
func (a *Archiver) storePage(ctx context.Context, h *PartitionLease, w *runningWalk, page *Page) error {
	if page.Epoch != h.Epoch {
		return ErrMoved // it was emptied in the meantime
	}
	if len(page.Open) == 0 {
		return nil
	}
	if err := a.archive.See(ctx, a.o.Name, w.Walk, page.Open); err != nil {
		return err
	}
	a.reportWritten()
	return nil
}

// queryUnseen queries the store by id for deliveries that a walk has not seen.
func (a *Archiver) queryUnseen(ctx context.Context, h *PartitionLease, w *runningWalk, ids []dispatcher.DeliveryID) error {
	page, err := a.source.UnfinishedOf(ctx, h.Partition, ids)
	if err != nil {
		return err
	}
	if err := a.storePage(ctx, h, w, &page); err != nil {
		return err
	}
	there := make(map[dispatcher.DeliveryID]bool, len(page.Open))
	for i := range page.Open {
		there[page.Open[i].ID] = true
	}
	w.seen += len(there)
	w.absent = slices.DeleteFunc(ids, func(id dispatcher.DeliveryID) bool { return there[id] })
	w.until = nil
	return nil
}
