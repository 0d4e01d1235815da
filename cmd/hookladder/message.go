package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/why"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newGet(s world) *cobra.Command {
	return apiCall[wire.MessageView]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.MessageView, error) {
			return c.Message(cmd.Context(), args[0])
		},
		text: printMessage,
		json: printMessageJSON,
	}.on(&cobra.Command{
		Use:   "get <id>",
		Short: "Show a message, its deliveries and their attempts",
		Long: `Shows a message and its deliveries. A delivery that failed shows its newest 32
attempts, and the beginning of the receiver's last answers. With --json it prints
the API's answer, with the body byte for byte.`,
		Example: `  hookladder get order_17
  hookladder get order_17 --json`,
		Args: oneID,
	}, s)
}

func newWhy(s world) *cobra.Command {
	var destination string
	cmd := apiCall[why.Answer]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (why.Answer, error) {
			return why.Ask(cmd.Context(), c, args[0], destination)
		},
		text: func(out io.Writer, a why.Answer) {
			for _, d := range a.Deliveries {
				fmt.Fprintln(out, term.Visible(d.Why))
			}
		},
	}.on(&cobra.Command{
		Use:   "why <id>",
		Short: "Tell in a sentence what a delivery waits for or died of, and what helps",
		Long: `Tells in one sentence how each delivery of a message stands: what it waits for, or
how it ended, and which command helps. It changes nothing. The exit code is 3 where
there is no such message, or where it does not go to --destination.`,
		Example: `  hookladder why order_17
  hookladder why order_17 --destination https://shop.example/hooks
  hookladder why order_17 --json`,
		Args: oneID,
	}, s)
	cmd.Flags().StringVar(&destination, "destination", "", "only the delivery to this URL, endpoint, q_<queue> or lane")
	return cmd
}

func newCancel(s world) *cobra.Command {
	var destination string
	cmd := apiCall[wire.Deliveries]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.Deliveries, error) {
			list, err := c.Cancel(cmd.Context(), args[0], destination)
			return wire.Deliveries{ID: args[0], Deliveries: list}, err
		},
		text: func(out io.Writer, cancelled wire.Deliveries) {
			for _, d := range cancelled.Deliveries {
				printDelivery(out, d)
			}
		},
		json: printDeliveriesJSON,
	}.on(&cobra.Command{
		Use:   "cancel [<id>]",
		Short: "Cancel a message's unfinished deliveries, or all that match filters",
		Long: `Cancels the deliveries of a message that are not finished: no attempt begins any
more. An attempt that is under way can't be recalled.

Without an id it begins a job, which cancels the unfinished deliveries that match the
filters. It shows how many match and asks; a script gives --yes.`,
		Example: `  hookladder cancel order_17
  hookladder cancel --topic 'cart.*' --tenant shop
  hookladder cancel --status scheduled --all --dry-run`,
	}, s)
	return byFilter(cmd, s, &jobCommand{kind: client.JobCancel, verb: "Cancel"}, &destination)
}

// byFilter has a command work on one message, or without an id on all deliveries that
// match its filters. These it changes by a job, as dead replay does.
func byFilter(cmd *cobra.Command, s world, j *jobCommand, destination *string) *cobra.Command {
	one := cmd.RunE
	var statuses []string
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && (cmd.Flags().NFlag() > 0) {
			return nil
		}
		return oneID(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f := &j.filters
		if len(args) == 1 {
			if len(f.destinations) > 1 || len(f.topics)+len(f.tenants)+len(f.subjects)+len(f.reasons)+len(statuses) > 0 {
				return usagef("%s takes the id of a message with one --destination at most, or filters without an id", cmd.Name())
			}
			*destination = strings.Join(f.destinations, "")
			return one(cmd, args)
		}
		to := clientFlags{vars: s.vars()}
		to.server, _ = cmd.Flags().GetString("server")
		to.keyFile, _ = cmd.Flags().GetString("key-file")
		asJSON, _ := cmd.Flags().GetBool("json")
		c, err := to.client()
		if err != nil {
			return err
		}
		j.request.Status = statuses
		return j.run(cmd, s, c, asJSON)
	}
	cmd.Flags().StringArrayVar(&statuses, "status", nil, "only of this status; may be repeated")
	j.filters.add(cmd, "only those that ended, or are due,")
	j.add(cmd)
	return cmd
}

