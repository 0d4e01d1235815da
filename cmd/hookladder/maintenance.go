package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

func newDoctor(s world) *cobra.Command {
	var r doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the store's settings and all its keys, and repair faults",
		Long: `Prints the features and the settings of the store. Then it checks all keys of the
project. It finds deliveries that are in no list or in two lists, records without a list
entry and list entries without a record, wrong counts, lanes that no instance would poll
again, and dead instances that still have leased deliveries.

Instances may run in the meantime. It needs some seconds longer than the reading,
because it checks every fault again, in one step of the store.

With --fix it repairs the faults, if that is possible. A repair may cause an additional
attempt, but it never loses a delivery.

With --seal it first encrypts, with the first ENCRYPTION_KEY, each endpoint that is not
encrypted with it yet, and prints its id. It trusts the endpoints that were stored
without a key, so check these before, and run it once. It also encrypts the headers of
messages, and with ARCHIVE_URL what the archive has of unfinished and dead deliveries.
The exit code is 1 if something still needs an older key. Do not remove that key before,
or these messages wait.

With --accept-loss it only accepts that the store lost data. It does so only if data was
lost, reports the loss, and requires --yes. With an archive, from which hookladder
restore could restore the data, it also requires --discard-archive. Running instances
continue within seconds.

With --before-upgrade it writes nothing. It reports the changes that this version would
make to the data of running instances, and whether you can roll back. Run it with the new
program before you start that. --upgrade makes the changes of the archive that can't be
rolled back, which no instance makes.

It uses the settings of serve: REDIS_URL or DATA_DIR, PROJECT and the others. The exit
code is 0 if there is no fault, 1 if a fault is left or an upgrade needs attention, 4 if
the store does not respond (before an upgrade, also the archive or the outbox).`,
		Example: `  hookladder doctor
  hookladder doctor --fix
  hookladder doctor --seal
  hookladder doctor --accept-loss
  hookladder doctor --before-upgrade
  hookladder doctor --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.check(); err != nil {
				return err
			}
			return r.run(cmd, s)
		},
	}
	r.add(cmd)
	return cmd
}

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	fix, seal, asJSON        bool
	acceptLoss, yes, discard bool
	before, upgrade          bool
}

func (f *doctorFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.before, "before-upgrade", false, "only report the changes that this version would make to the data")
	cmd.Flags().BoolVar(&f.upgrade, "upgrade", false, "make the changes of the archive that can't be rolled back")
	cmd.Flags().BoolVar(&f.acceptLoss, "accept-loss", false, "accept the loss of data of the store")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --accept-loss: accept it, instead of only reporting it")
	cmd.Flags().BoolVar(&f.discard, "discard-archive", false, "with --accept-loss: also give up the lost data that the archive has")
	cmd.Flags().BoolVar(&f.fix, "fix", false, "repair faults")
	cmd.Flags().BoolVar(&f.seal, "seal", false, "encrypt all endpoints, and the headers of messages, with the first ENCRYPTION_KEY")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object at the end")
}

// check returns an error if flags exclude each other.
func (f *doctorFlags) check() error {
	switch {
	case !f.acceptLoss && (f.yes || f.discard):
		return usagef("--yes and --discard-archive are for --accept-loss")
	case f.acceptLoss && (f.fix || f.seal || f.asJSON || f.before || f.upgrade):
		return usagef("--accept-loss does nothing else: leave the other flags out")
	case f.before && (f.fix || f.seal || f.upgrade):
		return usagef("--before-upgrade changes nothing: leave the other flags out, except --json")
	case f.upgrade && (f.fix || f.seal || f.asJSON):
		return usagef("--upgrade does nothing else: leave the other flags out")
	}
	return nil
}

func (f doctorFlags) run(cmd *cobra.Command, s world) error {
	_, o, err := storeSettings(cmd, s)
	if err != nil {
		return err
	}
	if f.acceptLoss {
		missing, err := lossRun{Accept: f.yes, Discard: f.discard}.Run(cmd.Context(), o, cmd.OutOrStdout())
		if missing != "" {
			err = usagef("nothing was changed: add %s to accept the loss", missing)
		}
		return err
	}
	switch {
	case f.before:
		return upgradeCheck{Settings: settings.Near(s.vars()), JSON: f.asJSON, Stdout: cmd.OutOrStdout()}.Run(cmd.Context(), o)
	case f.upgrade:
		return runUpgrade(cmd.Context(), o, cmd.OutOrStdout())
	}
	if f.seal {
		if err := sealAll(cmd.Context(), o, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	return doctorRun{Fix: f.fix, JSON: f.asJSON, Stdout: cmd.OutOrStdout()}.Run(cmd.Context(), o)
}

func newRepartition(s world) *cobra.Command {
	var to int
	var dry, unarchived bool
	cmd := &cobra.Command{
		Use:   "repartition",
		Short: "Change the number of partitions, while no instance runs",
		Long: `Changes the number of partitions of a project, which PARTITIONS set at its first start.
Stop all instances before. It waits 7 s to check that no instance is alive, and refuses
if one is. Deliveries that dead instances leased go back to their lanes. No instance can
start until it has ended.

You may stop it at any time, even with kill -9. Run it again, and it continues. Nothing
is lost or duplicated. In a cluster, move no slots in the meantime.

A message to several destinations is stored once in each partition of its destinations.
The ids that are stored only because of DEDUP_MAX are copied to every partition that may
receive a repeat: the newest ones, up to that limit. The summary has the number of ids
that were dropped. Except for these copies and the list of one destination, it needs
little memory.

With an archive, it refuses until the archive is complete. Afterwards the archive
continues, and begins with the unfinished deliveries.

It uses the settings of serve: REDIS_URL or DATA_DIR, and PROJECT. Afterwards set
PARTITIONS to the new number, or unset it.`,
		Example: `  hookladder repartition --to 128 --dry-run
  hookladder repartition --to 128`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to < 1 || to > mostPartitions {
				return usagef("--to is needed: a number of partitions from 1 to %d", mostPartitions)
			}
			read, o, err := storeSettings(cmd, s)
			if err != nil {
				return err
			}
			progress := func(step app.RepartitionStep) { printStep(cmd.ErrOrStderr(), step) }
			done, err := app.Repartition(cmd.Context(), o, app.RepartitionOptions{To: to, DryRun: dry, Unarchived: unarchived, Progress: progress})
			if err != nil {
				return err
			}
			return printRepartitioned(cmd.OutOrStdout(), done, dry, read)
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "the new number of partitions")
	cmd.Flags().BoolVar(&unarchived, "unarchived", false, "even if the archive is not complete; the missing data never gets there")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print the numbers, and whether the archive is complete; instances may run")
	return cmd
}

const mostPartitions = 1024 // the highest value of PARTITIONS

// storeSettings returns the settings of a command that works on the store of serve.
func storeSettings(cmd *cobra.Command, s world) (settings.Settings, app.Options, error) {
	read, found, err := settings.Read(settings.Sources{Environ: s.vars()})
	if err != nil {
		return read, app.Options{}, usageError{err}
	}
	o, err := storeOptions(cmd, read, found, "set the one that serve uses")
	return read, o, err
}

// archiveSettings returns the settings of a command that needs an archive.
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

// newExport returns the command that writes deliveries or messages of the archive.
func newExport(s world) *cobra.Command {
	var e exportRun
	var asCSV bool
	var span spanFlags
	cmd := &cobra.Command{
		Use:   "export [what]",
		Short: "Write archived deliveries or messages as CSV or JSON Lines",
		Long: `Writes finished deliveries, or with export messages the messages, from the archive in
PostgreSQL. A delivery that finished several times is written once, with its newest end.
It reads pages, does not block the archiving, and needs no Redis. --since and --until
are the time when a delivery finished, or when a message was accepted. With a --tenant or
--subject the oldest come first. Else only the months are in order.

With --bodies it writes the bodies of messages, or with --json the responses of
receivers: as base64, and also as text if they are valid UTF-8. It never writes headers.

In CSV, a ' is put before a text that begins with =, +, -, @, a tab or a line break,
because a spreadsheet would take it for a formula. The file of --out appears only when
it is complete.

It uses the settings of serve: ARCHIVE_URL, ENCRYPTION_KEY and PROJECT. The exit code is
4 if the archive does not respond.`,
		Example: `  hookladder export --tenant shop-42 --since 30d > shop-42.csv
  hookladder export messages --json --bodies --until 2026-01-01T00:00:00Z --out 2025.jsonl`,
		ValidArgs: []string{exportDeliveries, exportMessages},
		Args: func(cmd *cobra.Command, args []string) (err error) {
			e.What = exportDeliveries
			if len(args) > 0 {
				e.What = args[0]
			}
			switch {
			case len(args) > 1 || e.What != exportDeliveries && e.What != exportMessages:
				return usagef("export takes deliveries or messages, not %q; see %s --help", strings.Join(args, " "), cmd.CommandPath())
			case asCSV && e.JSON:
				return usagef("--csv and --json exclude each other")
			case e.Bodies && e.What == exportDeliveries && !e.JSON:
				return usagef("CSV has no column for responses of receivers: add --json, or leave out --bodies")
			}
			e.Of.Since, e.Of.Before, err = span.read()
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runExport(cmd, s, &e) },
	}
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write CSV, with a header line (the default)")
	cmd.Flags().BoolVar(&e.JSON, "json", false, "write JSON Lines: one object a line")
	cmd.Flags().StringVar(&e.Of.Tenant, "tenant", "", "only of this tenant")
	cmd.Flags().StringVar(&e.Of.Subject, "subject", "", "only with this subject, such as an order number")
	span.add(cmd, "ended, or accepted,")
	cmd.Flags().BoolVar(&e.Bodies, "bodies", false, "also the bodies of messages, or the responses of receivers")
	cmd.Flags().StringVar(&e.Out, "out", "", "write to this file")
	return cmd
}

func runExport(cmd *cobra.Command, s world, e *exportRun) error {
	read, found, err := archiveSettings(s)
	if err != nil {
		return err
	}
	e.Stdout = cmd.OutOrStdout()
	if isTerminal(cmd.ErrOrStderr()) {
		e.Progress = cmd.ErrOrStderr()
	}
	rows, err := e.Run(cmd.Context(), options(read, found))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s written\n", e.What, commas(rows))
	return err
}

// newRestore returns the command that restores a lost store from the archive.
func newRestore(s world) *cobra.Command {
	var r restoreRun
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Restore a lost Redis from the archive",
		Long: `Restores lost data of Redis from the archive: endpoints and pauses, the known ids, and
all unfinished deliveries, with the same ids and the same place on their ladder. With
--dead it also restores dead deliveries, so they can be retried. Instances may run. If
one node of a cluster lost its data, only that part is restored. Data in Redis, and
messages since the loss, do not change.

Finished deliveries are not sent again, except deliveries that finished after the end of
the archive. It reports the time of that end. Until restore has ended, the part that it
restores accepts no messages and attempts nothing. You may stop it at any time, even with
kill -9. Run it again, and it continues. If no data was lost, it does nothing and exits
with 0. The exit code is 1 if no key of ENCRYPTION_KEY opens some of the data: they are
restored, and wait for their key.

With --into-running it adds data of the archive that Redis does not have, such as data
of the last second before a crash. It requires that an instance archives in the meantime.

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
			r.Stdout, r.Progress, r.Line = cmd.OutOrStdout(), cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr())
			return r.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&r.IntoRunning, "into-running", false, "also if no loss was detected: add data that Redis does not have, such as its last second")
	cmd.Flags().BoolVar(&r.Dead, "dead", false, "also restore dead deliveries")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only print the numbers")
	return cmd
}

