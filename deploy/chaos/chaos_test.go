package chaos_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

var (
	chaosFor   = flag.Duration("chaos.for", 25*time.Second, "how long TestChaos breaks things")
	chaosSeed  = flag.Uint64("chaos.seed", 1, "what is broken when, and who answers how; 0: another one each time")
	chaosRate  = flag.Int("chaos.rate", 60, "messages a second")
	chaosFsync = flag.String("chaos.fsync", "always", "Redis' appendfsync: always loses nothing, everysec may; either: as the seed decides")

	chaosArchive = flag.String("chaos.archive", "no", "whether there is an archive: yes, no, or either: not with every third seed")
	chaosOwners  = flag.Int("chaos.owners", 0, "how many owners change their endpoints all the time")
	chaosEmpty   = flag.Bool("chaos.empty", false, "empty the store too")
	chaosLog     = flag.Bool("chaos.log", false, "stop reading the instances' logs too, and close them")
	chaosDNS     = flag.Bool("chaos.dns", false, "the resolver has a search domain with a wildcard record, and may be silent about IPv6 only")
	chaosOutbox  = flag.Bool("chaos.outbox", false, "publish through an outbox too, and kill the PgBouncer before it")
	chaosRights  = flag.Bool("chaos.rights", false, "take rights away from the instances' user of Redis too")
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
	url(slot string) string                                      // where an instance finds it
	env() []string                                               // what its instances are told besides
	deeds(common *trouble) []deed                                // what may be broken
	straight() string                                            // where a person finds it, past all that is broken on the way
	record(ctx context.Context, endpoint string) (string, error) // as the store has it
	empty(context.Context, *rand.Rand) (at time.Time, kept map[string]bool, err error)
	count(ctx context.Context)   // has a canary count until ctx ends
	recount(ctx context.Context) // counts once more
	String() string
}

var slots = []string{"a", "b", "c"}

// chaos runs instances on a store, breaks things for a while, mends them, and
// judges.
func chaos(t *testing.T, h *history, store backend, seed uint64) {
	w := newWorld(t, h, store, seed)
	w.breakThings()
	w.end()
}
