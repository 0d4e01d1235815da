package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/bench"
	"github.com/hookladder/hookladder/signer"
)

// benchRuns is the number of runs of a median: the fewest that show how much the machine's speed
// varies.
const benchRuns = 5

func newBench(s world) *cobra.Command {
	o := bench.Options{Version: release() + revision(), Environ: s.vars()}
	var file string
	var f planFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed on this machine, beside the machine's limit",
		Long: `Measures this binary with a real redis-server, which it starts with an append-only file,
and with a receiver in its own process. Beside each throughput it measures the limit of
the machine: a loop of signed POST requests without a queue. Compare the ratio of both on
a quiet machine. Other work lowers the ratio, too.

It runs all parts several times, and prints the median of each figure with the minimum
and the maximum, and whether the target is met. CPU time, calls and allocations of Redis
and the dispatcher are per delivery, or per message if nothing is delivered. A call is a
command to Redis, and a script counts as one.

A run is disturbed if other programs used more than a tenth of the CPU, or if the limit
varied much. The bench repeats such runs, makes at most twice as many runs in all, and
uses the quietest ones. It reports how many of these were disturbed.

It fails if a message is lost, duplicated, unsigned or changed, but not if a target is
missed. Its files are in TMPDIR while it runs. It does not change other programs on this
machine.

With --plan it measures what a plan needs, and prints the cores, the memory, the Redis and
the PostgreSQL for a load. These are measured costs multiplied by the load, and sizes from
the documents. The plan uses half of each core at the peak.

Parts:
` + benchParts(),
		Example: `  hookladder bench
  hookladder bench --quick --runs 1
  hookladder bench --only drain,through --json figures.json
  hookladder bench --plan --per-day 50M --waiting 1M
  hookladder bench --redis-server /opt/redis/bin/redis-server`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Err = cmd.ErrOrStderr()
			return f.run(cmd, o, file)
		},
	}
	benchFlags(cmd, &o, &file)
	f.add(cmd)
	cmd.AddCommand(newBenchReceiver(s))
	return cmd
}

// benchFlags adds the flags of a measurement.
func benchFlags(cmd *cobra.Command, o *bench.Options, file *string) {
	flags := cmd.Flags()
	flags.IntVar(&o.Runs, "runs", benchRuns, "the number of runs")
	flags.BoolVar(&o.Quick, "quick", false, "use fewer messages: a test that everything works, with rough figures")
	flags.IntVar(&o.Messages, "messages", 0, "messages of each measurement of throughput (default: depends on the measurement)")
	flags.StringSliceVar(&o.Only, "only", nil, "only these parts, separated by commas")
	flags.StringVar(&o.RedisServer, "redis-server", "redis-server", "the program, by name or path")
	flags.StringVar(file, "json", "", "also write the figures of each run to this file; - for standard output, without the table")
	var parts []string
	for _, part := range bench.Parts() {
		parts = append(parts, part[0])
	}
	completes(cmd, "only", parts...)
}

// planFlags are the flags of a plan.
type planFlags struct {
	plan            bool
	perDay, waiting string
	load            bench.Load
}

func (f *planFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.plan, "plan", false, "print what a load needs, by the costs on this machine")
	flags.StringVar(&f.perDay, "per-day", "1M", "with --plan: deliveries a day, such as 50M")
	flags.StringVar(&f.waiting, "waiting", "0", "with --plan: the most messages that wait for their due time, such as 1M")
	flags.Float64Var(&f.load.Peak, "peak", 5, "with --plan: the busiest second has this many times the mean")
}

// check reads the load of a plan.
func (f *planFlags) check(cmd *cobra.Command) error {
	if !f.plan {
		for _, name := range []string{"per-day", "waiting", "peak"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s needs --plan", name)
			}
		}
		return nil
	}
	f.load.Body, f.load.Answer = planBody, planAnswer
	for name, v := range map[string]struct {
		text string
		to   *float64
	}{"per-day": {f.perDay, &f.load.PerDay}, "waiting": {f.waiting, &f.load.Waiting}} {
		n, unit, err := humanize.ParseSI(v.text)
		if err != nil || unit != "" {
			return fmt.Errorf("--%s %s: must be a number, such as 50M or 200k", name, v.text)
		}
		*v.to = n
	}
	return f.load.Check()
}

// A plan is for the bodies of the bench, and for receivers that respond in this time.
const (
	planBody   = 1024
	planAnswer = 200 * time.Millisecond
)

// run measures, and prints the plan if there is one.
func (f *planFlags) run(cmd *cobra.Command, o bench.Options, file string) (err error) {
	if f.plan && len(o.Only) == 0 {
		o.Only = bench.PlanParts
	}
	if err := errors.Join(o.Check(), f.check(cmd)); err != nil {
		return usageError{err}
	}
	if o.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("start myself: %w", err)
	}
	r, err := runBench(cmd, o, file)
	if err != nil || !f.plan || file == "-" {
		return err
	}
	costs, err := r.Costs()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s", bench.PlanFor(costs, f.load))
	return err
}

// benchParts returns the list of parts.
func benchParts() string {
	text := &strings.Builder{}
	for _, part := range bench.Parts() {
		fmt.Fprintf(text, "  %-10s %s\n", part[0], part[1])
	}
	return strings.TrimRight(text.String(), "\n")
}

// runBench measures, prints the table, and writes the figures to a file.
func runBench(cmd *cobra.Command, o bench.Options, file string) (r *bench.Report, err error) {
	if file == "-" {
		r, err := bench.Run(cmd.Context(), o)
		if err != nil {
			return nil, err
		}
		return r, r.JSON(cmd.OutOrStdout())
	}
	var figures io.Writer = io.Discard
	if file != "" { // before the long wait, because it may fail
		f, err := os.Create(file)
		if err != nil {
			return nil, fmt.Errorf("write the figures: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		figures = f
	}
	if r, err = bench.Run(cmd.Context(), o); err != nil {
		return nil, err
	}
	return r, errors.Join(r.JSON(figures), r.Table(cmd.OutOrStdout()))
}

// newBenchReceiver returns the command of bench's receiver, which bench starts as its own
// process.
func newBenchReceiver(s world) *cobra.Command {
	return &cobra.Command{
		Use:     "receiver",
		Short:   "Receive and check what bench sends",
		Long:    "Receives and checks what bench sends. It is for hookladder bench, which starts it.",
		Example: "  hookladder bench receiver   # needs SIGNING_SECRET, and prints where it listens",
		Hidden:  true,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secrets, _, err := signingSecrets(s.vars())
			if err != nil {
				return err
			}
			if len(secrets) == 0 {
				return usagef("bench receiver is for hookladder bench, which starts it: SIGNING_SECRET is not set")
			}
			return bench.Receive(cmd.Context(), &signer.Verifier{Secrets: secrets}, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