const forgetHelp = `Deletes messages with their deliveries, bodies and responses from Redis, and if
ARCHIVE_URL is set also from the archive. It deletes the messages of --tenant, with
--subject, accepted since --since and before --until. With several of these flags, all
of them must match. Unfinished deliveries are cancelled first, also paused ones. A
delivery with a running attempt is left: then the exit code is 1, and a later run
deletes it. It can't be undone, so it requires --yes.

Redis and the archive keep an audit entry with the counts, and with an HMAC of the
arguments, which the command prints too. Redis keeps the ids for RETENTION, so a repeat
is not sent again, and the first bytes of responses in its log for the same time. Filters
of jobs get the hash instead of the name, and such a job can't be resumed. Old audit
entries, endpoints and backups do not change. Links do not change either: they end
within 30 days, or with hookladder link revoke.

Instances may run in the meantime, and it may be repeated. With an archive an instance
has to run, because the command waits until the log of Redis is archived. It uses the
settings of serve: REDIS_URL or DATA_DIR, PROJECT, and ARCHIVE_URL.`

// newForget returns the command that deletes messages from Redis and the archive.
func newForget(s world) *cobra.Command {
	var f forgetRun
	var yes bool
	var span spanFlags
	cmd := &cobra.Command{
		Use:   "forget",
		Short: "Delete a tenant's, a subject's or old messages from Redis and the archive",
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
				return usagef("deleted messages can't be restored: add --yes; hookladder export prints them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, o, err := storeSettings(cmd, s)
			if err != nil {
				return err
			}
			f.Stdout = cmd.OutOrStdout()
			if isTerminal(cmd.ErrOrStderr()) {
				f.Progress = cmd.ErrOrStderr()
			}
			return f.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&f.Of.Tenant, "tenant", "", "only of this tenant")
	cmd.Flags().StringVar(&f.Of.Subject, "subject", "", "only with this subject, such as an order number")
	span.add(cmd, "accepted")
	cmd.Flags().BoolVar(&yes, "yes", false, "delete them: it can't be undone")
	return cmd
}

// fileFormat has the flags for the format of a file of endpoints.
type fileFormat struct{ csv, json bool }

func (f *fileFormat) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.csv, "csv", false, "the file is CSV, with a header line (default for a file that ends in .csv)")
	cmd.Flags().BoolVar(&f.json, "json", false, "the file is JSON Lines (default for other files)")
}

// of returns the format of the flags, or without a flag the format of a file with that name.
func (f *fileFormat) of(name string) (string, error) {
	switch {
	case f.csv && f.json:
		return "", usagef("--csv and --json exclude each other")
	case f.csv:
		return formatCSV, nil
	case f.json:
		return formatJSONLines, nil
	}
	return formatOf(name), nil
}
