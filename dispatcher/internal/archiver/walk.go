package archiver

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// A walk compares what the archive has as unfinished with what the store has. It finds
// what the log can't tell: what the store had before it named what it accepts, and what
// was cut from the log. It takes one page between two transactions of the log, so that
// archiving goes on beside it. Two rules keep the two from contradicting each other:
//
//   - A page is read behind what the log told last, and kept before the log is read
//     again. So what ends after the page is in a later part of the log.
//   - A delivery ends as lost only after the store was asked for it by its name, and after
//     the log was read up to there.

// compareFor is how long the walks of one pass may keep what happens from being archived:
// a page of 1,000 deliveries takes some 50 ms.
const compareFor = linger

// walking is a comparison that goes on.
type walking struct {
	archive.Walk
	began  time.Time
	cursor string // of the next page
	read   bool   // the last page was

	records bool // endpoints and pauses are compared too

	until  *archive.Position       // the log has to be archived so far before a delivery is lost; nil: not known yet
	absent []dispatcher.DeliveryID // the store does not have them; the log may still tell how they ended

	messages, seen, lost int
}

// gapOf is the newest gap in a partition's log, whether the archive has passed it or not.
// Where the store was told more than the archive knows, the archive lost that.
func gapOf(h *archive.Held, s *archive.State) archive.Position {
	gap := newest(h.Gap, s.Gap)
	if s.At.After(h.At) {
		gap = newest(gap, s.At)
	}
	return gap
}

func newest(a, b archive.Position) archive.Position {
	if b.After(a) {
		return b
	}
	return a
}

// walkOf is the comparison that a partition needs; nil: it needs none. A gap stays open
// until a comparison that began after it has ended.
func (a *Archiver) walkOf(h *archive.Held, s *archive.State) *walking {
	gap, w := gapOf(h, s), a.walks[h.Partition]
	switch {
	case !h.Began && !gap.After(h.Walked):
		delete(a.walks, h.Partition) // another instance may have ended it
		return nil
	case w != nil && w.Epoch == h.Epoch:
		return w
	}
	w = &walking{began: time.Now(), Walk: archive.Walk{
		Partition: h.Partition, Epoch: h.Epoch, Name: time.Now().UnixNano(), Gap: gap, Left: 1,
	}}
	a.walks[h.Partition] = w
	return w
}

// compare takes the next step of each walk, as far as there is time. It reports whether
// there is another step to take at once: one that waits for the log, or for the endpoints,
// is taken when those went on.
func (a *Archiver) compare(ctx context.Context, states []archive.State) (more bool, err error) {
	began, left := time.Now(), 0.0
	var errs []error
	for i := range states {
		h := a.held[states[i].Partition]
		if h == nil || h.Epoch != states[i].Epoch {
			continue // it is held anew
		}
		w := a.walkOf(h, &states[i])
		if w == nil {
			continue
		}
		waits := false
		if time.Since(began) < compareFor {
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
	a.status.Comparing = left / float64(max(len(a.held), 1))
	a.mu.Unlock()
	return more, errors.Join(errs...)
}

// step reads the next page of a walk. After the last one it looks for what was not seen,
// and compares endpoints and pauses. It reports whether it waits for others.
func (a *Archiver) step(ctx context.Context, h *archive.Held, s *archive.State, w *walking) (waits bool, err error) {
	if !w.read {
		return false, a.seePage(ctx, h, w)
	}
	if w.until == nil {
		w.until = &s.Last // the state was read behind the last page, or behind what was asked for
	}
	if w.until.After(h.At) && s.Last.After(h.At) { // else the log has no more: its end may have been cut
		return true, nil
	}
	if err := a.miss(ctx, h, w); err != nil {
		return false, err
	}
	ids, err := a.archive.Unseen(ctx, a.o.Name, w.Walk)
	if err != nil {
		return false, err
	}
	if len(ids) > 0 {
		return false, a.askFor(ctx, h, w, ids)
	}
	if !w.records {
		if w.records, err = a.compareRecords(ctx, h, w.Gap); !w.records || err != nil {
			return true, err
		}
	}
	return false, a.compared(ctx, h, w)
}

// miss ends what the store does not have, and of which the log does not tell.
func (a *Archiver) miss(ctx context.Context, h *archive.Held, w *walking) error {
	if len(w.absent) == 0 {
		return nil
	}
	lost, err := a.archive.Miss(ctx, a.o.Name, w.Walk, h.Last, w.absent)
	if err != nil {
		return err
	}
	a.accepts()
	h.Last, w.lost, w.absent = h.Last+int64(lost), w.lost+lost, nil
	a.mu.Lock()
	a.status.Lost += int64(lost)
	a.mu.Unlock()
	return nil
}

// compared ends a walk.
func (a *Archiver) compared(ctx context.Context, h *archive.Held, w *walking) error {
	if err := a.archive.Compared(ctx, a.o.Name, w.Walk); err != nil {
		return err
	}
	h.Began, h.Walked = false, w.Gap
	delete(a.walks, h.Partition)
	a.o.Log.Info("compared the archive with the store", "partition", h.Partition, "unfinished", w.seen, "lost", w.lost,
		"took_ms", time.Since(w.began).Milliseconds())
	return nil
}

// leftLeast is the share that is told as left of a walk whose pages are all read.
const leftLeast = 0.01

// seePage reads a page of a walk and keeps it.
func (a *Archiver) seePage(ctx context.Context, h *archive.Held, w *walking) error {
	page, err := a.source.Unfinished(ctx, h.Partition, w.cursor)
	if errors.Is(err, archive.ErrAnew) {
		a.o.Log.Info("the store's server was restarted or replaced: the comparison with the archive begins again", "partition", h.Partition)
		w.cursor, w.messages, w.seen, w.Left = "", 0, 0, 1
		return nil
	}
	if err != nil {
		return err
	}
	w.messages += page.Messages
	w.Left = max(leftLeast, 1-float64(w.messages)/float64(max(page.Total, 1)))
	if err := a.see(ctx, h, w, &page); err != nil {
		return err
	}
	w.seen += len(page.Open)
	w.cursor, w.read = page.Next, page.Next == ""
	return nil
}

// see keeps a page of a walk.
func (a *Archiver) see(ctx context.Context, h *archive.Held, w *walking, page *archive.Page) error {
	if page.Epoch != h.Epoch {
		return archive.ErrMoved // it was emptied meanwhile
	}
	if len(page.Open) == 0 {
		return nil
	}
	if err := a.archive.See(ctx, a.o.Name, w.Walk, page.Open); err != nil {
		return err
	}
	a.accepts()
	return nil
}

// askFor asks the store by name for deliveries that a walk has not seen.
func (a *Archiver) askFor(ctx context.Context, h *archive.Held, w *walking, ids []dispatcher.DeliveryID) error {
	page, err := a.source.UnfinishedOf(ctx, h.Partition, ids)
	if err != nil {
		return err
	}
	if err := a.see(ctx, h, w, &page); err != nil {
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
