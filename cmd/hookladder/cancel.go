package main

import (
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
)

func newCancel(s stage) *cobra.Command {
	return newChange(s, &cobra.Command{
		Use:   "cancel <id>",
		Short: "Cancel what is not finished of a message",
		Long: `Cancels the deliveries of a message that are not finished: nothing new is
attempted. An attempt that is under way can't be recalled.`,
		Example: `  hookladder cancel order_17`,
	}, (*client.Client).Cancel)
}
