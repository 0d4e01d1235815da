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
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// Options say which Redis, and whose part of it.
type Options struct {
	URL        string // redis://, rediss:// or unix://, with go-redis' options
	Project    string // prefix of all keys
	Partitions int    // 0: what the store says, 1 for an empty one
	MaxWindow  int    // most deliveries of one lane in flight, over all instances
	MaxWaiting int    // most deliveries that may wait in one lane; 0: no limit
	Permits    int    // of this instance

	BreakerFailures int           // blamed failures in a row that open a lane; 0: none do
	BreakerWait     time.Duration // how long it is left alone when it opens; twice as long each time it opens again

	TestClock bool      // scripts read the time from <tag>:clock, in microseconds, instead of Redis' TIME
	Seal      *seal.Box // hides endpoints' secrets and header values; nil: they are stored as they are
	Log       *slog.Logger
}

// conf is what scripts have to know of the settings.
func (o Options) conf() string {
	return fmt.Sprintf("%d %d %d %d %d", max(o.MaxWindow, 1), o.Permits,
		max(o.BreakerFailures, 0), millisUp(o.BreakerWait), max(o.MaxWaiting, 0))
}

// schemaVersion is what :meta says of the layout of the keys; another one is
// not touched.
const schemaVersion = "1"

// Store is a dispatcher.Queue in Redis.
type Store struct {
	rdb       redis.UniversalClient
	project   string
	tags      []string
	conf      string // ARGV[2] of every script
	testClock bool
	scripts   scripts
	seal      *seal.Box
	unread    sync.Map // endpoints whose record can't be read, by their ids: what it was when the log was told
	log       *slog.Logger
}

var _ dispatcher.Queue = (*Store)(nil)

// Open connects to Redis, agrees with :meta on the number of partitions and
// loads the scripts.
func Open(ctx context.Context, o Options) (*Store, error) {
	opts, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("open redis: %w", withoutURL(err))
	}
	opts.MaxRetries = -1   // a script that is run again by the client would claim again; callers repeat what may be repeated
	opts.DialerRetries = 1 // who calls repeats; five dials of a server that is gone take half a second
	opts.ContextTimeoutEnabled = true
	opts.DisableIdentity = true // unknown before 7.2, and an error in its statistics for each connection
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	redis.SetLogger(silent{})
	s := &Store{
		rdb:       redis.NewClient(opts),
		project:   o.Project,
		conf:      o.conf(),
		testClock: o.TestClock,
		scripts:   newScripts(o.TestClock),
		seal:      o.Seal,
		log:       o.Log,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	partitions, err := s.agree(ctx, o.Partitions)
	if err == nil {
		for n := range partitions {
			s.tags = append(s.tags, tag(o.Project, n))
		}
		err = s.load(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open redis at %s: %w", opts.Addr, err), s.rdb.Close())
	}
	return s, nil
}

// silent takes what go-redis would print to standard error: each of it is also
// an error that somebody here gets.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// withoutURL keeps a password that is part of a bad URL out of the error.
func withoutURL(err error) error {
	var parse interface{ Unwrap() error }
	if errors.As(err, &parse) {
		return fmt.Errorf("bad URL: %w", parse.Unwrap())
	}
	return err
}

// agree settles the number of partitions: the first start fixes it, since
// every lane's place depends on it.
func (s *Store) agree(ctx context.Context, wanted int) (int, error) {
	meta := "{" + s.project + "}" + keyMeta
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSetNX(ctx, meta, "partitions", max(wanted, 1))
		p.HSetNX(ctx, meta, "schema", schemaVersion)
		return nil
	})
	if err != nil {
		return 0, s.failed("read "+meta, err)
	}
	have, err := s.rdb.HGetAll(ctx, meta).Result()
	if err != nil {
		return 0, s.failed("read "+meta, err)
	}
	if have["schema"] != schemaVersion {
		return 0, fmt.Errorf("project %s has layout %q, this version knows %q", s.project, have["schema"], schemaVersion)
	}
	n, err := strconv.Atoi(have["partitions"])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s says %q partitions", meta, have["partitions"])
	}
	if wanted != 0 && wanted != n {
		return 0, fmt.Errorf("PARTITIONS=%d, but project %s was made with %d: unset it, or use another PROJECT", wanted, s.project, n)
	}
	return n, nil
}

