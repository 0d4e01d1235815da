package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/maintenance"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

func newDoctor(s world) *cobra.Command {
	var r doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the store's settings and everything it keeps, and repair it",
		Long: `Prints what the store can do and how it is set. Then it checks all keys of the
project: it finds deliveries in no place or in two, records without a place and
places without a record, wrong counts, lanes that no instance would look at again,
and dead instances that still hold deliveries.

It may run while instances work. It takes some seconds longer than it needs to
read: everything that looks wrong is checked again, in one step of the store.

With --fix it repairs what can be repaired. A repair may cause one attempt too
many; it never loses a delivery.

With --seal it first encrypts, with the first ENCRYPTION_KEY, each endpoint that
is not encrypted with it yet, and prints its id. It trusts what was stored without
a key: look through the endpoints before, and run it once. The headers of messages
are encrypted so too; a key that it dropped would leave these waiting.

With --accept-loss it gives up the data that the store lost, and does nothing
else. It acts only where data were lost, reports what is given up, and asks for
--yes. Where there is an archive, which hookladder restore could bring them back
from, it asks for --discard-archive too. Running instances continue within seconds.

It uses the settings of serve: REDIS_URL or DATA_DIR, PROJECT and the rest. The
exit code is 0 when all is sound, 1 when a finding is left, 4 when the store does
not answer.`,
		Example: `  hookladder doctor
  hookladder doctor --fix
  hookladder doctor --seal
  hookladder doctor --accept-loss
  hookladder doctor --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !r.acceptLoss && (r.yes || r.discard):
				return usagef("--yes and --discard-archive are for --accept-loss")
			case r.acceptLoss && (r.fix || r.seal || r.asJSON):
				return usagef("--accept-loss does nothing else: leave the other flags out")
			}
			return r.run(cmd, s)
		},
	}
	cmd.Flags().BoolVar(&r.acceptLoss, "accept-loss", false, "give up the data that the store lost")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "with --accept-loss: do it, not only report it")
	cmd.Flags().BoolVar(&r.discard, "discard-archive", false, "with --accept-loss: give up what the archive has of it too")
	cmd.Flags().BoolVar(&r.fix, "fix", false, "repair what can be repaired")
	cmd.Flags().BoolVar(&r.seal, "seal", false, "encrypt all endpoints, and the headers of messages, with the first ENCRYPTION_KEY")
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print one JSON object at the end")
	return cmd
}

// doctorFlags is what the flags of doctor say.
type doctorFlags struct {
	fix, seal, asJSON        bool
	acceptLoss, yes, discard bool
}

func (e doctorFlags) run(cmd *cobra.Command, s world) error {
	read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
	if err != nil {
		return usageError{err}
	}
	o, err := storeOptions(cmd, read, found, "set the one that serve uses")
	if err != nil {
		return err
	}
	if e.acceptLoss {
		missing, err := maintenance.Loss{Accept: e.yes, Discard: e.discard}.Run(cmd.Context(), o, cmd.OutOrStdout())
		if missing != "" {
			err = usagef("nothing was changed: add %s to give them up", missing)
		}
		return err
	}
	if e.seal {
		if err := maintenance.Seal(cmd.Context(), o, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	return maintenance.Doctor{Fix: e.fix, JSON: e.asJSON, Stdout: cmd.OutOrStdout()}.Run(cmd.Context(), o)
}

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
			tell := func(step app.RepartitionStep) { maintenance.PrintStep(cmd.ErrOrStderr(), step) }
			done, err := app.Repartition(cmd.Context(), o, app.RepartitionOptions{To: to, DryRun: dry, Unarchived: unarchived, Tell: tell})
			if err != nil {
				return err
			}
			return maintenance.PrintRepartitioned(cmd.OutOrStdout(), done, dry, read)
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "the new number of partitions")
	cmd.Flags().BoolVar(&unarchived, "unarchived", false, "also while the archive has not got everything, which it then never will")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what would be moved; instances may run")
	return cmd
}

// mostPartitions is that of PARTITIONS.
const mostPartitions = 1024

// archiveSettings are the settings of a command that needs the archive.
func archiveSettings(s world) (settings.Settings, []settings.Found, error) {
	read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
	switch {
	case err != nil:
		return read, nil, usageError{err}
	case read.ArchiveURL == "":
		return read, nil, usagef("ARCHIVE_URL is not set: set the one that serve uses")
	}
	return read, found, nil
}

// newExport writes what an archive keeps.
func newExport(s world) *cobra.Command {
	var e maintenance.Export
	var span spanFlags
	cmd := &cobra.Command{
		Use:   "export [what]",
		Short: "Write what the archive keeps as CSV or JSON Lines",
		Long: `Writes deliveries that ended, each once with its newest end, or with export messages
the messages, from the archive in PostgreSQL. It reads page after page, never holds up what is archived at
the same time, and needs no Redis. --since and --until are of the end of a delivery,
and of when a message was accepted. Those of a --tenant or --subject come oldest
first; else only the months are in order.

With --bodies it writes the bodies of messages, or with --format jsonl what receivers
answered, as base64 and, where they are valid UTF-8, as text. Headers are never written.

In CSV a text that begins with =, +, -, @, a tab or a line break gets a ' before it, so
that no program takes it for a formula. A file of --out is there only when it is whole.

It uses the settings of serve: ARCHIVE_URL, ENCRYPTION_KEY and PROJECT. The exit code is
4 when the archive does not answer.`,
		Example: `  hookladder export --tenant shop-42 --since 30d > shop-42.csv
  hookladder export messages --format jsonl --bodies --until 2026-01-01T00:00:00Z --out 2025.jsonl`,
		ValidArgs: []string{maintenance.Deliveries, maintenance.Messages},
		Args: func(cmd *cobra.Command, args []string) (err error) {
			e.What = maintenance.Deliveries
			if len(args) > 0 {
				e.What = args[0]
			}
			switch {
			case len(args) > 1 || e.What != maintenance.Deliveries && e.What != maintenance.Messages:
				return usagef("export takes deliveries or messages, not %q; see %s --help", strings.Join(args, " "), cmd.CommandPath())
			case e.Format != maintenance.CSV && e.Format != maintenance.JSONLines:
				return usagef("--format must be csv or jsonl, not %q", e.Format)
			case e.Bodies && e.What == maintenance.Deliveries && e.Format == maintenance.CSV:
				return usagef("CSV has no column for what receivers answered: add --format jsonl, or leave out --bodies")
			}
			e.Of.Since, e.Of.Before, err = span.read()
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runExport(cmd, s, &e) },
	}
	cmd.Flags().StringVar(&e.Format, "format", maintenance.CSV, "csv or jsonl")
	completes(cmd, "format", maintenance.CSV, maintenance.JSONLines)
	cmd.Flags().StringVar(&e.Of.Tenant, "tenant", "", "only of this tenant")
	cmd.Flags().StringVar(&e.Of.Subject, "subject", "", "only about this, such as the number of an order")
	span.add(cmd, "ended, or accepted,")
	cmd.Flags().BoolVar(&e.Bodies, "bodies", false, "bodies of messages, or answers of receivers, too")
	cmd.Flags().StringVar(&e.Out, "out", "", "write to this file")
	return cmd
}

func runExport(cmd *cobra.Command, s world, e *maintenance.Export) error {
	read, found, err := archiveSettings(s)
	if err != nil {
		return err
	}
	e.Stdout = cmd.OutOrStdout()
	if term.IsTerminal(cmd.ErrOrStderr()) {
		e.Told = cmd.ErrOrStderr()
	}
	rows, err := e.Run(cmd.Context(), options(read, found))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s %s written\n", term.Comma(rows), e.What)
	return err
}

// newRestore makes a lost store of its archive again.
func newRestore(s world) *cobra.Command {
	var r maintenance.Restore
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Put back into Redis what it lost and the archive has",
		Long: `Puts back into Redis what it lost and the archive has: endpoints and pauses, the
ids that are known, and all that was accepted and has not finished, with the same ids
and at its place on the ladder. With --dead also what died, so that it can be
replayed. Instances may run. Where one node of a cluster was emptied, only that part
is filled. What is there, and what came since the loss, stays as it is.

What was delivered is not sent again, but for what happened after the archive ended:
it reports at which time that was. Until restore has ended, the part that it fills
takes no message and attempts nothing. It may be stopped at any time, even by kill -9:
run it again, and it continues. Where nothing was lost, it does nothing and exits 0.

With --into-running it adds to all of Redis what the archive has besides, such as
what Redis lost of its last second. Then an instance has to archive meanwhile.

It uses the settings of serve: ARCHIVE_URL, REDIS_URL or DATA_DIR, and PROJECT.`,
		Example: `  hookladder restore --dry-run
  hookladder restore
  hookladder restore --dead`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			read, found, err := archiveSettings(s)
			if err != nil {
				return err
			}
			o, err := storeOptions(cmd, read, found, "set the one that serve uses")
			if err != nil {
				return err
			}
			r.Stdout, r.Told, r.Line = cmd.OutOrStdout(), cmd.ErrOrStderr(), term.IsTerminal(cmd.ErrOrStderr())
			return r.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&r.IntoRunning, "into-running", false, "also where no data were lost: add what Redis lacks, such as its last second")
	cmd.Flags().BoolVar(&r.Dead, "dead", false, "put dead deliveries back too")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only print what would be restored")
	return cmd
}

const forgetHelp = `Takes messages with their deliveries, bodies and answers out of Redis, and where
ARCHIVE_URL is set out of the archive: those of --tenant, about --subject, accepted
from --since and before --until, and of several of these those that are all of it.
What has not finished is cancelled first, also where it is paused. A delivery with an
attempt under way is left: then the exit code is 1, and a later run forgets it. It can't
be undone, so it wants --yes.

That it was done stays in the audit of both, with the counts of both, and with an HMAC
in place of the arguments, which this prints too. Redis still knows the ids, so that a repeat is not sent
again, as long as RETENTION, and keeps the heads of answers in its log as long. Filters
of jobs get the hash in place of the name, and such a job can't be resumed. Old entries
of the audit, endpoints, and backups of either are not touched; nor are links, which
end within 30 days, or with hookladder link revoke.

It may run while instances work, and may be repeated. With an archive one of them has
to run: it waits until what Redis logged is archived. It uses the settings of serve:
REDIS_URL or DATA_DIR, PROJECT, and ARCHIVE_URL.`

// newForget takes messages out of Redis and out of the archive.
func newForget(s world) *cobra.Command {
	var f maintenance.Forget
	var yes bool
	var span spanFlags
	cmd := &cobra.Command{
		Use:   "forget",
		Short: "Take a tenant's, a subject's or old messages out of Redis and archive",
		Long:  forgetHelp,
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
