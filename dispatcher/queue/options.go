package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/ladder"
)

// Options configure a Queue. The zero value of each field is its default. Programs of one
// project, and its hookladder serve, should have the same options, except Workers,
// AttemptTimeout, Grace and Log.
type Options struct {
	Project    string                // prefix of all keys in Redis; empty: default
	Partitions int                   // 0: as stored in Redis; an empty Redis gets 1, a cluster at least 12
	Durability dispatcher.Durability // what a publish waits for: Fsync, or 1 to 9 Replicas; zero: the response of Redis
	Poll       bool                  // poll once a second instead of subscribing, for proxies without pub/sub

	RedisMode   RedisMode // kind of server; empty: RedisAuto
	RedisMaster string    // the name of the master in Sentinel
	RedisCAFile string    // certificates trusted for rediss:// in addition to the system's
	Forgetful   bool      // accept a Redis without persistence, such as miniredis in a test

	// Dial opens the connections to Redis; nil: the network. With a url of redis://, the DialContext
	// of a tls.Dialer connects with its own certificates.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Credentials returns the user and the password of each new connection, for example a token
	// that expires; nil: those of the url.
	Credentials func(ctx context.Context) (user, password string, err error)

	Workers        int           // handlers that run at once in this program; 0: 64, at most 4,096
	AttemptTimeout time.Duration // of a handler, if the message has no timeout: 1 s to 1 h; 0: 15 s
	Grace          time.Duration // how long handlers may continue after Run's context ends; 0: 20 s, negative: not at all

	Ladder       []time.Duration // the waits between attempts; none: 15s, 3m, 10m, 30m, 30m, 1h, 2h, 6h, 15h
	MaxAttempts  int             // limits this ladder; 1: no retry; 0: no limit
	LadderJitter float64         // a random fraction added to each wait, 0 to 1

	MaxInFlight int // deliveries of one queue in progress at once, in all programs; 0: 128
	MaxWaiting  int // deliveries that may wait in one queue, otherwise Publish returns ErrLaneFull; 0: any number
	MaxBody     int // bytes of a body; 0: 256 KiB, at most 4 MiB
	FanoutMax   int // endpoints that one message may match; 0: 1,000

	// OnDead is called with each dead delivery of a queue whose death this program recorded: the last
	// attempt failed, or the message expired, or the programs that handled it died. It is called once, one
	// delivery at a time, after the death was recorded. If the program dies before, it is not called;
	// List has all dead deliveries. If it is more than 1,024 behind, it misses some, which are logged.
	OnDead func(ctx context.Context, d Dead)

	EncryptionKey Key    // encrypts the headers of messages, as ENCRYPTION_KEY; zero: not encrypted
	HeaderPrefix  string // of the reserved headers, as HEADER_PREFIX; empty: hookladder-

	Retention     time.Duration // how long finished deliveries are kept; 0: 24 h
	RetentionMax  int           // how many of them are kept in full; 0: 100,000
	DedupMax      int           // how many ids of older ones are kept; 0: 1,000,000
	DeadRetention time.Duration // how long dead deliveries are kept; 0: 720 h
	DeadMax       int           // how many of them; 0: 250,000

	TracerProvider trace.TracerProvider // gets a span of each publish and of each call of a handler; nil: no spans

	// Log gets the log; nil: warnings and errors go to slog.Default(). Its handler is called on a
	// goroutine of its own, so nothing waits for it. If it hangs, lines beyond 4 MiB are dropped.
	Log *slog.Logger
}

// RedisMode is the kind of server behind the url.
type RedisMode string

// The modes. RedisAuto finds out: Sentinel if there is a RedisMaster, otherwise what the server
// reports.
const (
	RedisAuto     RedisMode = "auto"
	RedisSingle   RedisMode = "single"
	RedisCluster  RedisMode = "cluster"
	RedisSentinel RedisMode = "sentinel"
)

// Limits and defaults that are not part of the documented contract.
const (
	// usualWorkers is enough for handlers that wait for a database or a service, and
	// below the usual size of a pool of connections.
	usualWorkers = 64
	// mostWorkers bounds the goroutines, and with the largest bodies the memory: 16 GiB.
	mostWorkers = 4096

	leastTimeout = time.Second
	mostTimeout  = dispatcher.LongLease
	mostBody     = 4 << 20
	pollEvery    = time.Minute // as GUARD_INTERVAL
)

var projectName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// settings are Options in the form that the parts of a Queue need.
type settings struct {
	store   redisq.AwaitOptions
	engine  engine.Options
	policy  dispatcher.Policy
	workers int
	grace   time.Duration
	log     *slog.Logger
	lines   *observe.Log // of log
}

