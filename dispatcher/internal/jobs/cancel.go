package jobs

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// cancel ends what is unfinished. A delivery may come to a place that was looked at
// before, as one whose attempt fails. So it goes through all again, until it finds
// nothing more to end.
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
		if err := w.conclude(ctx, n, func(part *dispatcher.JobPart) { part.Ended = true }); err != nil {
			return err
		}
	}
	return nil
}

// cancelOnce goes through all that is unfinished.
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
				if _, err := w.move(ctx, dispatcher.JobStep{Part: n}, some, nil); err != nil {
					return err
				}
			}
		}
		w.changed = time.Now() // it never has to wait for a lane
		if err := w.stand(ctx); err != nil {
			return err
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}
