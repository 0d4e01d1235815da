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
