package redisq_test

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// sized is one command that a store sent, or a script by its name.
type sized struct {
	name  string
	args  int // after the name; for a script those after its key
	bytes int // of the answer
	size  int // of the answer, in values
	trip  int // the number of its round trip
}

// gauge is a hook that measures the commands of a store and their answers.
type gauge struct {
	names map[string]string

	mu    sync.Mutex
	trips int
	sent  []sized
}

// measured gives a store a gauge.
func measured(s *redisq.Store) *gauge {
	g := &gauge{names: redisq.SHAs()}
	s.Client().AddHook(g)
	return g
}

func (g *gauge) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gauge) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		g.note([]redis.Cmder{cmd})
		return err
	}
}

func (g *gauge) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		g.note(cmds)
		return err
	}
}

func (g *gauge) note(cmds []redis.Cmder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trips++
	for _, cmd := range cmds {
		s := sized{name: strings.ToLower(cmd.Name()), args: len(cmd.Args()) - 1, trip: g.trips}
		if s.name == "evalsha" {
			s.name, s.args = g.names[cmd.Args()[1].(string)], len(cmd.Args())-4
		}
		switch c := cmd.(type) {
		case *redis.Cmd:
			s.bytes = weigh(c.Val())
			list, _ := c.Val().([]any)
			s.size = len(list)
		case *redis.SliceCmd:
			s.bytes = weigh(c.Val())
		case *redis.StringSliceCmd:
			s.bytes, s.size = len(strings.Join(c.Val(), "")), len(c.Val())
		case *redis.ZSliceCmd:
			s.size = len(c.Val())
		case *redis.StringCmd:
			s.bytes = len(c.Val())
		case *redis.ScanCmd:
			page, _ := c.Val()
			s.bytes = len(strings.Join(page, ""))
		}
		g.sent = append(g.sent, s)
	}
}

// of are the commands of a name since its last call.
func (g *gauge) of(name string) (found []sized) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sent {
		if s.name == name {
			found = append(found, s)
		}
	}
	g.sent = nil
	return found
}

// afterwards is a hook that does something after each answer to a script.
type afterwards struct {
	name string
	do   func()
}

func (a *afterwards) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *afterwards) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (a *afterwards) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if cmd.Name() == "evalsha" && redisq.SHAs()[cmd.Args()[1].(string)] == a.name {
				a.do()
			}
		}
		return err
	}
}

// weigh is the number of bytes of text in an answer.
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
