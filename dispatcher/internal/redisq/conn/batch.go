package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Call is the part of a batch for one partition, or home, with its response.
type Call struct {
	Partition int
	Args      []any                 // of the batch's script; in a partition they follow by and conf
	Plain     bool                  // it runs only the commands of Fill, and not the script
	Fill      func(redis.Pipeliner) // queues plain commands before the script; it is called again if they are sent again

	Reply           // Values of the script, and Err of the first command that failed
	Weak  error     // the write is not as durable as required
	Now   time.Time // by its master's clock, if the batch requests it
	Sent  time.Time // by this host's clock, before it was last sent

	ran   *redis.Cmd // the script's command
	load  bool       // the script must be loaded first
	loads int        // how often the script was loaded for it
}

// Batch is one round trip to all masters of its calls.
type Batch struct {
	Script  Script // run once by each call; without a SHA there are only plain commands
	By      string // the instance that calls the script
	Doing   string // the verb in errors; empty: the script's name
	Clock   bool   // read each master's time too
	Durable bool   // writes must be as durable as the options require
	Calls   []Call

	conf string // ARGV[2] of the script
}

// Everywhere returns one call for each partition.
func (c *Client) Everywhere(args []any) []Call {
	calls := make([]Call, len(c.tags))
	for n := range calls {
		calls[n] = Call{Partition: n, Args: args}
	}
	return calls
}

// At runs plain commands in a partition, or at home. fill keeps the commands, which have
// the results. The error is the first one; a missing value is not an error.
func (c *Client) At(ctx context.Context, doing string, partition int, fill func(redis.Pipeliner)) error {
	return c.Send(ctx, Batch{Doing: doing, Calls: []Call{{Partition: partition, Fill: fill}}})[0].Err
}

// RunHome runs a script on the project's own keys.
func (c *Client) RunHome(ctx context.Context, sc Script, args ...any) (*Reply, error) {
	done := c.Send(ctx, Batch{Script: sc, Calls: []Call{{Partition: Home, Args: args}}})
	return &done[0].Reply, done[0].Err
}

// EachPartition runs plain commands in several partitions, in one round trip. The error
// names the partition that failed.
func (c *Client) EachPartition(ctx context.Context, doing string, in []int, fill func(p redis.Pipeliner, i int)) error {
	b := Batch{Doing: doing, Calls: make([]Call, len(in))}
	for i, n := range in {
		b.Calls[i] = Call{Partition: n, Fill: func(p redis.Pipeliner) { fill(p, i) }}
	}
	return c.SendEach(ctx, b, func(_ int, r *Call) error { return r.Err })
}

// Value returns the result of a command, or the zero value if it was never sent.
func Value[V, C any, P interface {
	*C
	Val() V
}](cmd P) (v V) {
	if cmd != nil {
		v = cmd.Val()
	}
	return v
}

// Send sends a batch and returns its calls. Redis may report that it did not run a call,
// because its keys are being moved, a node is taking over, or the script is unknown. Send
// retries such a call for a while. Without a response it is unknown whether the call ran,
// so only the caller may retry it.
func (c *Client) Send(ctx context.Context, b Batch) []Call {
	if b.Script.made != nil {
		b.Script = c.script(b.Script)
		b.conf = *c.conf.Load() + " " + c.indexKey() + " " + c.ID()
	}
	began, moved := time.Now(), c.changed()
	todo := make([]int, 0, len(b.Calls))
	for i := range b.Calls {
		e := &b.Calls[i]
		e.Reply, e.Weak, e.loads = Reply{Err: moved}, nil, 0 // it may have been sent before
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
		again, pause := todo[:0], time.Duration(0)
		for _, i := range todo {
			if after, ok := c.mayRepeat(&b.Calls[i], began, tries); ok {
				again, pause = append(again, i), max(pause, after)
			}
		}
		if todo = again; len(todo) > 0 && !wait.Sleep(ctx, pause) {
			break
		}
	}
	for i := range b.Calls {
		if b.Calls[i].Err != nil {
			c.noteTorn(&b.Calls[i])
		}
		b.Calls[i].Err = Failed(cmp.Or(b.Doing, b.Script.Name), b.Calls[i].Err)
	}
	return b.Calls
}

