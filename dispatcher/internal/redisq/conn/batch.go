package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// Call is what one partition, or home, is asked in a round trip, and what it
// answers.
type Call struct {
	Partition int
	Args      []any                 // of the batch's script; in a partition they stand behind by and conf
	Fill      func(redis.Pipeliner) // queues plain commands, before the script; it is called again where they are sent again

	Reply           // Values are of the script, Err is of the first command that failed
	Weak  error     // what was written is not as durable as asked
	Now   time.Time // by its master's clock, where the batch asks for it
	Sent  time.Time // by this host's clock, before it was sent last

	ran    *redis.Cmd // the script
	load   bool       // its script has to be loaded first
	loaded bool       // it was
}

// Batch is one round trip to all masters that its calls concern.
type Batch struct {
	Script  script.Script // each call runs it once; without a SHA they are plain commands
	By      string        // the instance that calls the script
	Doing   string        // the verb of its errors; empty: the script's name
	Clock   bool          // each master's time is read besides
	Durable bool          // what is written has to be as durable as the options ask
	Calls   []Call

	conf string // ARGV[2] of the script
}

// Everywhere is one call in each partition.
func (c *Client) Everywhere(args []any) []Call {
	calls := make([]Call, len(c.tags))
	for n := range calls {
		calls[n] = Call{Partition: n, Args: args}
	}
	return calls
}

// At makes plain commands where a partition lies, or home. What they answer is
// in what fill keeps of them. The error is of the first that failed; a missing
// value is none.
func (c *Client) At(ctx context.Context, doing string, partition int, fill func(redis.Pipeliner)) error {
	return c.Send(ctx, Batch{Doing: doing, Calls: []Call{{Partition: partition, Fill: fill}}})[0].Err
}

// RunHome runs a script on the project's own keys.
func (c *Client) RunHome(ctx context.Context, sc script.Script, args ...any) (*Reply, error) {
	done := c.Send(ctx, Batch{Script: sc, Calls: []Call{{Partition: Home, Args: args}}})
	return &done[0].Reply, done[0].Err
}

// EachPartition makes plain commands in partitions, all in one round trip. The
// error says which failed.
func (c *Client) EachPartition(ctx context.Context, doing string, in []int, fill func(p redis.Pipeliner, i int)) error {
	b := Batch{Doing: doing, Calls: make([]Call, len(in))}
	for i, n := range in {
		b.Calls[i] = Call{Partition: n, Fill: func(p redis.Pipeliner) { fill(p, i) }}
	}
	var errs []error
	for _, e := range c.Send(ctx, b) {
		errs = append(errs, c.InPartition(e.Partition, e.Err))
	}
	return partitions.Join(errs...)
}

// Value is what a command answered, nothing where it was never sent.
func Value[V, C any, P interface {
	*C
	Val() V
}](cmd P) (v V) {
	if cmd != nil {
		v = cmd.Val()
	}
	return v
}

// Send sends a batch and answers its calls. Redis may answer that it did not carry
// out a call: its keys are being moved, a node is taking over, or does not know the
// script. Such a call is sent again for a while. Without an answer it is unknown
// whether the call was carried out, and only the caller may repeat it.
func (c *Client) Send(ctx context.Context, b Batch) []Call {
	if b.Script.SHA != "" {
		b.conf = *c.conf.Load() + " " + c.indexKey() + " " + c.ID()
	}
	began, moved := time.Now(), c.stands()
	todo := make([]int, 0, len(b.Calls))
	for i := range b.Calls {
		e := &b.Calls[i]
		e.Reply, e.Weak, e.loaded = Reply{Err: moved}, nil, false // it may have been sent before
		if moved == nil {
			todo = append(todo, i)
		}
	}
	for tries, repaired := 1, false; len(todo) > 0; tries++ {
		c.exec(ctx, &b, todo)
		if wrong := ofWrongType(&b, todo); len(wrong) > 0 && !repaired {
			repaired = true
			c.exec(ctx, &b, c.repair(ctx, &b, wrong))
		}
		again, wait := todo[:0], time.Duration(0)
		for _, i := range todo {
			if after, ok := c.mayRepeat(&b.Calls[i], began, tries); ok {
				again, wait = append(again, i), max(wait, after)
			}
		}
		if todo = again; len(todo) > 0 && !Sleep(ctx, wait) {
			break
		}
	}
	for i := range b.Calls {
		b.Calls[i].Err = Failed(cmp.Or(b.Doing, b.Script.Name), b.Calls[i].Err)
	}
	return b.Calls
}

