package jobs

import (
	"context"
	"maps"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

// probedMost bounds the lanes of one part for which a holder looks for a first delivery.
// The store probes no more of them either.
const probedMost = 4096

// probe sends the first delivery of each lane, beside the rate. The store notes which
// that was, and keeps back the others of the lane until it knows how it ended. So a
// holder that takes over may do this again. A lane that takes none now is probed when
// the job comes to its deliveries.
func (w *jobWorker) probe(ctx context.Context) error {
	if !w.job.Probe {
		return nil
	}
	for _, n := range slices.Sorted(maps.Keys(w.parts)) {
		if w.parts[n].Ended {
			continue
		}
		if err := w.probePart(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (w *jobWorker) probePart(ctx context.Context, n int) error {
	seen := map[dispatcher.Lane]bool{}
	var skip []dispatcher.Lane
	at := dispatcher.JobAt{Part: n, Since: w.parts[n].Since}
	for more := true; more && len(seen) < probedMost; {
		page, err := w.store.Page(ctx, &w.job, at, skip)
		if err != nil {
			return err
		}
		var first []dispatcher.DeliveryID
		for i := range page.Deliveries {
			id := page.Deliveries[i].ID
			if seen[id.Lane] {
				continue
			}
			seen[id.Lane] = true
			if first = append(first, id); len(skip) < lanesPassed {
				skip = append(skip, id.Lane)
			}
		}
		for some := range slices.Chunk(first, stepMost) {
			if err := w.step(ctx, dispatcher.JobStep{Part: n, Status: page.Status, IDs: some}, nil); err != nil {
				return err
			}
		}
		at.Cursor, more = page.Cursor, page.More
	}
	return nil
}
