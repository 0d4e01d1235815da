package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/joho/godotenv"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// devDefaults replace the defaults of settings for dev.
var devDefaults = map[string]string{
	"LINK_ALLOW_NETS": "127.0.0.0/8,::1/128",
	"ALLOW_NETS":      "127.0.0.0/8,::1/128", // the demo receiver, and other receivers on the developer's machine
	"RETENTION_MAX":   "2000",                // because the Redis in memory sorts all of them for each query
	"SHUTDOWN_GRACE":  "2s",                  // because a person waits after Ctrl-C
	"LOG_LEVEL":       "warn",                // because dev prints the attempts itself
	"LOG_FORMAT":      "text",
}

// devFlags are the flags of dev.
type devFlags struct {
	listen   string
	receiver string
	speed    float64
	demo     bool
	key      string // publishes the demo if API_KEYS is set
}

func newDev(s world) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try it out: everything in one process, with a demo receiver",
		Long: `Runs everything in one process: the API, the console, the dispatcher, a Redis in memory
and a receiver that verifies webhooks. It prints the address of the console and a curl
command to try, and then a line for each attempt. It needs nothing, stores nothing, and
is not for production.
With DATA_DIR it runs its own redis-server instead of the Redis in memory, and stores
its messages there.

The paths of the receiver: /ok accepts everything, /flaky fails twice for each message
and then accepts it, /fail fails until you press Mend on its page, /slow responds after
two seconds.

Settings come from the environment and from a .env file in the current folder. REDIS_URL
is not used. hookladder config --dev prints them.`,
		Example: `  hookladder dev
  hookladder dev --demo
  hookladder dev --demo --speed 1000     # shows the 25 hours of the ladder in 91 seconds
  hookladder dev --listen 127.0.0.1:0    # on any free port`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.key = s.vars()["HOOKLADDER_KEY"]
			ctx, stop := untilHangUp(cmd.Context())
			defer stop()
			cmd.SetContext(ctx)
			return f.run(cmd, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "where the API listens (default LISTEN or PORT, else 127.0.0.1:8080)")
	flags.StringVar(&f.receiver, "receiver", "127.0.0.1:8081", "where the demo receiver listens")
	flags.Float64Var(&f.speed, "speed", 1, "divides the waits of the ladder and of breakers by this number")
	flags.BoolVar(&f.demo, "demo", false, "publish one message to each path of the receiver, and some for two merchants")
	return cmd
}

// untilHangUp returns a context that also ends when the terminal is closed, unless the signal is
// ignored (nohup). The shutdown is the same as after Ctrl-C.
func untilHangUp(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// devSources returns the sources with the .env file, if there is one, and with dev's own
// defaults.
func devSources(vars map[string]string) (settings.Sources, error) {
	from := settings.Sources{Environ: vars, Defaults: devDefaults}
	dotenv, err := godotenv.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return from, nil
	case err != nil:
		return from, usageError{errors.New(".env: it can't be read: each line has to be NAME=value, with quotes around a value that has spaces")} // the error quotes the line
	}
	from.Dotenv = dotenv
	return from, nil
}

