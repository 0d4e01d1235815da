package redisq_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// sized is one command that a store sent, or a script by its name.
type sized struct {
	name  string
	args  int // behind the name, of a script those behind its key
	bytes int // of the answer
	trip  int // the number of its round trip
}

// gauge is a hook that measures what a store sends and what it is answered.
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
		case *redis.StringCmd:
			s.bytes = len(c.Val())
		case *redis.ScanCmd:
			page, _ := c.Val()
			s.bytes = len(strings.Join(page, ""))
		}
		g.sent = append(g.sent, s)
	}
}

// of are the commands of a name since it was last asked for any.
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

// afterwards is a hook that does something each time a script was answered.
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

// weigh is how many bytes of text an answer has.
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

// fanned publishes a message to n lanes, in an hour.
func (r *trap) fanned(id string, n int) (ids []dispatcher.DeliveryID) {
	r.Helper()
	e := r.entry("", id, time.Hour)
	e.Lanes, e.Fan = make([]dispatcher.Lane, n), true
	for i := range e.Lanes {
		e.Lanes[i] = laneOf(i)
		ids = append(ids, dispatcher.DeliveryID{Lane: e.Lanes[i], Message: id})
	}
	require.Equal(r, dispatcher.Accepted, r.schedule(e)[0].Result)
	return ids
}

// A message of a thousand lanes that were each attempted thirty times is read a
// MiB at a time: in one answer it would hold all others up, or miss its time.
func TestAMessageOfAThousandLanesIsReadAMiBAtATime(t *testing.T) {
	const n, kept = 1000, 32
	r := newTrap(t)
	ids := r.fanned("fan", n)
	meta := `{"n":1}`
	entry := fmt.Sprintf("0 %d %s%s", len(meta), meta, strings.Repeat("x", 256))
	history := make([]any, kept)
	for i := range history {
		history[i] = entry
	}
	for _, id := range ids {
		key := redisq.TagOf(r.store, 0) + ":history:" + id.String()
		require.NoError(t, r.store.Client().RPush(t.Context(), key, history...).Err())
	}
	g := measured(r.store)
	rec, err := r.store.Look(t.Context(), "fan")
	require.NoError(t, err)
	require.Equal(t, "fan", rec.Message.ID)
	require.Len(t, rec.Deliveries, n)
	for i, d := range rec.Deliveries {
		require.Equal(t, ids[i], d.ID)
		require.Len(t, d.History, kept)
	}
	answers := g.of("look")
	require.NotEmpty(t, answers)
	one := kept * (len(entry) + 64)
	for _, a := range answers {
		require.LessOrEqual(t, a.bytes, 1<<20+one)
		require.LessOrEqual(t, a.bytes, 64*one, "of 64 lanes")
	}
}

// What goes away while a message is read shifts no other: each lane that stays is told.
func TestALookSkipsNoLaneWhileOthersGo(t *testing.T) {
	const n = 200
	r := newTrap(t)
	ids := r.fanned("fan", n)
	_, _, err := r.store.Cancel(t.Context(), "one", ids[:40])
	require.NoError(t, err)
	r.setClock(r.now.Add(time.Minute))
	then := sync.OnceFunc(r.trim)
	r.store.Client().AddHook(&afterwards{name: "look", do: then})
	rec, err := r.store.Look(t.Context(), "fan")
	require.NoError(t, err)
	told := map[dispatcher.DeliveryID]bool{}
	for _, d := range rec.Deliveries {
		require.False(t, told[d.ID], "%s is told twice", d.ID)
		told[d.ID] = true
	}
	for _, id := range ids[40:] {
		require.True(t, told[id], "%s is not told", id)
	}
	fan, err := r.store.Client().HGet(t.Context(), redisq.TagOf(r.store, 0)+":fan", "fan").Result()
	require.NoError(t, err)
	require.Equal(t, 40, strings.Count(fan, "-"), "the others are gone by now")
}

