// Command hookladder sends signed webhooks. It contains the dispatcher,
// a playground, and the tools that call the dispatcher.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/signer"
	"github.com/hookladder/hookladder/signer/diagnose"
)

func main() {
	// net/http logs unexpected responses to the global logger, and these may contain a signature.
	// Our own log does not use it.
	log.SetOutput(io.Discard)

	// The first signal stops the command in order: running attempts may finish. The
	// second one ends the process, because Go's own handler is active again. Only serve
	// catches it, to skip SHUTDOWN_DELAY.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, world{
		args:    os.Args[1:],
		environ: os.Environ(),
		in:      os.Stdin,
		out:     os.Stdout,
		err:     os.Stderr,
		exit:    os.Exit,
	}))
}

// world is the environment of a command. Tests replace it.
type world struct {
	args    []string
	environ []string
	in      io.Reader
	out     io.Writer
	err     io.Writer
	exit    func(code int) // ends the process although something hangs; nil: nothing does

	terminal bool // input comes from a person; false: it is checked
}

// vars returns the environment by name.
func (s world) vars() map[string]string { return env.ToMap(s.environ) }

// canAsk reports whether a person can answer a question. A script passes --yes.
func (s world) canAsk(cmd *cobra.Command) bool {
	return s.terminal || isTerminal(cmd.InOrStdin())
}

// The exit codes, which scripts rely on.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
)

// usageError is a mistake in flags, arguments or settings.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run executes one command line and returns the exit code.
func run(ctx context.Context, s world) int {
	for _, stream := range []*io.Writer{&s.out, &s.err} {
		safe, flush := safeOutput(*stream)
		*stream = safe
		defer flush()
	}
	root := newRoot(s)
	root.SetArgs(append([]string{}, s.args...)) // because nil means this process's own arguments
	root.SetIn(s.in)
	root.SetErr(s.err)
	ran, err := root.ExecuteContextC(ctx)
	if err != nil {
		s.printError("hookladder: " + strings.ReplaceAll(blame(ran, err)+cure(err, s), "\n", "\n  "))
	}
	return exitCode(err)
}

// printWithin bounds the print of the last error. A pipe that nobody reads must not keep a
// process that has ended.
const printWithin = 5 * time.Second

// printError prints the error of a command. Only a person at a terminal may take any time to
// read.
func (s world) printError(text string) {
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(s.err, text)
	}()
	var late <-chan time.Time // never
	if !isTerminal(s.err) {
		late = time.After(printWithin)
	}
	select {
	case <-printed:
	case <-late:
	}
}

// cure returns the way to pass another key to the command, for an error of the API.
func cure(err error, s world) string {
	var problem *client.Problem
	switch {
	case !errors.As(err, &problem) || problem.Status != http.StatusUnauthorized:
		return ""
	case s.vars()["HOOKLADDER_KEY"] == "":
		return ": set HOOKLADDER_KEY to one of its API_KEYS, or pass a file with such a key in --key-file"
	default:
		return ": the key in HOOKLADDER_KEY, or in the file of --key-file, is not one of its API_KEYS"
	}
}

func exitCode(err error) int {
	var usage usageError
	var problem *client.Problem
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.Is(err, app.ErrLocked), errors.Is(err, app.ErrSettings):
		return exitUsage
	case errors.As(err, &problem) && problem.Status == http.StatusNotFound, errors.Is(err, dispatcher.ErrNoDelivery):
		return exitNotFound
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, dispatcher.ErrUnavailable), errors.Is(err, archive.ErrUnavailable), errors.Is(err, diagnose.ErrNoAnswer):
		return exitUnreachable
	default:
		return exitFailed
	}
}