func (f devFlags) run(cmd *cobra.Command, s world) error {
	if !(f.speed > 0) || math.IsInf(f.speed, 0) {
		return usagef("--speed %v: must be above 0", f.speed)
	}
	from, err := devSources(s.vars())
	if err != nil {
		return err
	}
	read, found, err := settings.Read(from)
	if err != nil {
		return usageError{err}
	}
	warn(cmd.ErrOrStderr(), from)
	made := len(read.SigningSecret) == 0
	if made {
		read.SigningSecret = []signer.Secret{signer.NewSecret()}
	}
	read.Ladder = read.Ladder.Faster(f.speed)

	o := playStore(options(read, found))
	o.BreakerWait = faster(o.BreakerWait, f.speed)
	o.Log = newLog(read, found, cmd.ErrOrStderr())
	if f.listen != "" {
		o.Listen = f.listen
	}
	if o.Listen == "" {
		return usagef("dev serves the API: LISTEN=off can't be used with it")
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	defer s.detach(cmd.Context(), &o)()
	p := playground{flags: f, traces: read.Traces, out: cmd.OutOrStdout(), secrets: verifying(read), made: made, ladder: read.Ladder, keyed: !o.Keys.Empty(), console: !o.Console.Off, dataDir: o.DataDir}
	return p.run(cmd.Context(), o)
}

// verifying returns the secrets that the receiver accepts: the secret of messages without a
// tenant, and SIGNING_SECRET. An endpoint may have SIGNING_SECRET as its own secret.
func verifying(s settings.Settings) []signer.Secret {
	if s.SigningDerive != settings.DeriveTenant {
		return s.SigningSecret
	}
	var own []signer.Secret
	for _, secret := range s.SigningSecret {
		own = append(own, secret.Derive(""))
	}
	return append(own, s.SigningSecret...)
}

// playStore returns the options with the store in this process, or in DATA_DIR. It ignores
// REDIS_URL and its settings, because a playground must not change the store of serve.
func playStore(o app.Options) app.Options {
	o.RedisURL, o.RedisMode, o.RedisMaster, o.RedisCAFile = "", "", "", ""
	o.StoreWait = storeWait // a busy machine may load the scripts slower than the timeout of a call
	if o.DataDir == "" {
		o.InMemory, o.Durability = true, dispatcher.Durability{}
	}
	o.Console.AsListening = true
	return o
}

// faster returns a breaker's wait, shortened as much as the ladder. Otherwise it would be longer
// than the whole ladder.
func faster(wait time.Duration, speed float64) time.Duration {
	short := min(float64(wait)/speed, float64(settings.MostOpen))
	return max(time.Duration(short), time.Millisecond)
}

// playground is the running dev command: the process and the receiver.
type playground struct {
	flags   devFlags
	out     io.Writer
	secrets []signer.Secret
	made    bool // the secret was created for this run
	ladder  ladder.Ladder
	keyed   bool   // API_KEYS is set
	console bool   // the console is served
	dataDir string // empty: in memory
	traces  settings.Traces
}

func (p playground) run(ctx context.Context, o app.Options) error {
	ln, err := listenOn(ctx, p.flags.receiver, "--receiver")
	if err != nil {
		return err
	}
	defer ln.Close() //nolint:errcheck // closed already if it was served

	watch := newAttemptPrinter(p.out)
	o.Engine.Observer = watch
	g, ctx := errgroup.WithContext(ctx)
	ready := make(chan string, 1)
	o.Ready = func(addr string, _ func() error) { ready <- addr }
	g.Go(func() error {
		return elsewhere(runTraced(ctx, o, p.traces, func(o app.Options) error { return app.Run(ctx, o) }), "--listen")
	})
	g.Go(func() error { return serveUntil(ctx, ln, newDemoReceiver(p.secrets, readBody)) })
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case addr := <-ready:
			return p.begin(ctx, addr, ln.Addr().String(), watch)
		}
	})
	return g.Wait()
}

// begin prints the addresses, publishes the demo, and then prints attempts until ctx ends.
func (p playground) begin(ctx context.Context, api, receiver string, watch *attemptPrinter) error {
	p.welcome(api, receiver)
	if p.flags.demo {
		if err := publishDemo(ctx, api, p.flags.key, receiver, p.secrets[len(p.secrets)-1]); err != nil {
			return err
		}
	}
	return watch.Run(ctx)
}

