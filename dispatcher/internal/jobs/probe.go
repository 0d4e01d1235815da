package jobs

import (
	"context"
	"maps"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

// probedMost is the maximum number of lanes of one part that a holder probes. The store has
// the same limit.
const probedMost = 4096

// probe sends the first delivery of each lane, regardless of the rate. The store records that
// delivery, and reports the lane as full until it has ended. So the next holder may probe
// again. A lane that is full now is probed when the job reads its deliveries.
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
	var probed []dispatcher.Lane
	at := dispatcher.JobAt{Part: n, Since: w.parts[n].Since}
	for more := true; more && len(seen) < probedMost; {
		page, err := w.store.Page(ctx, &w.job, at, probed)
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
			if first = append(first, id); len(probed) < fullMost {
				probed = append(probed, id.Lane)
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
