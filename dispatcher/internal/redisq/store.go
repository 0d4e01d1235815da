// Package redisq keeps the queue in Redis.
//
// Each change of state is one Lua script in lua/ and one method here. All keys of a partition begin
// with its hash tag {<project>:<n>}, so a script runs on one node of a cluster. The comments in
// lua/common.lua describe the content of each key.
package redisq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Options configure the connection to Redis and the project that the store uses there.
type Options struct {
	URL             string                // redis://, rediss:// or unix://, with go-redis' options; several ?addr= for a cluster or sentinels
	Mode            conn.Mode             // kind of server behind the URL
	Master          string                // name of the master that sentinels watch
	CAFile          string                // certificates trusted for rediss:// besides the system's; empty: none
	Durability      dispatcher.Durability // when a publish returns
	Poll            bool                  // uses neither pub/sub nor PUBLISH; if unset, Open checks whether both are allowed
	Keep            dispatcher.Keep       // limits from which Stats reports the retention
	Project         string                // prefix of all keys
	Partitions      int                   // 0: the number in the store; an empty store gets 1, in a cluster at least 12
	LaneMaxInFlight int                   // most deliveries of one lane in flight, over all instances
	MaxWaiting      int                   // most deliveries that may wait in one lane; 0: no limit
	Permits         int                   // of this instance
	Listens         []netip.AddrPort      // addresses of this instance's listeners, which it publishes

	Listening func(map[string][]netip.AddrPort) // called with the listeners of the instances, by name, when these change; nil: not called

	BreakerFailures int           // blamed failures in a row that open a lane; 0: none do
	BreakerWait     time.Duration // how long a lane is skipped when it opens; doubles each time it opens again

	Archive bool // this instance copies the log into an archive

	LoadLate bool // each script is loaded at its first call: a Redis in this process takes long to parse all of them

	FailingAfter time.Duration // a lane that fails longer than this is reported as failing; 0: no lane is

	Dial      conn.DialFunc  // nil: the network
	LogIn     conn.LogInFunc // returns the user and the password of each new connection; nil: those of the URL
	TestClock bool           // scripts read the time from <tag>:clock, in microseconds, instead of Redis' TIME
	Seal      *seal.Box      // hides endpoints' secrets and header values; nil: they are stored as they are
	Log       *slog.Logger
}

// conf returns the configuration that scripts need: settings, and the permits of all instances.
func (o Options) conf(silent bool, total int) string {
	return fmt.Sprintf("%d %d %d %d %d %d %d", max(o.LaneMaxInFlight, 1), o.Permits, max(total, o.Permits, 1),
		max(o.BreakerFailures, 0), conn.MillisUp(o.BreakerWait), max(o.MaxWaiting, 0), conn.Flag(silent))
}

// Store changes the queue in Redis. Its exported fields read the queue and manage the other data of
// a project.
type Store struct {
	Deliveries *read.Deliveries
	LaneReader *read.LaneReader
	Attempts   *read.LogReader
	Shelves    *read.ShelfReader
	Endpoints  *home.Endpoints
	audit      *home.Audit
	access     *home.Access

	conn   *conn.Client
	shares shares
	polls  bool // neither pub/sub nor PUBLISH may be used
	memory memory
	log    *slog.Logger

	probe   *conn.Probe
	readers readers

	readWhole    atomic.Int64 // Unix seconds until which claims return all messages
	recordSize   atomic.Int64 // mean size of the last records; 0: there was none
	nodes        int          // masters that hold partitions, or home
	sealedLogged atomic.Int64 // Unix seconds of the last log line about a message that can't be opened

	partitions *conn.PartitionSet
	events     dispatcher.Events
	answered   func(conn.Hint) // tests read the hints of replies here; otherwise nil
}

// Open connects to Redis, reads the number of partitions from :meta or writes it there, checks the
// capabilities of the server and loads the scripts.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := Connect(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	if err := s.begin(ctx, o); err != nil {
		err = s.conn.Explain(conn.MissingRights(ctx, s.conn, err))
		return nil, errors.Join(fmt.Errorf("open redis at %s: %w", s.conn.Where(), err), s.Close())
	}
	return s, nil
}

