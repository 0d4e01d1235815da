package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Bounds of one command. The deliveries are printed together, so all are held in
// memory, some KiB each. A filter that finds little ends its pages early.
const (
	mostListed  = 100_000
	mostPages   = 1000
	mostOfAPage = 500
)

// filterFlags choose deliveries, for every command that does.
type filterFlags struct {
	filter client.Filter
	span   spanFlags
}

func (f *filterFlags) add(cmd *cobra.Command) {
	flags, of := cmd.Flags(), &f.filter
	flags.StringArrayVar(&of.Statuses, "status", nil, "scheduled, ready, in_flight, retrying, delivered, dead or cancelled; may be repeated, as each filter may")
	flags.StringArrayVar(&of.Topics, "topic", nil, "a topic, or a pattern as payment.*")
	flags.StringArrayVar(&of.Tenants, "tenant", nil, "a tenant")
	flags.StringArrayVar(&of.Subjects, "subject", nil, "what the message is about, such as the number of an order")
	flags.StringArrayVar(&of.SubjectLike, "subject-like", nil, "a subject as people write it: 8713, #8713 and \"ORDER 8713\" find order_8713")
	flags.StringArrayVar(&of.Destinations, "destination", nil, "a URL, an endpoint's id or uid, q_<queue>, or a lane")
	flags.StringArrayVar(&of.Reasons, "reason", nil, "why it is dead: exhausted, gone, expired, refused, disabled, overflow, poison or rejected")
	flags.BoolVar(&of.Failed, "failed", false, "only what is not finished and had a failed attempt")
	f.span.add(cmd, "ended or due")
}

// read makes the filter of the flags.
func (f *filterFlags) read() (client.Filter, error) {
	var err error
	f.filter.Since, f.filter.Until, err = f.span.read()
	return f.filter, err
}

// spanFlags choose a span of time.
type spanFlags struct{ since, until string }

func (f *spanFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.since, "since", "", what+" at this time or later, as 2026-01-31T12:00:00Z; or so long ago, as 36h or 7d")
	cmd.Flags().StringVar(&f.until, "until", "", what+" before this time; or longer ago than that")
}

func (f *spanFlags) read() (since, until time.Time, err error) {
	if since, err = timeFlag("since", f.since); err == nil {
		until, err = timeFlag("until", f.until)
	}
	return since, until, err
}

