package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// The partitions of a fakeQueue, each of which may be out of reach.

// errBad is what a script says of an argument that it does not understand.
var errBad = errors.New("settle: ERR bad argument")

// reaches reports whether a call for some partitions reaches a lane. mu is held.
func (q *fakeQueue) reaches(partitions []int, lane d.Lane) bool {
	return slices.Contains(partitions, q.partition(lane)) && q.lanesDown(lane) == nil
}

// lanesDown is why some of the lanes are out of reach. mu is held.
func (q *fakeQueue) lanesDown(lanes ...d.Lane) error {
	var errs []error
	for _, lane := range lanes {
		if n := q.partition(lane); q.down[n] != nil {
			errs = append(errs, partitions.Failed(n, q.partitions, q.down[n]))
		}
	}
	return partitions.Join(errs...)
}

// cutOff has partitions fail until they are in reach again.
func (q *fakeQueue) cutOff(partitions ...int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = map[int]error{}
	for _, n := range partitions {
		q.down[n] = fmt.Errorf("dial: %w", d.ErrUnavailable)
	}
}

// partitionsOf are those that outcomes concern.
func (q *fakeQueue) partitionsOf(batch []d.Settlement) (partitions []int) {
	for _, s := range batch {
		if n := q.partition(s.ID.Lane); !slices.Contains(partitions, n) {
			partitions = append(partitions, n)
		}
	}
	return partitions
}

func (q *fakeQueue) all() (partitions []int) {
	for n := range q.partitions {
		partitions = append(partitions, n)
	}
	return partitions
}

// hintsOf are the hints of partitions, and why there are none of some. mu is held.
func (q *fakeQueue) hintsOf(in []int) (hints []queuetest.Hint, err error) {
	var errs []error
	var up []int
	for _, n := range in {
		if q.down[n] != nil {
			errs = append(errs, partitions.Failed(n, q.partitions, q.down[n]))
		} else {
			up = append(up, n)
		}
	}
	hints = q.read(up)
	if len(hints) > 0 {
		hints[0].Dead, q.lanes.died = q.lanes.died, nil
	}
	return hints, partitions.Join(errs...)
}

// read are the hints of partitions, whatever there is in the way. mu is held.
func (q *fakeQueue) read(in []int) (hints []queuetest.Hint) {
	tick := q.tick()
	for _, n := range in {
		h := q.hint(n)
		h.Now = h.Now.Add(tick)
		if !h.Due.IsZero() {
			h.Due = h.Due.Add(tick)
		}
		hints = append(hints, h)
	}
	return hints
}

func (q *fakeQueue) allHints() []queuetest.Hint {
	hints, _ := q.hintsOf(q.all())
	return hints
}

// tick is by how much an answer is told to be later than it is: answers of one
// instant would have no order. mu is held.
func (q *fakeQueue) tick() time.Duration {
	if at := time.Now(); !at.Equal(q.at) {
		q.at, q.ticks = at, 0
	}
	q.ticks++
	return q.ticks
}

func (q *fakeQueue) Orphans(ctx context.Context) ([]string, error) {
	if err := q.begin(ctx, call{name: "strays"}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.strays), nil
}