// settings checks the options and fills in the defaults. It reports all mistakes at once.
func (o Options) settings(url string) (settings, error) {
	wrong := &InvalidError{}
	check := func(ok bool, name, accepts string) {
		if !ok {
			wrong.add("Options."+name, "must be "+accepts)
		}
	}
	wrong.check("url", checkURL(url))
	s := settings{workers: cmp.Or(o.Workers, usualWorkers), grace: cmp.Or(o.Grace, 20*time.Second), log: o.Log}
	if s.log != nil && s.log.Handler() == nil {
		check(false, "Log", "made by slog.New, or nil")
		s.log = nil
	}
	if s.log == nil {
		s.log = slog.New(warnings{slog.Default().Handler()})
	}
	s.lines = observe.NewLog(s.log.Handler())
	s.log = s.lines.Logger()
	s.grace = max(s.grace, 0)
	project := cmp.Or(o.Project, "default")
	timeout := cmp.Or(o.AttemptTimeout, 15*time.Second)
	most := cmp.Or(o.MaxBody, 256<<10)
	check(projectName.MatchString(project), "Project", "1 to 64 of A-Z a-z 0-9 _ -")
	check(s.workers >= 1 && s.workers <= mostWorkers, "Workers", "1 to 4096")
	check(timeout >= leastTimeout && timeout <= mostTimeout, "AttemptTimeout", "1s to 1h")
	check(o.LadderJitter >= 0 && o.LadderJitter <= 1, "LadderJitter", "0 to 1")
	check(most >= 1 && most <= mostBody, "MaxBody", "1 to 4194304 bytes")
	check(slices.Contains([]RedisMode{"", RedisAuto, RedisSingle, RedisCluster, RedisSentinel}, o.RedisMode), "RedisMode", "auto, single, cluster or sentinel")
	_, err := dispatcher.ParseDurability(o.Durability.String())
	check(err == nil && !(o.Durability.Fsync && o.Durability.Replicas != 0) && o.Durability.Replicas >= 0, "Durability", "Fsync or 1 to 9 Replicas, not both")
	for _, n := range []struct {
		name  string
		given int64
	}{
		{"Partitions", int64(o.Partitions)}, {"MaxInFlight", int64(o.MaxInFlight)}, {"MaxWaiting", int64(o.MaxWaiting)}, {"MaxAttempts", int64(o.MaxAttempts)},
		{"FanoutMax", int64(o.FanoutMax)}, {"Retention", int64(o.Retention)}, {"RetentionMax", int64(o.RetentionMax)},
		{"DedupMax", int64(o.DedupMax)}, {"DeadRetention", int64(o.DeadRetention)}, {"DeadMax", int64(o.DeadMax)},
	} {
		check(n.given >= 0, n.name, "0 or more")
	}
	prefix := dispatcher.HeaderPrefix("")
	if o.HeaderPrefix != "" {
		prefix, err = dispatcher.ParseHeaderPrefix(o.HeaderPrefix)
		wrong.check("Options.HeaderPrefix", err)
	}
	steps := ladder.Default()
	if len(o.Ladder) > 0 {
		steps, err = newLadder(o.Ladder)
		wrong.check("Options.Ladder", err)
	}
	keep := dispatcher.Keep{
		Finished: cmp.Or(o.Retention, 24*time.Hour), FinishedMax: cmp.Or(o.RetentionMax, 100_000), SeenMax: cmp.Or(o.DedupMax, 1_000_000),
		Dead: cmp.Or(o.DeadRetention, 720*time.Hour), DeadMax: cmp.Or(o.DeadMax, 250_000),
	}
	s.policy = dispatcher.Policy{MaxBody: most, HeaderPrefix: prefix}
	s.engine = engine.Options{
		Instance: redisq.InstanceName(), Ladder: steps.Cut(o.MaxAttempts), Jitter: o.LadderJitter, Timeout: timeout, FanoutMax: cmp.Or(o.FanoutMax, 1000),
		PollEvery: pollEvery, Keep: keep, HeaderPrefix: prefix, Version: version(), Tracer: observe.NewTracer(o.TracerProvider, version()), Log: s.log,
	}
	var box *seal.Box
	if o.EncryptionKey != (Key{}) {
		box, err = seal.ParseKeys(o.EncryptionKey.reveal())
		wrong.check("Options.EncryptionKey", err)
	}
	s.store = redisq.AwaitOptions{Forgets: o.Forgetful, Options: redisq.Options{
		URL: url, Mode: conn.Mode(cmp.Or(o.RedisMode, RedisAuto)), Master: o.RedisMaster, CAFile: o.RedisCAFile,
		Durability: o.Durability, Poll: o.Poll, Keep: keep, Project: project, Partitions: o.Partitions,
		LaneMaxInFlight: cmp.Or(o.MaxInFlight, 128), MaxWaiting: o.MaxWaiting, Seal: box, Log: s.log,
		Dial: o.Dial, LogIn: o.Credentials,
	}}
	if len(wrong.Fields) > 0 {
		return s, wrong
	}
	return s, nil
}

// checkURL returns an error for a URL that can't be one of Redis. The error has no part of
// the URL, which may have a password.
func checkURL(text string) error {
	switch _, _, err := net.SplitHostPort(text); {
	case text == "":
		return errors.New("is empty: want redis://host:port")
	case err == nil && !strings.ContainsAny(text, "/@"):
		return fmt.Errorf("has no scheme: want redis://%s", text)
	}
	err := conn.CheckURL(text)
	if err == nil {
		return nil
	}
	_, why, found := strings.Cut(err.Error(), "bad REDIS_URL: ")
	if !found {
		why = err.Error()
	}
	return fmt.Errorf("is not one of Redis: %s", why)
}

// warnings is a handler that passes on warnings and errors only.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
