package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newTail(s world) *cobra.Command {
	var to clientFlags
	var asJSON bool
	var since string
	f := &tailer{}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show attempts as they happen",
		Long: `Shows each attempt as it happens, and each end without one: a line with its time,
outcome, the receiver's status, how long it took, destination, message, and what went
wrong. It goes on until Ctrl-C. Where the connection is lost it connects again and goes
on behind the last line, or says that some are missing.

Outcomes are delivered, retry (it failed and is tried again), dead, back (no attempt
was made after all) and cancelled. Filters may be repeated: any of their values
matches. With --since it begins with the attempts of that time, as far as they are kept.`,
		Example: `  hookladder tail
  hookladder tail --destination https://shop.example/hooks --outcome retry --outcome dead
  hookladder tail --topic 'payment.*' --status-code 401 --status-code 403
  hookladder tail --job job_7 --since 1h
  hookladder tail --tenant acme --since 10m --json | jq .error`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err = noArgs(cmd, args); err == nil {
				f.filter.Since, err = timeFlag("since", since)
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.client, err = to.client(); err != nil {
				return err
			}
			f.say = func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
			f.show = lineOf(cmd.OutOrStdout())
			if asJSON {
				out := json.NewEncoder(term.JSON{Out: cmd.OutOrStdout()})
				out.SetEscapeHTML(false)
				f.show = func(a *wire.LoggedAttempt) error { return out.Encode(a) }
			}
			return f.run(cmd.Context())
		},
	}
	to.add(cmd, s)
	flags, of := cmd.Flags(), &f.filter
	flags.StringArrayVar(&of.Destinations, "destination", nil, "only to this URL, endpoint's id or uid, q_<queue>, or lane")
	flags.StringArrayVar(&of.Tenants, "tenant", nil, "only of this tenant")
	flags.StringArrayVar(&of.Topics, "topic", nil, "only with this topic, or a pattern as payment.*")
	flags.StringArrayVar(&of.Subjects, "subject", nil, "only with this subject, such as the number of an order")
	flags.StringArrayVar(&of.Messages, "message", nil, "only of the message with this id")
	flags.StringArrayVar(&of.Outcomes, "outcome", nil, "only "+anyOf(dispatcher.Happenings))
	flags.IntSliceVar(&of.StatusCodes, "status-code", nil, "only with this status in the receiver's answer")
	flags.StringArrayVar(&of.Jobs, "job", nil, "only what the job with this id sent")
	flags.StringVar(&since, "since", "", "first those since this time: 2026-01-31T12:00:00Z, or 10m for so long ago")
	flags.BoolVar(&asJSON, "json", false, "print each attempt as JSON, one a line")
	completes(cmd, "outcome", texts(dispatcher.Happenings...)...)
	return cmd
}

// tailer follows attempts over lost connections.
type tailer struct {
	client *client.Client
	filter client.AttemptFilter
	show   func(*wire.LoggedAttempt) error
	say    func(format string, args ...any) // to standard error

	last   string // id of the last event; empty: none came yet
	lost   bool   // and the connection is not there again
	failed error  // of show
}

// Waits before the next connection: they double, and begin anew when one stands.
const (
	tailFirst = 500 * time.Millisecond
	tailMost  = 15 * time.Second
)

// run follows until ctx ends. What is wrong at the beginning, or can't become better,
// is an error.
func (f *tailer) run(ctx context.Context) error {
	for wait := tailFirst; ; wait = min(2*wait, tailMost) {
		err := f.client.Follow(ctx, f.filter, f.last, f.event)
		if ctx.Err() != nil {
			return nil
		}
		var p *client.Problem
		answered := errors.As(err, &p)
		switch {
		case f.failed != nil:
			return f.failed
		case f.last == "":
			return err
		case answered && p.Status == http.StatusUnprocessableEntity:
			f.say("some attempts are missing: the server does not know any more where this was (%s)", term.Visible(p.Error()))
			f.last, f.filter.Since = "", time.Time{}
			continue
		case answered && p.Status < 500 && p.Status != http.StatusTooManyRequests, !answered && !errors.Is(err, client.ErrUnreachable):
			return err
		}
		if !f.lost {
			f.say("%s; trying again", term.Visible(err.Error()))
			f.lost, wait = true, tailFirst
		}
		if answered {
			wait = max(wait, min(p.RetryAfter, tailMost))
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// event takes one event.
func (f *tailer) event(e client.Event) error {
	f.last = cmp.Or(e.ID, f.last)
	switch {
	case f.lost && e.End == nil:
		f.lost = false
		f.say("connected again")
	case e.End != nil && e.End.Reason == "slow":
		f.say("the server ended the stream, since this is too slow to show all: fewer would match with a filter")
	}
	if e.End != nil && e.End.Reason == "busy" {
		f.say("the server ended the stream, because other callers need the places to wait")
	}
	switch {
	case e.Gap != nil:
		f.say("some attempts are missing: the server has all since %s", term.When(e.Gap.CompleteSince))
	case e.Attempt != nil:
		f.failed = f.show(e.Attempt)
	}
	return f.failed
}

// mostTailed bounds the error in a line, so that lines mostly fit a terminal.
const mostTailed = 120

// lineOf prints an attempt as a line for people.
func lineOf(out io.Writer) func(*wire.LoggedAttempt) error {
	return func(a *wire.LoggedAttempt) error {
		status := "-"
		if a.StatusCode > 0 {
			status = strconv.Itoa(a.StatusCode)
		}
		where := a.Destination
		if u, err := url.Parse(a.URL); err == nil && u.Host != "" { // the rest may hold secrets
			where += " " + u.Scheme + "://" + u.Host
		}
		_, err := fmt.Fprintf(out, "%s  %-9s  %3s  %6s  %s  %s  #%d%s\n", term.When(a.At), term.Visible(a.Outcome), status,
			ladder.FormatDuration(time.Duration(a.DurationMS)*time.Millisecond), term.Visible(where), term.Visible(a.MessageID), a.Attempt, term.Visible(clip(a.Error, mostTailed)))
		return err
	}
}

// clip is the beginning of a text, behind two spaces; nothing of an empty one.
func clip(text string, most int) string {
	runes := []rune(text)
	switch {
	case text == "":
		return ""
	case len(runes) > most:
		return "  " + string(runes[:most]) + "…"
	}
	return "  " + text
}