// load makes Redis know all scripts.
func (s *Store) load(ctx context.Context) error {
	c := &s.scripts
	for _, sc := range []script{
		c.digests, c.schedule, c.move, c.claim, c.settle, c.reap, c.cancel, c.retry, c.lane, c.sweep, c.trim, c.look, c.list, c.lanes,
	} {
		if err := s.rdb.ScriptLoad(ctx, sc.text).Err(); err != nil {
			return s.failed("load "+sc.name, err)
		}
	}
	return nil
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
	return int(crc16(string(lane))) % len(s.tags)
}

// Ping reports whether Redis answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.failed("ping", s.rdb.Ping(ctx).Err())
}

// Close ends all connections.
func (s *Store) Close() error { return s.rdb.Close() }

// job is one call of a script in one partition.
type job struct {
	partition int
	args      []any // behind by and conf
}

// reply is what one job answered.
type reply struct {
	values []any
	err    error
}

// run calls a script once for each job, all in one round trip. A script that
// Redis does not know, since it was restarted or another node took over, is
// loaded and called again: it has not run.
func (s *Store) run(ctx context.Context, sc script, by string, jobs []job) []reply {
	replies := s.send(ctx, sc, by, jobs)
	var again []int
	for i, r := range replies {
		if redis.HasErrorPrefix(r.err, "NOSCRIPT") {
			again = append(again, i)
		}
	}
	if len(again) > 0 && s.rdb.ScriptLoad(ctx, sc.text).Err() == nil {
		repeated := make([]job, len(again))
		for i, n := range again {
			repeated[i] = jobs[n]
		}
		for i, r := range s.send(ctx, sc, by, repeated) {
			replies[again[i]] = r
		}
	}
	for i := range replies {
		replies[i].err = s.failed(sc.name, replies[i].err)
	}
	return replies
}

func (s *Store) send(ctx context.Context, sc script, by string, jobs []job) []reply {
	replies := make([]reply, len(jobs))
	if len(jobs) == 1 {
		cmd := s.rdb.EvalSha(ctx, sc.sha, []string{s.tags[jobs[0].partition]}, s.args(by, jobs[0])...)
		replies[0].values, replies[0].err = cmd.Slice()
		return replies
	}
	cmds := make([]*redis.Cmd, len(jobs))
	pipe := s.rdb.Pipeline()
	for i, j := range jobs {
		cmds[i] = pipe.EvalSha(ctx, sc.sha, []string{s.tags[j.partition]}, s.args(by, j)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, cmd := range cmds {
		replies[i].values, replies[i].err = cmd.Slice()
	}
	return replies
}

func (s *Store) args(by string, j job) []any {
	args := make([]any, 0, 2+len(j.args))
	args = append(args, by, s.conf)
	return append(args, j.args...)
}

// failed gives an error of Redis the engine's meaning: full, unavailable, or a
// fault of ours. doing is the verb that it is told with.
func (s *Store) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if meaning := meaningOf(err); meaning != nil {
		return fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// each cuts n things into batches of at most size and calls do with the bounds.
func each(n, size int, do func(from, to int)) {
	for from := 0; from < n; from += size {
		do(from, min(from+size, n))
	}
}

// now is the time by the clock that scripts read.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	if !s.testClock {
		t, err := s.rdb.Time(ctx).Result()
		return t, s.failed("time", err)
	}
	micros, err := s.rdb.Get(ctx, s.tags[0]+keyClock).Int64()
	return time.UnixMicro(micros), s.failed("time", err)
}

var errAnswer = errors.New("unexpected answer of a script")

// A connection that ends in the middle says io.EOF or io.ErrUnexpectedEOF.
var brokenOff = []error{io.EOF, io.ErrUnexpectedEOF, redis.ErrClosed, context.DeadlineExceeded, context.Canceled}
