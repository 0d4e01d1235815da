package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// A repartition moves a project to another number of partitions while no instance runs. A
// lane's partition is CRC-16 of its name modulo the number of partitions, so lanes move
// from one partition to another.
//
// It can be stopped at any time and run again. All data are first written to their new
// place, in a way that may be repeated. Only then they are removed from the old place. So
// everything is in one of the two places, or the same in both. A mark in :meta has the
// progress. While it exists, no instance starts.
//
// The stream of attempts stays in its partition. The time from which the log is complete
// is recorded again. An archive starts again with the unfinished deliveries.

// RepartitionOptions configure a repartition.
type RepartitionOptions struct {
	To     int           // partitions
	DryRun bool          // only count, and change nothing
	Quiet  time.Duration // how long no instance may have a heartbeat

	// Unarchived allows a repartition before everything is archived. The missing events
	// are never archived, except events of unfinished
	// deliveries.
	Unarchived bool

	// Progress is called at each step. It may be nil.
	Progress func(RepartitionStep)

	hook  redis.Hook // for tests, which stop the repartition anywhere
	page  int        // entries moved at once; 0: entriesPage
	bytes int        // bytes of messages copied at once; 0: carriedAtOnce
}

// RepartitionStep is the progress of a repartition.
type RepartitionStep struct {
	Phase     string // begin, ids, move or count
	Partition int    // the last finished one; -1: none
	Of        int
	Moved     Moved // so far
}

// Moved counts the data that a repartition has copied to other partitions, or would copy
// in a dry run. A repeated repartition starts at 0.
type Moved struct {
	Messages   int // once for each partition that it was copied to
	Deliveries int
	Lanes      int
	IDs        int // known ids of forgotten messages, copied to each partition that may need them; estimated in a dry run
	Forgotten  int // known ids above DEDUP_MAX with the new number of partitions
}

// Repartitioned is the result of a repartition.
type Repartitioned struct {
	From, To int
	Again    bool // it continued an unfinished one
	Reaped   int  // deliveries that dead instances had leased
	Moved    Moved
	Refused  error // of a dry run: a repartition would refuse with it now; nil: it would not
}

// ErrAlive means that an instance is running.
var ErrAlive = errors.New("an instance is alive")

// repartition is a running repartition.
type repartition struct {
	walker
	options RepartitionOptions
	name    string // its name among the instances
	page    int64
	known   int // how many ids of forgotten messages a project may keep
	mark    conn.Mark
	out     Repartitioned
}

// Repartition moves a project to another number of partitions.
func Repartition(ctx context.Context, o redisq.Options, r RepartitionOptions) (Repartitioned, error) {
	queue, err := redisq.Connect(ctx, o)
	if err != nil {
		return Repartitioned{}, fmt.Errorf("open redis: %w", err)
	}
	defer queue.Close() //nolint:errcheck // all writes were confirmed
	s := newStore(queue)
	if r.hook != nil {
		s.conn.Redis().AddHook(r.hook)
	}
	r.page, r.bytes = cmp.Or(r.page, entriesPage), cmp.Or(r.bytes, carriedAtOnce)
	run := &repartition{walker: walker{s: s, by: "repartition"}, options: r, known: o.Keep.SeenMax, page: int64(r.page)}
	if err := run.carryOut(ctx, o); err != nil {
		return run.out, fmt.Errorf("repartition %s: %w", o.Project, err)
	}
	return run.out, nil
}

func (r *repartition) carryOut(ctx context.Context, o redisq.Options) error {
	var err error
	if r.mark, r.out.Again, err = r.readMark(ctx); err != nil {
		return err
	}
	r.out.From, r.out.To = r.mark.From, r.mark.To
	if r.mark.From == r.mark.To {
		if r.options.DryRun {
			return nil
		}
		return r.s.conn.RemoveMark(ctx) // it was stopped before it changed anything
	}
	if err := r.s.Divide(ctx, o, max(r.mark.From, r.mark.To)); err != nil {
		return err
	}
	r.s.divide()
	if !r.out.Again { // the partitions have moved data then, so a loss can't be detected
		if err := r.s.conn.Whole(ctx, r.mark.From); err != nil {
			return err
		}
	}
	if r.options.DryRun {
		return r.rehearse(ctx)
	}
	if err := r.mustBeArchived(ctx); err != nil {
		return err
	}
	leave, err := r.join(ctx)
	defer leave()
	if err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	r.s.Audit().Record(ctx, dispatcher.AuditEntry{
		By: dispatcher.System, What: "repartition", Detail: fmt.Sprintf("from %d to %d partitions", r.out.From, r.out.To),
	})
	if err := r.move(ctx); err != nil {
		return fmt.Errorf("%w; run it again, it continues from here", err)
	}
	return nil
}

