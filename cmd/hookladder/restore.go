package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/ladder"
)

// restoreRun restores a store from its archive.
type restoreRun struct {
	IntoRunning bool
	Dead        bool
	DryRun      bool

	Stdout   io.Writer
	Progress io.Writer // gets the progress
	Line     bool      // at a terminal: overwrite the line
}

// restorePhases describe the phases of a restore.
var restorePhases = map[string]string{
	"endpoints": "endpoints", "known": "known ids", "open": "unfinished deliveries", "dead": "dead deliveries",
}

// Run restores the store, and prints the result.
func (r *restoreRun) Run(ctx context.Context, o app.Options) error {
	began := time.Now()
	var last app.RestoreStep
	var shown time.Time
	progress := func(s app.RestoreStep) {
		if s.Phase != last.Phase && last.Phase != "" {
			r.step(last, true)
		}
		if s.Phase != last.Phase || time.Since(shown) >= barEvery {
			shown = time.Now()
			r.step(s, false)
		}
		last = s
	}
	done, err := app.Restore(ctx, o, app.RestoreOptions{IntoRunning: r.IntoRunning, Dead: r.Dead, DryRun: r.DryRun, By: "hookladder restore", Progress: progress})
	if last.Phase != "" {
		r.step(last, true)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: the store accepts nothing and attempts nothing until a restore has ended: run it again", err)
	}
	if err != nil {
		return err
	}
	if err := r.print(done, time.Since(began)); err != nil {
		return err
	}
	return r.sealed(done.Sealed)
}

// sealed returns an error if restored data can't be opened. They are restored all the same, because
// the key may be added later.
func (r *restoreRun) sealed(s app.RestoredSealed) error {
	if s.Deliveries == 0 && s.Endpoints == 0 {
		return nil
	}
	are := "are restored"
	if r.DryRun {
		are = "would be restored"
	}
	return fmt.Errorf("no key of ENCRYPTION_KEY opens the headers of %s deliveries, and %s endpoints: they %s, and wait. "+
		"Add the key that sealed them behind the first one, and send SIGHUP; hookladder doctor --seal then makes it needless", commas(s.Deliveries), commas(s.Endpoints), are)
}

// step prints one step. At a terminal it overwrites the line. Otherwise it prints once at the
// end.
func (r *restoreRun) step(s app.RestoreStep, ended bool) {
	text := commas(s.Done)
	if s.Of > 0 && !ended {
		text = fmt.Sprintf("%s of %s (%d %%)", commas(s.Done), commas(s.Of), 100*s.Done/s.Of)
	}
	switch {
	case r.Line:
		overwrite(r.Progress, restorePhases[s.Phase]+": "+text)
		if ended {
			fmt.Fprintln(r.Progress)
		}
	case ended:
		fmt.Fprintf(r.Progress, "%s: %s\n", restorePhases[s.Phase], text)
	}
}

func (r *restoreRun) print(done app.Restored, took time.Duration) error {
	if done.Nothing {
		_, err := fmt.Fprintln(r.Stdout, "there is nothing to restore: Redis lost no data. If it lost only its last second, use --into-running")
		return err
	}
	verb := "restored"
	if r.DryRun {
		verb = "would restore"
	}
	fmt.Fprintf(r.Stdout, "%s %s unfinished deliveries and %s endpoints", verb, commas(done.Open[archive.PutNew]), commas(done.Endpoints))
	if r.Dead {
		fmt.Fprintf(r.Stdout, ", %s dead ones", commas(done.Dead[archive.PutNew]))
	}
	if !r.DryRun {
		fmt.Fprintf(r.Stdout, " in %s; %s ids are known", ladder.FormatDuration(took.Round(100*time.Millisecond)), commas(done.Known))
	}
	fmt.Fprintln(r.Stdout)
	if r.DryRun {
		fmt.Fprintln(r.Stdout, "a dry run counts what the archive has: a restore leaves out what Redis has already, and lists deliveries whose endpoint neither of them has")
	}
	if n := done.Open[archive.PutExists]; n > 0 {
		fmt.Fprintf(r.Stdout, "%s were in Redis already, or had finished there\n", commas(n))
	}
	if n := done.Open[archive.PutConflict] + done.Open[archive.PutUnreadable] + done.Dead[archive.PutConflict] + done.Dead[archive.PutUnreadable]; n > 0 {
		fmt.Fprintf(r.Stdout, "%s could not be restored: another message has the id, or the record is incomplete\n", commas(n))
		for _, id := range done.Refused {
			fmt.Fprintf(r.Stdout, "  %s\n", visible(id))
		}
	}
	if err := r.lost(done.Lost); err != nil {
		return err
	}
	if done.Behind && r.IntoRunning {
		fmt.Fprintln(r.Stdout, "the archive is behind this Redis, so only its older data was restored: run this again when the archive is up to date")
	}
	if done.First.IsZero() {
		_, err := fmt.Fprintln(r.Stdout, "nothing was ever archived")
		return err
	}
	fmt.Fprintf(r.Stdout, `the archive ends at %s, %s before this began: messages that were delivered after that
are delivered once more, with the same webhook-id, and messages that were accepted after that are lost
`, instantText(done.First), ladder.FormatDuration(max(done.Now.Sub(done.First), 0).Round(time.Second)))
	if done.Last.Sub(done.First) >= time.Second {
		fmt.Fprintf(r.Stdout, "This is the partition with the oldest end. The newest end is %s\n", instantText(done.Last))
	}
	if done.Gap.IsZero() {
		return nil
	}
	_, err := fmt.Fprintf(r.Stdout, `The log was cut (ARCHIVE_BACKLOG), and Redis was lost before the archive was compared with it. So
messages from before %s may be missing too, and others may be delivered once more
`, instantText(done.Gap))
	return err
}

func instantText(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// mostLost limits the endpoints in the list. All of them are counted.
const mostLost = 20

// lost lists the endpoints whose deliveries can't be attempted.
func (r *restoreRun) lost(list []app.LostEndpoint) error {
	if len(list) == 0 {
		return nil
	}
	sum := int64(0)
	for _, l := range list {
		sum += l.Deliveries
	}
	fmt.Fprintf(r.Stdout, "%s deliveries wait (missing), because neither the archive nor this Redis has their %s endpoints:\n", commas(sum), commas(len(list)))
	for _, l := range list[:min(len(list), mostLost)] {
		fmt.Fprintf(r.Stdout, "  %s: %s\n", visible(string(l.Lane)), commas(l.Deliveries))
	}
	_, err := fmt.Fprintln(r.Stdout, "cancel them with `hookladder cancel`, or publish them again to new endpoints")
	return err
}
