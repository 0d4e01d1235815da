package archiver

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// careFor is how long the comparison of endpoints may keep the log from being archived.
const careFor = 500 * time.Millisecond

const maintainEvery = 24 * time.Hour // tables of months

// Changes of endpoints, and pauses of lanes, are lines of the log: a pass archives them. The
// records are compared only where the log does not tell everything: when it begins to be
// archived, and after a gap. One comparison of all endpoints serves all partitions that were
// waiting for one when it began. It takes what the store has, and then marks as deleted what
// the archive has and the store does not.

// records is how far the endpoints were compared.
type records struct {
	wanted  map[int]occasion // partitions that wait for a comparison that begins later
	serves  map[int]occasion // those for which the present one is
	done    map[int]occasion // those that it was last made for
	walking bool
	archive bool   // the archive's endpoints are read by now
	cursor  string // in the store's endpoints, or the archive's
}

func newRecords() records {
	return records{wanted: map[int]occasion{}, serves: map[int]occasion{}, done: map[int]occasion{}}
}

// occasion is why the records of a partition are compared. Another gap is another one.
type occasion struct {
	epoch string
	gap   archive.Position
}

// compareRecords has the archive hold the endpoints, and the pauses of a partition, that the
// store has. It reports whether that is done, by a comparison that began after its occasion
// arose. Until then it is called with each pass, and care makes the comparison.
func (a *Archiver) compareRecords(ctx context.Context, h *archive.Held, gap archive.Position) (done bool, err error) {
	why := occasion{epoch: h.Epoch, gap: gap}
	if a.records.done[h.Partition] == why {
		return true, a.keepHolds(ctx, h)
	}
	if a.records.serves[h.Partition] != why {
		a.records.wanted[h.Partition] = why
	}
	return false, nil
}

// keepHolds keeps which lanes of a partition are paused.
func (a *Archiver) keepHolds(ctx context.Context, h *archive.Held) error {
	kept, err := a.archive.Holds(ctx, h.Epoch)
	if err != nil {
		return err
	}
	now, err := a.source.Holds(ctx, h.Partition, kept)
	if err != nil {
		return err
	}
	if now.Epoch != h.Epoch {
		return archive.ErrMoved // it was emptied meanwhile
	}
	return a.archive.KeepHolds(ctx, a.o.Name, now)
}

// care compares endpoints where that is wanted, and looks after the tables. It reports
// whether there is more to compare. The instance that archives the first partition looks
// after the tables.
func (a *Archiver) care(ctx context.Context) (more bool, err error) {
	if a.held[0] != nil && time.Since(a.cared) >= maintainEvery {
		if err := a.archive.Maintain(ctx, a.o.Retention); err != nil {
			return false, err
		}
		a.cared = time.Now()
	}
	r := &a.records
	for began := time.Now(); (r.walking || len(r.wanted) > 0) && time.Since(began) < careFor && ctx.Err() == nil; {
		if !r.walking {
			*r = records{walking: true, serves: r.wanted, wanted: map[int]occasion{}, done: r.done}
		}
		if err := a.compareEndpoints(ctx); err != nil {
			return false, err
		}
		if !r.walking {
			for n, why := range r.serves {
				r.done[n] = why
			}
			return true, nil // the comparisons that waited for it go on
		}
	}
	return r.walking || len(r.wanted) > 0, nil
}

// compareEndpoints takes in a page of the store's endpoints, or of the archive's.
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

// findDeleted asks the store by name for a page of the endpoints that the archive has.
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
