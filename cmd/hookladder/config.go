package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
)

func newConfig(s world) *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every setting, its value and its source",
		Long: `Prints every setting with its value and its source: the default, the environment, a file
of <name>_FILE, or with --dev the .env file. Secrets are not shown. If settings are
wrong, the errors follow, and the exit code is 2.`,
		Example: `  hookladder config
  LADDER=5s,1m hookladder config | grep LADDER
  hookladder config --dev`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from := settings.Sources{Environ: s.vars()}
			if dev {
				var err error
				if from, err = devSources(s.vars()); err != nil {
					return err
				}
			}
			_, found, wrong := settings.Read(from)
			if err := printSettings(cmd.OutOrStdout(), found); err != nil {
				return err
			}
			warn(cmd.ErrOrStderr(), from)
			if wrong != nil {
				return usageError{wrong}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "the settings of the dev command: with .env and its own defaults")
	return cmd
}

func printSettings(out io.Writer, found []settings.Found) error {
	var text bytes.Buffer
	printTable(&text, "SETTING\tVALUE\tSOURCE", found, func(c settings.Found) []any { return []any{c.Name, shown(c), c.Source} })
	_, err := text.WriteTo(out)
	return err
}

// shown returns a value without its secret parts.
func shown(c settings.Found) string {
	switch {
	case c.Value == "":
		return "(unset)"
	case c.Secret && (!c.URL || c.Name == "OPS_URL" || c.Name == "ARCHIVE_URL" || c.Name == "OUTBOX_URL"):
		return "(set, not shown)"
	}
	return c.Short()
}

// warn reports variables with names that are similar to settings.
func warn(out io.Writer, from settings.Sources) {
	for _, w := range slices.Concat(settings.Near(from.Environ), settings.Near(from.Dotenv), from.IgnoredTraces()) {
		fmt.Fprintln(out, "warning: "+w)
	}
}

// storeOptions returns the options of a command that needs a durable store. Its error ends with
// cure.
func storeOptions(cmd *cobra.Command, read settings.Settings, found []settings.Found, cure string) (app.Options, error) {
	if read.RedisURL == "" && read.DataDir == "" {
		return app.Options{}, usagef("neither REDIS_URL nor DATA_DIR is set: %s", cure)
	}
	o := options(read, found)
	o.Log = newLog(read, found, cmd.ErrOrStderr())
	return o, nil
}

// options returns the settings as options of the process.
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
		Version:      release(),
		Delay:        s.ShutdownDelay,
		Engine:       engineOf(s),
	}
}

// engineOf returns the options of the engine.
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

// consoleOf returns the options of the console.
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

// keepOf returns the limits of the age and the number of finished deliveries in the store.
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

// listenAddr returns LISTEN, or else PORT.
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

// newLog returns the logger of LOG_LEVEL and LOG_FORMAT. At a terminal the default is text.
func newLog(s settings.Settings, found []settings.Found, out io.Writer) *slog.Logger {
	text := s.LogFormat == "text"
	for _, c := range found {
		if c.Name == "LOG_FORMAT" && c.Source == settings.SourceDefault && isTerminal(out) {
			text = true
		}
	}
	o := &slog.HandlerOptions{Level: s.LogLevel}
	if text {
		return slog.New(slog.NewTextHandler(out, o))
	}
	return slog.New(slog.NewJSONHandler(out, o))
}

// renewable are the settings whose files are read again at SIGHUP. Other files, with
// REDIS_URL and certificates, are read only at the start.
var renewable = []string{"API_KEYS", "SIGNING_SECRET", "ENCRYPTION_KEY"}

// renewing reads the files of keys again.
type renewing struct {
	environ map[string]string // the renewable settings that have a file
	used    map[string][sha256.Size]byte
	log     *slog.Logger
}

// newRenewing returns a renewing with the hashes of the keys that were read at the start.
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

// listen reads the files at each SIGHUP until ctx ends. From now on the signal does not end
// the process.
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

// renew sends the new keys. If a file is wrong, no key changes.
func (r *renewing) renew(ctx context.Context, renewals chan<- app.Renewal) {
	if len(r.environ) == 0 {
		r.log.Info("SIGHUP: no file of keys is named, so nothing is read anew", "settings", fileNames())
		return
	}
	read, found, err := settings.Read(settings.Sources{Environ: r.environ})
	next := r.sums(found)
	var changed []string
	for _, name := range renewable {
		if next[name] != r.used[name] {
			changed = append(changed, name)
		}
	}
	renewal := app.Renewal{Err: err, Keys: read.APIKeys, Secrets: read.SigningSecret, Seal: read.EncryptionKey.Box, Done: make(chan error, 1)}
	select {
	case <-ctx.Done():
		return
	case renewals <- renewal: // a process that waits for its store does not receive
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

// sums returns hashes of the values, because the values themselves must not stay in memory.
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
