package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// printJobs prints a table of jobs.
func printJobs(out io.Writer, list ...wire.Job) {
	printTable(out, "JOB\tKIND\tSTATE\tEXPECTED\tMATCHED\tDONE\tLEFT\tFAILED\tRATE\tSTARTED\tENDED\tBY\tFILTER", list, func(j wire.Job) []any {
		return []any{
			j.ID, j.Kind, j.State, expectedText(j), j.Matched, j.Done, j.Left, j.Failed,
			cmp.Or(j.Rate, "-"), j.StartedAt, j.EndedAt, cmp.Or(j.By, "-"), jobFilterText(j.Filter),
		}
	})
}

// expectedText is the counted number of deliveries of a job.
func expectedText(j wire.Job) string {
	if j.Expected == nil {
		return "-"
	}
	return fmt.Sprint(*j.Expected)
}

// jobFilterText is a job's filter in one line.
func jobFilterText(f wire.JobFilter) string {
	var words []string
	for _, part := range []struct {
		name   string
		values []string
	}{
		{"status", f.Status}, {"destination", f.Destination}, {"topic", f.Topic}, {"tenant", f.Tenant}, {"subject", f.Subject}, {"dead_reason", f.DeadReason},
	} {
		if len(part.values) > 0 {
			words = append(words, part.name+"="+strings.Join(part.values, ","))
		}
	}
	if f.Failed {
		words = append(words, "failed")
	}
	for name, at := range map[string]wire.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			words = append(words, name+"="+at.UTC().Format(time.RFC3339))
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// printJob prints a job, and the first deliveries that it could not change.
func printJob(out io.Writer, j wire.Job) {
	printJobs(out, j)
	if j.Error != "" {
		fmt.Fprintf(out, "it failed: %s\n", visible(j.Error))
	}
	if j.State == "waiting" {
		fmt.Fprintln(out, "it waits, and is not complete: each lane with remaining deliveries is paused or open, or has as many ready deliveries as a job adds, because its takers take none or its attempts are slow")
	}
	if o := j.Outcomes; o != nil && j.Retrying != nil && j.TakenOver != nil {
		fmt.Fprintf(out, "  of those done: %s delivered, %s dead again, %s cancelled, %s not ended, %s taken over by another\n",
			commas(o.Delivered), commas(o.Dead), commas(o.Cancelled), commas(*j.Retrying), commas(*j.TakenOver))
	}
	for _, reason := range slices.Sorted(maps.Keys(j.Reasons)) {
		fmt.Fprintf(out, "  %s left: %s\n", commas(j.Reasons[reason]), reason)
	}
	for _, f := range j.Failures {
		fmt.Fprintf(out, "  %s failed: %s\n", f.ID, f.Why)
	}
	if more := j.Failed - len(j.Failures); more > 0 && len(j.Failures) > 0 {
		fmt.Fprintf(out, "  and %s more\n", commas(more))
	}
}

// followEvery is the interval of a progress bar: short enough that it moves.
const followEvery = 500 * time.Millisecond

// followJob shows a job's progress until the job ends. If a person leaves, the job continues.
func followJob(cmd *cobra.Command, c *client.Client, job wire.Job, total int) error {
	out, tick, began := cmd.ErrOrStderr(), time.NewTicker(followEvery), time.Now()
	defer tick.Stop()
	id, before := job.ID, job.Done
	for {
		overwrite(out, jobProgress(job, total, before, time.Since(began)))
		if !job.EndedAt.IsZero() {
			break
		}
		select {
		case <-cmd.Context().Done():
			_, err := fmt.Fprintf(out, "\n%s continues; hookladder jobs show %s prints its progress, and jobs stop ends it\n", id, id)
			return err
		case <-tick.C:
		}
		now, err := c.Job(cmd.Context(), id)
		switch {
		case err == nil:
			job = now
		case isRefused(err):
			fmt.Fprintln(out)
			return err
		case cmd.Context().Err() == nil:
			overwrite(out, fmt.Sprintf("%s: %v; retrying", id, err))
		}
	}
	fmt.Fprintln(out)
	printJob(cmd.OutOrStdout(), job)
	if job.State == "failed" {
		return fmt.Errorf("%s failed", id)
	}
	return nil
}

// isRefused reports whether a retry of a call is refused too, because the job or the key was
// removed.
func isRefused(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status >= 400 && p.Status < 500 && p.Status != http.StatusTooManyRequests
}

// barWidth is the width of the bar in characters, so that the line fits in 80.
const barWidth = 24

// jobProgress is a job's progress in one line. total is the number of its deliveries, 0 if it is
// unknown; before is the number that was done when the watch began.
func jobProgress(j wire.Job, total, before int, watched time.Duration) string {
	done, known := j.Done+j.Failed+j.Left, total > 0
	if j.Expected != nil {
		total, known = *j.Expected, true
	}
	total = max(total, j.Matched)
	if j.State == "done" {
		total, known = done, true
	}
	filled := barWidth
	if total > 0 {
		filled = barWidth * done / total
	}
	line := fmt.Sprintf("%s [%s%s] %s of %s", j.ID, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), commas(done), commas(total))
	if !known {
		line = fmt.Sprintf("%s %s so far", j.ID, commas(done))
	}
	if rate := float64(j.Done-before) / watched.Seconds(); j.EndedAt.IsZero() && watched > time.Second && rate >= 1 {
		line += fmt.Sprintf(", %.0f/s", rate)
	}
	if j.Left > 0 {
		line += fmt.Sprintf(", %s left", commas(j.Left))
	}
	if j.Failed > 0 {
		line += fmt.Sprintf(", %s failed", commas(j.Failed))
	}
	return line + ", " + j.State
}

// printSurvey prints how many deliveries a job would change, and some of them.
func printSurvey(out io.Writer, survey wire.Survey) {
	least := ""
	if !survey.Complete {
		least = "more than "
	}
	fmt.Fprintf(out, "%s%s deliveries match\n", least, commas(survey.Matched))
	for _, reason := range slices.Sorted(maps.Keys(survey.ByReason)) {
		fmt.Fprintf(out, "  %-12s %s\n", reason, commas(survey.ByReason[reason]))
	}
	if survey.Matched > 0 {
		fmt.Fprintf(out, "from %s to %s, among them:\n", whenText(survey.Oldest), whenText(survey.Newest))
		printDead(out, survey.Sample)
	}
}
