package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
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

// readMark returns the mark of this repartition, and whether it has begun before.
func (r *repartition) readMark(ctx context.Context) (m conn.Mark, again bool, err error) {
	meta, err := r.s.conn.ReadMeta(ctx)
	switch {
	case err != nil:
		return m, false, err
	case !meta.Exists:
		return m, false, errors.New("there is no such project in this Redis")
	}
	if err := r.s.conn.CheckLayout(meta.Schema); err != nil {
		return m, false, err
	}
	r.s.conn.TakeID(meta.ID) // without an id no instance is subscribed
	r.s.conn.TakeIndex(meta)
	m, marked, err := meta.Mark()
	switch {
	case err != nil:
		return m, false, err
	case marked && m.Phase > conn.PhaseBegin && m.To != r.options.To:
		return m, false, fmt.Errorf("one from %d to %d partitions has not ended: finish it with --to %d first", m.From, m.To, m.To)
	case marked && m.Phase > conn.PhaseBegin:
		return m, true, nil
	}
	from, err := meta.Partitions() // a marked one was stopped before it changed anything
	return conn.Mark{From: from, To: r.options.To}, false, err
}

// reach records that a phase has begun.
func (r *repartition) reach(ctx context.Context, p conn.Phase) error {
	r.mark.Phase = p
	if p != conn.PhaseBegin {
		r.report(p, -1)
	}
	return r.s.conn.SetMark(ctx, r.mark)
}

// mustBeMarked returns an error if the mark has changed, because another run may have
// ended this repartition while this process was stopped.
func (r *repartition) mustBeMarked(ctx context.Context) error {
	meta, err := r.s.conn.ReadMeta(ctx)
	if err != nil {
		return err
	}
	if mark, _, err := meta.Mark(); err != nil || mark != r.mark {
		return errors.New("another run has ended or changed it meanwhile")
	}
	return nil
}

// quietPoll is the time between two reads of the heartbeats, so a forgotten instance is
// reported soon.
const quietPoll = time.Second

// joinEvery is the time between two heartbeats of this run, by which another run detects
// it.
const joinEvery = time.Second

const joinName = "repartition-"

// join registers this run as an instance until leave is called. Of two concurrent runs
// one would delete data that the other still reads.
func (r *repartition) join(ctx context.Context) (leave func(), err error) {
	r.name = joinName + rand.Text()
	number := 0
	beat := func() error {
		number++
		return r.s.conn.At(ctx, "join", conn.Home, func(p redis.Pipeliner) { p.HSet(ctx, r.s.instances(), r.name, number) })
	}
	if err := beat(); err != nil {
		return func() {}, err
	}
	ended := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		tick := time.NewTicker(joinEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				_ = beat() // the repartition itself gets the same error
			}
		}
	})
	return func() {
		close(ended)
		beats.Wait()
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), withinMark)
		defer cancel()
		_ = r.s.Leave(after, r.name) // otherwise the next run must wait until it is dead
	}, nil
}

// mustBeQuiet returns an error while an instance is alive, which its heartbeat shows. It
// returns the deliveries leased by dead instances to their lanes, so that nothing is
// leased.
func (r *repartition) mustBeQuiet(ctx context.Context) error {
	watch := instanceWatch{
		readings: int((r.options.Quiet + quietPoll - 1) / quietPoll), every: quietPoll, wait: wait.Sleep, read: r.others,
		grown: func(names []string) error { return alive(slices.Min(names)) },
	}
	dead, err := watch.silent(ctx)
	if err != nil {
		return err
	}
	for key, err := range r.eachKey(ctx) {
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(key.name, keys.Leases); ok && !slices.Contains(dead, name) {
			dead = append(dead, name) // it was forgotten, but had leases
		}
	}
	for _, name := range dead {
		taken, err := r.s.Reap(ctx, r.by, name)
		r.out.Reaped += taken
		if err != nil {
			return err
		}
	}
	return nil
}

// ErrUnarchived means that something is not archived yet.
var ErrUnarchived = errors.New("not everything is archived")

// mustBeArchived returns an error if an archive does not have the whole log yet, unless
// that is allowed.
func (r *repartition) mustBeArchived(ctx context.Context) error {
	if r.options.Unarchived || r.mark.Phase > conn.PhaseBegin {
		return nil
	}
	meta, err := r.s.conn.ReadMeta(ctx)
	if err != nil || !meta.Archive {
		return err
	}
	states, err := NewFeed(r.s.Store).ReadStates(ctx, r.mark.From)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Last.After(s.At) {
			return fmt.Errorf("%w: partition %d is behind since %v; run an instance with ARCHIVE_URL until hookladder_archive_lag_seconds is 0, or allow it",
				ErrUnarchived, s.Partition, s.First.Format(time.RFC3339))
		}
	}
	return nil
}

