package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// printJSON prints a value as indented JSON, with no character that a terminal would obey.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(safeJSON{Out: out})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printMessageJSON prints a message with its body byte for byte, because an indented body would
// be another one.
func printMessageJSON(out io.Writer, m wire.MessageView) error {
	body := m.Body
	m.Body = nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return err
	}
	text := b.String()
	if body != nil {
		text = strings.TrimSuffix(text, "\n}\n") + ",\n  \"body\": " + string(body) + "\n}\n"
	}
	_, err := io.WriteString(safeJSON{Out: out}, text)
	return err
}

// printCancelledJSON prints the response of the API. Without the scope read it has only the
// status of each delivery, and each topic is empty.
func printCancelledJSON(out io.Writer, all wire.Deliveries) error {
	if slices.ContainsFunc(all.Deliveries, func(d wire.Delivery) bool { return d.Topic != "" }) {
		return printJSON(out, all)
	}
	brief := wire.BriefDeliveries{ID: all.ID}
	for _, d := range all.Deliveries {
		brief.Deliveries = append(brief.Deliveries, wire.BriefDelivery{ID: d.ID, Destination: d.Destination, Status: d.Status})
	}
	return printJSON(out, brief)
}

// printRetriedJSON does the same with the response to a retry.
func printRetriedJSON(out io.Writer, retried wire.Retried) error {
	if slices.ContainsFunc(retried.Deliveries, func(d wire.RetriedDelivery) bool { return d.Topic != "" }) {
		return printJSON(out, retried)
	}
	plain := wire.Deliveries{ID: retried.ID}
	for _, d := range retried.Deliveries {
		plain.Deliveries = append(plain.Deliveries, d.Delivery)
	}
	return printCancelledJSON(out, plain)
}

// printMessage prints a message with its deliveries.
func printMessage(out io.Writer, m wire.MessageView) {
	fmt.Fprintf(out, "%s  %s, accepted %s\n", m.ID, m.Topic, whenText(m.CreatedAt))
	if m.Tenant != "" {
		fmt.Fprintf(out, "  %-12s %s\n", "tenant", m.Tenant)
	}
	if m.Subject != "" {
		fmt.Fprintf(out, "  %-12s %s\n", "subject", visible(m.Subject))
	}
	for _, d := range m.Deliveries {
		fmt.Fprintln(out)
		printDelivery(out, d)
	}
	if m.Incomplete {
		fmt.Fprintln(out, "\nThe archive did not answer. What Redis has no more is missing here: deliveries, attempts, or the body.")
	}
}

// skipReasons explain why a retry skipped a delivery.
var skipReasons = map[string]string{
	"ready":     "it is due already",
	"in_flight": "an attempt is under way",
	"order":     "others of its ordering key go first",
	"delivered": "it was delivered; --all or --destination sends it again",
	"expired":   "it has expired; publish it anew under another id",
	"disabled":  "its endpoint is disabled; resume that first",
	"deleted":   "its endpoint was deleted",
}

// printRetried prints each delivery, and whether it was retried.
func printRetried(out io.Writer, list []wire.RetriedDelivery) {
	for _, d := range list {
		printDelivery(out, d.Delivery)
		switch {
		case d.Retried:
			fmt.Fprintf(out, "  %-12s %s\n", "retry", "now")
		case d.Why != "":
			fmt.Fprintf(out, "  %-12s %s\n", "left", skipReasons[d.Why])
		}
	}
}

// clockFormat is the format of times of day, with milliseconds.
const clockFormat = "15:04:05.000"