// retryAnswer is what a retry did, and its error where it could attempt nothing.
type retryAnswer struct {
	wire.Retried
	failed error
}

func newRetry(s world) *cobra.Command {
	var destination string
	j := &jobCommand{kind: client.JobRetry, verb: "Retry"}
	cmd := apiCall[retryAnswer]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (retryAnswer, error) {
			list, err := retry(cmd.Context(), c, args[0], destination, j.request.All)
			if len(list) == 0 {
				return retryAnswer{}, err
			}
			return retryAnswer{wire.Retried{ID: args[0], Deliveries: list}, err}, nil
		},
		text: func(out io.Writer, a retryAnswer) { printRetried(out, a.Deliveries) },
		json: func(out io.Writer, a retryAnswer) error { return printRetriedJSON(out, a.Retried) },
		then: func(_ *cobra.Command, a retryAnswer, _ bool) error { return a.failed },
	}.on(&cobra.Command{
		Use:   "retry [<id>]",
		Short: "Attempt a message now, or all deliveries that match filters",
		Long: `Attempts the deliveries of a message now, as far as pause, breaker, rate and limit
allow, and says which it leaves out and why. A delivery that waits gets an extra
attempt: if it fails, the delivery waits until the same time as before. A dead or
cancelled one starts a new ladder. A delivered one is left out, unless
--destination names it or --all is given. The exit code is 0 if at least one is
attempted, and 1 if none could be.

Without an id it begins a job, which sends what matches the filters: what is dead, or
has another --status. It shows how many match and asks; a script gives --yes.`,
		Example: `  hookladder retry order_17
  hookladder retry order_17 --destination https://shop.example/hooks
  hookladder retry order_17 --all
  hookladder retry --status retrying --tenant shop --probe --rate 200/s
  hookladder retry --status delivered --since 24h --destination shop-42 --dry-run`,
	}, s)
	return byFilter(cmd, s, j, &destination)
}

// retry asks for the attempts. An error that says what became of each delivery
// is answered with them.
func retry(ctx context.Context, c *client.Client, id, destination string, all bool) (list []wire.RetriedDelivery, err error) {
	if all && destination == "" {
		list, err = c.Resend(ctx, id)
	} else {
		list, err = c.Retry(ctx, id, destination)
	}
	var left *client.Problem
	if errors.As(err, &left) {
		list = left.Deliveries
	}
	return list, err
}

// oneID takes exactly the id of a message.
func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usagef("%s needs the id of one message; see %s --help", cmd.Name(), cmd.CommandPath())
	}
	return nil
}

func printMessage(out io.Writer, m wire.MessageView) {
	fmt.Fprintf(out, "%s  %s, accepted %s\n", m.ID, m.Topic, term.When(m.CreatedAt))
	if m.Tenant != "" {
		fmt.Fprintf(out, "  %-12s %s\n", "tenant", m.Tenant)
	}
	if m.Subject != "" {
		fmt.Fprintf(out, "  %-12s %s\n", "subject", term.Visible(m.Subject))
	}
	for _, d := range m.Deliveries {
		fmt.Fprintln(out)
		printDelivery(out, d)
	}
}

// printMessageJSON prints the body as it was published: indented it would be
// another one.
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
	_, err := io.WriteString(term.JSON{Out: out}, text)
	return err
}

// printDeliveriesJSON prints the answer as the API gave it: without the scope read
// it holds no more than how each delivery stands, and each topic is empty.
func printDeliveriesJSON(out io.Writer, all wire.Deliveries) error {
	if slices.ContainsFunc(all.Deliveries, func(d wire.Delivery) bool { return d.Topic != "" }) {
		return printJSON(out, all)
	}
	brief := wire.BriefDeliveries{ID: all.ID}
	for _, d := range all.Deliveries {
		brief.Deliveries = append(brief.Deliveries, wire.BriefDelivery{ID: d.ID, Destination: d.Destination, Status: d.Status})
	}
	return printJSON(out, brief)
}