// errBoth means that another run works on the same mark.
var errBoth = fmt.Errorf("another repartition runs: %w", ErrAlive)

func alive(name string) error {
	if strings.HasPrefix(name, joinName) {
		return errBoth
	}
	return fmt.Errorf("%w: %s; stop all of them first", ErrAlive, name)
}

// others returns the heartbeat numbers of all instances except this run.
func (r *repartition) others(ctx context.Context) (map[string]int64, error) {
	numbers, err := r.numbers(ctx)
	delete(numbers, r.name)
	return numbers, err
}

// end counts the partitions again, removes the old ones, and lets instances start again.
func (r *repartition) end(ctx context.Context) error {
	if err := r.mustBeMarked(ctx); err != nil {
		return err
	}
	if err := r.readRings(ctx, func(located, string) {}); err != nil {
		return err
	}
	if err := r.mustHaveMoved(); err != nil {
		return err
	}
	for q := range r.mark.To {
		if err := r.count(ctx, q); err != nil {
			return err
		}
		r.report(conn.PhaseCount, q)
	}
	if err := r.addEnds(ctx); err != nil {
		return err
	}
	if err := r.cutLogs(ctx); err != nil {
		return err
	}
	if err := r.setTimers(ctx); err != nil {
		return err
	}
	for n := r.mark.To; n < r.mark.From; n++ {
		if err := r.remove(ctx, n); err != nil {
			return err
		}
	}
	return r.s.conn.EndMark(ctx, r.mark.To)
}

// mustHaveMoved returns an error if a key of a lane is not in the lane's new partition.
func (r *repartition) mustHaveMoved() error {
	for n, ring := range r.rings {
		for prefix, list := range ring {
			for _, of := range list {
				if lane := owner(prefix + of); lane != "" && r.target(lane) != n {
					return errLeft(r.s.conn.Tag(n) + prefix + of)
				}
			}
		}
	}
	return nil
}

// count writes the counters of a partition again.
func (r *repartition) count(ctx context.Context, q int) error {
	c, err := r.newRecount(ctx, q)
	if err != nil {
		return err
	}
	key := r.s.conn.Tag(q) + keys.Counts
	if !c.whole {
		return fmt.Errorf("%s can't be counted: something else writes to this project; run it again", r.s.conn.Tag(q))
	}
	return r.s.conn.At(ctx, "count", q, func(p redis.Pipeliner) {
		p.Del(ctx, key)
		for field, n := range c.counted {
			if status, ok := strings.CutPrefix(field, "counts "); ok && n > 0 {
				p.HSet(ctx, key, status, n)
			}
		}
	})
}

// remove deletes a partition that no longer exists, once it has no data of a lane. It
// still has messages with only their ids, the pause of all lanes, its own data, the
// statistics of lanes without their own, lists of last digits that were cut, and the mark
// if a script was torn here.
func (r *repartition) remove(ctx context.Context, n int) error {
	var empty []string
	rest := []string{""} // the mark has no name after the tag
	for _, k := range keys.Kinds {
		switch {
		case k.Named():
		case k.Name == keys.Fan || laneOf(k) != nil && k.Of != keys.OfLanes:
			empty = append(empty, k.Name)
		default:
			rest = append(rest, k.Name)
		}
	}
	for _, of := range r.rings[n][keys.Health] {
		rest = append(rest, keys.Health+of) // * may be left
	}
	for _, of := range r.rings[n][keys.Digits] {
		rest = append(rest, keys.Digits+of) // the empty element of a list that was cut
	}
	there := make([]*redis.IntCmd, len(empty))
	err := r.s.conn.At(ctx, "remove "+r.s.conn.Tag(n), n, func(p redis.Pipeliner) {
		for i, name := range empty {
			there[i] = p.Exists(ctx, r.s.conn.Tag(n)+name)
		}
	})
	if err != nil {
		return err
	}
	for i, name := range empty {
		if there[i].Val() > 0 {
			return errLeft(r.s.conn.Tag(n) + name)
		}
	}
	return r.s.conn.At(ctx, "remove "+r.s.conn.Tag(n), n, func(p redis.Pipeliner) {
		for _, name := range rest {
			p.Unlink(ctx, r.s.conn.Tag(n)+name)
		}
	})
}
