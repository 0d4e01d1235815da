package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// storeWait is how long serve waits for its store at the start: they are often
// started together, and Redis loads its data first.
const storeWait = 30 * time.Second

func newServe(s world) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Take messages and deliver them, with Redis as the store",
		Long: `Takes messages over HTTP, keeps them in Redis and delivers them. All settings come
from the environment; hookladder config shows them. REDIS_URL is needed, or
DATA_DIR for a redis-server of its own, since what was acknowledged must outlive
the process. If Redis does not answer, it waits up to 30 seconds for it; then the exit
code is 4.

SIGTERM or Ctrl-C stops it in order. /readyz returns 503 and each response closes
its connection. After SIGTERM everything else continues for SHUTDOWN_DELAY, so that
load balancers notice. Then nothing more is taken from the queue. Attempts under way
have SHUTDOWN_GRACE to finish, the rest goes back. Open requests are answered, and
the instance signs off. What is published meanwhile is kept, and delivered by another
instance or after the next start.
A second signal skips the delay. The next one, or the second if there is no delay,
ends it at once; another instance, or its own restart, then takes over its deliveries.

SIGHUP makes it read the files of keys again: API_KEYS_FILE, SIGNING_SECRET_FILE,
and ENCRYPTION_KEY_FILE, which must still hold every key it held. If one file is
wrong, no key changes, and the log says why. Other settings need a restart.`,
		Example: `  REDIS_URL=redis://127.0.0.1:6379 SIGNING_SECRET=whsec_... hookladder serve
  DATA_DIR=./data SIGNING_SECRET=whsec_... hookladder serve
  PORT=8080 API_KEYS_FILE=/run/secrets/keys REDIS_URL=rediss://... hookladder serve
  LISTEN=off REDIS_URL=... hookladder serve         # dispatches only
  MAX_IN_FLIGHT=0 REDIS_URL=... hookladder serve    # accepts only`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, s) },
	}
}

func serve(cmd *cobra.Command, s world) error {
	const cure = "name a Redis that keeps the messages, such as REDIS_URL=redis://127.0.0.1:6379, or a folder for one of its own, such as DATA_DIR=./data; hookladder dev needs neither and forgets everything"
	from := settings.Sources{Environ: s.vars()}
	read, found, err := settings.Read(from)
	if err != nil {
		return usageError{err}
	}
	o, err := storeOptions(cmd, read, found, cure)
	if err != nil {
		return err
	}
	o.StoreWait = storeWait
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	o.SkipDelay = delaySkipped(o)
	o.Renew = newRenewing(from, found, o.Log).listen(cmd.Context())
	for _, w := range settings.Near(from.Environ) {
		o.Log.Warn(w)
	}
	if len(read.SigningSecret) == 0 {
		o.Log.Warn("SIGNING_SECRET is not set, so no bare URL can be published: no callback is ever unsigned")
	}
	collectLess(from.Environ)
	o.MemoryLimit = limitMemory(from.Environ, memlimit.FromCgroup, read.DataDir != "")
	addresses := "LISTEN or PORT"
	if o.MetricsListen != "" {
		addresses = "LISTEN, PORT or METRICS_LISTEN"
	}
	return elsewhere(app.Run(cmd.Context(), o), addresses)
}

// delaySkipped is closed at a signal that ends the delay of a stop: SIGINT, since a person
// waits, or the second one. Until then no signal ends the process; after it the next one
// does.
func delaySkipped(o app.Options) <-chan struct{} {
	skipped := make(chan struct{})
	if o.Delay == 0 || o.Listen == "" {
		return skipped // no signal is caught: the second one ends the process
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // it lasts as long as the process
		if first := <-signals; first != os.Interrupt {
			<-signals
		}
		signal.Stop(signals)
		close(skipped)
	}()
	return skipped
}

// storeOptions are the options of a command that needs a durable store. The error
// without one ends with cure.
func storeOptions(cmd *cobra.Command, read settings.Settings, found []settings.Found, cure string) (app.Options, error) {
	if read.RedisURL == "" && read.DataDir == "" {
		return app.Options{}, usagef("neither REDIS_URL nor DATA_DIR is set: %s", cure)
	}
	o := options(read, found)
	o.Log = newLog(read, found, cmd.ErrOrStderr())
	return o, nil
}

