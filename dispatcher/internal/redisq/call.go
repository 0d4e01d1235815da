package redisq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// home stands for a partition where the project's own keys are meant.
const home = -1

// errand is what one partition, or home, is asked in a round trip.
type errand struct {
	partition int
	fill      func(redis.Pipeliner) // queues its commands; called again where it has to be sent again
	load      bool                  // its script has to be loaded first
	loaded    bool                  // it was

	now  time.Time // by its master's clock, where the trip asks for it
	weak error     // what was written is not as durable as asked
	err  error     // of the first of its commands that failed
}

// trip is one round trip to all masters that its errands concern.
type trip struct {
	script  *script.Script // which the errands call; nil: plain commands
	clock   bool           // each master's time is read besides
	durable bool           // what is written has to be as durable as the options ask
	errands []errand
}

// at makes plain commands where a partition lies, or home. What they answer is
// in what fill keeps of them; the error is of the first that failed, but not
// where it was that there is nothing.
func (s *Store) at(ctx context.Context, doing string, partition int, fill func(redis.Pipeliner)) error {
	t := trip{errands: []errand{{partition: partition, fill: fill}}}
	s.send(ctx, &t)
	return s.failed(doing, t.errands[0].err)
}

// everyPartition makes plain commands in partitions, all in one round trip. The
// error joins a PartitionError of each that failed.
func (s *Store) everyPartition(ctx context.Context, doing string, partitions []int, fill func(p redis.Pipeliner, i int)) error {
	t := trip{errands: make([]errand, len(partitions))}
	for i, n := range partitions {
		t.errands[i] = errand{partition: n, fill: func(p redis.Pipeliner) { fill(p, i) }}
	}
	s.send(ctx, &t)
	var errs []error
	for i, n := range partitions {
		errs = append(errs, inPartition(n, s.failed(doing, t.errands[i].err)))
	}
	return join(errs...)
}

// valueOf is what a command answered, nothing where it was never sent.
func valueOf[V, C any, P interface {
	*C
	Val() V
}](cmd P) (v V) {
	if cmd != nil {
		v = cmd.Val()
	}
	return v
}

// all are the numbers of all partitions.
func (s *Store) all() []int {
	all := make([]int, len(s.tags))
	for n := range all {
		all[n] = n
	}
	return all
}

// job is one call of a script in one partition.
type job struct {
	partition int
	args      []any                 // behind by and conf
	first     func(redis.Pipeliner) // queues plain commands before it; nil: none
}

// reply is what one job answered.
type reply struct {
	values []any
	weak   error // it was carried out, but is not as durable as asked
	err    error
}

// run calls a script once for each job, all in one round trip.
func (s *Store) run(ctx context.Context, sc script.Script, by string, jobs []job) []reply {
	return s.runJobs(ctx, trip{script: &sc}, by, jobs)
}

// runDurable is run for what has to be as durable as the options ask.
func (s *Store) runDurable(ctx context.Context, sc script.Script, by string, jobs []job) []reply {
	return s.runJobs(ctx, trip{script: &sc, durable: true}, by, jobs)
}

func (s *Store) runJobs(ctx context.Context, t trip, by string, jobs []job) []reply {
	t.errands = make([]errand, len(jobs))
	cmds := make([]*redis.Cmd, len(jobs))
	conf := s.shares.conf.Load().(string) + " " + s.identity.get()
	for i, j := range jobs {
		args := make([]any, 0, 2+len(j.args))
		args = append(append(args, by, conf), j.args...)
		t.errands[i] = errand{partition: j.partition, fill: func(p redis.Pipeliner) {
			if j.first != nil {
				j.first(p)
			}
			cmds[i] = p.EvalSha(ctx, t.script.SHA, []string{s.tags[j.partition]}, args...)
		}}
	}
	s.send(ctx, &t)
	replies := make([]reply, len(jobs))
	for i, e := range t.errands {
		replies[i] = reply{weak: e.weak, err: s.failed(t.script.Name, e.err)}
		if e.err == nil {
			values, err := cmds[i].Slice()
			replies[i].values, replies[i].err = values, s.failed(t.script.Name, err)
		}
	}
	return replies
}

