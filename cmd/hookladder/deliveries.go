package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newDeliveries(s world) *cobra.Command {
	var f filterFlags
	cmd := listCommand[wire.Page]{
		read: func(cmd *cobra.Command, c *client.Client, _ []string, p pageFlags) (wire.Page, error) {
			f.Limit, f.Cursor = p.limit, p.cursor
			return c.Deliveries(cmd.Context(), f.Filter)
		},
		next:       func(page wire.Page) *string { return page.NextCursor },
		deliveries: func(page *wire.Page) (*[]wire.Delivery, *int) { return &page.Data, &page.LookedAt },
		table:      func(out io.Writer, page wire.Page) { printDeliveries(out, page.Data) },
		then: func(cmd *cobra.Command, page wire.Page, p pageFlags, asJSON bool) error {
			if page.NextCursor != nil && len(page.Data) < p.limit && !asJSON {
				fmt.Fprintln(cmd.ErrOrStderr(), howFar(&page))
			}
			if !asJSON {
				reportComplete(cmd, page.CompleteSince)
			}
			return nil
		},
	}.on(&cobra.Command{
		Use:   "deliveries",
		Short: "Find deliveries",
		Long: `Lists the deliveries that match all filters. A repeated filter matches any of its
values. With --tenant, --destination or a subject, the newest accepted deliveries come
first. Other lists begin with the newest finished ones, followed by the deliveries that
are in flight, ready, and waiting. With --order accepted or ended, the newest ones come
first; with --order due, the ones that are due first. The command reads pages until it
has --limit deliveries, and prints the --cursor of the next page.

With --csv, a ' is put before a text that begins with =, +, -, @, a tab or a line
break, because a spreadsheet would take it for a formula.`,
		Example: `  hookladder deliveries --subject order_17
  hookladder deliveries --status dead --destination shop-42 --since 24h
  hookladder deliveries --failed --topic 'payment.*' --csv --limit 10000 > failed.csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(noArgs(cmd, args), f.read())
		},
	}, s)
	f.add(cmd, "accepted, ended or due")
	return cmd
}

// howFar returns the number of deliveries that were read so far, if the list continues.
func howFar(page *wire.Page) string {
	text := fmt.Sprintf("read %d deliveries", page.LookedAt)
	if !page.LookedUntil.IsZero() {
		text += ", back to " + page.LookedUntil.Text()
	}
	return text + "; there are more"
}

// newEndpointsDeliveries returns the command that lists the finished deliveries of an endpoint,
// for a daily report.
func newEndpointsDeliveries(s world) *cobra.Command {
	var f client.EndedFilter
	var span spanFlags
	cmd := listCommand[wire.EndedPage]{
		read: func(cmd *cobra.Command, c *client.Client, args []string, p pageFlags) (wire.EndedPage, error) {
			f.Limit, f.Cursor = p.limit, p.cursor
			return c.EndpointDeliveries(cmd.Context(), args[0], f)
		},
		next:       func(page wire.EndedPage) *string { return page.NextCursor },
		deliveries: func(page *wire.EndedPage) (*[]wire.Delivery, *int) { return &page.Data, &page.LookedAt },
		table:      func(out io.Writer, page wire.EndedPage) { printDeliveries(out, page.Data) },
		then:       reportEnded,
	}.on(&cobra.Command{
		Use:   "deliveries <endpoint>",
		Short: "List the finished deliveries of an endpoint, oldest first",
		Long: `Lists the delivered, dead and cancelled deliveries of an endpoint, ordered by the time
when they finished. Its owner can compare them with other records at the end of a day.

The last line has a cursor. With that cursor and the same --status, the next call lists
the deliveries that finished since, and skips none. A delivery that was retried and
finished again is listed again. The command also says if some of the deliveries are not
stored any more.

With --csv, a ' is put before a text that begins with =, +, -, @, a tab or a line
break, because a spreadsheet would take it for a formula.`,
		Example: `  hookladder endpoints deliveries shop-42 --since 24h --csv > yesterday.csv
  hookladder endpoints deliveries shop-42 --status dead --since 2026-01-31T00:00:00Z`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err = oneEndpoint(cmd, args); err == nil {
				f.Since, f.Until, err = span.read()
			}
			return err
		},
	}, s)
	addFilters(cmd, &f)
	span.add(cmd, "ended")
	return cmd
}

// reportEnded prints the cursor for later deliveries, and whether the list is complete.
func reportEnded(cmd *cobra.Command, page wire.EndedPage, _ pageFlags, asJSON bool) error {
	if asJSON {
		return nil
	}
	reportComplete(cmd, page.CompleteSince)
	if page.NextCursor == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "deliveries that finish later with --cursor %s\n", page.ResumeCursor)
	}
	return nil
}

// reportComplete reports the time from which a list is complete, if some entries may be missing.
func reportComplete(cmd *cobra.Command, since wire.Time) {
	if !since.IsZero() {
		fmt.Fprintf(cmd.ErrOrStderr(), "complete since %s: some earlier deliveries are not stored any more\n", since.Text())
	}
}

func newTail(s world) *cobra.Command {
	var to clientFlags
	var asJSON bool
	var span spanFlags
	f := &tailer{}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print attempts as they happen",
		Long: `Prints a line for each attempt, and for each delivery that ends without one: the time,
the outcome, the receiver's status, the duration, the destination, the message and the
error. It runs until Ctrl-C. If the connection is lost, it reconnects and continues
after the last line, or says that some attempts are missing.

Outcomes are delivered, retry (it failed and is retried), dead, back (no attempt was
made after all) and cancelled. A repeated filter matches any of its values. With
--since it begins with the attempts since that time that are still stored. With --until
it prints the stored attempts before that time, and ends.`,
		Example: `  hookladder tail
  hookladder tail --destination https://shop.example/hooks --outcome retry --outcome dead
  hookladder tail --topic 'payment.*' --status-code 401 --status-code 403
  hookladder tail --job job_7 --since 1h
  hookladder tail --destination shop-42 --since 2h --until 1h
  hookladder tail --tenant acme --since 10m --json | jq .error`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err = noArgs(cmd, args); err == nil {
				f.filter.Since, f.filter.Until, err = span.read()
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.client, err = to.client(); err != nil {
				return err
			}
			f.say = func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
			f.show = attemptWriter(cmd.OutOrStdout())
			if asJSON {
				out := json.NewEncoder(safeJSON{Out: cmd.OutOrStdout()})
				out.SetEscapeHTML(false)
				f.show = func(a *wire.LoggedAttempt) error { return out.Encode(a) }
			}
			if !f.filter.Until.IsZero() {
				return f.past(cmd.Context())
			}
			return f.run(cmd.Context())
		},
	}
	to.add(cmd, s)
	addFilters(cmd, &f.filter)
	span.add(cmd, "only attempts that began")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each attempt as JSON, one a line")
	return cmd
}

// tailer follows attempts, and reconnects when a connection is lost.
type tailer struct {
	client *client.Client
	filter client.AttemptFilter
	show   func(*wire.LoggedAttempt) error
	say    func(format string, args ...any) // to standard error

	last   string // id of the last event; empty: there was none
	again  backoff
	failed error // the error of show
}

// past shows the stored attempts before f.filter.Until, oldest first.
func (f *tailer) past(ctx context.Context) error {
	var list []wire.LoggedAttempt
	for a, err := range f.client.EachAttempt(ctx, f.filter) {
		if err != nil {
			return err
		}
		if list = append(list, a); len(list) == mostListed {
			f.say("these are the newest %d: pass a later --since for fewer, or an earlier --until for the ones before", mostListed)
			break
		}
	}
	for _, a := range slices.Backward(list) {
		if err := f.show(&a); err != nil {
			return err
		}
	}
	return nil
}

// run follows attempts until ctx ends. It returns an error if the first call fails, or if
// a retry would fail too.
func (f *tailer) run(ctx context.Context) error {
	f.again.say = f.say
	for {
		err := f.client.Follow(ctx, f.filter, f.last, f.event)
		var p *client.Problem
		switch {
		case ctx.Err() != nil:
			return nil
		case f.failed != nil:
			return f.failed
		case f.last != "" && errors.As(err, &p) && p.Status == http.StatusUnprocessableEntity:
			f.say("some attempts are missing: the server does not have this position any more (%s)", visible(p.Error()))
			f.last, f.filter.Since = "", time.Time{}
			continue
		}
		if err := f.again.wait(ctx, err); err != nil {
			return err
		}
	}
}

// event handles one event.
func (f *tailer) event(e client.Event) error {
	f.last = cmp.Or(e.ID, f.last)
	switch {
	case e.End == nil:
		f.again.worked()
	case e.End.Reason == "slow":
		f.say("the server ended the stream, because this command is too slow to print all attempts: use a filter")
	case e.End.Reason == "busy":
		f.say("the server ended the stream, because other callers need its connections")
	}
	switch {
	case e.Gap != nil:
		f.say("some attempts are missing: the server has all since %s", whenText(e.Gap.CompleteSince))
	case e.Attempt != nil:
		f.failed = f.show(e.Attempt)
	}
	return f.failed
}
