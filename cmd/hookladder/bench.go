package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/bench"
	"github.com/hookladder/hookladder/signer"
)

// benchRuns is how many runs a figure is the median of: the fewest that show how
// much the machine's speed varies.
const benchRuns = 5

func newBench(s world) *cobra.Command {
	o := bench.Options{Version: version + revision(), Environ: s.vars()}
	var file string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast it is here, against the machine's limit",
		Long: `Measures this binary on a real redis-server, which it starts itself with an
append-only file, against a receiver in a process of its own. What the machine
could do without a queue, a bare loop of signed POSTs, is measured beside each
measurement of throughput, and the ratio is what counts: it says how close to the
limit this comes, whatever else the machine does.

It has several runs of all parts, and shows the median of each figure with the
least and the most, and whether its target is met. Redis' and the dispatcher's
CPU time, calls and allocations are those of one delivery, or of one message
where nothing is delivered; calls are commands sent to Redis, a script is one.

It fails if a message is lost, comes twice, unsigned or changed, never because a
target is missed. Files lie in TMPDIR for as long as it runs. Nothing that runs
on this machine is touched.

Parts:
` + benchParts(),
		Example: `  hookladder bench
  hookladder bench --quick --runs 1
  hookladder bench --only drain,through --json figures.json
  hookladder bench --redis-server /opt/redis/bin/redis-server`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Err = cmd.ErrOrStderr()
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("start myself: %w", err)
			}
			o.Self = self
			return runBench(cmd, o, file)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Runs, "runs", benchRuns, "the number of runs")
	flags.BoolVar(&o.Quick, "quick", false, "use fewer messages: it shows that all works, and the figures are rough")
	flags.IntVar(&o.Messages, "messages", 0, "messages of each measurement of throughput (default: as many as each needs)")
	flags.StringSliceVar(&o.Only, "only", nil, "only these parts, separated by commas")
	flags.StringVar(&o.RedisServer, "redis-server", "redis-server", "the program, by name or path")
	flags.StringVar(&file, "json", "", "write the figures of each run there too; - for standard output, without the table")
	var parts []string
	for _, part := range bench.Parts() {
		parts = append(parts, part[0])
	}
	completes(cmd, "only", parts...)
	cmd.AddCommand(newBenchReceiver(s))
	return cmd
}

// benchParts lists them.
func benchParts() string {
	text := &strings.Builder{}
	for _, part := range bench.Parts() {
		fmt.Fprintf(text, "  %-10s %s\n", part[0], part[1])
	}
	return strings.TrimRight(text.String(), "\n")
}

// runBench measures, shows the table, and writes the figures where they are
// wanted.
func runBench(cmd *cobra.Command, o bench.Options, file string) (err error) {
	if file == "-" {
		r, err := bench.Run(cmd.Context(), o)
		if err != nil {
			return err
		}
		return r.JSON(cmd.OutOrStdout())
	}
	var figures io.Writer = io.Discard
	if file != "" { // before the long wait, since it may fail
		f, err := os.Create(file)
		if err != nil {
			return fmt.Errorf("write the figures: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		figures = f
	}
	r, err := bench.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	return errors.Join(r.JSON(figures), r.Table(cmd.OutOrStdout()))
}

// newBenchReceiver is the receiver of bench, which starts it as a process.
func newBenchReceiver(s world) *cobra.Command {
	return &cobra.Command{
		Use:     "receiver",
		Short:   "Receive and check what bench sends",
		Long:    "Receives and checks what bench sends. It is for hookladder bench, which starts it.",
		Example: "  hookladder bench receiver   # needs SIGNING_SECRET, and prints where it listens",
		Hidden:  true,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secrets, err := signingSecrets(s.vars())
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