// exec sends calls to the masters of their partitions, all at the same time. A slow
// master delays only its own calls.
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
		if delete(groups, master); len(groups) == 0 { // the last one, often the only one, needs no goroutine
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
				pipe.ScriptLoad(ctx, b.Script.Text())
			}
			loaded, e.load, e.loads = true, false, e.loads+1
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
	if c.measure != nil {
		c.measure(b.Script.Name, time.Since(began))
	}
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

// queue adds the commands of a call to a pipeline. A script of the project's own keys
// gets only the call's arguments.
func (c *Client) queue(ctx context.Context, pipe redis.Pipeliner, b *Batch, e *Call) {
	if e.Fill != nil {
		e.Fill(pipe)
	}
	if b.Script.made == nil || e.Plain {
		return
	}
	args := make([]any, 0, 6+len(e.Args))
	args = append(args, "evalsha", b.Script.SHA(), 1, c.Tag(e.Partition))
	if e.Partition != Home {
		args = append(args, b.By, b.conf)
	}
	e.ran = redis.NewCmd(ctx, append(args, e.Args...)...)
	_ = pipe.Process(ctx, e.ran) // it is only queued
}

// unsent returns the error of commands for which Redis refused a connection: too many
// clients, a wrong password, or an unknown master in Sentinel. go-redis reports it for
// the pipeline only, and each command seems to have an empty response.
func unsent(cmds []redis.Cmder, err error) error {
	if err == nil || slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotTried, err)
}

// firstError returns the first error of commands. A missing value is not an error.
func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// askTime queues a query for the time, by the clock that scripts read.
func (c *Client) askTime(ctx context.Context, pipe redis.Pipeliner, b *Batch, at []int) func() (time.Time, error) {
	if !c.options.TestClock {
		return pipe.Time(ctx).Result
	}
	for _, i := range at {
		if n := b.Calls[i].Partition; n != Home { // home has no clock
			given := pipe.Get(ctx, c.tags[n]+keys.Clock)
			return func() (time.Time, error) {
				micros, err := given.Int64()
				return time.UnixMicro(micros), err
			}
		}
	}
	return func() (now time.Time, err error) { return now, nil }
}

// Each cuts n things into batches of at most size and calls do with the bounds.
func Each(n, size int, do func(from, to int)) {
	for from := 0; from < n; from += size {
		do(from, min(from+size, n))
	}
}

// The wait before a retry of a call that Redis did not run. It is repeatAfter with up to
// half of it added, so that instances spread. After MOVED it is between movedLeast and
// movedMost, while the table of the slots is read again. (Measured on a moving slot: 8
// retries of 100 ms, and 95 ms until the new table was read.)
const (
	repeatAfter = 100 * time.Millisecond
	movedLeast  = 20 * time.Millisecond
	movedMost   = 100 * time.Millisecond
)

// patience is how long a call may retry, because it delays the other calls of its batch.
// A slot with ten thousand messages moves in a fraction of that. After a partition took
// longer, each call tries it only once until it responds again. If each response takes
// long, the time alone says nothing, so triesLeast tries are always made. By then the
// table of the slots has been read again.
const (
	patience   = time.Second
	triesLeast = 5
)

// loadsMost is how often the script of one call is loaded. A server that forgets it at once is no store.
const loadsMost = 3

// passing are the responses for a temporary reason, which say that nothing was done. A
// slot is being moved, its replica takes over, or the node loads its data, is a replica
// by now, or is busy with another script. ASK is never followed, because that node does
// not have the keys that have not moved yet.
var passing = []string{"ASK ", "TRYAGAIN", "CLUSTERDOWN", "MOVED ", "LOADING", "READONLY", "MASTERDOWN", "BUSY "}

