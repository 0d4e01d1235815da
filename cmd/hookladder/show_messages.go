package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

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
