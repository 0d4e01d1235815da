package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// How calls are noted, and how they fail, below the queue: where a pipeline goes to
// Redis.

type callKey struct{}

func naming(ctx context.Context, c call) context.Context {
	return context.WithValue(ctx, callKey{}, &c)
}

// DialHook changes nothing.
func (c *testConn) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook changes nothing.
func (c *testConn) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook notes calls, and has them fail.
func (c *testConn) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		now, _ := ctx.Value(callKey{}).(*call)
		if now == nil {
			now = &call{name: nameOf(cmds)}
		}
		if now.name == "" {
			return next(ctx, cmds)
		}
		if err := c.q.begin(ctx, now, cmds); err != nil {
			return failAll(cmds, err)
		}
		if full, _ := ctx.Value(fullKey{}).(bool); full {
			return failAll(cmds, outOfMemory{})
		}
		if now.name == "claim" && c.q.heavy.Load() {
			noneFree(cmds)
		}
		up, failed := c.q.reached(now.name, cmds)
		if len(up) > 0 {
			if err := next(ctx, up); err != nil && failed == nil {
				failed = err
			}
		}
		if now.name == "trim" {
			c.q.trimmed(now.room, up)
		}
		c.q.mu.Lock()
		after, read := c.q.after, c.q.leasesRead
		c.q.mu.Unlock()
		if now.name == "leases" && read != nil {
			read()
		}
		if after != nil && now.name != "settle" { // what was settled is noted behind it
			if err := after(now.name); err != nil {
				return failAll(cmds, err)
			}
		}
		return failed
	}
}

func failAll(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

// tagStart begins each key of a partition: {p:0}, {p:1} …
const tagStart = "{" + project + ":"

// partitionOf is where a command goes; -1: to home.
func partitionOf(cmd redis.Cmder) int {
	for _, arg := range cmd.Args()[1:] {
		if text, ok := arg.(string); ok {
			if tag, _, found := strings.Cut(text, "}"); found && strings.HasPrefix(tag, tagStart) {
				if n, err := strconv.Atoi(tag[len(tagStart):]); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// noneFree has claims find their lanes too heavy, as with no permit free.
func noneFree(cmds []redis.Cmder) {
	for _, cmd := range cmds {
		if args := cmd.Args(); cmd.Name() == "evalsha" {
			args[len(args)-4] = 0 // behind it are the bytes, the suspects, and whether messages are read later
		}
	}
}

// nameOf is what commands without a call's name are.
func nameOf(cmds []redis.Cmder) string {
	for _, cmd := range cmds {
		args := cmd.Args()
		switch key := fmt.Sprint(args[min(1, len(args)-1)]); {
		case cmd.Name() == "hset" && strings.HasSuffix(key, keys.About):
			return "join"
		case cmd.Name() == "zrange" && strings.HasSuffix(key, keys.Departed):
			return "strays"
		case cmd.Name() == "hscan" && strings.HasSuffix(key, keys.Held):
			return "stopped lanes"
		case cmd.Name() == "hscan" && strings.HasSuffix(key, keys.LaneNames):
			return "lane names"
		}
	}
	return ""
}

// begin records a call; what hook says keeps it from being made.
func (q *testQueue) begin(ctx context.Context, c *call, cmds []redis.Cmder) error {
	q.mu.Lock()
	if !c.noted {
		c.noted, c.at = true, time.Now()
		for _, cmd := range cmds {
			if n := partitionOf(cmd); n >= 0 && !slices.Contains(c.asked, n) {
				c.asked = append(c.asked, n)
			}
		}
		if c.n == 0 {
			c.n = len(c.asked)
		}
		q.calls = append(q.calls, *c)
		q.counts[c.name]++
	}
	hook, hangs := q.hook, q.hangs
	q.mu.Unlock()
	if hook != nil {
		if err := hook(c.name); err != nil {
			return err
		}
	}
	if c.name == hangs {
		<-ctx.Done()
	}
	return ctx.Err()
}

// reached are the commands for partitions that answer; the others fail.
func (q *testQueue) reached(name string, cmds []redis.Cmder) (up []redis.Cmder, failed error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, cmd := range cmds {
		if err := q.down[partitionOf(cmd)]; err != nil && !(q.reads && name == "peek") {
			cmd.SetErr(err)
			failed = err
		} else {
			up = append(up, cmd)
		}
	}
	return up, failed
}

// Where the answer of trim has its values, behind the hint's.
const (
	trimFinished = 3
	trimDeadCut  = 6
	trimMore     = 8
	trimCutAge   = 9
	trimPlaced   = 11
)

// trimmed changes what trim answered to what a test says.
func (q *testQueue) trimmed(room bool, cmds []redis.Cmder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, cmd := range cmds {
		answer, ok := cmd.(*redis.Cmd)
		if !ok {
			continue
		}
		values, ok := answer.Val().([]any)
		if !ok || len(values) <= trimPlaced {
			continue
		}
		if room {
			n := min(q.old, 64)
			q.old, q.memory = q.old-n, q.memory+n
			values[trimFinished] = values[trimFinished].(int64) + int64(n)
		}
		if q.more--; q.more >= 0 {
			values[trimMore] = int64(1)
		}
		if q.placing {
			values[trimPlaced] = int64(1)
		}
		if q.cut.age > 0 {
			values[trimCutAge] = q.cut.age.Milliseconds()
		}
		values[trimDeadCut] = values[trimDeadCut].(int64) + int64(q.cut.dead)
	}
}