// options are the settings as the process wants them.
func options(s settings.Settings, found []settings.Found) app.Options {
	listen := listenAddr(s, found)
	if listen == settings.ListenOff {
		listen = ""
	}
	return app.Options{
		Listen:          listen,
		Keys:            s.APIKeys,
		MaxConnections:  s.MaxConns,
		MetricsListen:   s.MetricsListen,
		RedisURL:        s.RedisURL,
		RedisMode:       s.RedisMode,
		RedisMaster:     s.RedisMaster,
		RedisCAFile:     s.RedisCA,
		DataDir:         s.DataDir,
		Durability:      s.Durability,
		Poll:            s.Wake == settings.WakePoll,
		Project:         s.Project,
		Partitions:      s.Partitions,
		LaneMaxInFlight: s.LaneMaxInFlight,
		MaxWaiting:      s.MaxWaiting,
		Seal:            s.EncryptionKey.Box,
		BreakerFailures: s.Breaker.Failures,
		BreakerWait:     s.Breaker.Wait,
		OpsURL:          s.OpsURL,
		Console:         consoleOf(s, found),
		Archive: app.ArchiveOptions{
			URL: s.ArchiveURL, Bodies: s.ArchiveBodies, Backlog: int64(s.ArchiveBacklog), Retention: time.Duration(s.ArchiveRetention),
		},
		OutboxURL:    s.OutboxURL,
		QuickRetries: s.QuickRetries,
		AllowNets:    s.AllowNets,
		LinkNets:     s.LinkNets,
		Proxies:      s.TrustedProxies,
		HTTPSOnly:    s.HTTPSOnly,
		Proxy:        s.EgressProxy,
		CAFile:       s.EgressCA,
		CertFile:     s.EgressCert,
		KeyFile:      s.EgressKey,
		MaxBody:      int(s.MaxBody),
		Version:      version,
		Delay:        s.ShutdownDelay,
		Engine:       engineOf(s),
	}
}

// engineOf is how deliveries are made.
func engineOf(s settings.Settings) app.EngineOptions {
	return app.EngineOptions{
		Secrets:      s.SigningSecret,
		DeriveTenant: s.SigningDerive == settings.DeriveTenant,
		Ladder:       s.Ladder,
		Jitter:       s.LadderJitter,
		Success:      s.Success,
		Timeout:      s.AttemptTimeout,
		FailingAfter: s.FailingAfter,
		DisableAfter: s.DisableAfter,
		MaxInFlight:  s.MaxInFlight,
		MaxBytes:     int64(s.MaxBytes),
		FanoutMax:    s.FanoutMax,
		ClaimBatch:   s.ClaimBatch,
		Excerpt:      int(s.Excerpt),
		UserAgent:    s.UserAgent,
		HeaderPrefix: s.HeaderPrefix,
		PollEvery:    s.GuardInterval,
		Grace:        s.ShutdownGrace,
		Keep:         keepOf(s),
	}
}

// consoleOf is what people who look in with a browser are shown.
func consoleOf(s settings.Settings, found []settings.Found) app.ConsoleOptions {
	list := make([]app.Setting, len(found))
	for i, f := range found {
		list[i] = app.Setting{Name: f.Name, Value: shown(f), Source: f.Source}
	}
	return app.ConsoleOptions{
		Settings:  list,
		Off:       s.Console == settings.ConsoleOff,
		PublicURL: s.PublicURL.URL,
		Name:      s.ConsoleName,
		Logo:      s.ConsoleLogo,
		Color:     s.ConsoleColor,
	}
}

// keepOf is for how long, and how many, deliveries are kept that have ended.
func keepOf(s settings.Settings) dispatcher.Keep {
	return dispatcher.Keep{
		Finished:    s.Retention,
		FinishedMax: s.RetentionMax,
		SeenMax:     s.DedupMax,
		Dead:        s.DeadRetention,
		DeadMax:     s.DeadMax,
		Backlog:     int64(s.ArchiveBacklog),
	}
}

// listenAddr joins LISTEN and PORT, of which LISTEN wins where it was given.
func listenAddr(s settings.Settings, found []settings.Found) string {
	var listen settings.Found
	for _, c := range found {
		if c.Name == "LISTEN" {
			listen = c
		}
	}
	given := listen.Source == settings.SourceEnviron || listen.Source == settings.SourceDotenv
	if s.Port != 0 && !given {
		return fmt.Sprintf(":%d", s.Port)
	}
	return cmp.Or(s.Listen, listen.Default)
}

