package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/keep"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
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
		missing, err := keep.Loss{Accept: e.yes, Discard: e.discard}.Run(cmd.Context(), o, cmd.OutOrStdout())
		if missing != "" {
			err = usagef("nothing was changed: add %s to give them up", missing)
		}
		return err
	}
	var r reporter = &textReport{out: cmd.OutOrStdout(), fix: e.fix}
	if e.asJSON {
		r = &jsonReport{out: cmd.OutOrStdout()}
	}
	if e.seal {
		if err := sealEndpoints(cmd, o); err != nil {
			return err
		}
	}
	d := &diagnosis{reporter: r}
	out, err := app.Doctor(cmd.Context(), o, e.fix, d.onStore, d.onFinding)
	if err != nil {
		return err
	}
	if err := r.end(out); err != nil {
		return err
	}
	return d.verdict(out, e.fix)
}

// sealEndpoints tells of each endpoint on standard error: the report is --json's.
func sealEndpoints(cmd *cobra.Command, o app.Options) error {
	failed := 0
	err := app.SealEndpoints(cmd.Context(), o, func(id string, err error) {
		if err != nil {
			failed++
			fmt.Fprintf(cmd.ErrOrStderr(), "not sealed: %s\n", err)
			return
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "sealed %s\n", id)
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d endpoints are not sealed: add the key that opens them to ENCRYPTION_KEY, or give them new secrets", failed)
	}
	if err != nil {
		return err
	}
	return sealMessages(cmd, o)
}

// sealMessages tells how many messages were sealed: there may be many.
func sealMessages(cmd *cobra.Command, o app.Options) error {
	failed := 0
	sealed, err := app.SealMessages(cmd.Context(), o, func(err error) {
		if failed++; failed <= 10 {
			fmt.Fprintf(cmd.ErrOrStderr(), "not sealed: %s\n", err)
		}
	})
	if sealed > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "sealed the headers of %d messages\n", sealed)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("the headers of %d messages are not sealed: add the key that opens them to ENCRYPTION_KEY", failed)
	}
	return err
}

// reporter is how a diagnosis is printed.
type reporter interface {
	store(i dispatcher.StoreInfo)
	finding(f app.Finding)
	end(out app.Examined) error
}

// diagnosis counts what is left.
type diagnosis struct {
	reporter
	lacking, left, curable int // needed of the store; findings; those of them that --fix repairs
}

func (d *diagnosis) onStore(i dispatcher.StoreInfo) {
	for _, c := range i.Checks {
		if c.Needed && c.Holds == dispatcher.No {
			d.lacking++
		}
	}
	d.store(i)
}

func (d *diagnosis) onFinding(f app.Finding) {
	if !f.Fixed {
		d.left++
		if f.Cure != "" {
			d.curable++
		}
	}
	d.finding(f)
}

// verdict is an error where something is left.
func (d *diagnosis) verdict(out app.Examined, fix bool) error {
	switch {
	case d.lacking > 0:
		return fmt.Errorf("the store lacks %d of what is needed", d.lacking)
	case d.curable > 0 && !fix:
		return fmt.Errorf("%d findings are left; hookladder doctor --fix repairs %d of them", d.left, d.curable)
	case d.left > 0:
		return fmt.Errorf("%d findings are left", d.left)
	case out.Unjudged > 0:
		return fmt.Errorf("the counts of %d partitions kept changing: try again when there is less traffic", out.Unjudged)
	}
	return nil
}

// textReport prints lines for people, as they come.
type textReport struct {
	out io.Writer
	fix bool
}

func (r *textReport) store(i dispatcher.StoreInfo) {
	fmt.Fprintf(r.out, "store %s %s, %s, DURABILITY=%s (%s)\n", i.Kind, i.Version, i.Mode, i.Durability, i.Durable)
	for _, c := range i.Checks {
		fmt.Fprintf(r.out, "  %-8s %-12s %s\n", c.Holds, c.Name, c.Detail)
	}
}

func (r *textReport) finding(f app.Finding) {
	where := f.Subject
	if f.Partition >= 0 {
		where = fmt.Sprintf("partition %d: %s", f.Partition, f.Subject)
	}
	fmt.Fprintf(r.out, "%s: %s\n", where, f.What)
	switch {
	case f.Fixed:
		fmt.Fprintf(r.out, "  repaired: %s\n", f.Cure)
	case f.Cure != "":
		fmt.Fprintf(r.out, "  --fix: %s\n", f.Cure)
	}
}

func (r *textReport) end(out app.Examined) error {
	_, err := fmt.Fprintf(r.out, "examined %s messages and %s lanes in %s partitions: %s findings, %s repaired\n",
		term.Comma(out.Messages), term.Comma(out.Lanes), term.Comma(out.Partitions), term.Comma(out.Findings), term.Comma(out.Fixed))
	return err
}

// jsonReport prints one object.
type jsonReport struct {
	out  io.Writer
	text diagnosisJSON
}

// diagnosisJSON is what --json prints.
type diagnosisJSON struct {
	Kind       string        `json:"kind"`
	Version    string        `json:"version"`
	Mode       string        `json:"mode"`
	Nodes      int           `json:"nodes"`
	Durability string        `json:"durability"`
	Durable    string        `json:"durable"`
	WouldLose  string        `json:"would_lose"`
	Checks     []checkJSON   `json:"checks"`
	Findings   []app.Finding `json:"findings"`
	app.Examined
}

type checkJSON struct {
	Name   string `json:"name"`
	Holds  string `json:"holds"`
	Needed bool   `json:"needed"`
	Detail string `json:"detail"`
}

func (r *jsonReport) store(i dispatcher.StoreInfo) {
	r.text = diagnosisJSON{
		Kind: i.Kind, Version: i.Version, Mode: i.Mode, Nodes: i.Nodes, Durability: i.Durability.String(),
		Durable: i.Durable.String(), WouldLose: i.Loses, Checks: []checkJSON{}, Findings: []app.Finding{},
	}
	for _, c := range i.Checks {
		r.text.Checks = append(r.text.Checks, checkJSON{c.Name, c.Holds.String(), c.Needed, c.Detail})
	}
}

func (r *jsonReport) finding(f app.Finding) {
	r.text.Findings = append(r.text.Findings, f)
}

func (r *jsonReport) end(out app.Examined) error {
	r.text.Examined = out
	return printJSON(r.out, r.text)
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