// mayRepeat reports whether a call must be sent again, and after which wait. It has been
// sent tries times.
func (c *Client) mayRepeat(e *Call, began time.Time, tries int) (after time.Duration, ok bool) {
	impatient := &c.impatient[e.Partition-Home]
	if e.Err == nil {
		if impatient.Load() { // checked first, because all callers would write to the same cache line
			impatient.Store(false)
		}
		return 0, false
	}
	word := Word(e.Err)
	if strings.HasPrefix(word, "NOSCRIPT") && e.loads < loadsMost {
		// The node was restarted, or took over from another. Scripts are not replicated. Somebody may flush
		// the scripts between the load and the call.
		e.load = true
		return 0, true
	}
	for _, prefix := range passing {
		if !strings.HasPrefix(word, prefix) {
			continue
		}
		c.reload(context.Background())
		if prefix == "MOVED " || prefix == "READONLY" {
			c.NoteTakeover()
		}
		switch {
		case impatient.Load():
			return 0, false
		case tries >= triesLeast && time.Since(began) > patience:
			impatient.Store(true)
			return 0, false
		case prefix == "MOVED ":
			return movedLeast + rand.N(movedMost-movedLeast), true
		}
		return repeatAfter + rand.N(repeatAfter/2), true
	}
	return 0, false
}

// ofWrongType returns the calls that failed because of a key with a wrong type, which a
// person wrote. Scripts read before they write, so nothing was changed.
func ofWrongType(b *Batch, todo []int) (wrong []int) {
	for _, i := range todo {
		if err := b.Calls[i].Err; err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// repair removes the keys of wrong types, and returns the calls to retry. Such a key has
// no data of ours, and it would stop its whole partition.
func (c *Client) repair(ctx context.Context, b *Batch, wrong []int) (again []int) {
	if c.options.Repair == nil {
		return nil
	}
	removed := map[int]bool{}
	for _, i := range wrong {
		n := b.Calls[i].Partition
		if _, done := removed[n]; !done {
			removed[n] = c.options.Repair(ctx, n)
		}
		if removed[n] {
			again = append(again, i)
		}
	}
	return again
}

// Word returns the error response of Redis from its first significant word, or "" without
// a response. Before version 7 an error in a script comes after the error of the script:
// "ERR Error running script (…): … -OOM command …".
func Word(err error) string {
	var answer redis.Error
	if !asAnswer(err, &answer) {
		return ""
	}
	text := answer.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		if at := strings.LastIndex(text, ": -"); at >= 0 {
			return text[at+len(": -"):]
		}
	}
	return text
}

// Share is the part of a list that one call sends to a partition.
type Share struct {
	Partition int
	At        []int // indices in the list, in its order
}

// Grouped divides a list of n things into shares by partition, of at most `most` things each; 0: no
// limit. The shares of a partition are in the order of the list, so calls in the same order see
// the effects of each other.
func Grouped(n, most int, partitionOf func(i int) int) []Share {
	var shares []Share
	open := make(map[int]int, 1) // partition → its last share
	for i := range n {
		partition := partitionOf(i)
		at, ok := open[partition]
		if !ok || most > 0 && len(shares[at].At) == most {
			at = len(shares)
			open[partition], shares = at, append(shares, Share{Partition: partition})
		}
		shares[at].At = append(shares[at].At, i)
	}
	return shares
}

// EachShare runs plain commands for each share, in one round trip. The error names the partition
// that failed.
func (c *Client) EachShare(ctx context.Context, doing string, shares []Share, fill func(p redis.Pipeliner, k int)) error {
	in := make([]int, len(shares))
	for k, share := range shares {
		in[k] = share.Partition
	}
	return c.EachPartition(ctx, doing, in, fill)
}

// SendEach sends a batch and passes each call to read, also one that failed. It joins the errors
// that read returns, each as the error of its partition.
func (c *Client) SendEach(ctx context.Context, b Batch, read func(i int, r *Call) error) error {
	var errs []error
	for i, done := 0, c.Send(ctx, b); i < len(done); i++ {
		if err := read(i, &done[i]); err != nil {
			errs = append(errs, c.InPartition(done[i].Partition, err))
		}
	}
	return JoinErrors(errs...)
}

// PartitionOf is the partition of a lane.
func (c *Client) PartitionOf(lane dispatcher.Lane) int {
	if len(c.tags) == 1 {
		return 0
	}
	return keys.Partition(string(lane), len(c.tags))
}

// PartitionsOf returns the partitions of lanes, in order. Without lanes it returns all.
func (c *Client) PartitionsOf(lanes []dispatcher.Lane) (in []int) {
	if len(lanes) == 0 {
		return c.All()
	}
	for _, lane := range lanes {
		in = append(in, c.PartitionOf(lane))
	}
	slices.Sort(in)
	return slices.Compact(in)
}