// Connect opens a store without partitions. The caller sets their number with Divide.
func Connect(ctx context.Context, o Options) (*Store, error) {
	s := &Store{
		polls: o.Poll,
		log:   o.Log,

		events: dispatcher.Events{}.Whole(),
	}
	var err error
	s.conn, err = conn.Dial(ctx, conn.Options{
		URL: o.URL, Mode: o.Mode, Master: o.Master, CAFile: o.CAFile, Durability: o.Durability,
		Project: o.Project, TestClock: o.TestClock, Dial: o.Dial, LogIn: o.LogIn, Repair: s.removeWrong,
	})
	if err != nil {
		return nil, err
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.Attempts, s.Shelves = read.NewLogReader(s.conn), read.NewShelfReader(s.conn)
	s.LaneReader = read.NewLaneReader(s.conn, o.FailingAfter)
	s.Deliveries = read.New(read.Options{
		Conn: s.conn, Lanes: s.LaneReader, Log: s.Attempts, Shelf: s.Shelves, Keep: o.Keep,
		Heard: func(h conn.Hint) { s.partitions.Heard(h) }, Info: s.Store, Logger: s.log,
	})
	s.Endpoints = home.NewEndpoints(s.conn, s.announceAs, o.Seal, s.log)
	s.audit, s.access = home.NewAudit(s.conn, s.log), home.NewAccess(s.conn)
	return s, nil
}

// announceAs returns the project's id for scripts that publish. It returns an empty text if they
// must not publish.
func (s *Store) announceAs() string {
	if s.polls {
		return ""
	}
	return s.conn.ID()
}

// begin prepares a connected store for use.
func (s *Store) begin(ctx context.Context, o Options) error {
	count, err := s.conn.Agree(ctx, o.Partitions)
	if err != nil {
		return err
	}
	if err := s.Divide(ctx, o, count); err != nil {
		return err
	}
	return s.conn.MakeEpochs(ctx)
}

// Divide sets the number of partitions of a store.
func (s *Store) Divide(ctx context.Context, o Options, count int) error {
	s.conn.Divide(count)
	s.partitions = conn.NewPartitionSet(count, o.Permits)
	if err := s.findPubSub(ctx); err != nil {
		return err
	}
	if err := s.conn.FindDurable(ctx); err != nil {
		return err
	}
	s.probe = conn.NewProbe(s.conn, s.polls)
	s.shares.begin(s.conn, o, s.polls)
	if err := s.countShares(ctx); err != nil {
		return err
	}
	masters, err := s.conn.Masters(ctx)
	if err != nil {
		return err
	}
	if s.nodes = len(masters); o.LoadLate {
		return nil
	}
	return s.conn.Load(ctx, loaded())
}

// Client returns the client of go-redis, for access to the raw keys.
func (s *Store) Client() redis.UniversalClient { return s.conn.Redis() }

// Audit returns the log of changes that people make.
func (s *Store) Audit() *home.Audit { return s.audit }

// Access returns the store of sessions and links.
func (s *Store) Access() *home.Access { return s.access }

// Conn returns the connection, for tools that work on raw keys.
func (s *Store) Conn() *conn.Client { return s.conn }

// OnAnswer sets a function that receives the hints of all replies. It must be called before any
// other method.
func (s *Store) OnAnswer(hear func(conn.Hint)) { s.answered = hear }

// Partitions returns the number of partitions.
func (s *Store) Partitions() int { return s.conn.Partitions() }

// home returns the tag of keys that belong to no partition.
func (s *Store) home() string { return s.conn.Tag(conn.Home) }

// SealCursor returns a cursor for a place in a list.
func (s *Store) SealCursor(ctx context.Context, list string, place any) (string, error) {
	return s.conn.Cursors().Seal(ctx, list, place)
}

// OpenCursor reads the place from a cursor.
func (s *Store) OpenCursor(ctx context.Context, list, cursor string, place any) error {
	return s.conn.Cursors().Open(ctx, list, cursor, place)
}

// Ping reports whether Redis replies. In a cluster it asks the master of conn.Home, because without
// that node no instance is known to be alive.
func (s *Store) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// Store returns the information that Redis reports about itself.
func (s *Store) Store(ctx context.Context) (dispatcher.StoreInfo, error) {
	info, err := s.probe.Store(ctx)
	if torn := s.Torn(); torn != nil {
		info.Checks = append(slices.Clip(info.Checks), dispatcher.Check{Name: "torn", Holds: dispatcher.No, Needed: true, Detail: torn.Error()})
	}
	if loss := s.conn.Loss(); loss != nil {
		info.Emptied = loss
		info.Checks = append(slices.Clip(info.Checks), dispatcher.Check{Name: "emptied", Holds: dispatcher.No, Detail: loss.Error()})
	}
	return info, err
}

// Torn returns an error while this instance knows of torn partitions: see admin.KeepMended.
func (s *Store) Torn() error {
	torn := s.conn.Torn()
	if len(torn) == 0 {
		return nil
	}
	return fmt.Errorf("%w: an error ended a script in its middle, in %d of %d partitions: nothing is done there until they are repaired, "+
		"which needs all rights of the user of Redis (hookladder doctor names them)", dispatcher.ErrUnavailable, len(torn), s.conn.Partitions())
}

// Close ends all connections.
func (s *Store) Close() error { return s.conn.Close() }

// replaceable lists the keys of home that are recreated without help.
var replaceable = []string{keys.Instances, keys.About, keys.Departed, keys.Sealed, keys.Audit, keys.AuditLinks, keys.Added}

// typesOf returns the types of the keys that removeWrong checks, by name. The keys are of a
// partition or of conn.Home.
func (s *Store) typesOf(ctx context.Context, partition int) (map[string]string, error) {
	want := map[string]string{}
	if partition == conn.Home {
		for _, k := range keys.HomeKinds {
			if slices.Contains(replaceable, k.Name) {
				want[k.Name] = k.Type
			}
		}
		return want, nil
	}
	names, err := read.InstanceNames(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	for _, k := range keys.Kinds {
		switch {
		case !k.Named():
			want[k.Name] = k.Type
		case k.Name == keys.Leases:
			for _, name := range names[1:] {
				want[k.Name+name.(string)] = k.Type
			}
		}
	}
	return want, nil
}

// removeWrong removes the keys of a partition, or of conn.Home, that have the wrong type. It
// reports whether there were any.
func (s *Store) removeWrong(ctx context.Context, partition int) bool {
	want, err := s.typesOf(ctx, partition)
	if err != nil {
		return false
	}
	tag := s.conn.Tag(partition)
	types := make(map[string]*redis.StatusCmd, len(want))
	err = s.conn.At(ctx, "read types", partition, func(p redis.Pipeliner) {
		for name := range want {
			types[name] = p.Type(ctx, tag+name)
		}
	})
	any := false
	for name, kind := range want {
		if is := conn.Value(types[name]); err == nil && is != "" && is != "none" && is != kind {
			any = true
			s.log.Error("key removed: it was of another type, so it held nothing of ours; run doctor --fix",
				"key", tag+name, "type", is, "want", kind)
			if err := s.conn.At(ctx, "remove "+tag+name, partition, func(p redis.Pipeliner) { p.Unlink(ctx, tag+name) }); err != nil {
				s.log.Error("key not removed", "key", tag+name, "err", err)
			}
		}
	}
	return any
}
