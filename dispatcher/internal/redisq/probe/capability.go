package probe

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// commands are those that the scripts and the store call; a test reads the scripts.
// PUBLISH, SUBSCRIBE and the commands of a probe may be missing.
var commands = []string{
	"EVAL", "EVALSHA", "SCRIPT", "PING", "TIME", "SCAN", "DEL", "GET", "SET",
	"HGET", "HSET", "HSETNX", "HDEL", "HMGET", "HGETALL", "HKEYS", "HLEN", "HEXISTS", "HINCRBY", "HSCAN", "HSTRLEN",
	"LPOP", "LPUSH", "RPUSH", "LLEN", "LINDEX", "LRANGE", "LSET", "LTRIM", "LREM", "LPOS",
	"ZADD", "ZREM", "ZCARD", "ZCOUNT", "ZRANGE", "ZREVRANGE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZRANK", "ZREVRANK",
	"ZREMRANGEBYSCORE", "ZREMRANGEBYRANK", "ZSCORE", "ZMSCORE", "ZSCAN",
	"XADD", "XDEL", "XLEN", "XRANGE", "XREVRANGE", "XTRIM", "EXISTS", "EXPIREAT", "PEXPIREAT",
}

// capability is what a store can do at all. It never changes while the store runs.
type capability struct {
	mini    bool                // it is the one inside this process
	hidden  bool                // it does not tell its commands
	missing []string            // of commands
	scripts dispatcher.Tristate // with keys that are not declared
	fault   string              // why they don't run; empty: they do
	open    bool                // a partition could not be asked: ask again
	waits   dispatcher.Tristate // WAITAOF does, where appendfsync is not always; Unknown: it was not tried
}

// askCapability asks once what the store is able to do.
func (p *Probe) askCapability(ctx context.Context) (*capability, error) {
	a := &capability{}
	if err := p.askCommands(ctx, a); err != nil {
		return nil, err
	}
	p.tryScript(ctx, a)
	return a, nil
}

// askCommands asks for the commands by their names. A version number is no proof of
// them.
func (p *Probe) askCommands(ctx context.Context, a *capability) error {
	args := []any{"command", "info"}
	for _, name := range commands {
		args = append(args, name)
	}
	known := map[string]bool{}
	var told *redis.Cmd
	err := p.conn.At(ctx, "probe commands", conn.Home, func(p redis.Pipeliner) { told = p.Do(ctx, args...) })
	lines, _ := conn.Value(told).([]any)
	switch {
	case errors.Is(err, dispatcher.ErrUnavailable):
		return err
	case err != nil:
		a.hidden = true
		return nil
	}
	for _, line := range lines {
		if fields, ok := line.([]any); ok && len(fields) > 0 {
			name, _ := fields[0].(string)
			known[strings.ToUpper(name)] = true
		}
	}
	if len(lines) > len(args)-2 { // miniredis tells its whole table whatever it is asked for, and not all that it has
		a.mini = true
		return nil
	}
	for _, name := range commands {
		if !known[name] {
			a.missing = append(a.missing, name)
		}
	}
	return nil
}

// tryScript does in each partition what scripts rely on. A partition that can't be
// reached leaves it unknown, unless the script fails in another.
func (p *Probe) tryScript(ctx context.Context, a *capability) {
	for _, r := range p.conn.Send(ctx, conn.Batch{Script: p.script, Calls: p.conn.Everywhere([]any{probeValue})}) {
		r.Hint()
		switch {
		case errors.Is(r.Err, dispatcher.ErrUnavailable), errors.Is(r.Err, dispatcher.ErrFull):
			a.open = true
		case r.Err != nil:
			a.scripts, a.fault = dispatcher.No, r.Err.Error()
			return
		case r.Text() != probeValue:
			a.scripts, a.fault = dispatcher.No, "a key that was just written can't be read"
			return
		case a.scripts == dispatcher.Unknown:
			a.scripts = dispatcher.Yes
		}
	}
	if a.open {
		a.scripts = dispatcher.Unknown
	}
}

const probeValue = "probe"

// A server that writes to its disk once a second can't have done so three times
// within truthful. Time is taken from the first answer on: on a slow disk it may be
// late, with the next soon after it.
const (
	waitTries = 3
	truthful  = 700 * time.Millisecond
)

// tryWaitAOF finds out whether WAITAOF waits for a disk that is written to once a
// second. Some versions of Redis and Valkey answer before the write, and a version
// number is no proof.
func (p *Probe) tryWaitAOF(ctx context.Context) dispatcher.Tristate {
	var began time.Time
	for i := range waitTries {
		if i == 1 {
			began = time.Now()
		}
		r := p.conn.Send(ctx, conn.Batch{Script: p.script, Durable: true, Calls: []conn.Call{{Args: []any{probeValue}}}})[0]
		if r.Err != nil || r.Weak != nil {
			return dispatcher.Unknown
		}
		if i > 0 && time.Since(began) > truthful {
			return dispatcher.Yes
		}
	}
	return dispatcher.No
}
