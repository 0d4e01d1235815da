package redisqtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Sent is one command that a store sent. A script has its own name.
type Sent struct {
	Name  string
	Args  int // arguments after the name, or after the key of a script
	Bytes int // of the reply
	Size  int // of the reply, in values
	Trip  int // the number of its round trip
}

// Gauge is a hook that measures the commands of a store and their replies.
type Gauge struct {
	names map[string]string

	mu    sync.Mutex
	trips int
	sent  []Sent
}

// Measure adds a gauge to a client. names maps the SHA of each script to its
// name.
func Measure(client redis.UniversalClient, names map[string]string) *Gauge {
	g := &Gauge{names: names}
	client.AddHook(g)
	return g
}

// DialHook changes nothing.
func (g *Gauge) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook records a command.
func (g *Gauge) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		g.note([]redis.Cmder{cmd})
		return err
	}
}

// ProcessPipelineHook records commands.
func (g *Gauge) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		g.note(cmds)
		return err
	}
}

func (g *Gauge) note(cmds []redis.Cmder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trips++
	for _, cmd := range cmds {
		s := Sent{Name: strings.ToLower(cmd.Name()), Args: len(cmd.Args()) - 1, Trip: g.trips}
		if s.Name == "evalsha" {
			s.Name, s.Args = g.names[cmd.Args()[1].(string)], len(cmd.Args())-4
		}
		switch c := cmd.(type) {
		case *redis.Cmd:
			s.Bytes = weigh(c.Val())
			list, _ := c.Val().([]any)
			s.Size = len(list)
		case *redis.SliceCmd:
			s.Bytes = weigh(c.Val())
		case *redis.StringSliceCmd:
			s.Bytes, s.Size = len(strings.Join(c.Val(), "")), len(c.Val())
		case *redis.ZSliceCmd:
			s.Size = len(c.Val())
		case *redis.StringCmd:
			s.Bytes = len(c.Val())
		case *redis.ScanCmd:
			page, _ := c.Val()
			s.Bytes = len(strings.Join(page, ""))
		}
		g.sent = append(g.sent, s)
	}
}

// Of returns the commands of a name since the last call of Of.
func (g *Gauge) Of(name string) (found []Sent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sent {
		if s.Name == name {
			found = append(found, s)
		}
	}
	g.sent = nil
	return found
}

// All returns the commands since the last call of Of.
func (g *Gauge) All() []Sent {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.sent)
}

// weigh returns the number of bytes of text in a reply.
func weigh(v any) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		for _, one := range v {
			n += weigh(one)
		}
	}
	return n
}
