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

// A repartition moves a project to another number of partitions while nothing
// serves it. A lane's partition is CRC-16 of its name modulo their number, and
// old and new ones share their tags, so lanes move from one to another.
//
// It may end anywhere, and be run again. Whatever moves is first written to its
// new place, in a way that may be repeated. Only then it is removed from the old
// one. So each thing is in one of the two places, or in both and the same. A mark
// in :meta tells the progress. While it is there, no instance serves.
//
// The stream of attempts stays where it is, and goes with its partition; from when
// on the log is whole is noted anew. An archive begins anew with what has not finished.

// RepartitionOptions say what a repartition does.
type RepartitionOptions struct {
	To     int           // partitions
	DryRun bool          // nothing is changed, only counted
	Quiet  time.Duration // how long no instance's number may grow

	// Unarchived allows it while something is not archived, which then never will be
	// but for what has not finished.
	Unarchived bool

	// Tell is called at each step; may be nil.
	Tell func(RepartitionStep)

	hook  redis.Hook // of tests, which end it anywhere
	page  int        // entries that are moved at a time; 0: entriesPage
	bytes int        // of messages that are carried at a time; 0: carriedAtOnce
}

// RepartitionStep is how far a repartition is.
type RepartitionStep struct {
	Phase     string // begin, ids, move or count
	Partition int    // that was gone through; -1: none yet
	Of        int
	Moved     Moved // so far
}

// Moved counts what a repartition carried to other partitions, or of a dry run
// would carry. One that is run again counts from there.
type Moved struct {
	Messages   int // each once for every partition that it went to
	Deliveries int
	Lanes      int
	IDs        int // known ids of messages that are gone, copied to each partition that may be asked for them; of a dry run about
	Forgotten  int // such ids that DEDUP_MAX has no room for in so many partitions
}

// Repartitioned is what came of a repartition.
type Repartitioned struct {
	From, To int
	Again    bool // it went on with one that had not ended
	Reaped   int  // deliveries that dead instances still held
	Moved    Moved
}

// ErrAlive says that an instance is at work.
var ErrAlive = errors.New("an instance is alive")

// repartition is one under way.
type repartition struct {
	walker
	options RepartitionOptions
	name    string // as which it is among the instances
	page    int64
	known   int // ids of messages that are gone, which a project may keep
	mark    conn.Mark
	out     Repartitioned
}

// Repartition moves all of a project to another number of partitions.
func Repartition(ctx context.Context, o redisq.Options, r RepartitionOptions) (Repartitioned, error) {
	queue, err := redisq.Connect(ctx, o)
	if err != nil {
		return Repartitioned{}, fmt.Errorf("open redis: %w", err)
	}
	defer queue.Close() //nolint:errcheck // all that was written was answered
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
		return r.unmark(ctx) // one that was ended before it changed anything
	}
	if err := r.s.Divide(ctx, o, max(r.mark.From, r.mark.To)); err != nil {
		return err
	}
	r.s.divide()
	if !r.out.Again { // what is lost would be looked for in partitions that have other data then
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
		return fmt.Errorf("%w; run it again, it goes on from here", err)
	}
	return nil
}

// move goes through the phases that are left.
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

// begin marks the project, so that no instance starts, and waits until it is
// sure that none works. Where something is in the way the mark goes again,
// unless things were moved already.
func (r *repartition) begin(ctx context.Context) error {
	r.tell(conn.PhaseBegin, -1)
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
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), withinMark) // also where somebody pressed Ctrl-C
		defer cancel()
		err = errors.Join(err, r.unmark(after))
	}
	return err
}

// withinMark is how long taking the mark away again may take.
const withinMark = 5 * time.Second

// rehearse counts what would move.
func (r *repartition) rehearse(ctx context.Context) error {
	if err := r.mustNotClash(ctx); err != nil {
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
		r.tell(conn.PhaseMove, n)
	}
	return nil
}

// moveAll moves what belongs to lanes. Only the old partitions have any that
// have to.
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
		r.tell(conn.PhaseMove, n)
	}
	return r.moveKeys(ctx)
}

func (r *repartition) tell(p conn.Phase, partition int) {
	if r.options.Tell != nil {
		r.options.Tell(RepartitionStep{Phase: p.String(), Partition: partition, Of: r.mark.From, Moved: r.out.Moved})
	}
}

// target is where a lane lies from now on.
func (r *repartition) target(lane string) int { return keys.Partition(lane, r.mark.To) }

// trip makes a round trip. A durable one is a copy, which may lie on another server.
// There it has to be as durable as DURABILITY asks before the original is removed.
// One server writes things in their order.
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
