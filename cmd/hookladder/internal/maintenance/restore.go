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

// Restore is how a store is made of its archive again.
type Restore struct {
	IntoRunning bool
	Dead        bool
	DryRun      bool

	Stdout io.Writer
	Told   io.Writer // of how far it is
	Line   bool      // Told is a terminal: a line is written over
}

// phases are what a restore does, for people.
var phases = map[string]string{
	"endpoints": "endpoints", "known": "ids that are known", "open": "unfinished deliveries", "dead": "dead deliveries",
}

// Run restores, and prints what became of it.
func (r *Restore) Run(ctx context.Context, o app.Options) error {
	began := time.Now()
	var last app.RestoreStep
	var shown time.Time
	tell := func(s app.RestoreStep) {
		if s.Phase != last.Phase && last.Phase != "" {
			r.step(last, true)
		}
		if s.Phase != last.Phase || time.Since(shown) >= barEvery {
			shown = time.Now()
			r.step(s, false)
		}
		last = s
	}
	done, err := app.Restore(ctx, o, app.RestoreOptions{IntoRunning: r.IntoRunning, Dead: r.Dead, DryRun: r.DryRun, By: "hookladder restore", Tell: tell})
	if last.Phase != "" {
		r.step(last, true)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: the store takes nothing and attempts nothing until restore is run again and ends", err)
	}
	if err != nil {
		return err
	}
	return r.print(done, time.Since(began))
}

// step shows one step: over itself on a terminal, else once it has ended.
func (r *Restore) step(s app.RestoreStep, ended bool) {
	text := term.Comma(s.Done)
	if s.Of > 0 && !ended {
		text = fmt.Sprintf("%s of %s (%d %%)", term.Comma(s.Done), term.Comma(s.Of), 100*s.Done/s.Of)
	}
	switch {
	case r.Line:
		term.Over(r.Told, phases[s.Phase]+": "+text)
		if ended {
			fmt.Fprintln(r.Told)
		}
	case ended:
		fmt.Fprintf(r.Told, "%s: %s\n", phases[s.Phase], text)
	}
}

func (r *Restore) print(done app.Restored, took time.Duration) error {
	if done.Nothing {
		_, err := fmt.Fprintln(r.Stdout, "there is nothing to restore: Redis lost no data. If it lost its last second only, use --into-running")
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
	if n := done.Open[archive.PutExists]; n > 0 {
		fmt.Fprintf(r.Stdout, "%s were there already, or had ended there\n", term.Comma(n))
	}
	if n := done.Open[archive.PutConflict] + done.Open[archive.PutUnreadable] + done.Dead[archive.PutConflict] + done.Dead[archive.PutUnreadable]; n > 0 {
		fmt.Fprintf(r.Stdout, "%s could not be: another message has the id, or its record is not whole\n", term.Comma(n))
		for _, id := range done.Refused {
			fmt.Fprintf(r.Stdout, "  %s\n", term.Visible(id))
		}
	}
	if err := r.lost(done.Lost); err != nil {
		return err
	}
	if done.Behind && r.IntoRunning {
		fmt.Fprintln(r.Stdout, "the archive is behind this Redis, so only what it has of times before it was taken: run this again when it has caught up")
	}
	if done.First.IsZero() {
		_, err := fmt.Fprintln(r.Stdout, "nothing was ever archived")
		return err
	}
	fmt.Fprintf(r.Stdout, `the archive ends at %s, %s before this began: what was delivered after that is
delivered once more, with the same webhook-id, and what was accepted after that is lost
`, instant(done.First), ladder.FormatDuration(max(done.Now.Sub(done.First), 0).Round(time.Second)))
	if done.Last.Sub(done.First) >= time.Second {
		fmt.Fprintf(r.Stdout, "That is the partition of which it lacks most. Of others it has more, until %s\n", instant(done.Last))
	}
	if done.Gap.IsZero() {
		return nil
	}
	_, err := fmt.Fprintf(r.Stdout, `The log was cut (ARCHIVE_BACKLOG), and Redis was lost before the archive was compared with it. So of the
time before %s, messages can be missing too, and others be delivered once more
`, instant(done.Gap))
	return err
}

func instant(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// mostLost bounds the endpoints that are named; all are counted.
const mostLost = 20

// lost names the endpoints whose deliveries can't be attempted.
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