// printDelivery prints the state of one delivery.
func printDelivery(out io.Writer, d wire.Delivery) {
	fmt.Fprintf(out, "%s\n", d.ID)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "  %-12s %s\n", name, text)
		}
	}
	row("to", visible(d.URL))
	status := d.Status
	if d.DeadReason != "" {
		status += ", " + d.DeadReason
	}
	if why := dispatcher.Wait(d.WaitingFor).Means(); why != "" {
		status += ", " + why
		if until := d.WaitingUntil; !until.IsZero() && until != d.NextAttemptAt {
			status += ", until " + whenText(until)
		}
		if d.WaitingBehind > 0 {
			status += fmt.Sprintf(" (%d go first)", d.WaitingBehind)
		}
	}
	row("status", status)
	if d.Topic != "" { // without the scope read there is only the status
		row("attempts", fmt.Sprint(d.Attempts))
	}
	if d.LastStatusCode != 0 {
		row("last status", fmt.Sprint(d.LastStatusCode))
	}
	row("last error", visible(d.LastError))
	if !d.DeliveredAt.IsZero() {
		row("delivered", whenText(d.DeliveredAt))
	} else if !d.EndedAt.IsZero() {
		row("ended", whenText(d.EndedAt))
	}
	if !d.NextAttemptAt.IsZero() {
		row("next attempt", whenText(d.NextAttemptAt))
	}
	for _, a := range d.History {
		printAttempt(out, a)
	}
}

// printAttempt prints one attempt in a line, and the beginning of the response below it.
func printAttempt(out io.Writer, a wire.Attempt) {
	answer := "no answer"
	switch {
	case a.StatusCode != 0:
		answer = fmt.Sprint(a.StatusCode)
	case a.Outcome == "delivered" || a.Class == "lease" || a.Class == "handler":
		answer = "taken"
	}
	took := ladder.FormatDuration(time.Duration(a.DurationMS) * time.Millisecond)
	if a.DurationMS == 0 {
		took = "<1ms"
	}
	fmt.Fprintf(out, "  attempt %-4d %s  %s  %s in %s", a.Attempt, whenText(a.At), a.Outcome, answer, took)
	if a.Address != "" {
		fmt.Fprintf(out, " at %s", visible(a.Address))
	}
	if a.ShortHello {
		fmt.Fprint(out, " after a short ClientHello")
	}
	if a.Error != "" {
		fmt.Fprintf(out, "  %s", visible(a.Error))
	}
	fmt.Fprintln(out)
	printExcerpt(out, a.ResponseExcerpt)
}

// Limits of a printed response, because a page of HTML would fill the screen.
const (
	shownExcerpt = 512 // bytes
	shownLines   = 8
)

// printExcerpt prints the beginning of a response, with a bar before each line, so no line looks
// like one of the command.
func printExcerpt(out io.Writer, text string) {
	more := len(text) > shownExcerpt
	if more {
		text = strings.ToValidUTF8(text[:shownExcerpt], "")
	}
	lines := slices.Collect(strings.Lines(text))
	if len(lines) > shownLines {
		lines, more = lines[:shownLines], true
	}
	for i, line := range lines {
		line = strings.TrimRight(line, "\r\n")
		if more && i == len(lines)-1 {
			line += " ..."
		}
		fmt.Fprintf(out, "    | %s\n", visible(line))
	}
}

// mostTailed limits the error in a line, so that most lines fit a terminal.
const mostTailed = 120

// attemptWriter returns a function that prints a line for an attempt.
func attemptWriter(out io.Writer) func(*wire.LoggedAttempt) error {
	return func(a *wire.LoggedAttempt) error {
		status := "-"
		if a.StatusCode > 0 {
			status = strconv.Itoa(a.StatusCode)
		}
		where := a.Destination
		if u, err := url.Parse(a.URL); err == nil && u.Host != "" { // the rest may hold secrets
			where += " " + u.Scheme + "://" + u.Host
		}
		_, err := fmt.Fprintf(out, "%s  %-9s  %3s  %6s  %s  %s  #%d%s\n", whenText(a.At), visible(a.Outcome), status,
			ladder.FormatDuration(time.Duration(a.DurationMS)*time.Millisecond), visible(where), visible(a.MessageID), a.Attempt, visible(clipText(a.Error, mostTailed)))
		return err
	}
}

// clipText is the beginning of a text after two spaces; an empty text stays empty.
func clipText(text string, most int) string {
	runes := []rune(text)
	switch {
	case text == "":
		return ""
	case len(runes) > most:
		return "  " + string(runes[:most]) + "…"
	}
	return "  " + text
}

