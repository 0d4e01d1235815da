package redisq_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

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
