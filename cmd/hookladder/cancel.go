package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newCancel(s stage) *cobra.Command {
	var to clientFlags
	var destination string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel <id>",
		Short: "Cancel what is not finished of a message",
		Long: `Cancels the deliveries of a message that are not finished: nothing new is
attempted. An attempt that is under way can't be recalled.`,
		Example: `  hookladder cancel order_17`,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			deliveries, err := c.Cancel(cmd.Context(), args[0], destination)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), changed(args[0], deliveries))
			}
			for _, d := range deliveries {
				printDelivery(cmd.OutOrStdout(), d)
			}
			return nil
		},
	}
	to.add(cmd, s)
	cmd.Flags().StringVar(&destination, "destination", "", "only the delivery to this URL, endpoint or lane")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// changed is the answer as the API gave it: without the scope read it holds no
// more than how each delivery stands, and each topic is empty.
func changed(id string, deliveries []wire.Delivery) any {
	if slices.ContainsFunc(deliveries, func(d wire.Delivery) bool { return d.Topic != "" }) {
		return wire.Deliveries{ID: id, Deliveries: deliveries}
	}
	brief := wire.BriefDeliveries{ID: id}
	for _, d := range deliveries {
		brief.Deliveries = append(brief.Deliveries, wire.BriefDelivery{ID: d.ID, Destination: d.Destination, Status: d.Status})
	}
	return brief
}
