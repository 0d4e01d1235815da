package maintenance

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/ladder"
)

// Restore restores a store from its archive.
type Restore struct {
	IntoRunning bool
	Dead        bool
	DryRun      bool

	Stdout   io.Writer
	Progress io.Writer // gets the progress
	Line     bool      // at a terminal: overwrite the line
}

// phases describe the phases of a restore.
var phases = map[string]string{
	"endpoints": "endpoints", "known": "known ids", "open": "unfinished deliveries", "dead": "dead deliveries",
}

// Run restores the store, and prints the result.
func (r *Restore) Run(ctx context.Context, o app.Options) error {
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
func (r *Restore) sealed(s app.RestoredSealed) error {
	if s.Deliveries == 0 && s.Endpoints == 0 {
		return nil
	}
	are := "are restored"
	if r.DryRun {
		are = "would be restored"
	}
	return fmt.Errorf("no key of ENCRYPTION_KEY opens the headers of %s deliveries, and %s endpoints: they %s, and wait. "+
		"Add the key that sealed them behind the first one, and send SIGHUP; hookladder doctor --seal then makes it needless", term.Comma(s.Deliveries), term.Comma(s.Endpoints), are)
}

// step prints one step. At a terminal it overwrites the line. Otherwise it prints once at the
// end.
func (r *Restore) step(s app.RestoreStep, ended bool) {
	text := term.Comma(s.Done)
	if s.Of > 0 && !ended {
		text = fmt.Sprintf("%s of %s (%d %%)", term.Comma(s.Done), term.Comma(s.Of), 100*s.Done/s.Of)
	}
	switch {
	case r.Line:
		term.Over(r.Progress, phases[s.Phase]+": "+text)
		if ended {
			fmt.Fprintln(r.Progress)
		}
	case ended:
		fmt.Fprintf(r.Progress, "%s: %s\n", phases[s.Phase], text)
	}
}

func (r *Restore) print(done app.Restored, took time.Duration) error {
	if done.Nothing {
		_, err := fmt.Fprintln(r.Stdout, "there is nothing to restore: Redis lost no data. If it lost only its last second, use --into-running")
		return err
	}
	verb := "restored"
	if r.DryRun {
		verb = "would restore"
	}
	fmt.Fprintf(r.Stdout, "%s %s unfinished deliveries and %s endpoints", verb, term.Comma(done.Open[archive.PutNew]), term.Comma(done.Endpoints))
	if r.Dead {
		fmt.Fprintf(r.Stdout, ", %s dead ones", term.Comma(done.Dead[archive.PutNew]))
	}
	if !r.DryRun {
		fmt.Fprintf(r.Stdout, " in %s; %s ids are known", ladder.FormatDuration(took.Round(100*time.Millisecond)), term.Comma(done.Known))
	}
	fmt.Fprintln(r.Stdout)
	if r.DryRun {
		fmt.Fprintln(r.Stdout, "a dry run counts what the archive has: a restore leaves out what Redis has already, and lists deliveries whose endpoint neither of them has")
	}
	if n := done.Open[archive.PutExists]; n > 0 {
		fmt.Fprintf(r.Stdout, "%s were in Redis already, or had finished there\n", term.Comma(n))
	}
	if n := done.Open[archive.PutConflict] + done.Open[archive.PutUnreadable] + done.Dead[archive.PutConflict] + done.Dead[archive.PutUnreadable]; n > 0 {
		fmt.Fprintf(r.Stdout, "%s could not be restored: another message has the id, or the record is incomplete\n", term.Comma(n))
		for _, id := range done.Refused {
			fmt.Fprintf(r.Stdout, "  %s\n", term.Visible(id))
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
`, instant(done.First), ladder.FormatDuration(max(done.Now.Sub(done.First), 0).Round(time.Second)))
	if done.Last.Sub(done.First) >= time.Second {
		fmt.Fprintf(r.Stdout, "This is the partition with the oldest end. The newest end is %s\n", instant(done.Last))
	}
	if done.Gap.IsZero() {
		return nil
	}
	_, err := fmt.Fprintf(r.Stdout, `The log was cut (ARCHIVE_BACKLOG), and Redis was lost before the archive was compared with it. So
messages from before %s may be missing too, and others may be delivered once more
`, instant(done.Gap))
	return err
}

func instant(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// mostLost limits the endpoints in the list. All of them are counted.
const mostLost = 20

// lost lists the endpoints whose deliveries can't be attempted.
func (r *Restore) lost(list []app.LostEndpoint) error {
	if len(list) == 0 {
		return nil
	}
	sum := int64(0)
	for _, l := range list {
		sum += l.Deliveries
	}
	fmt.Fprintf(r.Stdout, "%s deliveries wait (missing), because neither the archive nor this Redis has their %s endpoints:\n", term.Comma(sum), term.Comma(len(list)))
	for _, l := range list[:min(len(list), mostLost)] {
		fmt.Fprintf(r.Stdout, "  %s: %s\n", term.Visible(string(l.Lane)), term.Comma(l.Deliveries))
	}
	_, err := fmt.Fprintln(r.Stdout, "cancel them with `hookladder cancel`, or publish them again to new endpoints")
	return err
}