func newRoot(s world) *cobra.Command {
	root := &cobra.Command{
		Use:   "hookladder",
		Short: "Send signed webhooks, and retry each with increasing waits",
		Long: `Hookladder accepts messages over HTTP, stores them in Redis, and sends each as a signed
webhook when it is due. If the receiver fails, Hookladder retries with the waits of a
ladder.

Start with a playground that needs nothing else:

  hookladder dev

For completion in your shell: hookladder completion bash (or zsh, fish,
powershell). Its --help explains how to install it.

Exit codes: 0 ok, 1 failed, 2 usage or settings, 3 not found, 4 unreachable.`,
		Version:                    versionLine(),
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true, // run prints the error once
		SilenceUsage:               true, // the error is enough, and --help has the usage
		Args:                       noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) {
			if near := nearCommands(cmd, unknown.GetSpecifiedName()); len(near) > 0 {
				return usagef("%w: did you mean %s?", err, strings.Join(near, " or "))
			}
		}
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newServe(s), newDev(s),
		newSend(s), newGet(s), newWhy(s), newCancel(s), newRetry(s), newDeliveries(s), newDead(s), newJobs(s),
		newEndpoints(s), newLanes(s), newPause(s), newResume(s), newTail(s), newTick(s), newAudit(s), newLink(s),
		newSecret(s), newVerify(s), newCheck(s), newListen(s), newConsume(s), newPing(s), newConfig(s), newVersion(s),
		newDoctor(s), newRepartition(s), newRestore(s), newForget(s), newOutbox(s), newExport(s),
	)
	root.SetOut(s.out)
	addCompletion(root)
	s.complete(root)
	return root
}

// noArgs returns an error for arguments. An argument of the root command is an unknown command.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasParent():
		return usagef("%s takes no arguments, not %q; see %s --help", cmd.Name(), args[0], cmd.CommandPath())
	}
	near := cmd.SuggestionsFor(args[0])
	if len(near) == 0 {
		return usagef("unknown command %q; see hookladder --help", args[0])
	}
	return usagef("unknown command %q: did you mean %s?", args[0], strings.Join(near, " or "))
}

func schemeNames() []string {
	var names []string
	for _, s := range signer.Schemes() {
		names = append(names, s.String())
	}
	return slices.Clip(names)
}

// development is the version in development. A release has a tag of the same name.
const development = "0.2.0"

func newVersion(world) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the commit",
		Example: "  hookladder version",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

func newOutbox(world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Publish inside a transaction of your own PostgreSQL",
		Long: `The outbox is a table in your own PostgreSQL. Your transaction publishes a message by
calling hookladder_publish. The message exists if, and only if, the transaction
commits. hookladder serve with OUTBOX_URL relays it.`,
		Example: `  hookladder outbox schema | psql -1 postgres://app@db.example/shop`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "schema",
		Short: "Print the SQL that creates the outbox",
		Long: `Prints the SQL that creates the tables and functions of the outbox, for PostgreSQL 13
or later. Apply it to the database of your transactions, with psql or as a migration.
Applying it twice changes nothing. Then set OUTBOX_URL of serve to that database, and
publish from any language:

  select hookladder_publish('{"topic":"order.paid","endpoint":"shop-1"}',
                            convert_to('{"order":4711}', 'UTF8'))

The first argument has the fields of POST /v1/messages, the second is the body, and an
optional third one is the id. The function returns the id. Comments in the SQL explain
the details.`,
		Example: `  hookladder outbox schema | psql -1 postgres://app@db.example/shop
  hookladder outbox schema > migrations/0042_hookladder.sql`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), outbox.Schema())
			return err
		},
	})
	return cmd
}

func versionLine() string {
	return fmt.Sprintf("hookladder %s%s, %s %s/%s", release(), revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// The linker stamps a release with its version and its commit, and a build without .git with
// its commit: -ldflags "-X main.version=<version> -X main.builtFrom=<commit>".
var version, builtFrom string

// shownCommit is the length of a commit's short name.
const shownCommit = 12

// release returns the version of the binary.
func release() string {
	build, _ := debug.ReadBuildInfo()
	return cmp.Or(version, installed(build), development)
}

// installed returns the version of the module that go install built. It is empty for a build
// in a checkout, which has a commit.
func installed(build *debug.BuildInfo) string {
	if build == nil || setting(build, "vcs.revision") != "" {
		return ""
	}
	number, ok := strings.CutPrefix(build.Main.Version, "v")
	if !ok { // (devel), or none
		return ""
	}
	return number
}

// revision returns the commit of the binary; empty: the build has none.
func revision() string {
	if builtFrom != "" {
		return " (" + builtFrom[:min(len(builtFrom), shownCommit)] + ")"
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit := setting(build, "vcs.revision")
	if commit == "" {
		return ""
	}
	text := " (" + commit[:min(len(commit), shownCommit)]
	if setting(build, "vcs.modified") == "true" {
		text += ", changed"
	}
	return text + ")"
}

// setting returns a setting of the build; empty: it has none.
func setting(build *debug.BuildInfo, key string) string {
	for _, s := range build.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
