package archive_test

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// modelArchive is the model as its archive.
type modelArchive struct{ *model }

func (a modelArchive) Endpoints(context.Context, string) ([]archive.Endpoint, error) { return nil, nil }
func (a modelArchive) PausedLanes(context.Context, string) ([]archive.PausedLane, error) {
	return nil, nil
}
func (a modelArchive) KeepPausedLanes(context.Context, string, archive.PausedLanes) error { return nil }
func (a modelArchive) KeepEndpoints(context.Context, []archive.Endpoint) error            { return nil }
func (a modelArchive) Maintain(context.Context, time.Duration) error                      { return nil }

// in is a transaction of the instance that holds the partition. It may fail, before it is
// kept or behind that.
func (a modelArchive) in(by string, do func() error) error {
	err := a.call(archive.ErrUnavailable)
	defer a.mu.Unlock()
	if err == nil || a.rand.IntN(2) == 0 {
		if a.by != by {
			return archive.ErrMoved
		}
		if failed := do(); failed != nil {
			return failed
		}
	}
	return err
}

func (a modelArchive) Lease(_ context.Context, by string, want []archive.Want) (leases []archive.PartitionLease, err error) {
	err = a.call(archive.ErrUnavailable)
	defer a.mu.Unlock()
	if err != nil || a.by != by && time.Now().Before(a.until) {
		return nil, err
	}
	if a.row.Epoch == "" {
		a.row = archive.PartitionLease{Epoch: want[0].Epoch, At: want[0].At, Began: true}
	}
	a.by, a.until = by, time.Now().Add(archive.LeaseTime)
	return []archive.PartitionLease{a.row}, nil
}

func (a modelArchive) Release(_ context.Context, by string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == by {
		a.until = time.Time{}
	}
	return nil
}

func (a modelArchive) Write(_ context.Context, by string, parts []archive.Part) (w archive.Written, err error) {
	err = a.in(by, func() error {
		for i := range parts {
			p := &parts[i]
			if p.From != a.row.At {
				return archive.ErrMoved
			}
			for _, m := range p.Accepted {
				a.rows[m.ID] = &modelRow{pos: m.Pos, epoch: p.Epoch}
			}
			for _, e := range p.Events {
				delete(a.rows, e.ID.Message)
				a.told[e.ID.Message] = append(a.told[e.ID.Message], e.Kind)
				a.row.Last = max(a.row.Last, e.Pos)
			}
			a.row.At = p.To
			if p.Gap.After(a.row.Gap) {
				a.row.Gap = p.Gap
			}
		}
		return nil
	})
	return w, err
}

func (a modelArchive) See(_ context.Context, by string, w archive.Walk, page []archive.Open) error {
	return a.in(by, func() error {
		for _, o := range page {
			r := a.rows[o.ID.Message]
			if r == nil {
				r = &modelRow{pos: o.Pos, epoch: o.Epoch}
				a.rows[o.ID.Message] = r
			}
			r.seen = w.Name
		}
		return nil
	})
}

func (a modelArchive) Unseen(_ context.Context, by string, w archive.Walk) (ids []dispatcher.DeliveryID, err error) {
	err = a.in(by, func() error {
		for name, r := range a.rows {
			if r.pos <= w.Until() && r.seen != w.Name && len(ids) < 4 {
				ids = append(ids, delivery(name))
			}
		}
		return nil
	})
	return ids, err
}

func (a modelArchive) EndLost(_ context.Context, by string, w archive.Walk, _ int64, ids []dispatcher.DeliveryID) (lost int, err error) {
	err = a.in(by, func() error {
		for _, id := range ids {
			if r := a.rows[id.Message]; r != nil && r.pos <= w.Until() && r.seen != w.Name {
				delete(a.rows, id.Message)
				a.told[id.Message] = append(a.told[id.Message], archive.Lost)
				lost++
			}
		}
		return nil
	})
	return lost, err
}

func (a modelArchive) EndWalk(_ context.Context, by string, w archive.Walk) error {
	return a.in(by, func() error {
		a.row.Began, a.row.Walked = false, w.Gap
		return nil
	})
}
