package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/deploy/kit"
)

// single is one Redis, with a proxy for each slot between.
type single struct {
	*trouble
	redis   *store
	network *network
}

func newSingle(t testing.TB, h *history, fsync string, slots []string) *single {
	t.Helper()
	s := &single{redis: newStore(t, h, fsync)}
	s.network = newNetwork(t, strings.TrimSuffix(strings.TrimPrefix(s.redis.server.URL(), "redis://"), "/0"), slots...)
	return s
}

func (b *single) url(slot string) string    { return asUser(b.network.url(slot)) }
func (b *single) env() []string             { return nil }
func (b *single) straight() string          { return b.redis.server.URL() }
func (b *single) count(ctx context.Context) { b.redis.canary(ctx) }
func (b *single) recount(ctx context.Context) {
	b.redis.counted(b.redis.direct.Incr(ctx, canaryKey).Val(), time.Now())
}
func (b *single) String() string { return "one Redis, appendfsync " + b.redis.fsync }

func (b *single) record(ctx context.Context, id string) (string, error) {
	return b.redis.direct.HGet(ctx, endpointsKey, id).Result()
}

func (b *single) empty(ctx context.Context, _ *rand.Rand) (at time.Time, kept map[string]bool, err error) {
	at, err = b.redis.empty(ctx)
	return at, nil, err
}

func (b *single) deeds(common *trouble) []deed {
	b.trouble = common
	deeds := []deed{
		b.killStore, b.killStore, b.pauseStore, b.fill, b.fill, b.forgetScripts, b.killClients,
		b.cut, b.cutAll, b.halfOpen, b.halfOpen, b.late, b.narrow,
	}
	more, soon := depriving{common, func(ctx context.Context, do func(context.Context, *redis.Client) error) error {
		return do(ctx, b.redis.direct)
	}}.does()
	b.soon = soon
	return append(deeds, more...)
}

func (b *single) killStore(ctx context.Context, random *rand.Rand) {
	defer b.begins("redis killed", "")()
	b.redis.kill(ctx, between(random, 0, 2*time.Second))
}

func (b *single) pauseStore(ctx context.Context, random *rand.Rand) {
	defer b.begins("redis stopped", "")()
	b.redis.server.Pause()
	kit.Rest(ctx, between(random, time.Second, 6*time.Second))
	b.redis.server.Resume()
}

// fill leaves Redis less memory than it uses: mostly so little that what was
// finished a minute ago can make room, sometimes none at all.
func (b *single) fill(ctx context.Context, random *rand.Rand) {
	share := []float64{0, 0.7, 0.9}[random.IntN(3)]
	time := between(random, time.Second, 6*time.Second)
	ended := b.begins(full, "")
	defer ended()
	mend, err := b.redis.full(context.WithoutCancel(ctx), share)
	if err != nil {
		b.say("memory not filled: %v", err)
		return
	}
	kit.Rest(ctx, time)
	mend()
}

func (b *single) forgetScripts(ctx context.Context, _ *rand.Rand) {
	defer b.begins("scripts flushed", "")()
	_ = b.redis.direct.ScriptFlush(ctx).Err() // the run may end now
}

func (b *single) killClients(ctx context.Context, random *rand.Rand) {
	kind := []string{"normal", "pubsub"}[random.IntN(2)]
	defer b.begins("clients killed", "")()
	_ = b.redis.direct.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Err()
}

func (b *single) cut(ctx context.Context, random *rand.Rand) {
	b.bad(ctx, "cut off", []string{b.slot(random).name}, between(random, 0, 12*time.Second), b.network.cut)
}

func (b *single) cutAll(ctx context.Context, random *rand.Rand) {
	b.bad(ctx, "cut off", b.all(), between(random, 0, 3*time.Second), b.network.cut)
}

func (b *single) halfOpen(ctx context.Context, random *rand.Rand) {
	slots := []string{b.slot(random).name}
	if random.IntN(3) == 0 {
		slots = b.all()
	}
	b.bad(ctx, "half open", slots, between(random, time.Second, 15*time.Second), func(slot string) func() {
		return b.network.poison(slot, "timeout", `"timeout": 0`)
	})
}

func (b *single) late(ctx context.Context, random *rand.Rand) {
	ms := random.IntN(400)
	b.bad(ctx, "slow", b.all(), between(random, time.Second, 8*time.Second), func(slot string) func() {
		return b.network.poison(slot, "latency", fmt.Sprintf(`"latency": %d, "jitter": %d`, ms, ms/2))
	})
}

func (b *single) narrow(ctx context.Context, random *rand.Rand) {
	rate := 10 + random.IntN(50) // KB/s
	b.bad(ctx, "narrow", []string{b.slot(random).name}, between(random, time.Second, 8*time.Second), func(slot string) func() {
		return b.network.poison(slot, "bandwidth", fmt.Sprintf(`"rate": %d`, rate))
	})
}

// bad makes the network of slots bad for a time.
func (b *single) bad(ctx context.Context, kind string, slots []string, time time.Duration, make func(slot string) (mend func())) {
	who := ""
	if len(slots) == 1 {
		who = slots[0]
	}
	ended := b.begins(kind, who)
	defer ended()
	var mends []func()
	for _, slot := range slots {
		mends = append(mends, make(slot))
	}
	kit.Rest(ctx, time)
	for _, mend := range slices.Backward(mends) {
		mend()
	}
}
