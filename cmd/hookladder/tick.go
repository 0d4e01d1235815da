package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// tickUsual is less than the time after which most platforms end a job.
	tickUsual = 5 * time.Minute
	tickLeast = time.Second
	// tickStoreWait is shorter than serve waits: the next tick comes soon.
	tickStoreWait = 10 * time.Second
)

// tickFlags is what the flags of tick say.
type tickFlags struct {
	to     clientFlags
	within time.Duration
	asJSON bool
}

func newTick(s world) *cobra.Command {
	var f tickFlags
	cmd := &cobra.Command{
		Use:   "tick",
		Short: "Do all that is due, then exit: for cron, and platforms that scale to zero",
		Long: `Attempts all that is due, with the settings of serve but without an API, and exits
when nothing is due any more. It prints what it did, and when something is due next:
the earliest time at which something may be attempted. Run it from a scheduler: every
rung is then climbed by the first tick after its time, and never early, though nothing
runs in between.

It does not wait for what becomes due later, except in lanes whose rate holds what is
due already, up to 5s between two attempts. Jobs, deleted endpoints, notices and trims go on too.

Several at once are safe, also beside serve. What a tick that was killed had in hand
goes back to its queue, and the next tick attempts it: that one waits up to 10s to be
sure that the other is dead, however short --for is.

When --for is over, attempts under way have SHUTDOWN_GRACE to finish, and the rest
waits for the next tick.

With --server it asks a running Hookladder to do so, by POST /v1/tick, which needs a
key with the scope tick.

The exit code is 0 when it did its work, whatever the receivers answered; 2 for wrong
settings; 4 when the store, or the server, does not answer.`,
		Example: `  * * * * * REDIS_URL=redis://10.0.0.5:6379 LOG_LEVEL=warn hookladder tick >/dev/null    # crontab
  hookladder tick --for 50s --json
  hookladder tick --server https://hooks.example`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.to.add(cmd, s)
	cmd.Flags().Lookup("server").Usage = "ask the Hookladder at this URL to do it (default: this process does)"
	term.DurationVar(cmd.Flags(), &f.within, "for", 0, "how long at most, from 1s on (default 5m; with --server 25s, and at most 1m)")
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

// there asks a running Hookladder.
func (f *tickFlags) there(cmd *cobra.Command, _ world) (wire.Tick, error) {
	c, err := f.to.client()
	if err != nil {
		return wire.Tick{}, err
	}
	return c.Tick(cmd.Context(), f.within)
}

// here does it in this process.
func (f *tickFlags) here(cmd *cobra.Command, s world) (wire.Tick, error) {
	read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
	if err != nil {
		return wire.Tick{}, usageError{err}
	}
	o, err := storeOptions(cmd, read, found, "set the one that serve uses, or name a running Hookladder with --server")
	if err != nil {
		return wire.Tick{}, err
	}
	if read.MaxInFlight == 0 {
		return wire.Tick{}, usagef("with MAX_IN_FLIGHT=0 nothing is attempted: give this command a number of its own, as in MAX_IN_FLIGHT=1024 hookladder tick")
	}
	o.Listen, o.MetricsListen, o.StoreWait = "", "", tickStoreWait
	if err := o.Check(); err != nil {
		return wire.Tick{}, usageError{err}
	}
	collectLess(s.vars())
	o.MemoryLimit = limitMemory(s.vars(), memlimit.FromCgroup, read.DataDir != "")
	did, err := app.Tick(cmd.Context(), o, cmp.Or(f.within, tickUsual))
	if errors.Is(err, app.ErrInUse) {
		return wire.Tick{}, fmt.Errorf("%w; where that is hookladder serve, ask it: hookladder tick --server URL", err)
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
		next = "next due at " + term.When(*t.NextDueAt)
	}
	_, err := fmt.Fprintf(out, "attempted %d, delivered %d, dead %d; %s\n", t.Attempted, t.Delivered, t.Dead, next)
	return err
}