// A thousand deliveries of one message are changed some at a time, and its lanes
// are read once for all of a call, not once for each.
func TestAThousandDeliveriesOfAMessageAreChangedSomeAtATime(t *testing.T) {
	const n = 1000
	r := newTrap(t)
	ids := r.fanned("fan", n)
	g := measured(r.store)
	for _, change := range []struct {
		name string
		do   func(context.Context, string, []dispatcher.DeliveryID) ([]dispatcher.Change, []dispatcher.Hint, error)
	}{{"cancel", r.store.Cancel}, {"retry", r.store.Retry}, {"cancel", r.store.Cancel}} {
		before := r.stat("hget")
		changes, _, err := change.do(t.Context(), "one", ids)
		require.NoError(t, err)
		for i, c := range changes {
			require.Equal(t, dispatcher.Change{ID: ids[i], Changed: true}, c)
		}
		calls := g.of(change.name)
		require.Len(t, calls, 4)
		for _, c := range calls {
			require.LessOrEqual(t, c.args, 256+8)
		}
		require.LessOrEqual(t, r.stat("hget")-before, 3*n+4*4, "the record and the lanes once a call")
	}
	r.mustBeSound()
}

// Which instance makes an attempt is asked once a call: there may be many of both.
func TestARetryAsksEachInstanceOnce(t *testing.T) {
	const n = 200
	r := newTrap(t)
	e := r.entry("", "fan", 0)
	e.Lanes, e.Fan = make([]dispatcher.Lane, n), true
	ids := make([]dispatcher.DeliveryID, n)
	for i := range e.Lanes {
		e.Lanes[i] = laneOf(i)
		ids[i] = dispatcher.DeliveryID{Lane: e.Lanes[i], Message: "fan"}
	}
	r.schedule(e)
	under := map[dispatcher.DeliveryID]bool{}
	for _, by := range []string{"one", "two"} {
		for _, c := range r.claim(by, 16) {
			under[c.ID] = true
		}
	}
	require.Len(t, under, 32)
	before := r.stat("zscore")
	changes, _, err := r.store.Retry(t.Context(), "one", ids)
	require.NoError(t, err)
	for _, c := range changes {
		require.Equal(t, under[c.ID], c.Err != nil, "%s: %v", c.ID, c.Err)
	}
	require.Equal(t, before, r.stat("zscore"))
}

// A message's lanes are read and written once for all of its deliveries that a
// trim forgets, and no trim goes through more lanes than take a millisecond.
func TestATrimGoesThroughSomeThousandLanesAtMost(t *testing.T) {
	const n = 1000
	one := newTrap(t)
	_, _, err := one.store.Cancel(t.Context(), "one", one.fanned("fan", n))
	require.NoError(t, err)
	one.setClock(one.now.Add(time.Minute))
	before := one.stat("hset")
	got, err := one.store.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{}, false)
	require.NoError(t, err)
	require.Equal(t, 64, got.Finished-64, "of what is old, and of what is too much")
	require.LessOrEqual(t, one.stat("hset")-before, 4)
	one.trim()
	require.Empty(t, one.state().Messages)

	const messages = 32
	many := newTrap(t)
	for i := range messages {
		ids := many.fanned(fmt.Sprintf("fan%d", i), n)
		_, _, err := many.store.Cancel(t.Context(), "one", ids[:1])
		require.NoError(t, err)
	}
	many.setClock(many.now.Add(time.Minute))
	got, err = many.store.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{}, false)
	require.NoError(t, err)
	require.Less(t, got.Finished, messages/2)
	require.Positive(t, got.Finished)
	require.True(t, got.More)
	for got.More {
		got, err = many.store.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{}, false)
		require.NoError(t, err)
		require.True(t, !got.More || got.Finished > 0, "it goes on")
	}
	require.Zero(t, many.state().Counts[dispatcher.StatusCancelled])
	many.mustBeSound()
}
