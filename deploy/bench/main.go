// Command bench measures how fast Hookladder is on this machine. It runs the real
// program, a real redis-server with its append-only file, and a receiver in a process
// of its own. Beside each measurement of throughput it measures the limit: the same
// deliveries without a queue.
//
//	go run ./deploy/bench                                      # 12 to 20 minutes
//	go run ./deploy/bench -quick -runs 1                       # a test that everything works
//	go run ./deploy/bench -only drain,through -json new.json
//	go run ./deploy/bench -binary /tmp/old -json old.json      # another version, for a comparison
//
// It exits 1 if a message is lost, or arrives twice, unsigned or changed. README.md says how
// to read the figures.
//
// Read the list of parts in bench.go first, then the part_ files. The parts use the
// functions of lab.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hookladder/hookladder/signer"
)

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := execute(ctx, os.Args[1:])
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		os.Exit(exitUsage) // the message is printed
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
}

// receiverArg is the only argument of the child process that receives the messages.
const receiverArg = "receiver"

// errUsage reports a mistake in the flags.
var errUsage = errors.New("wrong flags")

// defaultRuns is the number of runs of a median: the fewest that show how much the machine's
// speed varies.
const defaultRuns = 5

// execute runs a bench, or its receiver.
func execute(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == receiverArg {
		return runReceiver(ctx)
	}
	o, file, err := parse(args, os.Stderr)
	if err != nil {
		return errors.Join(errUsage, err)
	}
	figures, err := openFigures(file) // before the long wait, because it may fail
	if err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	r, err := o.measured(ctx)
	if err == nil {
		err = r.JSON(figures)
		if figures != os.Stdout {
			err = errors.Join(err, r.Table(os.Stdout))
		}
	}
	return errors.Join(err, figures.Close())
}

// parse reads the flags. It prints what is wrong with them, with their descriptions.
func parse(args []string, out io.Writer) (o options, file string, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.Runs, "runs", defaultRuns, "the number of runs")
	flags.BoolVar(&o.Quick, "quick", false, "use fewer messages: a test that everything works, with rough figures")
	flags.IntVar(&o.Messages, "messages", 0, "messages of each measurement of throughput (default: depends on the measurement)")
	flags.Func("only", "only these `parts`, separated by commas:\n"+partList(), func(list string) error {
		o.Only = append(o.Only, strings.Split(list, ",")...)
		return nil
	})
	flags.StringVar(&o.Program, "binary", "", "a hookladder `program`, to compare versions (default: built from this source)")
	flags.StringVar(&o.RedisServer, "redis-server", "redis-server", "the `program`, by name or path")
	flags.StringVar(&file, "json", "", "also write the figures of each run to this `file`; - for standard output, without the table")
	if err = flags.Parse(args); err != nil {
		return o, "", err
	}
	if err = o.check(); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("bench takes no arguments, not %q", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(out, "bench:", err)
	}
	return o, file, err
}

// partList lists the parts, for the help.
func partList() string {
	text := &strings.Builder{}
	for _, p := range parts() {
		fmt.Fprintf(text, "  %-10s %s\n", p.name, p.about)
	}
	return strings.TrimRight(text.String(), "\n")
}

// openFigures opens the file for the figures.
func openFigures(file string) (*os.File, error) {
	switch file {
	case "":
		file = os.DevNull
	case "-":
		return os.Stdout, nil
	}
	return os.Create(file)
}

// measured runs a bench, of a program that it builds if no other one is given.
func (o options) measured(ctx context.Context) (r *Report, err error) {
	if o.Self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("start myself: %w", err)
	}
	if o.Program == "" {
		dir, err := os.MkdirTemp("", "hookladder-bench-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for the program: %w", err)
		}
		defer stopping(&err, func() error { return os.RemoveAll(dir) })
		if o.Program, err = build(ctx, dir); err != nil {
			return nil, err
		}
	}
	if o.Version, err = versionOf(ctx, o.Program); err != nil {
		return nil, err
	}
	return bench(ctx, o)
}

// build builds the program in a folder, as a release has it.
func build(ctx context.Context, dir string) (path string, err error) {
	path = filepath.Join(dir, "hookladder")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/hookladder/hookladder/cmd/hookladder")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build hookladder: %w: %s", err, out)
	}
	return path, nil
}

// versionOf returns the version of a program, with its commit.
func versionOf(ctx context.Context, program string) (string, error) {
	text, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", program, err)
	}
	return versionIn(string(text)), nil
}

// versionIn returns the version and the commit from such a line:
//
//	hookladder 0.2.0 (0123456789ab), go1.26.8 linux/amd64
func versionIn(line string) string {
	line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "hookladder "), ", go")
	return line
}

// runReceiver runs the receiver process.
func runReceiver(ctx context.Context) error {
	secret, err := signer.ParseSecret(os.Getenv(receiverSecret))
	if err != nil {
		return fmt.Errorf("the receiver is started by a bench: %s: %w", receiverSecret, err)
	}
	return receive(ctx, &signer.Verifier{Secrets: []signer.Secret{secret}}, os.Stdin, os.Stdout)
}
