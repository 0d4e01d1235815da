package admin_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// traffic is work of all kinds that goes on while a store is examined.
type traffic struct {
	*ward
	stop atomic.Bool
	wg   sync.WaitGroup
	turn sync.RWMutex // read by each call of the workers: locked, it has them rest between two

	mu        sync.Mutex // guards what follows
	accepted  map[dispatcher.DeliveryID]bool
	delivered map[dispatcher.DeliveryID]int // how often a success was taken
	cancelled map[dispatcher.DeliveryID]bool
	names     map[string]string // by which each worker goes now
	number    int64
}

// startTraffic lets instances work by a clock that runs.
func startTraffic(p *ward, instances ...string) *traffic {
	r := &traffic{ward: p, accepted: map[dispatcher.DeliveryID]bool{}, delivered: map[dispatcher.DeliveryID]int{}, cancelled: map[dispatcher.DeliveryID]bool{},
		names: map[string]string{}}
	require.NoError(p, p.store.Leave(p.Context(), "one"))
	r.wg.Go(func() {
		for !r.stop.Load() {
			assert.NoError(p, p.client.Set(context.Background(), p.key("clock"), time.Now().UnixMicro(), 0).Err())
		}
	})
	p.Cleanup(r.end)
	for i, name := range instances {
		r.wg.Go(func() { r.work(name, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	return r
}

// end stops publishing, and returns when all that was published has ended.
func (r *traffic) end() {
	r.stop.Store(true)
	r.wg.Wait()
}

// rest has all workers stop between two of their calls, whatever is under way,
// while it does what is given.
func (r *traffic) rest(do func()) {
	r.turn.Lock()
	defer r.turn.Unlock()
	do()
}

// call is one call of a worker.
func (r *traffic) call(do func()) {
	r.turn.RLock()
	defer r.turn.RUnlock()
	do()
}

// published is how many deliveries were accepted so far.
func (r *traffic) published() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.accepted)
}

// restart has a worker go on under another name, which was never seen before.
func (r *traffic) restart(ctx context.Context, worker string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	was, name := r.names[worker], fmt.Sprintf("%s%d", worker, r.number)
	_, _, err := r.store.Beat(ctx, name, r.number)
	assert.NoError(r, err)
	r.names[worker] = name
	if was != "" {
		assert.NoError(r, r.store.Leave(ctx, was))
	}
	return name
}

// beat has all names' numbers grow.
func (r *traffic) beat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	for _, name := range r.names {
		_, _, err := r.store.Beat(context.Background(), name, r.number)
		assert.NoError(r, err)
	}
}

func (r *traffic) work(worker string, rng *rand.Rand) {
	ctx, name := context.Background(), ""
	for n := 0; !r.stop.Load(); n++ {
		if n%20 == 0 {
			r.call(func() { name = r.restart(ctx, worker) })
		}
		r.call(func() { r.publish(ctx, name, fmt.Sprintf("%s-%d", worker, n), rng) })
		r.call(func() {
			_, _, err := r.store.Move(ctx, name, []int{0})
			assert.NoError(r, err)
		})
		r.deliver(ctx, name, rng)
	}
}

func (r *traffic) publish(ctx context.Context, name, id string, rng *rand.Rand) {
	m := &dispatcher.Message{ID: id, Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: time.Now(), ContentType: "application/json"}
	lanes := to(dispatcher.Lane(fmt.Sprintf("l%d", rng.IntN(6))))
	switch rng.IntN(5) {
	case 0:
		m.Delay = time.Duration(rng.IntN(5)) * time.Millisecond
	case 1:
		m.OrderingKey = fmt.Sprint("k", rng.IntN(4))
	case 2:
		lanes = to("l0", "l1", dispatcher.Lane("n"+id))
	}
	got, _, err := r.store.Schedule(ctx, name, 512, 0, []dispatcher.Entry{{Message: m, Digest: m.Digest(), Lanes: lanes}})
	if !assert.NoError(r, err) || !assert.NoError(r, got[0].Err) {
		return
	}
	r.mu.Lock()
	for _, lane := range lanes {
		r.accepted[dispatcher.DeliveryID{Lane: lane, Message: id}] = true
	}
	r.mu.Unlock()
	if rng.IntN(10) == 0 {
		r.cancel(ctx, name, dispatcher.DeliveryID{Lane: lanes[0], Message: id})
	}
}

func (r *traffic) cancel(ctx context.Context, name string, id dispatcher.DeliveryID) {
	_, _, err := r.store.Cancel(ctx, name, []dispatcher.DeliveryID{id})
	assert.NoError(r, err)
	r.mu.Lock()
	r.cancelled[id] = true
	r.mu.Unlock()
}

// deliver claims some and settles them, in every way there is.
func (r *traffic) deliver(ctx context.Context, name string, rng *rand.Rand) {
	var claimed []dispatcher.Claimed
	r.call(func() {
		var err error
		claimed, _, err = r.store.Claim(ctx, name, []int{0}, 16, 512)
		assert.NoError(r, err)
	})
	var batch []dispatcher.Settlement
	for _, c := range claimed {
		s := dispatcher.Settlement{
			ID: c.ID, Due: c.Due, First: c.First, Verdict: dispatcher.Delivered, Reason: dispatcher.ReasonGone, Wait: time.Millisecond,
			Attempt: dispatcher.Attempt{Number: c.Attempt, At: time.Now(), Status: 200},
		}
		switch rng.IntN(6) {
		case 0:
			s.Verdict, s.Attempt.Status = dispatcher.Retry, 500
		case 1:
			s.Verdict = dispatcher.Back
		}
		s.Attempt.Verdict = s.Verdict
		batch = append(batch, s)
	}
	if len(batch) == 0 {
		return
	}
	r.call(func() {
		settled, _, err := r.store.Settle(ctx, name, batch)
		assert.NoError(r, err)
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, s := range settled {
			if batch[i].Verdict == dispatcher.Delivered && s == dispatcher.SettledOK {
				r.delivered[batch[i].ID]++
			}
		}
	})
}

// enough is how many deliveries have to be accepted while a store is examined,
// and examinations how often it is: so much of each meets much of the other.
const (
	enough       = 150
	examinations = 5
)

// What is sound must not be found anything wrong with, however busy it is, and
// each delivery comes to its end as often as it would have: once.
func TestDoctorDisturbsNobodyWhoWorks(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.SetClock(time.Now())
	r := startTraffic(p, "one", "two", "three")
	examined, unjudged := 0, 0
	examine := func() admin.Examined {
		out, err := admin.ExamineAmong(t.Context(), p.store.Queue(), admin.Examination{Fix: true, Report: func(f admin.Finding) { t.Errorf("%+v", f) }}, r.beat)
		require.NoError(t, err)
		return out
	}
	for ; examined < examinations || r.published() < enough; examined++ {
		unjudged += examine().Unjudged // counts are compared where they happen to be at rest
	}
	r.rest(func() { require.Zero(t, examine().Unjudged, "nothing moves, much is under way") })
	r.end()
	t.Logf("examined %d times, %d times without counts; %d deliveries", examined, unjudged, len(r.accepted))
	p.mustBeSound()
	p.now = time.Now()
	p.finish(slices.Collect(maps.Values(r.names))...)
	state := p.States()[0]
	for id := range r.accepted {
		if !r.cancelled[id] {
			require.Equal(t, redisqtest.PlaceDone, state.At(id).Place, "%s", id)
		}
		require.LessOrEqual(t, r.delivered[id], 1, "%s", id)
	}
}

// Whatever is broken while others work, nothing that was accepted is lost: the
// doctor brings all of it back, at the price of some attempts too many.
func TestDoctorLosesNothingWhileOthersWorkAndBreakThings(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.SetClock(time.Now())
	r := startTraffic(p, "one", "two", "three")
	var broken atomic.Int64
	r.wg.Go(func() {
		rng := rand.New(rand.NewPCG(7, 7))
		for ; !r.stop.Load(); broken.Add(1) {
			r.mu.Lock()
			name := r.names["two"]
			r.mu.Unlock()
			r.call(func() { p.breakSomething(rng, name) })
			_, _ = p.store.ReadHints(context.Background(), []int{0}) // some time passes
		}
	})
	examine := func() map[string]int {
		found := map[string]int{}
		_, err := admin.ExamineAmong(t.Context(), p.store.Queue(), admin.Examination{Fix: true, Report: func(f admin.Finding) { found[f.Kind]++ }}, r.beat)
		require.NoError(t, err)
		return found
	}
	found := map[string]int{}
	for n := 0; n < examinations || r.published() < enough || broken.Load() < enough; n++ {
		for kind, times := range examine() {
			found[kind] += times
		}
	}
	r.rest(func() { // what those at work did by chance, once more on purpose
		for _, id := range p.breakEach() {
			r.accepted[id] = true
		}
		on := examine()
		for _, kind := range []string{"no_place", "two_places", "counts"} {
			require.NotEmpty(t, on[kind], "%s, of %v", kind, on)
		}
	})
	r.end()
	p.living, p.beats = slices.Collect(maps.Values(r.names)), r.number
	_, last := p.examine(true)
	_, left := p.examine(true)
	require.Empty(t, left, "after %+v", last)
	p.mustBeSound()
	p.now = time.Now()
	p.finish(p.living...)
	state := p.States()[0]
	for id := range r.accepted {
		if !r.cancelled[id] {
			require.Equal(t, redisqtest.PlaceDone, state.At(id).Place, "%s", id)
		}
	}
	t.Logf("broke %d things, found %v; %d deliveries", broken.Load(), found, len(r.accepted))
}

// breakEach takes one delivery away, puts another in two places, and makes a
// count wrong. It answers the two.
func (p *ward) breakEach() []dispatcher.DeliveryID {
	p.Helper()
	p.now = time.Now()
	p.put("away", to("away"), later)
	p.put("twice", to("twice"), later)
	p.do("ZREM", p.key("due"), "away:away")
	p.do("RPUSH", p.key("ready:twice"), "0:twice")
	p.do("HINCRBY", p.key("counts"), "ready", 3)
	return []dispatcher.DeliveryID{{Lane: "away", Message: "away"}, {Lane: "twice", Message: "twice"}}
}

// breakSomething does to the keys what no script does.
func (p *ward) breakSomething(rng *rand.Rand, name string) {
	ctx, lane := context.Background(), fmt.Sprintf("l%d", rng.IntN(6))
	ready := p.key("ready:" + lane)
	some := func(key string) string {
		members, err := p.client.ZRandMember(ctx, key, 1).Result()
		if err != nil || len(members) == 0 {
			return "l0:none-0"
		}
		return members[0]
	}
	switch rng.IntN(7) {
	case 0:
		p.client.LPop(ctx, ready)
	case 1:
		p.client.ZRem(ctx, p.key("due"), some(p.key("due")))
	case 2:
		p.client.ZRem(ctx, p.key("leases:"+name), some(p.key("leases:"+name)))
	case 3:
		if element, err := p.client.LIndex(ctx, ready, -1).Result(); err == nil {
			p.client.RPush(ctx, ready, element)
		}
	case 4:
		p.client.ZAdd(ctx, p.key("due"), redis.Z{Score: float64(time.Now().UnixMilli()), Member: some(p.key("leases:" + name))})
	case 5:
		p.client.HIncrBy(ctx, p.key("counts"), "ready", 3)
		p.client.HSet(ctx, p.key("in"), lane, "0 0")
	case 6:
		p.client.ZRem(ctx, p.key("lanes"), lane)
	}
}
