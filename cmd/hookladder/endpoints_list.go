package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newEndpointsList(s stage) *cobra.Command {
	var to clientFlags
	var p pageFlags
	var tenants []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List endpoints, the newest first",
		Long: `Lists endpoints, the newest first: all of them, or those of a --tenant, which may be
repeated. With --tenant '' they are those without one.`,
		Example: `  hookladder endpoints list
  hookladder endpoints list --tenant shop_42 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			f := client.EndpointFilter{Tenants: tenants, Limit: p.limit, Cursor: p.cursor}
			page, err := c.Endpoints(cmd.Context(), f)
			if err != nil {
				return err
			}
			if p.asJSON {
				return printJSON(cmd.OutOrStdout(), page)
			}
			if err := printEndpoints(cmd.OutOrStdout(), page.Data); err != nil {
				return err
			}
			p.more(cmd, page.NextCursor)
			return nil
		},
	}
	to.add(cmd, s)
	p.add(cmd)
	cmd.Flags().StringArrayVar(&tenants, "tenant", nil, "only those of this tenant; may be repeated")
	return cmd
}

func printEndpoints(out io.Writer, list []wire.EndpointView) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENDPOINT\tUID\tTENANT\tSTATE\tTOPICS\tURL")
	for _, e := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
			e.ID, cmp.Or(e.UID, "-"), cmp.Or(e.Tenant, "-"), e.State, cmp.Or(strings.Join(e.Topics, " "), "-"), e.URL)
	}
	return table.Flush()
}

// pageFlags are the flags of every list.
type pageFlags struct {
	limit  int
	cursor string
	asJSON bool
}

func (p *pageFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", 50, "most entries, up to 500")
	cmd.Flags().StringVar(&p.cursor, "cursor", "", "where the page before ended")
	addJSON(cmd, &p.asJSON)
}

// more tells how the list goes on. It is no part of the list, so it goes to
// standard error.
func (p *pageFlags) more(cmd *cobra.Command, next *string) {
	if next != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "more with --cursor %s\n", *next)
	}
}