// exec sends calls to the masters of their partitions, to all at the same time. A
// slow master holds up its own calls only.
func (c *Client) exec(ctx context.Context, b *Batch, todo []int) {
	if c.cluster == nil {
		if len(todo) > 0 {
			c.roundTrip(ctx, c.single, b, todo)
		}
		return
	}
	groups := make(map[*redis.Client][]int, 4)
	for _, i := range todo {
		e := &b.Calls[i]
		master, err := c.MasterOf(ctx, e.Partition)
		if err != nil {
			e.Err = err
			continue
		}
		if e.Err = c.breaker.check(master.Options().Addr, b.Durable); e.Err == nil {
			groups[master] = append(groups[master], i)
		}
	}
	var others sync.WaitGroup
	for master, at := range groups {
		if delete(groups, master); len(groups) == 0 { // the last, often the only one, needs no goroutine
			c.roundTrip(ctx, master, b, at)
			break
		}
		others.Go(func() { c.roundTrip(ctx, master, b, at) })
	}
	others.Wait()
}

// roundTrip sends calls to their master, in one pipeline on one connection.
func (c *Client) roundTrip(ctx context.Context, master *redis.Client, b *Batch, at []int) {
	began := time.Now()
	pipe := master.Pipeline()
	timeOf := func() (now time.Time, err error) { return now, nil }
	if b.Clock {
		timeOf = c.askTime(ctx, pipe, b, at)
	}
	loaded := false
	for _, i := range at {
		if e := &b.Calls[i]; e.load {
			if !loaded {
				pipe.ScriptLoad(ctx, b.Script.Text)
			}
			loaded, e.load, e.loaded = true, false, true
		}
	}
	first := pipe.Len()
	ends := make([]int, len(at))
	for k, i := range at {
		c.queue(ctx, pipe, b, &b.Calls[i])
		ends[k] = pipe.Len()
	}
	waited := func() error { return nil }
	if b.Durable {
		waited = c.askDurable(ctx, pipe)
	}
	cmds, err := pipe.Exec(ctx)
	if err = unsent(cmds, err); err != nil {
		for _, i := range at {
			b.Calls[i].Err = err
		}
		return
	}
	now, err := timeOf()
	weak := waited()
	for k, i := range at {
		e := &b.Calls[i]
		e.Now, e.Err, e.Sent = now, err, began
		if e.Err == nil {
			e.Err = firstError(cmds[first:ends[k]])
		}
		if first = ends[k]; e.Err == nil {
			e.Weak = weak
			if e.ran != nil {
				e.Values, e.Err = e.ran.Slice()
			}
		}
	}
	if lost := lostOf(cmds); lost != nil {
		c.onLost(ctx, master, lost, began)
	} else if weak != nil {
		c.onWeak(master, weak)
	}
}

// queue puts the commands of a call in a pipeline. A script of the project's own
// keys gets no more arguments than the call's.
func (c *Client) queue(ctx context.Context, pipe redis.Pipeliner, b *Batch, e *Call) {
	if e.Fill != nil {
		e.Fill(pipe)
	}
	if b.Script.SHA == "" {
		return
	}
	args := make([]any, 0, 6+len(e.Args))
	args = append(args, "evalsha", b.Script.SHA, 1, c.Tag(e.Partition))
	if e.Partition != Home {
		args = append(args, b.By, b.conf)
	}
	e.ran = redis.NewCmd(ctx, append(args, e.Args...)...)
	_ = pipe.Process(ctx, e.ran) // it is only queued
}

// unsent is the error of commands for which Redis refused a connection: too many
// clients, a wrong password, a sentinel that knows no such master. go-redis tells
// it of the pipeline only: the commands look as if each had an empty answer.
func unsent(cmds []redis.Cmder, err error) error {
	if err == nil || slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotTried, err)
}

// firstError is the first error of commands. A missing value is none.
func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// askTime queues a question for the time by the clock that scripts read.
func (c *Client) askTime(ctx context.Context, pipe redis.Pipeliner, b *Batch, at []int) func() (time.Time, error) {
	if !c.options.TestClock {
		return pipe.Time(ctx).Result
	}
	for _, i := range at {
		if n := b.Calls[i].Partition; n != Home { // which has no clock
			given := pipe.Get(ctx, c.tags[n]+keys.Clock)
			return func() (time.Time, error) {
				micros, err := given.Int64()
				return time.UnixMicro(micros), err
			}
		}
	}
	return func() (now time.Time, err error) { return now, nil }
}
