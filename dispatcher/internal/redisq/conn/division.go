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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// A process may be stopped for so long that it is taken for dead, or its machine
// may sleep. When it wakes up, a repartition may have changed the partitions:
// then the messages that it accepted would never be delivered. Another version may
// have changed the layout of the keys meanwhile, or another store may be behind the
// same address. So the instance reads :meta with each beat, and before it accepts
// anything where its last beat is old. It compares the epochs of partitions too
//
//   - where :meta is not as it was,
//   - with the beat that finds its name forgotten,
//   - with the next beat after a connection was lost, the subscription began
//     anew or another node took over,
//   - where schedule finds another epoch, or a call finds nothing,
//   - with each compareEach-th beat, for a partition that nothing is published to.
//
// Where the project is not as it was, every call of the instance fails, and its
// engine ends. Where data were lost, emptied.go says what is refused.

// compareEach bounds how long it takes to notice an emptied partition without traffic:
// ten seconds. To compare costs Redis one command a partition.
const compareEach = 5

// division knows whether the project is still divided, and its keys laid out, as
// when it was opened, and which of its data were lost.
type division struct {
	beaten atomic.Int64          // wall clock in ns of the last beat; the monotonic one stops while a machine sleeps
	doubts atomic.Int64          // grows with each event after which the data may be others
	solved atomic.Int64          // doubts when all epochs were compared last
	moved  atomic.Pointer[error] // nil: it is still as it was

	beats int // since one compared all epochs; mu guards it

	mu      sync.Mutex // one Verify at a time; held while what follows is written
	settled atomic.Pointer[string]
	loss    atomic.Pointer[dispatcher.Emptied] // nil: nothing was lost
	told    *dispatcher.Emptied                // of loss, by onLoss
	onLoss  atomic.Pointer[func(*dispatcher.Emptied)]
}

// Archives reports whether what happens in the project is archived.
func (c *Client) Archives() bool { return c.archives.Load() }

// SetArchives notes that it is, or that it no longer is.
func (c *Client) SetArchives(on bool) { c.archives.Store(on) }

// Beaten notes when a beat was answered.
func (c *Client) Beaten(at time.Time) { c.division.beaten.Store(at.UnixNano()) }

// BeatOld reports whether the last beat is so old that anything may have happened
// since.
func (c *Client) BeatOld() bool {
	beaten := c.division.beaten.Load()
	return beaten != 0 && time.Now().UnixNano()-beaten > int64(dispatcher.BeatOld)
}

// Doubt has the epochs compared with the next beat.
func (c *Client) Doubt() { c.division.doubts.Add(1) }

// MustStand makes sure that the project is as it was. Where :meta can't be read that
// is no error: other partitions may answer.
func (c *Client) MustStand(ctx context.Context) error {
	if err := c.Verify(ctx); err != nil {
		return c.stands()
	}
	return nil
}

// Recheck reads :meta again together with the commands of another call.
type Recheck struct {
	c    *Client
	have *redis.MapStringStringCmd
}

// Recheck begins to read :meta again.
func (c *Client) Recheck() *Recheck { return &Recheck{c: c} }

// Read queues the reading of :meta.
func (r *Recheck) Read(ctx context.Context, p redis.Pipeliner) {
	r.have = p.HGetAll(ctx, r.c.home+keys.Meta)
}

// Err compares what was read with what is known, and all epochs where that is due. It
// is the error of a project that is not as it was.
func (r *Recheck) Err(ctx context.Context) error {
	c, meta := r.c, Value(r.have)
	if r.have == nil || r.have.Err() != nil {
		return c.stands()
	}
	c.division.mu.Lock()
	defer c.division.mu.Unlock()
	doubts := c.division.doubts.Load()
	c.division.beats++
	if c.division.beats < compareEach && doubts == c.division.solved.Load() && meta[MetaID] == c.ID() && meta[metaSettled] == c.settled() && meta[MetaPartitions] != "" {
		c.take(meta)
		return c.stands()
	}
	if err := c.verify(ctx, meta); err != nil {
		return c.stands() // it is tried again with the next beat
	}
	c.division.solved.Store(doubts)
	c.division.beats = 0
	return nil
}

// take takes over what :meta says. mu is held.
func (c *Client) take(meta map[string]string) {
	if c.checkDivision(meta); c.stands() != nil {
		return
	}
	if id := meta[MetaID]; id != c.ID() && c.TakeID(id) {
		c.NoteTakeover() // what was published under it was not heard
	}
	c.TakeIndex(meta)
	settled, loss := meta[metaSettled], lossOf(meta)
	c.division.settled.Store(&settled)
	c.SetArchives(meta[MetaArchive] != "")
	c.division.loss.Store(loss)
	if tell := c.division.onLoss.Load(); tell != nil && !reflect.DeepEqual(c.division.told, loss) {
		c.division.told = loss
		(*tell)(loss)
	}
}

// checkDivision ends the instance where :meta has another number of partitions, or
// another layout.
func (c *Client) checkDivision(meta map[string]string) {
	text, partitions, schema := meta[MetaRepartition], meta[MetaPartitions], meta[MetaSchema]
	under, err := ParseMark(text)
	begun := text != "" && (err != nil || under.Phase > PhaseBegin)
	switch {
	case begun || partitions != "" && partitions != strconv.Itoa(len(c.tags)):
		c.move(fmt.Errorf("project %s is no longer divided into %d partitions: start this instance anew: %w",
			c.options.Project, len(c.tags), dispatcher.ErrMoved))
	case schema != "" && c.CheckLayout(schema) != nil:
		c.move(fmt.Errorf("%w: %w", c.CheckLayout(schema), dispatcher.ErrMoved))
	}
}

func (c *Client) move(err error) { c.division.moved.CompareAndSwap(nil, &err) }

// stands is the error of every call once the project is not as it was.
func (c *Client) stands() error {
	if moved := c.division.moved.Load(); moved != nil {
		return *moved
	}
	return nil
}
