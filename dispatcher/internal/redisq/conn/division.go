package conn

import (
	"context"
	"fmt"
	"strconv"
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
// same address. So the instance reads :meta again
//
//   - where its last beat is old, before it accepts anything,
//   - with the beat that finds its name forgotten,
//   - with the next beat after a connection was lost, the subscription began
//     anew or another node took over, until :meta is there.
//
// Where the project is not as it was, every call of the instance fails, and its
// engine ends.

// division knows whether the project is still divided, and its keys laid out, as
// when it was opened.
type division struct {
	beaten atomic.Int64          // wall clock in ns of the last beat; the monotonic one stops while a machine sleeps
	doubts atomic.Int64          // grows with each event after which :meta may be another
	solved atomic.Int64          // doubts when :meta was last read
	moved  atomic.Pointer[error] // nil: it is still as it was
	lost   atomic.Bool           // the store lost what is archived, and it was not put back yet
}

// noteLoss notes that the store has lost everything, or that it was put back. Where
// nothing is archived that changes nothing: there is nothing to put back.
func (c *Client) noteLoss(lost, restored bool) {
	switch {
	case restored:
		c.division.lost.Store(false)
	case lost && c.Archives():
		c.division.lost.Store(true)
	}
}

// MustHave is an error where the store lost what an archive has. A caller's repeat of
// what was delivered before would be new to it.
func (c *Client) MustHave() error {
	if !c.division.lost.Load() {
		return nil
	}
	return fmt.Errorf("project %s lost everything: put back what is archived by hookladder restore, or start this instance anew: %w",
		c.options.Project, dispatcher.ErrUnavailable)
}

// NoteRestored notes in :meta that what was archived was put back.
func (c *Client) NoteRestored(ctx context.Context) error {
	key := c.home + keys.Meta
	return c.At(ctx, "write "+key, Home, func(p redis.Pipeliner) { p.HSet(ctx, key, metaRestored, 1) })
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

// Doubt has :meta read again with the next beat.
func (c *Client) Doubt() { c.division.doubts.Add(1) }

// MustStand reads :meta and makes sure that the project is as it was. Where :meta
// can't be read that is no error: other partitions may answer.
func (c *Client) MustStand(ctx context.Context) error {
	r := &Recheck{c: c, doubts: c.division.doubts.Load()}
	if err := c.At(ctx, "read "+c.home+keys.Meta, Home, func(p redis.Pipeliner) { r.Read(ctx, p) }); err != nil {
		return c.stands()
	}
	return r.Err()
}

// Recheck reads :meta again together with the commands of another call.
type Recheck struct {
	c      *Client
	doubts int64 // that it solves
	have   *redis.SliceCmd
}

// Recheck is nil where there is no doubt: then nothing is read, and Err is nil.
func (c *Client) Recheck() *Recheck {
	if n := c.division.doubts.Load(); n != c.division.solved.Load() {
		return &Recheck{c: c, doubts: n}
	}
	return nil
}

// Read queues the reading of :meta.
func (r *Recheck) Read(ctx context.Context, p redis.Pipeliner) {
	if r != nil {
		r.have = p.HMGet(ctx, r.c.home+keys.Meta, MetaPartitions, MetaRepartition, MetaSchema, MetaID, MetaArchive, metaRestored)
	}
}

// Err is the error of a project that is not as it was.
func (r *Recheck) Err() error {
	if r == nil {
		return nil
	}
	r.c.compare(r.have, r.doubts)
	return r.c.stands()
}

// compare compares :meta with what it was at the start. A store that lost
// everything has an empty one, which proves nothing. So it is read again, until
// another instance has made the project anew, under another id.
func (c *Client) compare(have *redis.SliceCmd, doubts int64) {
	if have == nil || len(have.Val()) < 6 {
		return
	}
	partitions, _ := have.Val()[0].(string)
	text, _ := have.Val()[1].(string)
	schema, _ := have.Val()[2].(string)
	id, _ := have.Val()[3].(string)
	restored, _ := have.Val()[5].(string)
	c.noteLoss(partitions == "" || id != c.ID(), partitions != "" && restored != "")
	if id != c.ID() && c.TakeID(id) {
		c.NoteTakeover() // what was published under it was not heard
	}
	under, err := ParseMark(text)
	begun := text != "" && (err != nil || under.Phase > PhaseBegin)
	switch {
	case begun || partitions != "" && partitions != strconv.Itoa(len(c.tags)):
		c.move(fmt.Errorf("project %s is no longer divided into %d partitions: start this instance anew: %w",
			c.options.Project, len(c.tags), dispatcher.ErrMoved))
	case schema != "" && c.CheckLayout(schema) != nil:
		c.move(fmt.Errorf("%w: %w", c.CheckLayout(schema), dispatcher.ErrMoved))
	case partitions != "" && schema != "" && !c.division.lost.Load():
		c.division.solved.Store(doubts)
		archives, _ := have.Val()[4].(string)
		c.SetArchives(archives != "")
	default:
		c.Doubt()
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