func newDeliveries(s world) *cobra.Command {
	var f filterFlags
	var p pageFlags
	var asCSV, shown bool
	cmd := apiCall[wire.Page]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.Page, error) {
			shown = term.IsTerminal(cmd.OutOrStdout())
			filter, err := f.read()
			if err != nil {
				return wire.Page{}, err
			}
			if p.limit < 1 || p.limit > mostListed {
				return wire.Page{}, usagef("--limit must be 1 to %d", mostListed)
			}
			filter.Cursor = p.cursor
			return listDeliveries(filter, p.limit, func(f client.Filter) (wire.Page, error) { return c.Deliveries(cmd.Context(), f) })
		},
		text: func(out io.Writer, page wire.Page) {
			if asCSV {
				printCSV(out, page.Data, shown)
			} else {
				printDeliveryTable(out, page.Data)
			}
		},
		then: func(cmd *cobra.Command, page wire.Page, asJSON bool) error {
			if page.NextCursor != nil && len(page.Data) < p.limit && !asJSON {
				fmt.Fprintln(cmd.ErrOrStderr(), howFar(&page))
			}
			if !asJSON {
				tellWhole(cmd, page.CompleteSince)
			}
			return more(cmd, page.NextCursor, asJSON)
		},
	}.on(&cobra.Command{
		Use:   "deliveries",
		Short: "Find deliveries",
		Long: `Lists deliveries, and of these only what all filters match. With --tenant,
--destination or a subject the newest accepted come first. Other lists begin with the
newest that ended. Then come those in flight, those that are ready, and those that wait.
A filter that is repeated matches any of its values. The command reads page after page
until it has as many as --limit says, and prints the --cursor that goes on.

With --csv a text that begins with =, +, -, @, a tab or a line break gets a ' before
it, so that no program takes it for a formula.`,
		Example: `  hookladder deliveries --subject order_17
  hookladder deliveries --status dead --destination shop-42 --since 24h
  hookladder deliveries --failed --topic 'payment.*' --csv --limit 10000 > failed.csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			if asCSV && cmd.Flags().Changed("json") {
				return usagef("--csv and --json exclude each other")
			}
			return noArgs(cmd, args)
		},
	}, s)
	f.add(cmd)
	p.addUpTo(cmd, mostListed)
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print them as CSV, with a header line")
	return cmd
}

// howFar says how far a list was read that goes on.
func howFar(page *wire.Page) string {
	text := fmt.Sprintf("looked at %d deliveries", page.LookedAt)
	if !page.LookedUntil.IsZero() {
		text += ", back to " + page.LookedUntil.Text()
	}
	return text + ", there are others"
}

// listDeliveries reads pages until so many deliveries are found, or too many pages
// were read.
func listDeliveries(f client.Filter, limit int, read func(client.Filter) (wire.Page, error)) (all wire.Page, err error) {
	for range mostPages {
		f.Limit = min(limit-len(all.Data), mostOfAPage)
		page, err := read(f)
		if err != nil {
			return wire.Page{}, err
		}
		page.Data, page.LookedAt = append(all.Data, page.Data...), all.LookedAt+page.LookedAt
		all = page
		if page.NextCursor == nil || len(all.Data) >= limit {
			break
		}
		f.Cursor = *page.NextCursor
	}
	if all.Data == nil {
		all.Data = []wire.Delivery{}
	}
	return all, nil
}

func printDeliveryTable(out io.Writer, list []wire.Delivery) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATUS\tATTEMPTS\tANSWER\tENDED OR NEXT\tTOPIC\tSUBJECT\tTENANT\tWHY")
	for _, d := range list {
		at := d.EndedAt
		if at.IsZero() {
			at = d.NextAttemptAt
		}
		answer := "-"
		if d.LastStatusCode > 0 {
			answer = strconv.Itoa(d.LastStatusCode)
		}
		why := cmp.Or(d.DeadReason, d.WaitingFor)
		if d.LastError != "" {
			why = strings.TrimPrefix(why+": ", ": ") + d.LastError
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, d.Status, d.Attempts, answer, term.When(at),
			d.Topic, term.Visible(cmp.Or(d.Subject, "-")), cmp.Or(d.Tenant, "-"), term.Visible(cmp.Or(why, "-")))
	}
	_ = table.Flush() // out is a buffer
}

// endedFlags choose what ended of an endpoint, and how it is printed.
type endedFlags struct {
	shown    bool // at a terminal
	statuses []string
	span     spanFlags
	page     pageFlags
	asCSV    bool
}

func (f *endedFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.statuses, "status", nil, "delivered, dead or cancelled; may be repeated")
	completes(cmd, "status", texts(dispatcher.EndStatuses...)...)
	f.span.add(cmd, "ended")
	f.page.addUpTo(cmd, mostListed)
	cmd.Flags().BoolVar(&f.asCSV, "csv", false, "print them as CSV, with a header line")
}

func (f *endedFlags) read() (filter client.EndedFilter, err error) {
	if f.page.limit < 1 || f.page.limit > mostListed {
		return filter, usagef("--limit must be 1 to %d", mostListed)
	}
	filter.Statuses, filter.Cursor = f.statuses, f.page.cursor
	filter.Since, filter.Until, err = f.span.read()
	return filter, err
}

func (f *endedFlags) print(out io.Writer, page wire.EndedPage) {
	if f.asCSV {
		printCSV(out, page.Data, f.shown)
		return
	}
	printDeliveryTable(out, page.Data)
}

// printCSV writes the list to a buffer. At a terminal an error with several lines would
// look like several rows.
func printCSV(out io.Writer, list []wire.Delivery, shown bool) {
	for i := range list {
		if d := &list[i]; shown {
			d.LastError = term.Visible(d.LastError)
		}
	}
	_ = wire.WriteDeliveries(out, list) // out is a buffer
}

// newEndpointsDeliveries lists what a merchant compares at the end of a day.
func newEndpointsDeliveries(s world) *cobra.Command {
	var f endedFlags
	cmd := apiCall[wire.EndedPage]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndedPage, error) {
			f.shown = term.IsTerminal(cmd.OutOrStdout())
			filter, err := f.read()
			if err != nil {
				return wire.EndedPage{}, err
			}
			return listEnded(filter, f.page.limit, func(f client.EndedFilter) (wire.EndedPage, error) {
				return c.EndpointDeliveries(cmd.Context(), args[0], f)
			})
		},
		text: f.print,
		then: tellEnded,
	}.on(&cobra.Command{
		Use:   "deliveries <endpoint>",
		Short: "List what ended of an endpoint, oldest first",
		Long: `Lists the deliveries to an endpoint that were delivered, died or were cancelled, in
the order of their ends: what its owner compares at the end of a day.

It ends with a cursor. With that, and the same --status, the next call goes on with
what ended since, and skips nothing. One that was retried and ended anew comes again.
It says where some of what ended was forgotten already.

With --csv a text that begins with =, +, -, @, a tab or a line break gets a ' before
it, so that no program takes it for a formula.`,
		Example: `  hookladder endpoints deliveries shop-42 --since 24h --csv > yesterday.csv
  hookladder endpoints deliveries shop-42 --status dead --since 2026-01-31T00:00:00Z`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.asCSV && cmd.Flags().Changed("json") {
				return usagef("--csv and --json exclude each other")
			}
			return oneEndpoint(cmd, args)
		},
	}, s)
	f.add(cmd)
	return cmd
}

// tellEnded says how the list goes on, and whether it is whole.
func tellEnded(cmd *cobra.Command, page wire.EndedPage, asJSON bool) error {
	if asJSON {
		return nil
	}
	tellWhole(cmd, page.CompleteSince)
	if page.NextCursor != nil {
		return more(cmd, page.NextCursor, false)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "what ends later with --cursor %s\n", page.ResumeCursor)
	return nil
}

// tellWhole says from when a list is whole, where something may be missing.
func tellWhole(cmd *cobra.Command, since wire.Time) {
	if !since.IsZero() {
		fmt.Fprintf(cmd.ErrOrStderr(), "whole since %s: of what ended before, some was forgotten\n", since.Text())
	}
}

// listEnded reads pages until so many deliveries are found, all were told, or too many
// pages were read.
func listEnded(f client.EndedFilter, limit int, read func(client.EndedFilter) (wire.EndedPage, error)) (wire.EndedPage, error) {
	all := wire.EndedPage{Data: []wire.Delivery{}}
	for range mostPages {
		f.Limit = min(limit-len(all.Data), mostOfAPage)
		page, err := read(f)
		if err != nil {
			return wire.EndedPage{}, err
		}
		page.Data, page.LookedAt = append(all.Data, page.Data...), all.LookedAt+page.LookedAt
		if all = page; all.NextCursor == nil || len(all.Data) >= limit {
			break
		}
		f.Cursor = *all.NextCursor
	}
	return all, nil
}

// printReasons sums up the groups by reason, most first.
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
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REASON\tDEAD\tDESTINATIONS\tNEWEST")
	for _, s := range sums {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", s.reason, s.count, s.destinations, term.When(s.newest))
	}
	_ = table.Flush() // out is a buffer
	if more {
		fmt.Fprintf(out, "of the %d largest groups by destination and reason; there are more\n", len(groups))
	}
	fmt.Fprintln(out)
}

func printDead(out io.Writer, list []wire.Delivery) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DELIVERY\tDIED\tREASON\tATTEMPTS\tSTATUS\tTOPIC\tERROR")
	for _, d := range list {
		status := "-"
		if d.LastStatusCode > 0 {
			status = fmt.Sprint(d.LastStatusCode)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			d.ID, term.When(d.EndedAt), d.DeadReason, d.Attempts, status, cmp.Or(d.Topic, "-"), cmp.Or(term.Visible(d.LastError), "-"))
	}
	_ = table.Flush() // out is a buffer
}
