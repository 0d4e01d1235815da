package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/keep"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

func newRepartition(s world) *cobra.Command {
	var to int
	var dry, unarchived bool
	cmd := &cobra.Command{
		Use:   "repartition",
		Short: "Change the number of partitions, while no instance runs",
		Long: `Changes a project's number of partitions, which PARTITIONS fixed at its first
start. Stop all instances before. It waits 7 s to see that none is alive, and
refuses if one is. What dead ones still held goes back to its lanes. No instance
starts until it has ended.

It may be stopped at any time, even by kill -9: run it again, and it goes on.
Nothing is lost or duplicated by that. In a cluster, move no slots meanwhile.

A message to several destinations is stored once in each partition that has one
of them. Ids that only DEDUP_MAX keeps are copied to every partition that may see
a repeat: the newest, as far as there is room. The summary tells how many are
forgotten. Apart from these copies and one destination's list it needs little
memory.

Where there is an archive, it refuses while that has not got everything. The archive
goes on afterwards, and begins with what has not finished.

It uses the settings of serve: REDIS_URL or DATA_DIR, and PROJECT. Afterwards set
PARTITIONS to the new number, or unset it.`,
		Example: `  hookladder repartition --to 128 --dry-run
  hookladder repartition --to 128`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to < 1 || to > mostPartitions {
				return usagef("--to is needed: a number of partitions from 1 to %d", mostPartitions)
			}
			read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
			if err != nil {
				return usageError{err}
			}
			o, err := storeOptions(cmd, read, found, "set the one that serve uses")
			if err != nil {
				return err
			}
			tell := func(step app.RepartitionStep) { printStep(cmd.ErrOrStderr(), step) }
			done, err := app.Repartition(cmd.Context(), o, app.RepartitionOptions{To: to, DryRun: dry, Unarchived: unarchived, Tell: tell})
			if err != nil {
				return err
			}
			return printRepartitioned(cmd.OutOrStdout(), done, dry, read)
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "the new number of partitions")
	cmd.Flags().BoolVar(&unarchived, "unarchived", false, "also while the archive has not got everything, which it then never will")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what would be moved; instances may run")
	return cmd
}

// mostPartitions is that of PARTITIONS.
const mostPartitions = 1024

// What the phases of a repartition do, for people.
var phaseTexts = map[string]string{
	"begin": "check for 7 s whether an instance is alive",
	"ids":   "copy known ids",
	"move":  "move what belongs to destinations",
	"count": "count again",
}

func printStep(out io.Writer, step app.RepartitionStep) {
	if step.Partition < 0 {
		fmt.Fprintln(out, phaseTexts[step.Phase])
		return
	}
	if step.Phase == "move" {
		fmt.Fprintf(out, "  partition %d of %d: %s messages, %s deliveries so far\n", step.Partition+1, step.Of,
			term.Comma(step.Moved.Messages), term.Comma(step.Moved.Deliveries))
	}
}

func printRepartitioned(out io.Writer, done app.Repartitioned, dry bool, read settings.Settings) error {
	verb := "moved"
	switch {
	case done.From == done.To:
		_, err := fmt.Fprintf(out, "project %s has %d partitions already\n", read.Project, done.To)
		return err
	case dry:
		verb = "would move"
	case done.Again:
		verb = "continued and moved"
	}
	_, err := fmt.Fprintf(out, "%s project %s from %d to %d partitions: %s messages, %s deliveries, %s lanes, %s ids\n",
		verb, read.Project, done.From, done.To, term.Comma(done.Moved.Messages), term.Comma(done.Moved.Deliveries),
		term.Comma(done.Moved.Lanes), term.Comma(done.Moved.IDs))
	if err == nil && done.Reaped > 0 {
		_, err = fmt.Fprintf(out, "%s deliveries were still held by instances that are dead\n", term.Comma(done.Reaped))
	}
	if n := done.Moved.Forgotten; err == nil && n > 0 {
		_, err = fmt.Fprintf(out, "%s ids are forgotten: DEDUP_MAX=%d has no room for them in every partition\n", term.Comma(n), read.DedupMax)
	}
	if err == nil && !dry && read.Partitions != 0 && read.Partitions != done.To {
		_, err = fmt.Fprintf(out, "now set PARTITIONS=%d\n", done.To)
	}
	return err
}

