package jobs

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// cancel cancels unfinished deliveries. A delivery may move to a list that was read before,
// for example if its attempt fails. So all lists are read again, until there is nothing more
// to cancel.
func (w *jobWorker) cancel(ctx context.Context) error {
	for {
		before := w.sum().Done
		if err := w.cancelOnce(ctx); err != nil {
			return err
		}
		if w.sum().Done == before {
			break
		}
	}
	for _, n := range slices.Sorted(maps.Keys(w.parts)) {
		if err := w.writePart(ctx, n, func(part *dispatcher.JobPart) { part.Ended = true }); err != nil {
			return err
		}
	}
	return nil
}

// cancelOnce reads the list of all unfinished deliveries once.
func (w *jobWorker) cancelOnce(ctx context.Context) error {
	f := w.job.Filter
	for f.Limit = listPage; ; {
		page, err := w.jobs.o.List(ctx, f)
		if err != nil {
			return err
		}
		in := map[int][]dispatcher.DeliveryID{}
		for i := range page.Deliveries {
			id := page.Deliveries[i].ID
			n := w.store.Part(id.Lane)
			in[n] = append(in[n], id)
		}
		for _, n := range slices.Sorted(maps.Keys(in)) {
			for some := range slices.Chunk(in[n], stepMost) {
				if _, err := w.steps(ctx, dispatcher.JobStep{Part: n}, some, nil); err != nil {
					return err
				}
			}
		}
		w.changed = time.Now() // full lanes do not matter to it
		if err := w.reportState(ctx); err != nil {
			return err
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}
