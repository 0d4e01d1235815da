package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

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
	filter       client.Filter
	since, until string
}

func (f *filterFlags) add(cmd *cobra.Command) {
	flags, of := cmd.Flags(), &f.filter
	flags.StringArrayVar(&of.Statuses, "status", nil, "scheduled, ready, in_flight, retrying, delivered, dead or cancelled; may be repeated, as each filter may")
	flags.StringArrayVar(&of.Topics, "topic", nil, "a topic, or a pattern as payment.*")
	flags.StringArrayVar(&of.Tenants, "tenant", nil, "a tenant")
	flags.StringArrayVar(&of.Subjects, "subject", nil, "what the message is about, such as the number of an order")
	flags.StringArrayVar(&of.Destinations, "destination", nil, "a URL, an endpoint's id or uid, or a lane")
	flags.StringArrayVar(&of.Reasons, "reason", nil, "why it is dead: exhausted, gone, expired, refused, disabled, overflow, poison or rejected")
	flags.BoolVar(&of.Failed, "failed", false, "only what is not finished and had a failed attempt")
	flags.StringVar(&f.since, "since", "", "ended or due at this time or later, as 2026-01-31T12:00:00Z; or so long ago, as 36h")
	flags.StringVar(&f.until, "until", "", "ended or due before this time; or longer ago than that")
}

// read makes the filter of the flags.
func (f *filterFlags) read() (client.Filter, error) {
	for _, at := range []struct {
		flag, text string
		to         *time.Time
	}{{"since", f.since, &f.filter.Since}, {"until", f.until, &f.filter.Until}} {
		if at.text == "" {
			continue
		}
		var err error
		if ago, wrong := time.ParseDuration(at.text); wrong == nil {
			*at.to = time.Now().Add(-ago)
		} else if *at.to, err = time.Parse(time.RFC3339, at.text); err != nil {
			return f.filter, usagef("--%s: %q is no time, as 2026-01-31T12:00:00Z, nor a duration, as 36h", at.flag, at.text)
		}
	}
	return f.filter, nil
}

func newDeliveries(s world) *cobra.Command {
	var f filterFlags
	var p pageFlags
	var asCSV bool
	cmd := apiCall[wire.Page]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.Page, error) {
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
				printDeliveriesCSV(out, page.Data)
			} else {
				printDeliveryTable(out, page.Data)
			}
		},
		then: func(cmd *cobra.Command, page wire.Page, asJSON bool) error {
			if page.NextCursor != nil && len(page.Data) < p.limit && !asJSON {
				fmt.Fprintf(cmd.ErrOrStderr(), "looked at %d deliveries, there are others\n", page.LookedAt)
			}
			return more(cmd, page.NextCursor, asJSON)
		},
	}.on(&cobra.Command{
		Use:   "deliveries",
		Short: "Find deliveries",
		Long: `Lists deliveries, those that wait first and then what ended last, and of these
only what all filters match. A filter that is repeated matches any of its values.
It reads page after page until it has as many as --limit says. What it could not
reach is found with the --cursor that it tells, and the same filters.

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
	p.add(cmd)
	limit := cmd.Flags().Lookup("limit")
	limit.Usage = fmt.Sprintf("the most deliveries to list, up to %d", mostListed)
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print them as CSV, with a header line")
	return cmd
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
		all.Data, all.NextCursor, all.LookedAt = append(all.Data, page.Data...), page.NextCursor, all.LookedAt+page.LookedAt
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
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, d.Status, d.Attempts, answer, when(at),
			d.Topic, visible(cmp.Or(d.Subject, "-")), cmp.Or(d.Tenant, "-"), visible(cmp.Or(why, "-")))
	}
	_ = table.Flush() // out is a buffer
}

func printDeliveriesCSV(out io.Writer, list []wire.Delivery) {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	_ = w.Write([]string{"id", "message_id", "subject", "topic", "tenant", "url", "status", "ended_at", "next_attempt_at", "attempts", "status_code", "dead_reason", "error"})
	for _, d := range list {
		_, message, _ := strings.Cut(d.ID, ":")
		answer := ""
		if d.LastStatusCode > 0 {
			answer = strconv.Itoa(d.LastStatusCode)
		}
		row := []string{
			d.ID, message, d.Subject, d.Topic, d.Tenant, d.URL, d.Status, csvTime(d.EndedAt), csvTime(d.NextAttemptAt),
			strconv.Itoa(d.Attempts), answer, d.DeadReason, d.LastError,
		}
		for i, text := range row {
			row[i] = harmless(text)
		}
		_ = w.Write(row) // out is a buffer
	}
	w.Flush()
}

// harmless is a text that no spreadsheet takes for a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

func csvTime(t wire.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