// printPublished prints the result of a publish.
func printPublished(out io.Writer, p wire.Published) {
	kind := "accepted"
	if p.Duplicate {
		kind = "duplicate, accepted before"
	}
	if p.Matched == 0 && !p.Duplicate {
		fmt.Fprintf(out, "%s matches no endpoint, so nothing is kept\n", p.ID)
		return
	}
	if p.CreatedAt.IsZero() {
		fmt.Fprintf(out, "%s %s; nothing else is kept of it\n", p.ID, kind)
		return
	}
	fmt.Fprintf(out, "%s %s at %s\n", p.ID, kind, whenText(p.CreatedAt))
	for _, d := range p.Deliveries {
		next := ""
		later := d.Status == "scheduled" || d.Status == "retrying"
		if later && !d.NextAttemptAt.IsZero() {
			next = ", next attempt " + whenText(d.NextAttemptAt)
		}
		fmt.Fprintf(out, "  %s  %s%s\n", d.ID, d.Status, next)
	}
}

// printDeliveries prints a table of deliveries.
func printDeliveries(out io.Writer, list []wire.Delivery) {
	printTable(out, "ID\tSTATUS\tATTEMPTS\tANSWER\tENDED OR NEXT\tTOPIC\tSUBJECT\tTENANT\tWHY", list, func(d wire.Delivery) []any {
		at := d.EndedAt
		if at.IsZero() {
			at = d.NextAttemptAt
		}
		why := cmp.Or(d.DeadReason, d.WaitingFor)
		if d.LastError != "" {
			why = strings.TrimPrefix(why+": ", ": ") + d.LastError
		}
		return []any{d.ID, d.Status, d.Attempts, statusText(d), at, d.Topic, cmp.Or(d.Subject, "-"), cmp.Or(d.Tenant, "-"), cmp.Or(why, "-")}
	})
}

// statusText is the status of the last response, or a dash.
func statusText(d wire.Delivery) string {
	if d.LastStatusCode == 0 {
		return "-"
	}
	return strconv.Itoa(d.LastStatusCode)
}

// printDeliveriesCSV writes deliveries as CSV. At a terminal it escapes errors, because one with several
// lines would look like several rows.
func printDeliveriesCSV(out io.Writer, list []wire.Delivery, shown bool) {
	for i := range list {
		if d := &list[i]; shown {
			d.LastError = visible(d.LastError)
		}
	}
	_ = wire.WriteDeliveries(out, list) // out is a buffer
}

// printReasons prints a table of the sums by reason, the highest first.
func printReasons(out io.Writer, groups []wire.DeadGroup, more bool) {
	if len(groups) == 0 {
		return
	}
	type sum struct {
		reason       string
		count        int64
		destinations int
		newest       wire.Time
	}
	var sums []*sum
	for _, g := range groups {
		i := slices.IndexFunc(sums, func(s *sum) bool { return s.reason == g.Reason })
		if i < 0 {
			i, sums = len(sums), append(sums, &sum{reason: g.Reason})
		}
		of := sums[i]
		of.count, of.destinations = of.count+g.Count, of.destinations+1
		if g.Newest.After(of.newest.Time) {
			of.newest = g.Newest
		}
	}
	slices.SortStableFunc(sums, func(a, b *sum) int { return cmp.Compare(b.count, a.count) })
	printTable(out, "REASON\tDEAD\tDESTINATIONS\tNEWEST", sums, func(s *sum) []any { return []any{s.reason, s.count, s.destinations, s.newest} })
	if more {
		fmt.Fprintf(out, "of the %d largest groups by destination and reason; there are more\n", len(groups))
	}
	fmt.Fprintln(out)
}

// printDead prints a table of dead deliveries.
func printDead(out io.Writer, list []wire.Delivery) {
	printTable(out, "DELIVERY\tDIED\tREASON\tATTEMPTS\tSTATUS\tTOPIC\tERROR", list, func(d wire.Delivery) []any {
		return []any{d.ID, d.EndedAt, d.DeadReason, d.Attempts, statusText(d), cmp.Or(d.Topic, "-"), cmp.Or(d.LastError, "-")}
	})
}

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

// followJob shows a job's progress until the job ends. If a person leaves, the job continues.
func followJob(cmd *cobra.Command, c *client.Client, job wire.Job, total int) error {
	out, tick, began := cmd.ErrOrStderr(), time.NewTicker(barEvery), time.Now()
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
	line := fmt.Sprintf("%s %s %s of %s", j.ID, bar(done, total), commas(done), commas(total))
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
