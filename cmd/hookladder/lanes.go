package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newLanes(s stage) *cobra.Command {
	var to calling
	var p paging
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "List the lanes, and how each stands",
		Long: `Lists the lanes, those last made first. A lane is where the deliveries to one
destination wait: an endpoint, or the origin (scheme, host and port) of a tenant's
bare URLs.`,
		Example: `  hookladder lanes
  hookladder lanes --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			page, err := c.Lanes(cmd.Context(), p.limit, p.cursor)
			if err != nil {
				return err
			}
			if p.asJSON {
				return printJSON(cmd.OutOrStdout(), page)
			}
			if err := printLanes(cmd.OutOrStdout(), page.Data...); err != nil {
				return err
			}
			p.more(cmd, page.NextCursor)
			return nil
		},
	}
	to.add(cmd, s)
	p.add(cmd)
	return cmd
}

func printLanes(out io.Writer, lanes ...wire.LaneState) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LANE\tSTATE\tIN FLIGHT\tWINDOW\tWAITING\tNOT BEFORE\tTENANT\tTO")
	for _, l := range lanes {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n",
			l.Lane, l.State, l.InFlight, l.Window, l.Waiting, when(l.Until), cmp.Or(l.Tenant, "-"), cmp.Or(l.URL, "-"))
	}
	return table.Flush()
}
