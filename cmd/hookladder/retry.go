package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newRetry(s stage) *cobra.Command {
	var to clientFlags
	var destination string
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "retry <id>",
		Short: "Attempt a message now",
		Long: `Attempts the deliveries of a message now, as far as pause, breaker, rate and limit
let them, and says which it left and why. Of one that waits the attempt stands
beside its ladder: if it fails, the delivery waits on until the same time. One that
is dead or cancelled starts a new ladder. One that was delivered is left, unless
--destination names it or --all is given. The exit code is 0 where at least one is
attempted, and 1 where none could be.`,
		Example: `  hookladder retry order_17
  hookladder retry order_17 --destination https://shop.example/hooks
  hookladder retry order_17 --all`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			retry := func() ([]wire.RetriedDelivery, error) { return c.Retry(cmd.Context(), args[0], destination) }
			if all && destination == "" {
				retry = func() ([]wire.RetriedDelivery, error) { return c.Resend(cmd.Context(), args[0]) }
			}
			list, err := retry()
			var left *client.Problem
			if errors.As(err, &left) {
				list = left.Deliveries
			}
			if len(list) > 0 {
				err = errors.Join(printRetried(cmd.OutOrStdout(), args[0], list, asJSON), err)
			}
			return err
		},
	}
	to.add(cmd, s)
	cmd.Flags().StringVar(&destination, "destination", "", "only the delivery to this URL, endpoint or lane")
	cmd.Flags().BoolVar(&all, "all", false, "also send again what was delivered")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// lefts are the words of why as people say them.
var lefts = map[string]string{
	"ready":     "it is due already",
	"in_flight": "an attempt is under way",
	"order":     "others of its ordering key go first",
	"delivered": "it was delivered; --all or --destination sends it again",
	"expired":   "it has expired; publish it anew under another id",
	"disabled":  "its endpoint is disabled; resume that first",
	"deleted":   "its endpoint was deleted",
}

// printRetried tells how each delivery stands, and which of them were left.
func printRetried(out io.Writer, id string, list []wire.RetriedDelivery, asJSON bool) error {
	if asJSON {
		return printJSON(out, retried(id, list))
	}
	for _, d := range list {
		printDelivery(out, d.Delivery)
		switch {
		case d.Retried:
			fmt.Fprintf(out, "  %-12s %s\n", "retry", "now")
		case d.Why != "":
			fmt.Fprintf(out, "  %-12s %s\n", "left", lefts[d.Why])
		}
	}
	return nil
}

// retried is the answer as the API gave it: without the scope read it holds no
// more than how each delivery stands, and each topic is empty.
func retried(id string, list []wire.RetriedDelivery) any {
	if slices.ContainsFunc(list, func(d wire.RetriedDelivery) bool { return d.Topic != "" }) {
		return wire.Retried{ID: id, Deliveries: list}
	}
	plain := make([]wire.Delivery, len(list))
	for i, d := range list {
		plain[i] = d.Delivery
	}
	return changed(id, plain)
}