func (p playground) welcome(api, receiver string) {
	say := func(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }
	if p.dataDir == "" {
		say("Hookladder %s, in memory: when this ends, all data is lost.", release())
	} else {
		say("Hookladder %s, with its data in %s.", release(), p.dataDir)
	}
	say("")
	say("  API       http://%s", api)
	if p.console {
		say("  console   http://%s/console/  (open it in a browser)", api)
	}
	say("  receiver  http://%s  (/ok /flaky /fail /slow; its page mends /fail)", receiver)
	if p.made {
		say("  secret    %s  (made for this run)", p.secret())
	} else {
		say("  secret    SIGNING_SECRET")
	}
	say("  ladder    %s: at most %d attempts within %s", p.ladder, p.ladder.Len()+1, ladder.FormatDuration(p.ladder.Total().Round(time.Millisecond)))
	say("")
	key := ""
	if p.keyed {
		key = ` -H "Authorization: Bearer $HOOKLADDER_KEY"`
	}
	curl := func(path, body string) {
		say(`  curl http://%s%s%s -H 'Content-Type: application/json' \`, api, path, key)
		say(`    -d '%s'`, body)
	}
	say("Publish a message that is delivered at its third attempt:")
	say("")
	curl("/v1/messages", fmt.Sprintf(`{"topic":"payment.paid","url":"http://%s/flaky","body":{"amount":100}}`, receiver))
	say("")
	say("Or register an endpoint, and publish by tenant and topic:")
	say("")
	curl("/v1/endpoints", fmt.Sprintf(`{"tenant":"shop","topics":["payment.*"],"url":"http://%s/ok","secret":"%s"}`, receiver, p.secret()))
	curl("/v1/messages", `{"tenant":"shop","topic":"payment.paid","body":{"amount":100}}`)
	say("")
	say("Attempts, as they are made (Ctrl-C ends it):")
	say("")
}

// secret returns the receiver's secret as a shell reads it between single quotes. It returns the
// variable instead of a secret of SIGNING_SECRET, because the terminal would show it.
func (p playground) secret() string {
	if p.made {
		return p.secrets[0].Reveal()
	}
	return `'"$SIGNING_SECRET"'`
}

// watchBuffer is the number of attempts that wait to be printed. More attempts are only counted,
// because a stopped terminal must not stop deliveries.
const watchBuffer = 4096

// attemptPrinter prints a line for each attempt.
type attemptPrinter struct {
	out    io.Writer
	lines  chan string
	missed atomic.Int64
}

func newAttemptPrinter(out io.Writer) *attemptPrinter {
	return &attemptPrinter{out: out, lines: make(chan string, watchBuffer)}
}

// Attempted queues an attempt.
func (w *attemptPrinter) Attempted(a dispatcher.Attempted) {
	select {
	case w.lines <- attemptLine(a):
	default:
		w.missed.Add(1)
	}
}

// Published prints nothing, because the attempt is printed.
func (w *attemptPrinter) Published(dispatcher.Published) {}

// TookOver prints nothing, because dev is one process.
func (w *attemptPrinter) TookOver(int) {}

// Died prints nothing, because it is logged.
func (w *attemptPrinter) Died(dispatcher.Death) {}

// Run prints until ctx ends, and then the queued attempts.
func (w *attemptPrinter) Run(ctx context.Context) error {
	for {
		select {
		case line := <-w.lines:
			w.print(line)
		case <-ctx.Done():
			for len(w.lines) > 0 {
				w.print(<-w.lines)
			}
			return nil
		}
	}
}

func (w *attemptPrinter) print(line string) {
	if missed := w.missed.Swap(0); missed > 0 {
		fmt.Fprintf(w.out, "... %d attempts were not shown\n", missed)
	}
	fmt.Fprintln(w.out, line)
}

// attemptLine returns the time, message, destination, attempt, response, and the next step.
func attemptLine(a dispatcher.Attempted) string {
	ended := a.Attempt.At.Add(a.Attempt.Duration).Local()
	answer := cmp.Or(string(a.Attempt.Class), "taken") // a success without a status
	if a.Attempt.Status != 0 {
		answer = fmt.Sprint(a.Attempt.Status)
	}
	return fmt.Sprintf("%s  %s  %s  attempt %d  %s in %s  %s",
		ended.Format(clockFormat), a.ID.Message, called(a), a.Attempt.Number, answer, rounded(a.Attempt.Duration), nextStep(a))
}

// called returns what an attempt called: host and path, because the endpoints of one merchant mostly
// share the host. It leaves the query out, which may have a token. A queue has neither.
func called(a dispatcher.Attempted) string {
	u, err := url.Parse(cmp.Or(a.Attempt.URL, a.URL))
	if err != nil || u.Host == "" {
		return cmp.Or(a.Host, string(a.ID.Lane))
	}
	return u.Host + u.Path
}

// nextStep returns the state of the delivery after the attempt, in words.
func nextStep(a dispatcher.Attempted) string {
	switch a.Attempt.Verdict {
	case dispatcher.Delivered:
		return "delivered"
	case dispatcher.Retry:
		return fmt.Sprintf("failed, next attempt in %s", rounded(a.Wait))
	case dispatcher.Dead:
		text := fmt.Sprintf("dead, %s", a.Reason)
		if a.Attempt.Error != "" {
			text += ": " + a.Attempt.Error
		}
		return text
	default:
		return a.Attempt.Verdict.String()
	}
}

// rounded returns a duration that is rounded for readers.
func rounded(d time.Duration) string {
	if d < 10*time.Millisecond {
		return ladder.FormatDuration(d.Round(100 * time.Microsecond))
	}
	return ladder.FormatDuration(d.Round(time.Millisecond))
}
