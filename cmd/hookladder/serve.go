package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// storeWait is the timeout of serve for its store at the start. Both are often started together,
// and Redis has to load its data.
const storeWait = 30 * time.Second

func newServe(s world) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Accept messages and deliver them, with Redis as the store",
		Long: `Accepts messages over HTTP, stores them in Redis and delivers them. All settings come
from the environment; hookladder config prints them. REDIS_URL is required, or DATA_DIR
for its own redis-server, because accepted messages must survive the process. If Redis
does not respond, serve waits up to 30 seconds for it. Then the exit code is 4.

SIGTERM or Ctrl-C stops it in order. /readyz returns 503, and each response closes its
connection. After SIGTERM everything else continues for SHUTDOWN_DELAY, so load
balancers notice. Then it claims no more deliveries. Running attempts have
SHUTDOWN_GRACE to finish, and the other deliveries go back to the queue. Open requests
are completed. Messages that were published in the meantime are stored, and another
instance delivers them, or the next start.
A second signal skips the delay. The next one, or the second one without a delay, ends
the process at once. Then another instance or a restart takes over its deliveries.
Whatever hangs, the process ends 10 seconds after delay and grace, with exit code 1.

SIGHUP makes it read the files of keys again: API_KEYS_FILE, SIGNING_SECRET_FILE, and
ENCRYPTION_KEY_FILE, which must still have all previous keys. If a file is wrong, no key
changes, and the log has the reason. Other settings need a restart.`,
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
	const cure = "set a Redis that stores the messages, such as REDIS_URL=redis://127.0.0.1:6379, or a folder for an own Redis, such as DATA_DIR=./data; hookladder dev needs neither, and stores nothing"
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
	signal.Ignore(syscall.SIGPIPE)
	defer s.detach(cmd.Context(), &o)()
	o.SkipDelay = delaySkipped(o)
	o.Ready = func(addr string, alive func() error) {
		supervisorFrom(s.vars()).Ready(cmd.Context(), addr, alive)
		debug.FreeOSMemory() // the start made 30 MiB of garbage
	}
	o.Renew = newRenewing(from, found, o.Log).listen(cmd.Context())
	for _, w := range settings.Near(from.Environ) {
		o.Log.Warn(w)
	}
	if len(read.SigningSecret) == 0 {
		o.Log.Warn("SIGNING_SECRET is not set, so no bare URL can be published: no webhook is ever unsigned")
	}
	o.MemoryLimit = settings.SetMemory(from.Environ, read.DataDir != "")
	addresses := "LISTEN or PORT"
	if o.MetricsListen != "" {
		addresses = "LISTEN, PORT or METRICS_LISTEN"
	}
	warnTraces(o.Log, from)
	return elsewhere(runTraced(cmd.Context(), o, read.Traces, func(o app.Options) error { return app.Run(cmd.Context(), o) }), addresses)
}

const (
	// flushWithin bounds the wait for the last lines of the log at the end.
	flushWithin = time.Second
	// stopWithin is the time for a stop beyond SHUTDOWN_DELAY and SHUTDOWN_GRACE: open requests
	// and the last outcomes take up to 5 s each. It includes the last line of the log.
	stopWithin = 10 * time.Second
)

// detach makes a process independent of whoever reads its log, and of a part that hangs when
// it stops. The caller calls flush at the end, which writes the last lines.
func (s world) detach(ctx context.Context, o *app.Options) (flush func()) {
	queue := app.NewLog(o.Log.Handler())
	o.Log, o.LogDropped, o.Parts = queue.Logger(), queue.Dropped, &app.Parts{}
	flush = func() { queue.Flush(flushWithin) }
	if s.exit != nil {
		log, running, most := o.Log, o.Parts.Running, o.Delay+o.Engine.Grace+stopWithin
		context.AfterFunc(ctx, func() {
			time.AfterFunc(most-flushWithin, func() { // it ends with the process
				log.Error("the stop did not end in time, so the process exits now; another instance takes over", "running", running())
				flush()
				s.exit(exitFailed)
			})
		})
	}
	return flush
}

// runTraced runs a process. If traces are on, it sends the last spans after the process has
// stopped. If they are off, it does nothing for them.
func runTraced(ctx context.Context, o app.Options, t settings.Traces, run func(app.Options) error) error {
	if !t.On {
		return run(o)
	}
	p, err := openTraces(ctx, t, o.Version, o.Log)
	if err != nil {
		return err
	}
	defer p.Close(ctx)
	o.Log.Info("traces are on", "collector", t.Collector)
	o.Traces, o.TracesDropped = p, p.Dropped
	return run(o)
}

// warnTraces logs the standard variables of traces that have no effect.
func warnTraces(log *slog.Logger, from settings.Sources) {
	for _, w := range from.IgnoredTraces() {
		log.Warn(w)
	}
}

// delaySkipped returns a channel that is closed by the signal that ends the delay of a stop. It
// is SIGINT, because a person waits, or the second signal. Before it no signal ends the process.
// After it the next signal does.
func delaySkipped(o app.Options) <-chan struct{} {
	skipped := make(chan struct{})
	if o.Delay == 0 || o.Listen == "" {
		return skipped // no signal is caught, so the second one ends the process
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // it runs until the process ends
		if first := <-signals; first != os.Interrupt {
			<-signals
		}
		signal.Stop(signals)
		close(skipped)
	}()
	return skipped
}

