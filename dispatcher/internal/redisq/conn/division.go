package conn

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// A process may be stopped until others take it for dead, or its machine may sleep. When
// it continues, a repartition may have changed the partitions. Then the messages that it
// accepted would never be delivered. Another version may have changed the layout of the
// keys, or another Redis may be behind the same address. So the instance reads :meta with
// each heartbeat, and before it accepts anything after an old heartbeat. It also compares
// the epochs of partitions
//
//   - if :meta has changed,
//   - with the heartbeat that finds its name forgotten,
//   - with the next heartbeat after a connection was lost, the subscription started again
//     or another node took over,
//   - if schedule finds another epoch, or a call finds nothing,
//   - with each compareEach-th heartbeat, for a partition without traffic.
//
// If the project has changed, every call of the instance fails, and its engine ends. If
// data were lost, emptied.go says which calls fail.

// compareEach limits how long an emptied partition without traffic stays unnoticed: ten
// seconds. A comparison costs Redis one command for each partition.
const compareEach = 5

// division checks that the partitions and the layout of the keys are the same as when the
// project was opened, and knows which data were lost.
type division struct {
	beaten atomic.Int64          // wall clock in ns of the last heartbeat; the monotonic clock stops while a machine sleeps
	doubts atomic.Int64          // grows with each event after which the data may be different
	solved atomic.Int64          // doubts at the last comparison of all epochs
	moved  atomic.Pointer[error] // nil: nothing has changed

	beats int // number of beats after the last comparison of all epochs; guarded by mu

	mu       sync.Mutex // one Verify at a time; guards writes of the fields below
	settled  atomic.Pointer[string]
	loss     atomic.Pointer[dispatcher.Emptied] // nil: nothing was lost
	reported *dispatcher.Emptied                // the loss that onLoss was called with
	onLoss   atomic.Pointer[func(*dispatcher.Emptied)]
}

// Archives reports whether the project has an archive.
func (c *Client) Archives() bool { return c.archives.Load() }

// SetArchives sets whether the project has an archive.
func (c *Client) SetArchives(on bool) { c.archives.Store(on) }

// Beaten records the time of a successful heartbeat.
func (c *Client) Beaten(at time.Time) { c.division.beaten.Store(at.UnixNano()) }

// BeatOld reports whether the last heartbeat is old enough that anything may have changed
// after it.
func (c *Client) BeatOld() bool {
	beaten := c.division.beaten.Load()
	return beaten != 0 && time.Now().UnixNano()-beaten > int64(wait.BeatOld)
}

// Doubt requests a comparison of the epochs with the next heartbeat.
func (c *Client) Doubt() { c.division.doubts.Add(1) }

// MustStand returns an error if the project has changed. It returns nil if :meta can't be
// read, because other partitions may respond.
func (c *Client) MustStand(ctx context.Context) error {
	if err := c.Verify(ctx); err != nil {
		return c.changed()
	}
	return nil
}

// Recheck reads :meta again, in the pipeline of another call.
type Recheck struct {
	c    *Client
	have *redis.MapStringStringCmd
}

// Recheck returns a new Recheck.
func (c *Client) Recheck() *Recheck { return &Recheck{c: c} }

// Read queues the query for :meta.
func (r *Recheck) Read(ctx context.Context, p redis.Pipeliner) {
	r.have = r.c.QueueMeta(ctx, p)
}

// Err compares :meta with the known state, and all epochs if that is due. It returns an
// error if the project has changed.
func (r *Recheck) Err(ctx context.Context) error {
	c := r.c
	if r.have == nil || r.have.Err() != nil {
		return c.changed()
	}
	meta := ParseMeta(r.have.Val())
	c.division.mu.Lock()
	defer c.division.mu.Unlock()
	doubts := c.division.doubts.Load()
	c.division.beats++
	if c.division.beats < compareEach && doubts == c.division.solved.Load() && meta.ID == c.ID() && meta.settled == c.settled() && meta.partitions != "" {
		c.take(meta)
		return c.changed()
	}
	if err := c.verify(ctx, meta); err != nil {
		return c.changed() // retried with the next heartbeat
	}
	c.division.solved.Store(doubts)
	c.division.beats = 0
	return nil
}

// take stores the content of :meta. The caller holds mu.
func (c *Client) take(meta Meta) {
	if c.checkDivision(meta); c.changed() != nil {
		return
	}
	if meta.ID != c.ID() && !meta.lostHome() && !c.endedLoss(meta) {
		return // home was lost just now: the next heartbeat records it
	}
	if meta.ID != c.ID() && c.TakeID(meta.ID) {
		c.NoteTakeover() // events published under the old id were missed
	}
	c.TakeIndex(meta)
	c.division.settled.Store(&meta.settled)
	c.SetArchives(meta.Archive)
	c.division.loss.Store(meta.Loss)
	if onLoss := c.division.onLoss.Load(); onLoss != nil && !reflect.DeepEqual(c.division.reported, meta.Loss) {
		c.division.reported = meta.Loss
		(*onLoss)(meta.Loss)
	}
}

// checkDivision stops the instance if :meta has another number of partitions, or another
// layout.
func (c *Client) checkDivision(meta Meta) {
	mark, marked, err := meta.Mark()
	begun := marked && (err != nil || mark.Phase > PhaseBegin)
	switch {
	case begun || meta.partitions != "" && meta.partitions != strconv.Itoa(len(c.tags)):
		c.move(fmt.Errorf("project %s is no longer divided into %d partitions: start this instance anew: %w",
			c.options.Project, len(c.tags), dispatcher.ErrMoved))
	case meta.Schema != "" && c.CheckLayout(meta.Schema) != nil:
		c.move(fmt.Errorf("%w: %w", c.CheckLayout(meta.Schema), dispatcher.ErrMoved))
	}
}

func (c *Client) move(err error) { c.division.moved.CompareAndSwap(nil, &err) }

// changed returns the error of every call after the project has changed.
func (c *Client) changed() error {
	if moved := c.division.moved.Load(); moved != nil {
		return *moved
	}
	return nil
}
