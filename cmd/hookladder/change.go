package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// changing is what cancel and retry have in common: one call about one message,
// or one of its destinations, that answers how its deliveries stand then.
type changing func(c *client.Client, ctx context.Context, id, destination string) ([]wire.Delivery, error)

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
			return printJSON(cmd.OutOrStdout(), changed(args[0], deliveries))
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