// move runs the remaining phases.
func (r *repartition) move(ctx context.Context) error {
	for _, step := range []struct {
		phase conn.Phase
		do    func(context.Context) error
	}{{conn.PhaseIDs, r.moveIDs}, {conn.PhaseMove, r.moveAll}, {conn.PhaseCount, r.end}} {
		if r.mark.Phase > step.phase {
			continue
		}
		if err := r.reach(ctx, step.phase); err != nil {
			return err
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin marks the project, so that no instance starts, and waits until no instance runs.
// If it fails it removes the mark, unless data were moved already.
func (r *repartition) begin(ctx context.Context) error {
	r.report(conn.PhaseBegin, -1)
	if !r.out.Again {
		if err := r.reach(ctx, conn.PhaseBegin); err != nil {
			return err
		}
	}
	err := r.mustBeQuiet(ctx)
	if err == nil && r.mark.Phase == conn.PhaseBegin {
		if err = r.mustNotClash(ctx); err == nil {
			return r.mustBeMarked(ctx)
		}
	}
	if err != nil && r.mark.Phase == conn.PhaseBegin && !errors.Is(err, errBoth) {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), withinMark) // even after Ctrl-C
		defer cancel()
		err = errors.Join(err, r.s.conn.RemoveMark(after))
	}
	return err
}

// withinMark is the timeout for removing the mark.
const withinMark = 5 * time.Second

// rehearse counts the data that would move.
func (r *repartition) rehearse(ctx context.Context) error {
	if err := r.mustNotClash(ctx); err != nil {
		return err
	}
	switch err := r.mustBeArchived(ctx); {
	case errors.Is(err, ErrUnarchived):
		r.out.Refused = err
	case err != nil:
		return err
	}
	if err := r.moveIDs(ctx); err != nil {
		return err
	}
	in := keys.Find(keys.In)
	for n := range r.mark.From {
		if err := r.moveMessages(ctx, n); err != nil {
			return err
		}
		if err := r.moveKey(ctx, n, in, ""); err != nil {
			return err
		}
		r.report(conn.PhaseMove, n)
	}
	return nil
}

// moveAll moves the data of lanes. Only the old partitions have data to move.
func (r *repartition) moveAll(ctx context.Context) error {
	for n := range r.mark.From {
		if err := r.moveMessages(ctx, n); err != nil {
			return err
		}
		if err := r.moveEntries(ctx, n); err != nil {
			return err
		}
		if err := r.copyEnds(ctx, n); err != nil {
			return err
		}
		if err := r.moveJobs(ctx, n); err != nil {
			return err
		}
		r.report(conn.PhaseMove, n)
	}
	return r.moveKeys(ctx)
}

func (r *repartition) report(p conn.Phase, partition int) {
	if r.options.Progress != nil {
		r.options.Progress(RepartitionStep{Phase: p.String(), Partition: partition, Of: r.mark.From, Moved: r.out.Moved})
	}
}

// target returns the new partition of a lane.
func (r *repartition) target(lane string) int { return keys.Partition(lane, r.mark.To) }

// trip sends a batch. A durable batch writes copies, maybe to another server. There they
// must be as durable as DURABILITY requires before the originals are removed. One server
// keeps the order of its writes.
func (r *repartition) trip(ctx context.Context, b conn.Batch) error {
	b.Durable = b.Durable && r.s.conn.InCluster()
	for _, e := range r.s.conn.Send(ctx, b) {
		if e.Err == nil {
			e.Err = conn.Failed(cmp.Or(b.Doing, b.Script.Name), e.Weak)
		}
		if e.Err != nil {
			return e.Err
		}
	}
	return nil
}
