package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// filterFlags choose deliveries, for every command that does.
type filterFlags struct {
	filter client.Filter
	span   spanFlags
}

func (f *filterFlags) add(cmd *cobra.Command) {
	flags, of := cmd.Flags(), &f.filter
	flags.StringArrayVar(&of.Statuses, "status", nil, anyOf(dispatcher.Statuses)+"; may be repeated, as each filter may")
	flags.StringArrayVar(&of.Topics, "topic", nil, "a topic, or a pattern as payment.*")
	flags.StringArrayVar(&of.Tenants, "tenant", nil, "a tenant")
	flags.StringArrayVar(&of.Subjects, "subject", nil, "what the message is about, such as the number of an order")
	flags.StringArrayVar(&of.SubjectLike, "subject-like", nil, "a subject as people write it: 8713, #8713 and \"ORDER 8713\" find order_8713")
	flags.StringArrayVar(&of.Destinations, "destination", nil, "a URL, an endpoint's id or uid, q_<queue>, or a lane")
	flags.StringArrayVar(&of.Reasons, "reason", nil, "why it is dead: "+anyReason)
	flags.BoolVar(&of.Failed, "failed", false, "only what is not finished and had a failed attempt")
	f.span.add(cmd, "ended or due")
}

// read makes the filter of the flags.
func (f *filterFlags) read() (client.Filter, error) {
	var err error
	f.filter.Since, f.filter.Until, err = f.span.read()
	return f.filter, err
}

func newDeliveries(s world) *cobra.Command {
	var f filterFlags
	p := pageFlags{many: true}
	var asCSV, shown bool
	cmd := apiCall[wire.Page]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.Page, error) {
			shown = term.IsTerminal(cmd.OutOrStdout())
			filter, err := f.read()
			if err != nil {
				return wire.Page{}, err
			}
			return readDeliveries(&p, func(limit int, cursor string) (wire.Page, error) {
				filter.Limit, filter.Cursor = limit, cursor
				return c.Deliveries(cmd.Context(), filter)
			}, func(p *wire.Page) (*[]wire.Delivery, *int, *string) { return &p.Data, &p.LookedAt, p.NextCursor })
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
			return nil
		},
		page: &p,
		next: func(page wire.Page) *string { return page.NextCursor },
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

// readDeliveries reads pages up to the limit, and returns the last one with the deliveries of
// all. parts returns the fields that every page of deliveries has.
func readDeliveries[P any](p *pageFlags, read func(limit int, cursor string) (P, error), parts func(*P) (*[]wire.Delivery, *int, *string)) (all P, err error) {
	list, examined := []wire.Delivery{}, 0
	err = p.read(func(limit int, cursor string) (int, *string, error) {
		page, err := read(limit, cursor)
		data, lookedAt, next := parts(&page)
		entries := len(*data)
		list, examined = append(list, *data...), examined+*lookedAt
		*data, *lookedAt = list, examined
		all = page
		return entries, next, err
	})
	return all, err
}

func printDeliveryTable(out io.Writer, list []wire.Delivery) {
	term.Table(out, "ID\tSTATUS\tATTEMPTS\tANSWER\tENDED OR NEXT\tTOPIC\tSUBJECT\tTENANT\tWHY", list, func(d wire.Delivery) []any {
		at := d.EndedAt
		if at.IsZero() {
			at = d.NextAttemptAt
		}
		why := cmp.Or(d.DeadReason, d.WaitingFor)
		if d.LastError != "" {
			why = strings.TrimPrefix(why+": ", ": ") + d.LastError
		}
		return []any{d.ID, d.Status, d.Attempts, statusCode(d), at, d.Topic, cmp.Or(d.Subject, "-"), cmp.Or(d.Tenant, "-"), cmp.Or(why, "-")}
	})
}

// statusCode is the status of the last response, or a dash.
func statusCode(d wire.Delivery) string {
	if d.LastStatusCode == 0 {
		return "-"
	}
	return strconv.Itoa(d.LastStatusCode)
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
	cmd.Flags().StringArrayVar(&f.statuses, "status", nil, anyOf(dispatcher.EndStatuses)+"; may be repeated")
	completes(cmd, "status", texts(dispatcher.EndStatuses...)...)
	f.span.add(cmd, "ended")
	cmd.Flags().BoolVar(&f.asCSV, "csv", false, "print them as CSV, with a header line")
}

func (f *endedFlags) read() (filter client.EndedFilter, err error) {
	filter.Statuses = f.statuses
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
	f := endedFlags{page: pageFlags{many: true}}
	cmd := apiCall[wire.EndedPage]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndedPage, error) {
			f.shown = term.IsTerminal(cmd.OutOrStdout())
			filter, err := f.read()
			if err != nil {
				return wire.EndedPage{}, err
			}
			return readDeliveries(&f.page, func(limit int, cursor string) (wire.EndedPage, error) {
				filter.Limit, filter.Cursor = limit, cursor
				return c.EndpointDeliveries(cmd.Context(), args[0], filter)
			}, func(p *wire.EndedPage) (*[]wire.Delivery, *int, *string) { return &p.Data, &p.LookedAt, p.NextCursor })
		},
		text: f.print,
		then: tellEnded,
		page: &f.page,
		next: func(page wire.EndedPage) *string { return page.NextCursor },
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
	if page.NextCursor == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "what ends later with --cursor %s\n", page.ResumeCursor)
	}
	return nil
}

// tellWhole says from when a list is whole, where something may be missing.
func tellWhole(cmd *cobra.Command, since wire.Time) {
	if !since.IsZero() {
		fmt.Fprintf(cmd.ErrOrStderr(), "whole since %s: of what ended before, some was forgotten\n", since.Text())
	}
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
	term.Table(out, "REASON\tDEAD\tDESTINATIONS\tNEWEST", sums, func(s *sum) []any { return []any{s.reason, s.count, s.destinations, s.newest} })
	if more {
		fmt.Fprintf(out, "of the %d largest groups by destination and reason; there are more\n", len(groups))
	}
	fmt.Fprintln(out)
}

func printDead(out io.Writer, list []wire.Delivery) {
	term.Table(out, "DELIVERY\tDIED\tREASON\tATTEMPTS\tSTATUS\tTOPIC\tERROR", list, func(d wire.Delivery) []any {
		return []any{d.ID, d.EndedAt, d.DeadReason, d.Attempts, statusCode(d), cmp.Or(d.Topic, "-"), cmp.Or(d.LastError, "-")}
	})
}
