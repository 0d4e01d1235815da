// Package redisq keeps the queue in Redis.
//
// Each change of state is one Lua script in lua/, and one method here. All
// keys of a partition begin with its hash tag {<project>:<n>}, so a script
// stays on one node of a cluster; lua/common.lua says what each key holds.
package redisq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Options say which Redis, and whose part of it.
type Options struct {
	URL             string                // redis://, rediss:// or unix://, with go-redis' options; several ?addr= for a cluster or sentinels
	Mode            Mode                  // what is behind the URL
	Master          string                // name of the master that sentinels watch
	CAFile          string                // certificates trusted for rediss:// besides the system's; empty: none
	Durability      dispatcher.Durability // what a publish waits for
	Poll            bool                  // neither pub/sub nor PUBLISH; else Open finds out whether they may be used
	Keep            dispatcher.Keep       // what Stats compares with to tell the retention
	Project         string                // prefix of all keys
	Partitions      int                   // 0: what the store says; an empty one gets 1, in a cluster 128
	LaneMaxInFlight int                   // most deliveries of one lane in flight, over all instances
	MaxWaiting      int                   // most deliveries that may wait in one lane; 0: no limit
	Permits         int                   // of this instance

	BreakerFailures int           // blamed failures in a row that open a lane; 0: none do
	BreakerWait     time.Duration // how long it is left alone when it opens; twice as long each time it opens again

	TestClock bool      // scripts read the time from <tag>:clock, in microseconds, instead of Redis' TIME
	Seal      *seal.Box // hides endpoints' secrets and header values; nil: they are stored as they are
	Log       *slog.Logger
}

// conf is what scripts have to know of the settings, and of all instances' permits.
func (o Options) conf(silent bool, total int) string {
	return fmt.Sprintf("%d %d %d %d %d %d %d", max(o.LaneMaxInFlight, 1), o.Permits, max(total, o.Permits, 1),
		max(o.BreakerFailures, 0), millisUp(o.BreakerWait), max(o.MaxWaiting, 0), flag(silent))
}

// clusterPartitions is how many partitions an empty store gets in a cluster:
// by their hashes they then lie on its masters within 10 % of evenly.
const clusterPartitions = 128

// schemaVersion is what :meta says of the layout of the keys; another one is
// not touched.
const schemaVersion = "2"

// Store is a dispatcher.Queue in Redis.
type Store struct {
	*connection
	project    string
	tags       []string
	shares     shares
	testClock  bool
	polls      bool // neither pub/sub nor PUBLISH may be used
	durability dispatcher.Durability
	keep       dispatcher.Keep
	durableWay string // one of the by words
	scripts    scripts
	seal       atomic.Pointer[seal.Box] // nil: nothing is sealed
	unread     sync.Map                 // endpoints whose record can't be read, by their ids: what it was when the log was told
	log        *slog.Logger

	division division
	identity identity
	gates    *gates        // masters that do not answer
	weak     *gates        // masters where what is written does not become durable
	takeover chan struct{} // 1 deep: another node may serve a partition now
	survey   survey
	readers  readers
	busy     *busyLook
	tired    []atomic.Bool // of home and each partition: it used up a call's patience, and did not answer since
}

var _ dispatcher.Queue = (*Store)(nil)

// Open connects to Redis, agrees with :meta on the number of partitions, finds
// out what the server can and loads the scripts.
func Open(ctx context.Context, o Options) (*Store, error) {
	redis.SetLogger(silent{})
	s, err := newStore(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	if err := s.begin(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open redis at %s: %w", s.where, err), s.Close())
	}
	return s, nil
}

// newStore connects a store that has no partitions yet.
func newStore(ctx context.Context, o Options) (*Store, error) {
	c, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		connection: c,
		project:    o.Project,
		testClock:  o.TestClock,
		polls:      o.Poll,
		durability: o.Durability,
		keep:       o.Keep,
		scripts:    newScripts(o.TestClock),
		log:        o.Log,
		gates:      newGates("does not answer"),
		weak:       newGates("does not make durable what is written"),
		takeover:   make(chan struct{}, 1),
		tired:      make([]atomic.Bool, 1),
		busy:       newBusyLook(),
	}
	s.Reseal(o.Seal)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Reseal has what is stored from now on sealed with another box.
func (s *Store) Reseal(box *seal.Box) { s.seal.Store(box) }

// MayReseal reports whether a box opens all that the present one does.
func (s *Store) MayReseal(box *seal.Box) bool { return box.Covers(s.seal.Load()) }

// begin makes a connected store ready.
func (s *Store) begin(ctx context.Context, o Options) error {
	partitions, err := s.agree(ctx, o.Partitions)
	if err != nil {
		return err
	}
	return s.ready(ctx, o, partitions)
}

// ready makes a store work on so many partitions.
func (s *Store) ready(ctx context.Context, o Options, partitions int) error {
	s.tired = make([]atomic.Bool, 1+partitions)
	for n := range partitions {
		s.tags = append(s.tags, keys.Tag(o.Project, n))
	}
	if err := s.findPubSub(ctx); err != nil {
		return err
	}
	if err := s.findDurable(ctx); err != nil {
		return err
	}
	s.shares.begin(o, s.polls)
	if err := s.countShares(ctx); err != nil {
		return err
	}
	return s.load(ctx)
}

// silent takes what go-redis would print to standard error: each of it is also
// an error that somebody here gets.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// agree settles the number of partitions: the first start fixes it, since
// every lane's place depends on it. It writes only where nothing is: a store
// whose memory is full must be opened too.
func (s *Store) agree(ctx context.Context, wanted int) (int, error) {
	key := s.home() + keys.Meta
	have, err := s.meta(ctx, key)
	if err == nil && (have["partitions"] == "" || have["schema"] == "") {
		first := max(wanted, 1)
		if wanted == 0 && s.cluster != nil {
			first = clusterPartitions
		}
		err = s.at(ctx, "write "+key, home, func(p redis.Pipeliner) {
			p.HSetNX(ctx, key, "partitions", first)
			p.HSetNX(ctx, key, "schema", schemaVersion)
		})
		if err == nil {
			have, err = s.meta(ctx, key) // another instance may have been first
		}
	}
	if err != nil {
		return 0, err
	}
	if err := s.layoutOf(have[metaSchema]); err != nil {
		return 0, err
	}
	if err := underWay(have); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(have["partitions"])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s says %q partitions", key, have["partitions"])
	}
	if wanted != 0 && wanted != n {
		return 0, fmt.Errorf("PARTITIONS=%d, but project %s was made with %d: unset it, or use another PROJECT", wanted, s.project, n)
	}
	return n, s.identify(ctx, have[metaID])
}

