package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// changing is what cancel and retry have in common: one call about one message,
// or one of its destinations, that answers how its deliveries stand then.
type changing func(c *client.Client, ctx context.Context, id, destination string) ([]wire.Delivery, error)

func newChange(s stage, cmd *cobra.Command, change changing) *cobra.Command {
	var to calling
	var destination string
	var asJSON bool
	cmd.Args = oneID
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := to.client()
		if err != nil {
			return err
		}
		deliveries, err := change(c, cmd.Context(), args[0], destination)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), wire.Deliveries{ID: args[0], Deliveries: deliveries})
		}
		for _, d := range deliveries {
			printDelivery(cmd.OutOrStdout(), d)
		}
		return nil
	}
	to.add(cmd, s)
	cmd.Flags().StringVar(&destination, "destination", "", "only the delivery to this URL, endpoint or lane")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}
