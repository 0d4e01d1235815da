package archive

import (
	"context"
	"time"
)

// endpointsTime limits the comparison of endpoints in one pass, because archiving waits for it.
const endpointsTime = 500 * time.Millisecond

const maintainEvery = 24 * time.Hour // tables of months

// Changes of endpoints and pauses of lanes are lines of the log, which a pass archives. The
// records are compared only if the log is incomplete: when archiving starts, and after a
// gap. One comparison of all endpoints serves all partitions that waited for one when it
// began. It stores the store's records, and then marks archived endpoints as deleted if the
// store has deleted them.

// records is the state of the comparison of endpoints.
type records struct {
	wanted  map[int]compareReason // partitions that need a comparison that starts later
	serves  map[int]compareReason // partitions that the running comparison serves
	done    map[int]compareReason // partitions that the last comparison served
	walking bool
	archive bool   // the store's endpoints are read, the archive's are next
	cursor  string // in the store's or the archive's endpoints
}

func newRecords() records {
	return records{wanted: map[int]compareReason{}, serves: map[int]compareReason{}, done: map[int]compareReason{}}
}

// compareReason is the reason to compare a partition's records. A new gap is a new reason.
type compareReason struct {
	epoch string
	gap   Position
}

// compareRecords compares the endpoints and the paused lanes of a partition. It reports
// whether that is done by a comparison that began after the reason arose. Until then each
// pass calls it again, and maintain runs the comparison.
func (a *Archiver) compareRecords(ctx context.Context, h *PartitionLease, gap Position) (done bool, err error) {
	why := compareReason{epoch: h.Epoch, gap: gap}
	if a.records.done[h.Partition] == why {
		return true, a.keepPausedLanes(ctx, h)
	}
	if a.records.serves[h.Partition] != why {
		a.records.wanted[h.Partition] = why
	}
	return false, nil
}

// keepPausedLanes stores which lanes of a partition are paused.
func (a *Archiver) keepPausedLanes(ctx context.Context, h *PartitionLease) error {
	kept, err := a.archive.PausedLanes(ctx, h.Epoch)
	if err != nil {
		return err
	}
	now, err := a.source.PausedLanes(ctx, h.Partition, kept)
	if err != nil {
		return err
	}
	if now.Epoch != h.Epoch {
		return ErrMoved // it was emptied in the meantime
	}
	return a.archive.KeepPausedLanes(ctx, a.o.Name, now)
}

// maintain runs the comparison of endpoints and maintains the months. It reports whether there
// is more to compare. The instance with the first partition maintains the months.
func (a *Archiver) maintain(ctx context.Context) (more bool, err error) {
	if a.leases[0] != nil && time.Since(a.maintained) >= maintainEvery {
		if err := a.archive.Maintain(ctx, a.o.Retention); err != nil {
			return false, err
		}
		a.maintained = time.Now()
	}
	r := &a.records
	for began := time.Now(); (r.walking || len(r.wanted) > 0) && time.Since(began) < endpointsTime && ctx.Err() == nil; {
		if !r.walking {
			*r = records{walking: true, serves: r.wanted, wanted: map[int]compareReason{}, done: r.done}
		}
		if err := a.compareEndpoints(ctx); err != nil {
			return false, err
		}
		if !r.walking {
			for n, why := range r.serves {
				r.done[n] = why
			}
			return true, nil // the walks that waited for it continue
		}
	}
	return r.walking || len(r.wanted) > 0, nil
}

// compareEndpoints reads a page of the store's endpoints, or of the archive's.
func (a *Archiver) compareEndpoints(ctx context.Context) error {
	r := &a.records
	if r.archive {
		return a.findDeleted(ctx)
	}
	page, next, err := a.source.Endpoints(ctx, r.cursor)
	if err == nil {
		err = a.archive.KeepEndpoints(ctx, page)
	}
	if err != nil {
		return err
	}
	r.cursor, r.archive = next, next == ""
	return nil
}

// findDeleted queries the store by id for a page of the archive's endpoints.
func (a *Archiver) findDeleted(ctx context.Context) error {
	r := &a.records
	page, err := a.archive.Endpoints(ctx, r.cursor)
	if err != nil {
		return err
	}
	if len(page) == 0 {
		r.walking = false
		return nil
	}
	r.cursor = page[len(page)-1].ID
	gone, err := a.source.Deleted(ctx, page)
	if err != nil {
		return err
	}
	return a.archive.KeepEndpoints(ctx, gone)
}
