package main

import (
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
)

func newRetry(s stage) *cobra.Command {
	return newChange(s, &cobra.Command{
		Use:   "retry <id>",
		Short: "Attempt a message now",
		Long: `Attempts the deliveries of a message now. Of one that waits the attempt stands
beside its ladder: if it fails, the delivery waits on until the same time. One that
is dead, cancelled or delivered starts a new ladder. An attempt that is under way
is left alone, and the command fails.`,
		Example: `  hookladder retry order_17
  hookladder retry order_17 --destination https://shop.example/hooks`,
	}, (*client.Client).Retry)
}
