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
	var to clientFlags
	var p pageFlags
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "List the lanes, and how each stands",
		Long: `Lists the lanes: what is paused first, then those last made. A lane is where the
deliveries to one destination wait: an endpoint, or the origin (scheme, host and
port) of a tenant's bare URLs. BY is the API key that paused, disabled or deleted
it; * stands for all lanes, and is listed while all are paused.`,
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
	fmt.Fprintln(table, "LANE\tSTATE\tWHY\tSINCE\tBY\tIN FLIGHT\tWINDOW\tWAITING\tNOT BEFORE\tTENANT\tUID\tTO")
	for _, l := range lanes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n",
			l.Lane, l.State, cmp.Or(l.Why, "-"), when(l.Since), cmp.Or(l.By, "-"), l.InFlight, l.Window, l.Waiting,
			when(l.Until), cmp.Or(l.Tenant, "-"), cmp.Or(l.UID, "-"), cmp.Or(l.URL, "-"))
	}
	return table.Flush()
}
