package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newAudit(s world) *cobra.Command {
	var p pageFlags
	var f client.AuditFilter
	var since, until string
	cmd := apiCall[wire.AuditPage]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.AuditPage, error) {
			f.Limit, f.Cursor = p.limit, p.cursor
			return c.Audit(cmd.Context(), f)
		},
		text: func(out io.Writer, page wire.AuditPage) { printAudit(out, page.Data) },
		then: func(cmd *cobra.Command, page wire.AuditPage, asJSON bool) error {
			return more(cmd, page.NextCursor, asJSON)
		},
	}.on(&cobra.Command{
		Use:   "audit",
		Short: "List who changed what, newest first",
		Long: `Lists who changed what: endpoints, secrets, pauses, retries, jobs, links. BY is
key:<name> for an API key, link:<id> for a link, system for Hookladder itself, or
local while there are no keys. An entry is written before its change, and another one
if the change failed. TARGET is the id of what was changed or made. Each act in the
console or by a link has its entry. Of the calls of one kind that a key makes in a
minute, the first ten have entries, and one more counts the others. The newest 10,000
entries are kept, and beside them the newest 2,000 by links.

The key needs the scope admin. Filters may be repeated: any of their values matches.`,
		Example: `  hookladder audit
  hookladder audit --what endpoint.delete --since 24h
  hookladder audit --by key:ops --target ep_2mzgqjcn4 --json`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err = noArgs(cmd, args); err != nil {
				return err
			}
			if f.Since, err = timeFlag("since", since); err == nil {
				f.Until, err = timeFlag("until", until)
			}
			return err
		},
	}, s)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.By, "by", nil, "only what this caller changed: key:<name>, link:<id>, system or local")
	flags.StringArrayVar(&f.What, "what", nil, "only this kind of change, as endpoint.delete")
	flags.StringArrayVar(&f.Targets, "target", nil, "only changes of this endpoint, message, job, link, lane or origin of URLs")
	flags.StringArrayVar(&f.Tenants, "tenant", nil, "only changes for this tenant")
	flags.StringVar(&since, "since", "", "only from this time on: 2026-01-31T12:00:00Z, or 24h for so long ago")
	flags.StringVar(&until, "until", "", "only before this time")
	completes(cmd, "what", dispatcher.AuditWords...)
	p.add(cmd)
	return cmd
}

// timeFlag reads a time, or how long ago it was; empty: none.
func timeFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	ago, err := ladder.ParseDuration(text)
	if err != nil {
		return time.Time{}, usagef("--%s must be a time as 2026-01-31T12:00:00Z, or how long ago it was as 24h or 7d, not %q", name, text)
	}
	return time.Now().Add(-ago), nil
}

func printAudit(out io.Writer, entries []wire.AuditEntry) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "AT\tBY\tWHAT\tTARGET\tTENANT\tDETAIL")
	for _, e := range entries {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", term.When(e.At), term.Visible(e.By), e.What,
			cmp.Or(term.Visible(e.Target), "-"), cmp.Or(term.Visible(e.Tenant), "-"), cmp.Or(term.Visible(e.Detail), "-"))
	}
	_ = table.Flush() // out is a buffer
}