func (s *Store) meta(ctx context.Context, key string) (map[string]string, error) {
	var have *redis.MapStringStringCmd
	err := s.at(ctx, "read "+key, home, func(p redis.Pipeliner) { have = p.HGetAll(ctx, key) })
	return valueOf(have), err
}

// load makes all masters know all scripts. One that can't be reached gets them
// when it is back and says that it does not know one.
func (s *Store) load(ctx context.Context) error {
	masters, err := s.masters(ctx)
	if err != nil {
		return err
	}
	c := &s.scripts
	errs := make([]error, len(masters))
	var all sync.WaitGroup
	for i, master := range masters {
		all.Go(func() {
			errs[i] = loadMissing(ctx, master, []script.Script{
				c.digests, c.schedule, c.move, c.claim, c.settle, c.reap, c.cancel, c.retry, c.lane, c.forget, c.sweep, c.trim,
				c.look, c.list, c.readyLanes, c.busyLanes, c.lanes,
			})
		})
	}
	all.Wait()
	for _, err := range errs {
		if err := s.failed("load the scripts", err); err != nil && (len(masters) == 1 || !errors.Is(err, dispatcher.ErrUnavailable)) {
			return err
		}
	}
	return nil
}

// loadMissing makes a master know scripts. Mostly it does, from another instance or
// an earlier start; to take all of them in once more takes it some milliseconds,
// while it serves nobody. One that does not tell what it knows is given all.
func loadMissing(ctx context.Context, master *redis.Client, all []script.Script) error {
	shas := make([]string, len(all))
	for i, sc := range all {
		shas[i] = sc.SHA
	}
	known, err := master.ScriptExists(ctx, shas...).Result()
	if err != nil || len(known) != len(all) {
		known = make([]bool, len(all))
	}
	if !slices.Contains(known, false) {
		return nil
	}
	_, err = master.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, sc := range all {
			if !known[i] {
				p.ScriptLoad(ctx, sc.Text)
			}
		}
		return nil
	})
	return err
}

// Client is the connection, for those who look at the raw keys.
func (s *Store) Client() redis.UniversalClient { return s.rdb }

// Partitions is the number of partitions.
func (s *Store) Partitions() int { return len(s.tags) }

// partition is where a lane lies.
func (s *Store) partition(lane dispatcher.Lane) int {
	if len(s.tags) == 1 {
		return 0
	}
	return int(keys.CRC16(string(lane))) % len(s.tags)
}

// home is the tag of what belongs to no partition.
func (s *Store) home() string { return "{" + s.project + "}" }

// tagOf is the tag of a partition, or of home.
func (s *Store) tagOf(partition int) string {
	if partition == home {
		return s.home()
	}
	return s.tags[partition]
}

// Ping reports whether Redis answers: in a cluster the master without which
// nobody is known to be alive.
func (s *Store) Ping(ctx context.Context) error {
	return s.at(ctx, "ping", home, func(p redis.Pipeliner) { p.Ping(ctx) })
}

// Close ends all connections.
func (s *Store) Close() error {
	s.gates.finish()
	s.weak.finish()
	return s.rdb.Close()
}

// failed gives an error of Redis the engine's meaning: full, unavailable, or a
// fault of ours. doing is the verb that it is told with.
func (s *Store) failed(doing string, err error) error { return failed(doing, err) }

// each cuts n things into batches of at most size and calls do with the bounds.
func each(n, size int, do func(from, to int)) {
	for from := 0; from < n; from += size {
		do(from, min(from+size, n))
	}
}
