package redisq_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// cutLine is a connection that lets a number of scripts through to Redis and
// then breaks. In the pipeline of the break, the commands before it still run.
// A setting decides whether their answers arrive. Later commands are never
// sent.
type cutLine struct {
	tags     map[string]int // to partitions
	answered bool

	mu   sync.Mutex
	left int
	ran  map[int]bool
}

// openCut opens a store over a connection that breaks.
func openCut(t testing.TB, o redisq.Options, partitions, scripts int, answered bool) redisqtest.Cut {
	t.Helper()
	store := openTestStore(t, o)
	line := &cutLine{tags: map[string]int{}, answered: answered, left: scripts, ran: map[int]bool{}}
	for n := range partitions {
		line.tags[tagOf(o.Project, n)] = n
	}
	store.Client().AddHook(line)
	return redisqtest.Cut{
		Queue: store,
		Ran: func(partition int) bool {
			line.mu.Lock()
			defer line.mu.Unlock()
			return line.ran[partition]
		},
	}
}

func (l *cutLine) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (l *cutLine) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.send([]redis.Cmder{cmd}, func(cmds []redis.Cmder) error { return next(ctx, cmds[0]) })
	}
}

func (l *cutLine) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return l.send(cmds, func(cmds []redis.Cmder) error { return next(ctx, cmds) })
	}
}

// send sends the commands that still get through.
func (l *cutLine) send(cmds []redis.Cmder, next func([]redis.Cmder) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	through := 0
	for through < len(cmds) && l.left > 0 {
		l.count(cmds[through])
		through++
	}
	broken := l.left == 0
	var err error
	if through > 0 {
		err = next(cmds[:through])
	}
	unheard := cmds[through:]
	if broken && !l.answered {
		unheard = cmds
	}
	for _, cmd := range unheard {
		cmd.SetErr(io.EOF)
		err = io.EOF
	}
	return err
}

// count notes where a script runs. A script that only reads digests changes
// nothing.
func (l *cutLine) count(cmd redis.Cmder) {
	args := cmd.Args()
	if !strings.EqualFold(cmd.Name(), "evalsha") || len(args) < 4 {
		return
	}
	l.left--
	if n, ok := l.tags[args[3].(string)]; ok && args[1] != redisq.DigestsSHA {
		l.ran[n] = true
	}
}
