package archiver

import (
	"context"
	"time"
)

const (
	recordsEvery = time.Minute // what is held; and endpoints where they are few or change
	// endpointTime keeps looking for changes of endpoints that were not told of to half a
	// command a second: a page has some 32 of them.
	endpointTime = time.Second / 16
	// careFor is how long a look at endpoints may keep what happens from being archived.
	careFor = 500 * time.Millisecond

	maintainEvery = 24 * time.Hour // tables of months
)

// records is how far endpoints and what is held were looked at.
type records struct {
	held    time.Time // when what is held was read last
	whole   time.Time // when the last walk through endpoints began
	walking bool
	cursor  string // of that walk
}

// EndpointsChanged tells that an endpoint, or what is held, was changed. It does not block.
func (a *Archiver) EndpointsChanged() {
	a.changed.Store(true)
	a.Stirred()
}

// cares reports whether something of care is due though nothing happens any more.
func (a *Archiver) cares() bool {
	return a.held[0] != nil && a.worked && time.Since(a.records.held) >= recordsEvery
}

// care keeps the records of endpoints, and looks after the tables, and reports whether
// there is more to keep. The instance that archives the first partition does.
func (a *Archiver) care(ctx context.Context) (more bool, err error) {
	if a.held[0] == nil || ctx.Err() != nil {
		return false, nil
	}
	if time.Since(a.cared) >= maintainEvery {
		if err := a.archive.Maintain(ctx, a.o.Retention); err != nil {
			return false, err
		}
		a.cared = time.Now()
	}
	if !a.records.walking && time.Since(a.records.held) >= recordsEvery {
		if err := a.keepHolds(ctx); err != nil {
			return false, err
		}
	}
	if a.records.walking {
		err = a.keepEndpoints(ctx)
	}
	return a.records.walking, err
}

// keepHolds keeps what is held, and begins to walk through the endpoints where that is
// due.
func (a *Archiver) keepHolds(ctx context.Context) error {
	r := &a.records
	began := time.Now()
	holds, endpoints, err := a.source.Holds(ctx)
	if err == nil {
		err = a.archive.KeepHolds(ctx, holds, endpoints == 0)
	}
	if err != nil {
		return err
	}
	r.held, a.worked = began, false
	if a.changed.Swap(false) || began.Sub(r.whole) >= time.Duration(endpoints)*endpointTime {
		r.walking, r.cursor, r.whole = true, "", began
	}
	return nil
}

// keepEndpoints goes on with a walk through the endpoints for a while.
func (a *Archiver) keepEndpoints(ctx context.Context) error {
	r := &a.records
	for began := time.Now(); r.walking && time.Since(began) < careFor; r.walking = r.cursor != "" {
		page, next, err := a.source.Endpoints(ctx, r.cursor)
		if err == nil {
			err = a.archive.KeepEndpoints(ctx, page)
		}
		if err != nil { // another node may have taken over, whose cursors are others
			*r = records{}
			return err
		}
		r.cursor = next
	}
	return nil
}