const (
	// tickUsual is shorter than the timeout of jobs on most platforms.
	tickUsual = 5 * time.Minute
	tickLeast = time.Second
	// tickStoreWait is shorter than the wait of serve, because the next tick comes soon.
	tickStoreWait = 10 * time.Second
)

// tickFlags are the flags of tick.
type tickFlags struct {
	to     clientFlags
	within time.Duration
	asJSON bool
}

func newTick(s world) *cobra.Command {
	var f tickFlags
	cmd := &cobra.Command{
		Use:   "tick",
		Short: "Attempt all due deliveries, then exit: for cron and platforms that scale to zero",
		Long: `Attempts all due deliveries, with the settings of serve but without an API, and exits
when no delivery is due any more. It prints the numbers of attempts, and the earliest
time of the next attempt. Run it from a scheduler: the first tick after the time of an
attempt makes it, and no tick makes it early.

It does not wait for deliveries that become due later. The exception is a destination
whose rate delays due deliveries: there it waits up to 5s between two attempts. A tick also
continues jobs and deletions of endpoints, sends notices, and trims the store.

Several ticks may run at the same time, also beside serve. If a tick is killed, its
deliveries go back to their queue, and the next tick attempts them. It first waits up to
10s to be sure that the other tick is dead, even if --for is shorter.

When the time of --for is over, running attempts have SHUTDOWN_GRACE to finish, and the
other deliveries wait for the next tick.

With --server it calls POST /v1/tick of a running Hookladder, which needs a key with the
scope tick.

The exit code is 0 if it did its work, even if receivers failed; 2 for wrong settings; 4
if the store or the server does not respond.`,
		Example: `  * * * * * REDIS_URL=redis://10.0.0.5:6379 LOG_LEVEL=warn hookladder tick >/dev/null    # crontab
  hookladder tick --for 50s --json
  hookladder tick --server https://hooks.example`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.to.add(cmd, s)
	cmd.Flags().Lookup("server").Usage = "the URL of a Hookladder that does it (default: this process does it)"
	durationVar(cmd.Flags(), &f.within, "for", 0, "the time limit, at least 1s (default 5m; with --server 25s, and at most 1m)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func (f *tickFlags) run(cmd *cobra.Command, s world) error {
	if cmd.Flags().Changed("for") && f.within < tickLeast {
		return usagef("--for must be 1s or more")
	}
	tick := f.here
	if f.to.server != "" {
		tick = f.there
	}
	answer, err := tick(cmd, s)
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), answer)
	}
	return printTick(cmd.OutOrStdout(), answer)
}

// there runs the tick on a running Hookladder, and returns its result.
func (f *tickFlags) there(cmd *cobra.Command, _ world) (wire.Tick, error) {
	c, err := f.to.client()
	if err != nil {
		return wire.Tick{}, err
	}
	return c.Tick(cmd.Context(), f.within)
}

// here runs the tick in this process, and returns its result.
func (f *tickFlags) here(cmd *cobra.Command, s world) (wire.Tick, error) {
	read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
	if err != nil {
		return wire.Tick{}, usageError{err}
	}
	o, err := storeOptions(cmd, read, found, "set the one that serve uses, or a running Hookladder with --server")
	if err != nil {
		return wire.Tick{}, err
	}
	if read.MaxInFlight == 0 {
		return wire.Tick{}, usagef("with MAX_IN_FLIGHT=0 nothing is attempted: set another number for this command, such as MAX_IN_FLIGHT=4096 hookladder tick")
	}
	o.Listen, o.MetricsListen, o.StoreWait = "", "", tickStoreWait
	if err := o.Check(); err != nil {
		return wire.Tick{}, usageError{err}
	}
	signal.Ignore(syscall.SIGPIPE)
	defer s.detach(cmd.Context(), &o)()
	o.MemoryLimit = settings.SetMemory(s.vars(), read.DataDir != "")
	var did dispatcher.Tick
	err = runTraced(cmd.Context(), o, read.Traces, func(o app.Options) (err error) {
		did, err = app.Tick(cmd.Context(), o, cmp.Or(f.within, tickUsual))
		return err
	})
	if errors.Is(err, app.ErrInUse) {
		return wire.Tick{}, fmt.Errorf("%w; if it is hookladder serve, use it: hookladder tick --server URL", err)
	}
	if err != nil {
		return wire.Tick{}, err
	}
	answer := wire.Tick{Attempted: did.Attempted, Delivered: did.Delivered, Dead: did.Dead}
	if !did.Next.IsZero() {
		answer.NextDueAt = &wire.Time{Time: did.Next}
	}
	return answer, nil
}

func printTick(out io.Writer, t wire.Tick) error {
	next := "nothing waits for a time"
	if t.NextDueAt != nil {
		next = "next due at " + whenText(*t.NextDueAt)
	}
	_, err := fmt.Fprintf(out, "attempted %d, delivered %d, dead %d; %s\n", t.Attempted, t.Delivered, t.Dead, next)
	return err
}