// newLog makes the logger that LOG_LEVEL and LOG_FORMAT ask for. Without
// LOG_FORMAT a person at a terminal gets text.
func newLog(s settings.Settings, found []settings.Found, out io.Writer) *slog.Logger {
	text := s.LogFormat == "text"
	for _, c := range found {
		if c.Name == "LOG_FORMAT" && c.Source == settings.SourceDefault && term.IsTerminal(out) {
			text = true
		}
	}
	o := &slog.HandlerOptions{Level: s.LogLevel}
	if text {
		return slog.New(slog.NewTextHandler(out, o))
	}
	return slog.New(slog.NewJSONHandler(out, o))
}

// gcPercent trades memory for time: about a tenth more deliveries a second than
// with 100. With 400 it was no faster, and 1,024 attempts under way took 104 MiB
// instead of 85 to 100.
const gcPercent = 300

// collectLess has the garbage collector run more rarely, unless the operator
// decided that.
func collectLess(vars map[string]string) {
	if vars["GOGC"] == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// How many percent of a container's memory Go may take. The rest is for memory
// that Go does not count, and for the kernel's buffers of connections. With
// DATA_DIR a redis-server shares the container.
const (
	memoryPart       = 90
	memoryBesideData = 50
)

// unlimited is more than any machine has: version 1 of cgroups has such a number
// for no limit.
const unlimited = 1 << 50

// limitMemory has the garbage collector work harder before the memory of the
// container is used up, unless the operator set GOMEMLIMIT. It answers the limit;
// 0: there is none.
func limitMemory(vars map[string]string, container func() (uint64, error), beside bool) int64 {
	if vars["GOMEMLIMIT"] == "" {
		part := uint64(memoryPart)
		if beside {
			part = memoryBesideData
		}
		// Where there are no cgroups, or they can't be read, there is no limit.
		if most, err := container(); err == nil && most > 0 && most < unlimited {
			debug.SetMemoryLimit(int64(most / 100 * part))
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

// renewable are the settings whose files are read again at SIGHUP. Others in
// files, REDIS_URL and certificates, are read at the start only.
var renewable = []string{"API_KEYS", "SIGNING_SECRET", "ENCRYPTION_KEY"}

// renewing reads the files of keys anew.
type renewing struct {
	environ map[string]string // of the renewable settings that a file holds
	used    map[string][sha256.Size]byte
	log     *slog.Logger
}

// newRenewing remembers what was read at the start.
func newRenewing(from settings.Sources, found []settings.Found, log *slog.Logger) *renewing {
	r := &renewing{environ: map[string]string{}, log: log}
	for _, name := range renewable {
		if file := from.Environ[name+"_FILE"]; file != "" {
			r.environ[name+"_FILE"] = file
		}
	}
	r.used = r.sums(found)
	return r
}

// listen reads the files at each SIGHUP until ctx ends. From now on that signal
// does not end the process.
func (r *renewing) listen(ctx context.Context) <-chan app.Renewal {
	signals, renewals := make(chan os.Signal, 1), make(chan app.Renewal)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				r.renew(ctx, renewals)
			}
		}
	}()
	return renewals
}

// renew hands on what the files hold now. If one of them is wrong, no key changes.
func (r *renewing) renew(ctx context.Context, renewals chan<- app.Renewal) {
	if len(r.environ) == 0 {
		r.log.Info("SIGHUP: no file of keys is named, so nothing is read anew", "settings", fileNames())
		return
	}
	read, found, err := settings.Read(settings.Sources{Environ: r.environ})
	if err != nil {
		r.stay(err)
		return
	}
	next := r.sums(found)
	var changed []string
	for _, name := range renewable {
		if next[name] != r.used[name] {
			changed = append(changed, name)
		}
	}
	renewal := app.Renewal{Keys: read.APIKeys, Secrets: read.SigningSecret, Seal: read.EncryptionKey.Box, Done: make(chan error, 1)}
	select {
	case <-ctx.Done():
		return
	case renewals <- renewal: // a process that waits for its store takes none
	}
	if err := <-renewal.Done; err != nil {
		r.stay(err)
		return
	}
	r.used = next
	r.log.Info("SIGHUP: files of keys read anew", "changed", changed)
}

func (r *renewing) stay(err error) {
	r.log.Error("SIGHUP: the files of keys can't be used, so the keys stay as they were", "err", err)
}

// sums tell whether a value changed, without keeping it.
func (r *renewing) sums(found []settings.Found) map[string][sha256.Size]byte {
	sums := map[string][sha256.Size]byte{}
	for _, c := range found {
		if r.environ[c.Name+"_FILE"] != "" {
			sums[c.Name] = sha256.Sum256([]byte(c.Value))
		}
	}
	return sums
}

func fileNames() (names []string) {
	for _, name := range renewable {
		names = append(names, name+"_FILE")
	}
	return names
}