// send makes a trip. Errands that Redis said it did not carry out, since their
// keys are being moved, a node is taking over or does not know the script, are
// sent again for a while; where nothing was answered nobody knows whether they
// were carried out, so that it is the caller who may repeat.
func (s *Store) send(ctx context.Context, t *trip) {
	if len(t.errands) == 0 {
		return
	}
	if err := s.stands(); err != nil {
		for i := range t.errands {
			t.errands[i].err = err
		}
		return
	}
	began := time.Now()
	todo := make([]int, len(t.errands))
	for i := range todo {
		todo[i] = i
	}
	for tries, mended := 1, false; ; tries++ {
		s.carry(ctx, t, todo)
		if wrong := ofWrongKind(t, todo); len(wrong) > 0 && !mended {
			mended = true
			s.mend(ctx, t, wrong)
		}
		again, wait := todo[:0], time.Duration(0)
		for _, i := range todo {
			if after, ok := s.mayRepeat(&t.errands[i], began, tries); ok {
				again, wait = append(again, i), max(wait, after)
			}
		}
		if todo = again; len(todo) == 0 || !sleep(ctx, wait) {
			return
		}
	}
}

// carry sends errands to the masters of their partitions, to all at the same
// time: one that is slow holds up what is sent with it, not what the others do.
func (s *Store) carry(ctx context.Context, t *trip, todo []int) {
	if s.cluster == nil {
		s.visit(ctx, s.single, t, todo)
		return
	}
	groups := make(map[*redis.Client][]int, 4)
	for _, i := range todo {
		e := &t.errands[i]
		master, err := s.cluster.MasterForKey(ctx, s.tagOf(e.partition))
		if err != nil {
			e.err = fmt.Errorf("%w: %w", errNotTried, err)
			continue
		}
		addr := master.Options().Addr
		if e.err = s.gates.shut(addr); e.err == nil && t.durable {
			e.err = s.weak.shut(addr)
		}
		if e.err == nil {
			groups[master] = append(groups[master], i)
		}
	}
	var others sync.WaitGroup
	for master, at := range groups {
		if delete(groups, master); len(groups) == 0 { // the last, often the only one, needs no goroutine
			s.visit(ctx, master, t, at)
			break
		}
		others.Go(func() { s.visit(ctx, master, t, at) })
	}
	others.Wait()
}

// visit sends errands to their master, in one pipeline on one connection.
func (s *Store) visit(ctx context.Context, master *redis.Client, t *trip, at []int) {
	began := time.Now()
	pipe := master.Pipeline()
	timeOf := func() (now time.Time, err error) { return now, nil }
	if t.clock {
		timeOf = s.askTime(ctx, pipe, t, at)
	}
	loaded := false
	for _, i := range at {
		if e := &t.errands[i]; e.load {
			if !loaded {
				pipe.ScriptLoad(ctx, t.script.Text)
			}
			loaded, e.load, e.loaded = true, false, true
		}
	}
	first := pipe.Len()
	ends := make([]int, len(at))
	for k, i := range at {
		t.errands[i].fill(pipe)
		ends[k] = pipe.Len()
	}
	waited := func() error { return nil }
	if t.durable {
		waited = s.askDurable(ctx, pipe)
	}
	cmds, err := pipe.Exec(ctx)
	if err = unsent(cmds, err); err != nil {
		for _, i := range at {
			t.errands[i].err = err
		}
		return
	}
	now, err := timeOf()
	weak := waited()
	for k, i := range at {
		e := &t.errands[i]
		e.now, e.err = now, err
		if e.err == nil {
			e.err = firstError(cmds[first:ends[k]])
		}
		if first = ends[k]; e.err == nil {
			e.weak = weak
		}
	}
	if lost := lostOf(cmds); lost != nil {
		s.noteLost(ctx, master, lost, began)
	} else if weak != nil {
		s.noteWeak(master, weak)
	}
}

// unsent is the error of commands for which there was no connection, since Redis
// refused it: too many clients, another password, a sentinel that knows no such
// master. go-redis tells that of the pipeline only: the commands look as if each
// had been answered with nothing.
func unsent(cmds []redis.Cmder, err error) error {
	if err == nil || slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return nil
	}
	return fmt.Errorf("%w: %w", errNotTried, err)
}

// firstError is the first error of commands. That there is nothing is none.
func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// askTime queues a question for the time by the clock that scripts read.
func (s *Store) askTime(ctx context.Context, pipe redis.Pipeliner, t *trip, at []int) func() (time.Time, error) {
	if !s.testClock {
		return pipe.Time(ctx).Result
	}
	for _, i := range at {
		if n := t.errands[i].partition; n != home { // which has no clock
			given := pipe.Get(ctx, s.tags[n]+keys.Clock)
			return func() (time.Time, error) {
				micros, err := given.Int64()
				return time.UnixMicro(micros), err
			}
		}
	}
	return func() (now time.Time, err error) { return now, nil }
}
