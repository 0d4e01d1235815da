package conn

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// ScriptCall is one call of a script in one partition.
type ScriptCall struct {
	Partition int
	Args      []any                 // behind by and conf
	First     func(redis.Pipeliner) // queues plain commands before it; nil: none
}

// Everywhere is one call in each partition.
func (c *Client) Everywhere(args []any) []ScriptCall {
	calls := make([]ScriptCall, len(c.tags))
	for n := range calls {
		calls[n] = ScriptCall{Partition: n, Args: args}
	}
	return calls
}

// Run runs a script once for each call, all in one round trip.
func (c *Client) Run(ctx context.Context, sc script.Script, by string, calls []ScriptCall) []Reply {
	return c.run(ctx, Batch{script: &sc}, by, calls)
}

// RunDurable is Run for what has to be as durable as the options ask.
func (c *Client) RunDurable(ctx context.Context, sc script.Script, by string, calls []ScriptCall) []Reply {
	return c.run(ctx, Batch{script: &sc, Durable: true}, by, calls)
}

func (c *Client) run(ctx context.Context, b Batch, by string, calls []ScriptCall) []Reply {
	b.Calls = make([]Call, len(calls))
	cmds := make([]*redis.Cmd, len(calls))
	conf := *c.conf.Load() + " " + c.ID()
	for i, call := range calls {
		args := make([]any, 0, 2+len(call.Args))
		args = append(append(args, by, conf), call.Args...)
		b.Calls[i] = Call{Partition: call.Partition, Fill: func(p redis.Pipeliner) {
			if call.First != nil {
				call.First(p)
			}
			cmds[i] = p.EvalSha(ctx, b.script.SHA, []string{c.tags[call.Partition]}, args...)
		}}
	}
	c.Send(ctx, &b)
	replies := make([]Reply, len(calls))
	for i, e := range b.Calls {
		replies[i] = Reply{Weak: e.Weak, Err: Failed(b.script.Name, e.Err)}
		if e.Err == nil {
			values, err := cmds[i].Slice()
			replies[i].Values, replies[i].Err = values, Failed(b.script.Name, err)
		}
	}
	return replies
}

// RunHome runs a script on the project's own keys. It gets no more arguments
// than these.
func (c *Client) RunHome(ctx context.Context, sc script.Script, args ...any) (*Reply, error) {
	var cmd *redis.Cmd
	b := Batch{script: &sc, Calls: []Call{{Partition: Home, Fill: func(p redis.Pipeliner) {
		cmd = p.EvalSha(ctx, sc.SHA, []string{c.home}, args...)
	}}}}
	c.Send(ctx, &b)
	if err := b.Calls[0].Err; err != nil {
		return &Reply{}, Failed(sc.Name, err)
	}
	values, err := cmd.Slice()
	return &Reply{Values: values}, Failed(sc.Name, err)
}
