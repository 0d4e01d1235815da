package archive_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// keeper is an archive in memory.
type keeper struct {
	home   string // the id of the store
	mu     sync.Mutex
	rows   [2]row
	events []string // what was kept: partition, kind and id, in order
	took   []string // the epochs of what the first partition was given
	seen   map[int64][]string
	unseen [2][]dispatcher.DeliveryID // what no walk has seen so far
	missed []archive.Walk             // walks that ended
	ends   []string                   // what a walk ended as lost
	away   bool
	lies   int  // so many writes are kept and answer an error
	older  bool // its tables are
	cared  int

	endpoints map[string]archive.Endpoint // that are kept
	holds     map[dispatcher.Lane]archive.PausedLane
	epochs    []string // that were archived, in their order
}

type row struct {
	epoch, holder string
	at            archive.Position
	last          int64
	until         time.Time
	walked        bool
	gap           archive.Position
	dropped       int64
}

func (k *keeper) down() error {
	switch {
	case k.away:
		return fmt.Errorf("dial: %w", archive.ErrUnavailable)
	case k.older:
		return archive.ErrVersion
	}
	return nil
}

func (k *keeper) Lease(_ context.Context, by string, want []archive.Want) (leases []archive.PartitionLease, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.down(); err != nil {
		return nil, err
	}
	for _, w := range want {
		r := &k.rows[w.Partition]
		if r.holder != by && time.Now().Before(r.until) {
			continue
		}
		if r.epoch != w.Epoch {
			if w.Old && r.epoch != "" {
				return nil, archive.ErrMoved
			}
			*r = row{epoch: w.Epoch, at: w.At, last: r.last}
			k.epochs = append(k.epochs, w.Epoch)
		}
		r.holder, r.until = by, time.Now().Add(archive.LeaseTime)
		leases = append(leases, archive.PartitionLease{Partition: w.Partition, Epoch: r.epoch, At: r.at, Last: r.last, Began: !r.walked, Walked: r.gap, Dropped: r.dropped})
	}
	return leases, nil
}

func (k *keeper) Write(_ context.Context, by string, parts []archive.Part) (w archive.Written, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.down(); err != nil {
		return w, err
	}
	for _, p := range parts {
		if r := k.rows[p.Partition]; r.holder != by || r.epoch != p.Epoch || r.at != p.From {
			return w, archive.ErrMoved
		}
	}
	for _, p := range parts {
		r := &k.rows[p.Partition]
		k.note(p.Partition, p.Epoch)
		for _, e := range p.Events {
			if e.Pos <= r.last {
				panic("not in order")
			}
			r.last = e.Pos
			if e.Kind.Ends() {
				k.drop(p.Partition, e.ID)
			}
			k.events = append(k.events, fmt.Sprintf("%d%c%s", p.Partition, e.Kind, e.ID.Message))
		}
		k.keep(p.Endpoints, p.PausedLanes)
		r.at, r.dropped = p.To, max(r.dropped, p.Dropped)
		w.Events += len(p.Events)
	}
	if k.lies > 0 {
		k.lies--
		return w, fmt.Errorf("no answer: %w", archive.ErrUnavailable)
	}
	return w, nil
}

func (k *keeper) note(partition int, epoch string) {
	if partition == 0 {
		k.took = append(k.took, epoch)
	}
}

func (k *keeper) See(_ context.Context, _ string, w archive.Walk, page []archive.Open) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.took = append(k.took, page[0].Epoch)
	for _, o := range page {
		k.seen[w.Name] = append(k.seen[w.Name], o.Epoch+o.ID.Message)
		k.drop(w.Partition, o.ID)
	}
	return k.down()
}

// drop forgets that a delivery was not seen.
func (k *keeper) drop(partition int, id dispatcher.DeliveryID) {
	k.unseen[partition] = slices.DeleteFunc(k.unseen[partition], func(other dispatcher.DeliveryID) bool { return other == id })
}

func (k *keeper) Unseen(_ context.Context, _ string, w archive.Walk) ([]dispatcher.DeliveryID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.unseen[w.Partition]), k.down()
}

func (k *keeper) EndLost(_ context.Context, _ string, w archive.Walk, _ int64, ids []dispatcher.DeliveryID) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.unseen[w.Partition])
	for _, id := range ids {
		if slices.Contains(k.unseen[w.Partition], id) {
			k.ends = append(k.ends, id.Message)
		}
		k.drop(w.Partition, id)
	}
	return before - len(k.unseen[w.Partition]), k.down()
}

func (k *keeper) EndWalk(_ context.Context, _ string, w archive.Walk) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missed = append(k.missed, w)
	k.note(w.Partition, w.Epoch)
	k.rows[w.Partition].walked, k.rows[w.Partition].gap = true, w.Gap
	return k.down()
}

func (k *keeper) KeepEndpoints(_ context.Context, page []archive.Endpoint) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.down(); err != nil {
		return err
	}
	k.keep(page, nil)
	return nil
}

// keep keeps what changed. mu is held.
func (k *keeper) keep(endpoints []archive.Endpoint, holds []archive.PausedLane) {
	for _, e := range endpoints {
		k.endpoints[e.ID] = e
	}
	for _, h := range holds {
		if k.holds[h.Lane] = h; h.Resumed {
			delete(k.holds, h.Lane)
		}
	}
}

func (k *keeper) Endpoints(_ context.Context, behind string) (page []archive.Endpoint, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(k.endpoints)) {
		if e := k.endpoints[id]; id > behind && !e.Deleted && len(page) < 256 {
			page = append(page, e)
		}
	}
	return page, k.down()
}

func (k *keeper) PausedLanes(_ context.Context, epoch string) (holds []archive.PausedLane, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.holds {
		if h.Epoch == epoch {
			holds = append(holds, h)
		}
	}
	return holds, k.down()
}

func (k *keeper) KeepPausedLanes(_ context.Context, by string, h archive.PausedLanes) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.rows[h.Partition]; r.holder != by || r.epoch != h.Epoch {
		return archive.ErrMoved
	}
	k.keep(nil, h.Lanes)
	return k.down()
}

func (k *keeper) Home(context.Context) (string, map[int]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.home, nil, k.down()
}

func (k *keeper) KeepHome(_ context.Context, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.home = id
	return k.down()
}

func (k *keeper) Maintain(context.Context, time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cared++
	return nil
}

func (k *keeper) Close() {}
func (k *keeper) Release(_ context.Context, by string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range k.rows {
		if k.rows[n].holder == by {
			k.rows[n].until = time.Time{}
		}
	}
	return nil
}
