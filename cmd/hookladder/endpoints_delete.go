package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newEndpointsDelete(s stage) *cobra.Command {
	var to calling
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "delete <endpoint>",
		Short:   "Forget an endpoint, and cancel what waits for it",
		Long:    `Forgets an endpoint. What waits for it is cancelled, and the answer says how much.`,
		Example: `  hookladder endpoints delete shop-42`,
		Args:    oneEndpoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			cancelled, err := c.DeleteEndpoint(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), wire.EndpointDeleted{Cancelled: cancelled})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s deleted; cancelled deliveries: %d\n", args[0], cancelled)
			return err
		},
	}
	to.add(cmd, s)
	addJSON(cmd, &asJSON)
	return cmd
}
