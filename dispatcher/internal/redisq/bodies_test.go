package redisq_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// A call may break off between a body and its message. Then only the body is
// stored.
func TestABodyWhoseMessageNeverCameIsForgottenAfterAnHour(t *testing.T) {
	r := newTrap(t)
	client, tag := r.store.Client(), r.store.Conn().Tag(0)
	field := "m1 0123456789abcdef"
	require.NoError(t, client.ZAdd(t.Context(), tag+":staged", redis.Z{Score: float64(r.now.UnixMilli()), Member: field}).Err())
	require.NoError(t, client.HSet(t.Context(), tag+":bodies", field, "body").Err())
	r.setClock(r.now.Add(59 * time.Minute))
	r.trim()
	require.Len(t, r.state().Bodies, 1)
	r.setClock(r.now.Add(time.Minute))
	r.trim()
	require.Empty(t, r.state().Bodies)
}

// A repeat of a stored message stages its body again. If the repeat breaks off,
// the body is still the message's.
func TestABodyThatWasStagedAgainStaysItsMessages(t *testing.T) {
	r := newTrap(t)
	e := r.entry("a", "m1", time.Hour*24)
	e.Message.Body = make([]byte, 2<<20)
	e.Digest = e.Message.Digest()
	r.schedule(e)
	client, tag := r.store.Client(), r.store.Conn().Tag(0)
	field := "m1 " + string(e.Digest[:])
	require.NoError(t, client.ZAdd(t.Context(), tag+":staged", redis.Z{Score: float64(r.now.UnixMilli()), Member: field}).Err())
	r.setClock(r.now.Add(2 * time.Hour))
	r.trim()
	require.Len(t, r.state().Bodies, 1)
	r.mustBeSound()
}

// Redis asks for memory at the first write of a script only. A removal needs
// none.
func TestAFullStoreTakesNothingBecauseOfTheRepeatBeforeIt(t *testing.T) {
	r := newTrap(t)
	e := r.entry("a", "m1", 0)
	bulky(e.Message)
	e.Digest = e.Message.Digest()
	r.schedule(e)
	next := r.entry("a", "m2", 0)
	require.NoError(t, r.store.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	out, _, err := r.store.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{e, next})
	require.NoError(t, err)
	require.ErrorIs(t, out[1].Err, dispatcher.ErrFull)
	require.NoError(t, r.store.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Equal(t, dispatcher.Accepted, r.schedule(next)[0].Result)
	r.mustBeSound()
}

// elsewhere is a hook that writes bodies under another key.
type elsewhere struct{ on bool }

func (e *elsewhere) DialHook(next redis.DialHook) redis.DialHook { return next }

func (e *elsewhere) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (e *elsewhere) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if e.on && cmd.Name() == "hset" {
				cmd.Args()[1] = "elsewhere"
			}
		}
		return next(ctx, cmds)
	}
}

// A publish fails if its body was not stored, and its repeat succeeds. Other
// messages of the same call are stored.
func TestAMessageIsNotKeptWithoutItsBody(t *testing.T) {
	r := newTrap(t)
	hook := &elsewhere{on: true}
	r.store.Client().AddHook(hook)
	e := r.entry("a", "m1", 0)
	e.Message.Body = make([]byte, 2<<20)
	e.Digest = e.Message.Digest()
	got, _, err := r.store.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{e, r.entry("a", "m2", 0)})
	require.NoError(t, err)
	require.ErrorIs(t, got[0].Err, dispatcher.ErrUnavailable)
	require.NoError(t, got[1].Err)
	require.Equal(t, dispatcher.Accepted, got[1].Result)
	require.NotContains(t, r.state().Messages, "m1")
	hook.on = false
	require.Equal(t, dispatcher.Accepted, r.schedule(e)[0].Result)
	r.mustBeSound()
}
