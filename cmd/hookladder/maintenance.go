package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/ladder"
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

// sealAll encrypts endpoints and the headers of messages with the first key, and logs each endpoint.
func sealAll(ctx context.Context, o app.Options, log io.Writer) error {
	failed := 0
	err := app.SealEndpoints(ctx, o, func(id string, err error) {
		if err != nil {
			failed++
			fmt.Fprintf(log, "not sealed: %s\n", err)
			return
		}
		fmt.Fprintf(log, "sealed %s\n", id)
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d endpoints are not sealed: add the key that opens them to ENCRYPTION_KEY, or give them new secrets", failed)
	}
	if err != nil {
		return err
	}
	return errors.Join(sealMessages(ctx, o, log), sealArchive(ctx, o, log))
}

// sealArchive encrypts what the archive could restore. It runs even if some headers in the store
// can't be decrypted, so that one run reports both.
func sealArchive(ctx context.Context, o app.Options, log io.Writer) error {
	waits := sync.OnceFunc(func() { fmt.Fprintln(log, "waiting until the archive has all of the log") })
	done, err := app.SealArchive(ctx, o, waits)
	if done.Sealed > 0 {
		fmt.Fprintf(log, "sealed the headers of %d messages in the archive\n", done.Sealed)
	}
	switch {
	case err != nil:
		return err
	case done.Left > 0:
		return fmt.Errorf("the archive has headers of %d messages that no key opens: add the key that sealed them to ENCRYPTION_KEY", done.Left)
	case done.Endpoints > 0:
		return fmt.Errorf("the archive still has %d endpoints as an older key sealed them: run this again when an instance has archived them", done.Endpoints)
	}
	return nil
}

// sealMessages logs the number of sealed messages, because there may be many.
func sealMessages(ctx context.Context, o app.Options, log io.Writer) error {
	failed := 0
	sealed, err := app.SealMessages(ctx, o, func(err error) {
		if failed++; failed <= 10 {
			fmt.Fprintf(log, "not sealed: %s\n", err)
		}
	})
	if sealed > 0 {
		fmt.Fprintf(log, "sealed the headers of %d messages\n", sealed)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("the headers of %d messages are not sealed: add the key that opens them to ENCRYPTION_KEY", failed)
	}
	return err
}

// upgradeCheck reports about an upgrade before it.
type upgradeCheck struct {
	Settings []string // warnings about variables
	JSON     bool     // print one object
	Stdout   io.Writer
}

// beforeJSON is the output of --json.
type beforeJSON struct {
	app.UpgradeReport
	Settings []string `json:"settings"`
}

// Run prints the report. It returns an error if something needs attention, or could not be
// examined.
func (b upgradeCheck) Run(ctx context.Context, o app.Options) error {
	r := app.BeforeUpgrade(ctx, o)
	if err := b.print(r); err != nil {
		return err
	}
	attention := len(b.Settings) > 0
	var errs []error
	for _, p := range []app.UpgradePart{r.Store, r.Archive, r.Outbox} {
		attention = attention || p.State == app.UpgradeAttention
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
	}
	switch {
	case len(errs) > 0:
		return fmt.Errorf("the report is not complete: %w", errors.Join(errs...))
	case attention:
		return errors.New("the upgrade needs your attention first")
	}
	return nil
}

func (b upgradeCheck) print(r app.UpgradeReport) error {
	if b.JSON {
		if b.Settings == nil {
			b.Settings = []string{}
		}
		return printJSON(b.Stdout, beforeJSON{r, b.Settings})
	}
	fmt.Fprintf(b.Stdout, "upgrade to %s; nothing is changed by this report\n", r.Version)
	for _, one := range []struct {
		name string
		part app.UpgradePart
	}{{"store", r.Store}, {"archive", r.Archive}, {"outbox", r.Outbox}} {
		fmt.Fprintf(b.Stdout, "%-9s %-12s %s\n", one.name, one.part.State, one.part.Detail)
		for _, c := range one.part.Changes {
			fmt.Fprintf(b.Stdout, "  %s\n", c.What)
			if c.Waits != "" {
				fmt.Fprintf(b.Stdout, "    waits meanwhile: %s\n", c.Waits)
			}
			if c.Final != "" {
				fmt.Fprintf(b.Stdout, "    can't be rolled back: %s; only hookladder doctor --upgrade makes it\n", c.Final)
			}
		}
	}
	if r.Store.State != app.UpgradeNotExamined && len(r.Instances) == 0 {
		fmt.Fprintln(b.Stdout, "instances none runs")
	}
	for _, i := range r.Instances {
		version := i.Version
		if version == "" {
			version = "an unknown version"
		}
		fmt.Fprintf(b.Stdout, "instance  %s runs %s\n", i.Name, version)
	}
	for _, s := range b.Settings {
		fmt.Fprintf(b.Stdout, "settings  %s\n", s)
	}
	back := "possible: stop this version, and start the older one on the same data"
	if !r.Rollback {
		back = "not possible after these changes: back up the data before"
	}
	_, err := fmt.Fprintf(b.Stdout, "rollback  %s\n", back)
	return err
}

// runUpgrade makes the changes that an instance does not make.
func runUpgrade(ctx context.Context, o app.Options, out io.Writer) error {
	before, after, err := app.Upgrade(ctx, o)
	switch {
	case err != nil:
		return err
	case before == after:
		_, err = fmt.Fprintf(out, "archive: migration %d, nothing to do\n", after)
	default:
		_, err = fmt.Fprintf(out, "archive: upgraded from migration %d to %d\n", before, after)
	}
	return err
}

// phaseTexts describe the phases of a repartition.
var phaseTexts = map[string]string{
	"begin": "check for 7 s that no instance is alive",
	"ids":   "copy known ids",
	"move":  "move the data of destinations",
	"count": "count again",
}

// printStep prints one step of a repartition.
func printStep(out io.Writer, step app.RepartitionStep) {
	if step.Partition < 0 {
		fmt.Fprintln(out, phaseTexts[step.Phase])
		return
	}
	if step.Phase == "move" {
		fmt.Fprintf(out, "  partition %d of %d: %s messages, %s deliveries so far\n", step.Partition+1, step.Of,
			commas(step.Moved.Messages), commas(step.Moved.Deliveries))
	}
}

// printRepartitioned prints the result of a repartition.
func printRepartitioned(out io.Writer, done app.Repartitioned, dry bool, s settings.Settings) error {
	verb := "moved"
	switch {
	case done.From == done.To:
		_, err := fmt.Fprintf(out, "project %s has %d partitions already\n", s.Project, done.To)
		return err
	case dry:
		verb = "would move"
	case done.Again:
		verb = "continued and moved"
	}
	_, err := fmt.Fprintf(out, "%s project %s from %d to %d partitions: %s messages, %s deliveries, %s lanes, %s ids\n",
		verb, s.Project, done.From, done.To, commas(done.Moved.Messages), commas(done.Moved.Deliveries),
		commas(done.Moved.Lanes), commas(done.Moved.IDs))
	if err == nil && done.Reaped > 0 {
		_, err = fmt.Fprintf(out, "%s deliveries were still leased by dead instances\n", commas(done.Reaped))
	}
	if n := done.Moved.Forgotten; err == nil && n > 0 {
		_, err = fmt.Fprintf(out, "%s ids were dropped: DEDUP_MAX=%d has no room for them in every partition\n", commas(n), s.DedupMax)
	}
	if err == nil && done.Refused != nil {
		_, err = fmt.Fprintf(out, "now it would refuse: %v\n", done.Refused)
	}
	if err == nil && !dry && s.Partitions != 0 && s.Partitions != done.To {
		_, err = fmt.Fprintf(out, "now set PARTITIONS=%d\n", done.To)
	}
	return err
}

// lossRun accepts that a store lost data.
type lossRun struct {
	Accept  bool // false: the loss is only reported
	Discard bool // also data that the archive has
}

// Run accepts the loss, or only reports it. It returns the flags that are still missing.
func (l lossRun) Run(ctx context.Context, o app.Options, w io.Writer) (missing string, err error) {
	out, err := app.AcceptLoss(ctx, o, app.LossOptions{Accept: l.Accept, Discard: l.Discard, By: "hookladder doctor"})
	if out.Lost == nil {
		if err == nil {
			_, err = fmt.Fprintln(w, "the store lost no data: nothing was changed")
		}
		return "", err
	}
	fmt.Fprintf(w, "%s\n", out.Lost)
	verb := "would be given up"
	if out.Done {
		verb = "were given up"
	}
	if out.Archive {
		fmt.Fprintf(w, "%s unfinished deliveries and %s endpoints that the archive has %s\n",
			commas(out.Open), commas(out.Endpoints), verb)
	} else {
		fmt.Fprintf(w, "the data %s; there is no archive to count them\n", verb)
	}
	switch {
	case err != nil:
		return "", err
	case out.Done:
		_, err = fmt.Fprintln(w, "running instances continue within seconds")
		return "", err
	case out.Archive && !l.Discard:
		return "--yes --discard-archive", nil
	}
	return "--yes", nil
}

// forgetRun selects the messages that are deleted from store and archive.
type forgetRun struct {
	Of archive.Selection

	Stdout   io.Writer
	Progress io.Writer // a terminal that shows the progress; nil: no progress
}

// Run deletes the messages, and prints the counts.
func (f *forgetRun) Run(ctx context.Context, o app.Options) error {
	began, shown := time.Now(), time.Time{}
	progress := func(s app.ForgetStep) {
		if f.Progress == nil || time.Since(shown) < barEvery {
			return
		}
		shown = time.Now()
		text := map[string]string{
			"store": "Redis: " + commas(s.Done) + " deliveries", "wait": "waiting until the log of Redis is archived",
			"archive": "archive: " + commas(s.Done) + " messages",
		}[s.Phase]
		overwrite(f.Progress, text)
	}
	out, err := app.Forget(ctx, o, app.ForgetOptions{Of: f.Of, Progress: progress})
	if f.Progress != nil {
		overwrite(f.Progress, "")
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(f.Stdout, "deleted %s deliveries in Redis, %s of them cancelled", commas(out.Deliveries), commas(out.Cancelled))
	if out.Archived {
		fmt.Fprintf(f.Stdout, "; in the archive %s messages and %s events", commas(out.Archive.Messages), commas(out.Archive.Events))
		if out.Archive.Months > 0 {
			fmt.Fprintf(f.Stdout, ", and %d whole months", out.Archive.Months)
		}
	}
	fmt.Fprintf(f.Stdout, ", in %s\n", ladder.FormatDuration(time.Since(began).Round(100*time.Millisecond)))
	fmt.Fprintf(f.Stdout, "the audit entry has the arguments as hmac:%s\n", out.Arguments)
	if out.Jobs > 0 {
		fmt.Fprintf(f.Stdout, "replaced the name with a hash in the filters of %s jobs, which can't be resumed\n", commas(int64(out.Jobs)))
	}
	if out.Left > 0 {
		return fmt.Errorf("%s deliveries are left, because an attempt is running or a taker has a lease: run this again when that has ended", commas(out.Left))
	}
	return nil
}
