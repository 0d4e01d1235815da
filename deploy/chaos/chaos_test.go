package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/signer"
)

var (
	chaosFor   = flag.Duration("chaos.for", 45*time.Second, "how long TestChaos breaks things")
	chaosSeed  = flag.Uint64("chaos.seed", 1, "what is broken when, and who answers how; 0: another one each time")
	chaosRate  = flag.Int("chaos.rate", 60, "messages a second")
	chaosFsync = flag.String("chaos.fsync", "always", "Redis' appendfsync: always loses nothing, everysec may; either: as the seed decides")

	chaosArchive = flag.String("chaos.archive", "yes", "whether there is an archive: yes, no, or either: not with every third seed")
	chaosBinary  = flag.String("chaos.binary", "", "the hookladder to run; empty: one built with the race detector")
)

const (
	rungs          = "100ms,300ms,1s,2s,5s"
	attemptTimeout = 2 * time.Second
)

// silent is a logger that drops everything.
type silent struct{}

// Printf does nothing.
func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})                // that the store is away is no news
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxics have loggers of their own, which tell everything
	os.Exit(m.Run())
}

// TestChaos runs three instances on a real Redis under load, and breaks
// whatever can be. Instances are killed, stopped and restarted. Redis is killed,
// stopped and filled up. Connections are cut, left half open and slowed down. In the end nothing that was accepted may be missing, and everything
// that came twice has its cause in what was broken.
//
// The seed decides what is done when. It does not decide how the processes
// come out of it, so that a run is alike another of the same seed, not equal.
// Clocks are not changed: that takes more rights than a test has.
func TestChaos(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	h, seed := newHistory(), oneSeed()
	fsync := *chaosFsync
	if fsync == "either" {
		fsync = []string{"always", "everysec"}[seed%2]
	}
	h.whole, h.forgiving = true, fsync != "always"
	chaos(t, h, newSingle(t, h, fsync, slots), seed)
}

// TestChaosInACluster does the same to a Redis Cluster: masters are killed and
// replaced, nodes are stopped, and partitions move from one master to another,
// all under load.
func TestChaosInACluster(t *testing.T) {
	t.Parallel()
	h, seed := newHistory(), oneSeed()
	chaos(t, h, newClustered(t, h), seed)
}

// oneSeed is the seed that was asked for, or a random one.
func oneSeed() uint64 {
	if *chaosSeed != 0 {
		return *chaosSeed
	}
	return 1 + rand.Uint64N(1e6)
}

// archives reports whether a run has an archive.
func archives(seed uint64) bool {
	return *chaosArchive == "yes" || *chaosArchive == "either" && seed%3 != 0
}

// backend is a store to break.
type backend interface {
	url(slot string) string       // where an instance finds it
	env() []string                // what its instances are told besides
	deeds(common *trouble) []deed // what may be broken
	count(ctx context.Context)    // has a canary count until ctx ends
	recount(ctx context.Context)  // counts once more
	String() string
}

var slots = []string{"a", "b", "c"}

// chaos runs instances on a store, breaks things for a while, mends them, and
// judges.
func chaos(t *testing.T, h *history, store backend, seed uint64) {
	began := time.Now()
	say := func(format string, a ...any) {
		fmt.Fprintf(t.Output(), "%7.1fs %s\n", time.Since(began).Seconds(), strings.TrimSpace(fmt.Sprintf(format, a...)))
	}
	secret := signer.NewSecret()
	r := newReceiver(t, h, seed, secret)
	f := newFleet(t, h, r, secret)
	f.env = append(store.env(), "LADDER="+rungs, "ATTEMPT_TIMEOUT="+attemptTimeout.String(), "BREAKER=20/1s", "SHUTDOWN_GRACE=5s")
	var k *keeper
	if archives(seed) {
		k = newKeeper(t, h, f)
		f.env = append(f.env, k.env()...)
	}
	for _, name := range slots {
		slot := &slot{name: name, url: store.url(name)}
		f.slots = append(f.slots, slot)
		require.NoError(t, f.start(t.Context(), slot))
	}
	l := &load{h: h, fleet: f, receiver: r, seed: seed, rate: *chaosRate, callers: *chaosRate / 2}
	l.register(t)
	b := &trouble{h: h, fleet: f, seed: seed, longest: min(20*time.Second, *chaosFor/4), rest: min(30*time.Second, *chaosFor/10), say: say, counts: map[string]int{}}
	b.store = store.deeds(b)
	w := &watcher{h: h, fleet: f}
	if k != nil {
		b.archive = (&outage{trouble: b, keeper: k}).deeds()
	}

	say("chaos for %s with seed %d, %d messages a second, %s, archive: %t", *chaosFor, seed, *chaosRate, store, k != nil)
	ctx, stop := context.WithTimeout(t.Context(), *chaosFor)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { store.count(ctx) })
	wg.Go(func() { l.run(ctx) })
	wg.Go(func() { w.watch(ctx) })
	wg.Go(func() { b.run(ctx) })
	wg.Wait()
	say("all is mended")
	store.recount(t.Context())
	r.healed.Store(true)
	ask := &asker{t: t, h: h, api: f.slots[0].process().Client, say: say}
	ask.release(r)
	ask.drain()
	ask.endings()
	memory := f.memory()
	f.examine(t)
	w.look(t.Context(), rand.New(rand.NewPCG(1, 3)))
	if k != nil {
		require.NoError(t, k.current(t.Context()))
	}
	for _, slot := range f.slots {
		require.NoError(t, slot.process().Terminate())
	}
	if k != nil {
		var err error
		h.archived, err = k.read(t.Context())
		require.NoError(t, err)
	}
	report(t, h, b, memory)
	f.check(t)
}