// printRetriedJSON does the same with what a retry answers.
func printRetriedJSON(out io.Writer, retried wire.Retried) error {
	if slices.ContainsFunc(retried.Deliveries, func(d wire.RetriedDelivery) bool { return d.Topic != "" }) {
		return printJSON(out, retried)
	}
	plain := wire.Deliveries{ID: retried.ID}
	for _, d := range retried.Deliveries {
		plain.Deliveries = append(plain.Deliveries, d.Delivery)
	}
	return printDeliveriesJSON(out, plain)
}

// lefts are the words of why as people say them.
var lefts = map[string]string{
	"ready":     "it is due already",
	"in_flight": "an attempt is under way",
	"order":     "others of its ordering key go first",
	"delivered": "it was delivered; --all or --destination sends it again",
	"expired":   "it has expired; publish it anew under another id",
	"disabled":  "its endpoint is disabled; resume that first",
	"deleted":   "its endpoint was deleted",
}

// printRetried tells how each delivery stands, and which of them were left.
func printRetried(out io.Writer, list []wire.RetriedDelivery) {
	for _, d := range list {
		printDelivery(out, d.Delivery)
		switch {
		case d.Retried:
			fmt.Fprintf(out, "  %-12s %s\n", "retry", "now")
		case d.Why != "":
			fmt.Fprintf(out, "  %-12s %s\n", "left", lefts[d.Why])
		}
	}
}

// clock is how times of day are shown: to the millisecond, since that is how exact they are.
const clock = "15:04:05.000"

// printDelivery tells how one delivery stands.
func printDelivery(out io.Writer, d wire.Delivery) {
	fmt.Fprintf(out, "%s\n", d.ID)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "  %-12s %s\n", name, text)
		}
	}
	row("to", term.Visible(d.URL))
	status := d.Status
	if d.DeadReason != "" {
		status += ", " + d.DeadReason
	}
	if why := dispatcher.Wait(d.WaitingFor).Means(); why != "" {
		status += ", " + why
		if until := d.WaitingUntil; !until.IsZero() && until != d.NextAttemptAt {
			status += ", until " + term.When(until)
		}
		if d.WaitingBehind > 0 {
			status += fmt.Sprintf(" (%d go first)", d.WaitingBehind)
		}
	}
	row("status", status)
	if d.Topic != "" { // else the key may not read, and was told the status alone
		row("attempts", fmt.Sprint(d.Attempts))
	}
	if d.LastStatusCode != 0 {
		row("last status", fmt.Sprint(d.LastStatusCode))
	}
	row("last error", term.Visible(d.LastError))
	if !d.DeliveredAt.IsZero() {
		row("delivered", term.When(d.DeliveredAt))
	} else if !d.EndedAt.IsZero() {
		row("ended", term.When(d.EndedAt))
	}
	if !d.NextAttemptAt.IsZero() {
		row("next attempt", term.When(d.NextAttemptAt))
	}
	for _, a := range d.History {
		printAttempt(out, a)
	}
}

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
	fmt.Fprintf(out, "  attempt %-4d %s  %s  %s in %s", a.Attempt, term.When(a.At), a.Outcome, answer, took)
	if a.Address != "" {
		fmt.Fprintf(out, " at %s", term.Visible(a.Address))
	}
	if a.Error != "" {
		fmt.Fprintf(out, "  %s", term.Visible(a.Error))
	}
	fmt.Fprintln(out)
	printExcerpt(out, a.ResponseExcerpt)
}

// What is shown of an answer, so that one page of HTML does not fill the screen.
const (
	shownExcerpt = 512 // bytes
	shownLines   = 8
)

// printExcerpt shows the beginning of what a receiver answered, each line behind
// a bar, so that none looks like one of ours.
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
		fmt.Fprintf(out, "    | %s\n", term.Visible(line))
	}
}