// newRestore makes a lost store of its archive again.
func newRestore(s world) *cobra.Command {
	var r keep.Restore
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a lost Redis of the archive again",
		Long: `Puts into an empty Redis what the archive has: endpoints and pauses, the ids that
are known, and all that was accepted and has not finished, with the same ids and at
its place on the ladder. With --dead also what died, so that it can be replayed.

What was delivered is not sent again, but for what happened after the archive ended:
it says at which time that was. Until restore has ended, Redis takes no message and
attempts nothing. It may be stopped at any time, even by kill -9: run it again, and
it goes on. Running it twice changes nothing.

It refuses a Redis that has messages or endpoints. With --into-running it adds to
these what the archive has besides, such as what Redis lost of its last second; what
is there stays as it is. Then an instance has to archive meanwhile.

It uses the settings of serve: ARCHIVE_URL, REDIS_URL or DATA_DIR, and PROJECT.`,
		Example: `  hookladder restore --dry-run
  hookladder restore
  hookladder restore --dead`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := archiveOptions(cmd, s)
			if err != nil {
				return err
			}
			r.Stdout, r.Told, r.Line = cmd.OutOrStdout(), cmd.ErrOrStderr(), term.IsTerminal(cmd.ErrOrStderr())
			return r.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&r.IntoRunning, "into-running", false, "also into a Redis that has messages or endpoints")
	cmd.Flags().BoolVar(&r.Dead, "dead", false, "put dead deliveries back too")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only print what would be restored")
	return cmd
}

// archiveOptions are the options of a command that needs the archive, and the store.
func archiveOptions(cmd *cobra.Command, s world) (app.Options, error) {
	read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
	if err != nil {
		return app.Options{}, usageError{err}
	}
	if read.ArchiveURL == "" {
		return app.Options{}, usagef("ARCHIVE_URL is not set: name the PostgreSQL of serve's archive")
	}
	return storeOptions(cmd, read, found, "set the one that serve uses")
}

// newForget takes messages out of Redis and out of the archive.
func newForget(s world) *cobra.Command {
	var f keep.Forget
	var yes bool
	var span spanFlags
	cmd := &cobra.Command{
		Use:   "forget",
		Short: "Take a tenant's, a subject's or old messages out of Redis and archive",
		Long: `Takes messages with their deliveries, bodies and answers out of Redis, and where
ARCHIVE_URL is set out of the archive: those of --tenant, about --subject, accepted
from --since and before --until, and of several of these those that are all of it.
What has not finished is cancelled first. It can't be undone, so it wants --yes.

That it was done stays in the audit of both, with counts, and with a hash in place of
the tenant and the subject. Redis still knows the ids, so that a repeat is not sent
again, as long as RETENTION, and keeps the heads of answers in its log as long. Old
entries of the audit, endpoints, and backups of either are not touched.

It may run while instances work, and may be repeated. With an archive one of them has
to run: it waits until what Redis logged is archived. It uses the settings of serve:
REDIS_URL or DATA_DIR, PROJECT, and ARCHIVE_URL.`,
		Example: `  hookladder forget --tenant shop-42 --yes
  hookladder forget --until 2020-01-01T00:00:00Z --yes`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			f.Of.Since, f.Of.Before, err = span.read()
			switch {
			case err != nil:
				return err
			case f.Of == (archive.Selection{}):
				return usagef("forget needs --tenant, --subject, --since or --until; see %s --help", cmd.CommandPath())
			case !yes:
				return usagef("what is forgotten can't be brought back: add --yes; hookladder export shows what it is")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
			if err != nil {
				return usageError{err}
			}
			o, err := storeOptions(cmd, read, found, "set the one that serve uses")
			if err != nil {
				return err
			}
			f.Stdout = cmd.OutOrStdout()
			if term.IsTerminal(cmd.ErrOrStderr()) {
				f.Told = cmd.ErrOrStderr()
			}
			return f.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&f.Of.Tenant, "tenant", "", "only of this tenant")
	cmd.Flags().StringVar(&f.Of.Subject, "subject", "", "only about this, such as the number of an order")
	span.add(cmd, "accepted")
	cmd.Flags().BoolVar(&yes, "yes", false, "forget them: it can't be undone")
	return cmd
}
