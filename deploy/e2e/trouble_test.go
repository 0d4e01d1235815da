package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// trouble is what befalls the store while callers publish, and an attempt comes
// to its end meanwhile.
type trouble struct {
	callers int
	begin   func()
	felt    func(c *callers) // waits until it is; nil: until each caller was refused
	end     func()           // nil: it ends by itself
	silent  bool             // it need not be told
}

// through goes through trouble: whatever was acknowledged arrives, and once.
func (w *world) through(x trouble) {
	w.t.Helper()
	h := newBarrier()
	w.receiver.answers(h.answer("flying"))
	i := w.serve("ATTEMPT_TIMEOUT=60s")
	i.troubled = !x.silent
	i.send("flying")
	w.receiver.wait("flying", 1)
	c := startCallers(max(x.callers, 4), 0, i)
	c.goOn(50)

	x.begin()
	close(h.release) // an outcome that can not be recorded yet
	if x.felt != nil {
		x.felt(c)
	} else {
		c.refuse()
		i.says(`"msg":"store lost"`) // all may have been refused by one call, which proves nothing
	}
	if x.end != nil {
		x.end()
	}
	all := c.end()

	w.receiver.arrived(all)
	i.until("flying", "delivered")
	w.counted(i)
	w.receiver.once()
	if x.silent {
		require.NotContains(w.t, i.log(), `"msg":"store lost"`)
		return
	}
	if x.felt != nil && !strings.Contains(i.log(), `"msg":"store lost"`) {
		i.says(`"msg":"a call had no answer, though others had one"`) // never two in a row
		return
	}
	i.says(`"msg":"store back"`)
	text := i.log()
	lost, back := strings.Count(text, `"msg":"store lost"`), strings.Count(text, `"msg":"store back"`)
	require.LessOrEqual(w.t, lost, back+1, "it is not said by each stage")
}

func TestNothingIsLostWhileRedisIsStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.through(trouble{begin: w.redis.Stop, end: w.redis.Restart})
}

// With appendfsync everysec what was acknowledged in the last second may be
// lost with Redis; this is about what Hookladder does.
func TestNothingIsLostWhenRedisIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "appendfsync always")
	w.through(trouble{begin: w.redis.Kill, end: w.redis.Restart})
}

// A Redis that hangs carries out, when it goes on, what was given up meanwhile.
func TestNothingIsLostWhileRedisHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.through(trouble{begin: w.redis.Pause, end: w.redis.Resume})
}

// A script of somebody else runs for seconds.
func TestNothingIsLostWhileRedisIsBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "busy-reply-threshold 100")
	options, err := redis.ParseURL(w.redis.URL())
	require.NoError(t, err)
	options.ReadTimeout, options.MaxRetries = -1, -1 // else it would be sent again
	somebody := redis.NewClient(options)
	t.Cleanup(func() { _ = somebody.Close() })
	var over chan error
	w.through(trouble{
		begin: func() {
			over = make(chan error, 1)
			go func() { over <- somebody.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err() }()
			eventually(t, "Redis is busy", func() bool {
				return redis.HasErrorPrefix(w.rdb.Ping(context.WithoutCancel(t.Context())).Err(), "BUSY")
			})
		},
		end: func() {
			require.NoError(t, w.rdb.ScriptKill(t.Context()).Err())
			require.ErrorContains(t, <-over, "killed")
		},
	})
}

// As after a failover, when the master that was is told to follow another.
func TestNothingIsLostWhileRedisTakesNoWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.through(trouble{
		begin: func() { require.NoError(t, w.rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err()) },
		end:   func() { require.NoError(t, w.rdb.ReplicaOf(t.Context(), "NO", "ONE").Err()) },
	})
}

func TestNothingIsLostWhileScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	flush := func() { require.NoError(t, w.rdb.ScriptFlush(t.Context()).Err()) }
	w.through(trouble{silent: true, begin: flush, felt: func(c *callers) {
		for range 10 {
			c.goOn(10)
			flush()
		}
	}})
}

// newProxiedWorld is a world whose instances reach Redis through a proxy.
func newProxiedWorld(t *testing.T) (*world, *redistest.Proxy) {
	t.Helper()
	w := newWorld(t)
	p := redistest.NewProxy(t, w.redis.Addr())
	w.settings = append(w.settings, "REDIS_URL="+p.URL())
	return w, p
}

func TestNothingIsLostWhileConnectionsAreCut(t *testing.T) {
	t.Parallel()
	w, p := newProxiedWorld(t)
	w.through(trouble{begin: p.Cut, felt: func(c *callers) {
		for range 20 {
			c.goOn(5)
			p.Cut()
		}
	}})
}

// After a machine slept its connections are there, but nothing passes them.
func TestHalfOpenConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	w, p := newProxiedWorld(t)
	w.through(trouble{begin: p.Swallow, felt: func(c *callers) { c.goOn(50) }})
}

func TestASlowRedisLosesNothing(t *testing.T) {
	t.Parallel()
	w, p := newProxiedWorld(t)
	w.through(trouble{silent: true, begin: func() { p.Delay(300 * time.Millisecond) },
		felt: func(c *callers) { c.goOn(30) }, end: func() { p.Delay(0) }})
}

func TestAPoolOfTwoConnectionsIsEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings = append(w.settings, "REDIS_URL="+w.redis.URL()+"?pool_size=2", "PARTITIONS=16")
	w.through(trouble{silent: true, callers: 32, begin: func() {}, felt: func(c *callers) { c.goOn(100) }})
}
